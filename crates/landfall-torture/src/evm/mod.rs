//! An EVM chain as a part of a world: calls on a simulated chain of several nodes, each with a pool
//! of its own.
//!
//! | file | holds |
//! |---|---|
//! | [`plan`] | how much there is of everything, and what goes wrong |
//! | `network` | the nodes of one chain, with a switch each for what is wrong with them |
//! | `wire` | one instance's way to them |
//! | `weather` | what strikes nodes and chain, tick by tick |
//! | `liars` | nodes that say anything |
//! | `wishes` | what clients want |
//! | `explorer` | the chain's own books, for the operator |

pub mod plan;

mod explorer;
mod liars;
mod network;
mod weather;
mod wire;
mod wishes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use alloy_consensus::Transaction as _;
use alloy_primitives::{Address, U256, hex};
use alloy_sol_types::SolEvent as _;
use async_trait::async_trait;
use landfall_core::evm::{self, Work};
use landfall_core::{Clock, RailName, Transfer};
use landfall_rail_evm::{EvmRail, EvmSettings, Finality, Key};
use landfall_rpc::{Endpoints, Url};
use landfall_sim_evm::keys;
use landfall_sim_evm::ledger::natives::{self, COUNTER, FORWARDER};
use landfall_sim_evm::ledger::{Block, FINAL_BLOCKS, Genesis, Ledger, Slot};
use landfall_sim_evm::server::CHAIN_ID;

pub use plan::EvmPlan;

use crate::checkers::{Broken, Evidence, Payment};
use crate::clients::Wish;
use crate::enumerate::Scenario;
use crate::part::{Explorer, Fitted, Ground, Kind, Part};
use crate::plan::Plan;
use crate::run::START_MS;
use crate::seat::{Dice, Seat};
use liars::Liars;
use network::{Network, node_of};
use weather::Weather;
use wire::{FaultyWire, Spoilt};
use wishes::{RECEIVERS, is_refused, key_of, receiver, user};

/// Wei of each signer: more than all fees and values of a run.
const FUNDS: u128 = 10u128.pow(24);
const CHAIN: &str = "sim";

pub const KIND: Kind = Kind {
    wishes: |plan| plan.evm.calls,
    faults: &plan::FAULTS,
    late_max_ms: |_| None,
    describe: |plan| plan.evm.describe(),
    scenarios: &SCENARIOS,
    build: |ground| Box::new(EvmPart::new(ground)),
};

/// The base fee leaps when calls are on their way: they must be replaced.
const BUMP: &str = "bump";

const SCENARIOS: [Scenario; 2] = [
    Scenario::new("one call", || calm(1, 1)),
    Scenario::new(BUMP, || Plan { storm_ms: 20_000, ..calm(2, 2) }),
];

fn calm(calls: usize, window: usize) -> Plan {
    let mut plan = Plan::calm(7);
    plan.near.payouts = 0;
    plan.evm = EvmPlan {
        nodes: 3,
        signers: 1,
        window,
        calls,
        block_ms: 500,
        preflight: true,
        ..EvmPlan::default()
    };
    plan
}

pub struct EvmPart {
    plan: Arc<Plan>,
    dice: Arc<Dice>,
    network: Arc<Network>,
    keys: Vec<Key>,
    spoilt: Arc<Spoilt>,
    weather: Weather,
    /// Whose requests there are, by the numbers of the wishes.
    users: BTreeMap<Address, usize>,
}

/// The key of the signer, or of the user, with this number.
fn key(seed: u64, number: usize) -> Key {
    let secret = keys::secret(seed, number);
    Key::parse(&hex::encode(secret)).expect("a hash is below the curve's order")
}

impl EvmPart {
    fn new(ground: &Ground) -> EvmPart {
        let (plan, dice, clock) = (ground.plan.clone(), ground.dice.clone(), ground.clock.clone());
        let keys: Vec<Key> = (0..plan.evm.signers).map(|signer| key(0, signer)).collect();
        let genesis = Genesis {
            chain_id: CHAIN_ID,
            timestamp: START_MS / 1_000,
            signers: keys.iter().map(Key::address).collect(),
            funds: U256::from(FUNDS),
        };
        let ledger = Ledger::new(genesis, plan.evm.nodes);
        let network = Arc::new_cyclic(|network| {
            let liars = Liars::new(plan.clone(), dice.clone(), clock.clone(), network.clone());
            Network::new(ledger, plan.clone(), dice.clone(), clock, liars)
        });
        if plan.evm.calls > 0 {
            tokio::spawn(network.clone().make_blocks());
        }
        let weather = Weather::new(plan.clone(), dice.clone(), network.clone(), keys.clone());
        let users = (0..plan.evm.calls).map(|number| (user(number).address(), number)).collect();
        EvmPart { plan, dice, network, keys, spoilt: Arc::default(), weather, users }
    }

    fn settings(&self) -> EvmSettings {
        let mut settings = EvmSettings::new(CHAIN, CHAIN_ID, self.keys.clone());
        settings.forwarder = Some(FORWARDER);
        settings.preflight = self.plan.evm.preflight;
        if self.plan.evm.by_depth {
            settings.finality = Finality::Blocks(FINAL_BLOCKS + 1);
        }
        let manner = &mut settings.manner;
        manner.window = self.plan.evm.window;
        // Short, so that a storm of minutes sees many of each.
        (manner.inclusion_ms, manner.finality_ms) = (10_000, 60_000);
        (manner.fence_after_ms, manner.replace_after_ms) = (30_000, 5_000);
        (manner.rebroadcast_ms, manner.rebroadcast_max_ms) = (1_000, 10_000);
        (manner.look_ms, manner.pulse_ms) = (600, 300);
        settings.market_ms = 1_000;
        settings
    }

    /// The payment that a transaction in a block is, if it is one.
    fn payment(&self, block: &Block, at: usize, last_final: u64) -> Option<Payment> {
        let (transaction, receipt) = (&block.transactions[at], &block.receipts[at]);
        let (to, input) = (transaction.envelope.to()?, transaction.envelope.input());
        let (key, receiver) = match to {
            FORWARDER => {
                let executed = receipt.logs.iter().find_map(|log| {
                    natives::Forwarder::ExecutedForwardRequest::decode_log(log).ok()
                })?;
                (self.users.get(&executed.signer).map(|number| key_of(*number)), COUNTER)
            }
            // What takes a nonce and does nothing, by the relay or by somebody else.
            to if to == transaction.from => return None,
            to => (String::from_utf8(input.to_vec()).ok(), to),
        };
        receipt.succeeded.then(|| Payment {
            key,
            receiver: evm::Address(receiver.into_array()).to_string(),
            amount: transaction.envelope.value().saturating_to(),
            hash: transaction.hash.to_string(),
            block: block.number(),
            is_final: block.number() <= last_final,
        })
    }
}

#[async_trait(?Send)]
impl Part for EvmPart {
    fn rail(&self) -> RailName {
        RailName::Evm
    }

    /// Calls of the relay's own carry their key as data; a user has one request.
    fn wish(&self, number: usize) -> Wish {
        let (dice, plan) = (&self.dice, &self.plan.evm);
        if dice.strikes(plan.gasless) {
            return wishes::gasless(number);
        }
        if dice.strikes(plan.reverts) {
            return wishes::reverting(number);
        }
        let receiver = dice.between(1, u64::from(RECEIVERS)) as u8;
        wishes::direct(number, receiver, dice.between(1, 1_000))
    }

    fn fit(&self, seat: &Arc<Seat>, clock: &Arc<dyn Clock>) -> Option<Fitted> {
        if self.plan.evm.calls == 0 {
            return None;
        }
        let (inner, spoilt) = (self.network.clone(), self.spoilt.clone());
        let wire = FaultyWire { seat: seat.clone(), inner, spoilt };
        let urls = (0..self.plan.evm.nodes)
            .map(|node| Url::parse(&format!("http://evm{node}")).expect("a well-formed address"));
        let endpoints =
            Endpoints::new(urls.collect(), Arc::new(wire), clock.clone(), Default::default())
                .expect("a world has nodes");
        let rail = EvmRail::new(self.settings(), endpoints, clock.clone()).expect("a sound rail");
        Some(Fitted::Rail(Arc::new(rail)))
    }

    async fn strike(&mut self, tick: u64) {
        self.weather.tick(tick);
    }

    async fn calm(&mut self) {
        self.weather.calm();
    }

    async fn play(&mut self, scenario: &str, tick: u64) {
        if (scenario, tick) == (BUMP, 2) {
            let mut ledger = self.network.ledger.lock();
            let base_fee = ledger.next_base_fee(ledger.head());
            ledger.force_base_fee(base_fee * 20);
        }
    }

    fn on_their_way(&self) -> usize {
        self.network.liars().kept_back.load(Ordering::Relaxed)
    }

    fn explorer(&self) -> Option<&dyn Explorer> {
        Some(self)
    }

    fn payments(&self) -> Option<Vec<Payment>> {
        let ledger = self.network.ledger.lock();
        let last_final = ledger.height().saturating_sub(FINAL_BLOCKS);
        let paid = ledger.blocks().iter().flat_map(|block| {
            (0..block.transactions.len()).filter_map(|at| self.payment(block, at, last_final))
        });
        Some(paid.collect())
    }

    fn keys_used(&self) -> u64 {
        self.weather.keys_used
    }

    fn lies_at(&self, endpoint: &str) -> bool {
        Url::parse(endpoint).is_ok_and(|url| self.plan.evm.lies_at(node_of(&url)))
    }

    fn may_fail(&self, transfer: &Transfer) -> bool {
        let call = transfer.payload.evm();
        call.is_some_and(|call| matches!(&call.work, Work::Direct(direct) if is_refused(direct)))
    }

    async fn check_at_rest(&self, evidence: &Evidence) -> Result<(), Broken> {
        let paid = evidence.paid.get(&RailName::Evm).map_or(&[][..], Vec::as_slice);
        let paid = paid.iter().fold(0u128, |sum, paid| sum + paid.amount);
        let ledger = self.network.ledger.lock();
        let has = |number: u8| {
            let balance = ledger.slots().at(ledger.height(), Slot::Balance(receiver(number)));
            balance.saturating_to::<u128>()
        };
        let has: u128 = (1..=RECEIVERS).map(has).sum();
        match has == paid {
            true => Ok(()),
            false => {
                let what = format!("receivers have {has} and were paid {paid}");
                Err(Broken::new("funds are conserved", None, what))
            }
        }
    }
}
