//! NEAR as a part of a world: payouts on a simulated ledger of several nodes.
//!
//! | file | holds |
//! |---|---|
//! | [`plan`] | how much there is of everything, and what goes wrong |
//! | [`network`] | the nodes of one ledger, with a switch each for what is wrong with them |
//! | `wire` | one instance's way to them |
//! | `weather` | what strikes nodes and ledger, tick by tick |
//! | `liars` | nodes that say anything |
//! | `explorer` | the ledger's own books, for the operator |
//! | `checks` | what must hold of payouts alone |
//! | [`world`] | a relay and its ledger without chance, for tests that fool it in one way |

pub mod network;
pub mod plan;
pub mod world;

mod checks;
mod explorer;
mod liars;
mod weather;
mod wire;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use landfall_core::near::Payout;
use landfall_core::rail::Pace;
use landfall_core::{Clock, Payload, RailName, Transfer};
use landfall_rail_near::{Key, NearRail, NearSettings};
use landfall_rpc::{Endpoints, Url};
use landfall_sim_near::keys;
use landfall_sim_near::ledger::{Decree, Genesis, Ledger, Settings};
use landfall_sim_near::server::{CHAIN_ID, RELAY, TOKEN};
use near_crypto::SecretKey;

pub use network::{Honest, Liar, Lie, Network, Switch};
pub use plan::NearPlan;
pub use world::{World, WorldConfig};

use crate::checkers::{Broken, Evidence, Payment};
use crate::clients::Wish;
use crate::enumerate::Scenario;
use crate::part::{Explorer, Fitted, Ground, Kind, Part};
use crate::plan::Plan;
use crate::run::START_MS;
use crate::seat::{Dice, Seat};
use liars::Liars;
use network::node_of;
use weather::{SPURNED, Weather};
use wire::{FaultyWire, Spoilt};

const RELAY_NEAR: u128 = 1_000_000 * 10u128.pow(24);
const RELAY_TOKENS: u128 = 10u128.pow(30);

pub const KIND: Kind = Kind {
    wishes: |plan| plan.near.payouts,
    faults: &plan::FAULTS,
    late_max_ms: |plan| plan.near.late_max_ms(),
    describe: |plan| plan.near.describe(),
    scenarios: &SCENARIOS,
    build: |ground| Box::new(NearPart::new(ground)),
};

/// A receiver is unregistered behind the relay's back, in the middle of a batch.
const POISON: &str = "poison";
/// Nodes swallow what they are given, until a fence decides.
const FENCE: &str = "fence";

const SCENARIOS: [Scenario; 6] = [
    Scenario::new("one transfer", || calm(1, 1)),
    Scenario::new(POISON, || calm(8, 4)),
    // Many transfers wait for the registration of one receiver.
    Scenario::new("waiters", || calm(6, 1)),
    // A second instance takes the lanes over.
    Scenario::new("takeover", || Plan { instances: 2, ..calm(3, 2) }).with_crash_at(6),
    Scenario::new(FENCE, || Plan { storm_ms: 30_000, ..calm(2, 1) }),
    // The instance is told to leave, and started again.
    Scenario::new("shutdown", || calm(4, 2)).with_stop_at(8),
];

fn calm(payouts: usize, receivers: usize) -> Plan {
    let mut plan = Plan::calm(7);
    (plan.near.payouts, plan.near.receivers) = (payouts, receivers);
    plan
}

pub struct NearPart {
    plan: Arc<Plan>,
    dice: Arc<Dice>,
    network: Arc<Network>,
    keys: Vec<SecretKey>,
    spoilt: Arc<Spoilt>,
    weather: Weather,
}

impl NearPart {
    fn new(ground: &Ground) -> NearPart {
        let (plan, dice) = (ground.plan.clone(), ground.dice.clone());
        let keys: Vec<SecretKey> =
            (0..plan.near.keys).map(|key| keys::secret_key(0, key)).collect();
        let ledger = Ledger::new(genesis(&plan, &keys));
        let network = Arc::new(Network::new(ledger, plan.near.nodes, ground.clock.clone()));
        tokio::spawn(network.clone().make_blocks(plan.near.block_ms));
        let liars = Liars::settle(&plan, &dice, &ground.clock, &network);
        let weather =
            Weather::new(plan.clone(), dice.clone(), network.clone(), liars, keys.clone());
        NearPart { plan, dice, network, keys, spoilt: Arc::default(), weather }
    }
}

#[async_trait(?Send)]
impl Part for NearPart {
    fn rail(&self) -> RailName {
        RailName::Near
    }

    fn wish(&self, number: usize) -> Wish {
        let (dice, plan) = (&self.dice, &self.plan);
        let receiver = match dice.strikes(plan.near.spurned) {
            true => SPURNED[dice.between(0, 1) as usize].0.to_owned(),
            false => format!("r{}.near", dice.between(0, plan.near.receivers as u64 - 1)),
        };
        let amount = u128::from(dice.between(1, 1_000));
        wish(format!("k{number}"), &receiver, amount, plan.store_rollback > 0.0)
    }

    fn fit(&self, seat: &Arc<Seat>, clock: &Arc<dyn Clock>) -> Option<Fitted> {
        if self.plan.near.payouts == 0 {
            return None;
        }
        let (inner, spoilt) = (self.network.clone(), self.spoilt.clone());
        let wire = FaultyWire { seat: seat.clone(), inner, spoilt };
        let urls = (0..self.plan.near.nodes)
            .map(|node| Url::parse(&format!("http://node{node}")).expect("a well-formed address"));
        let endpoints =
            Endpoints::new(urls.collect(), Arc::new(wire), clock.clone(), Default::default())
                .expect("a world has nodes");
        let keys = self.keys.iter();
        let keys = keys.map(|key| Key::parse(&key.to_string()).expect("a well-formed key"));
        let mut settings = NearSettings::new(CHAIN_ID, TOKEN, RELAY, keys.collect());
        (settings.manner.fence_after_ms, settings.manner.finality_ms) = (15_000, 15_000);
        settings.manner.window = self.plan.near.window;
        settings.pace = pace_of(&self.plan);
        let rail = NearRail::new(settings, endpoints, clock.clone()).expect("a sound rail");
        Some(Fitted::Rail(Arc::new(rail)))
    }

    async fn strike(&mut self, tick: u64) {
        self.weather.tick(tick);
    }

    async fn calm(&mut self) {
        self.weather.calm();
    }

    async fn play(&mut self, scenario: &str, tick: u64) {
        match (scenario, tick) {
            (POISON, 12) => {
                let account_id = "r1.near".parse().expect("a well-formed account id");
                self.network.ledger.lock().decree(Decree::Unregister { account_id });
            }
            (FENCE, 2) => self.network.all(|node| node.forgets = true),
            (FENCE, 100) => self.network.all(|node| node.forgets = false),
            _ => {}
        }
    }

    fn on_their_way(&self) -> usize {
        self.weather.liars.kept_back.load(Ordering::Relaxed)
    }

    fn explorer(&self) -> Option<&dyn Explorer> {
        Some(self)
    }

    fn payments(&self) -> Option<Vec<Payment>> {
        let ledger = self.network.ledger.lock();
        let final_height = ledger.final_height();
        let paid = ledger.transfers().iter().map(|paid| Payment {
            // Worlds put the key into the memo.
            key: paid.memo.clone(),
            receiver: paid.receiver_id.to_string(),
            amount: paid.amount,
            hash: paid.tx_hash.to_string(),
            block: paid.block,
            is_final: paid.block <= final_height,
        });
        Some(paid.collect())
    }

    fn keys_used(&self) -> u64 {
        self.weather.keys_used
    }

    fn lies_at(&self, endpoint: &str) -> bool {
        Url::parse(endpoint).is_ok_and(|url| self.plan.near.lies_at(node_of(&url)))
    }

    fn may_fail(&self, transfer: &Transfer) -> bool {
        SPURNED.iter().any(|(account, _)| transfer.payload.receiver() == *account)
    }

    async fn check_at_rest(&self, evidence: &Evidence) -> Result<(), Broken> {
        let paid = evidence.paid.get(&RailName::Near).map_or(&[][..], Vec::as_slice);
        checks::conserved(paid, &self.weather)?;
        checks::deposits(&evidence.attempts)
    }
}

/// A payout. Its key is its memo too. What a store that forgets the key might take in its place
/// must have the same memo, or nobody could tell what was paid for it.
fn wish(key: String, receiver: &str, amount: u128, may_be_forgotten: bool) -> Wish {
    let payout = |receiver: &str, amount: u128, memo: Option<&str>| {
        let payout = Payout::new(&world::terms(), receiver, &amount.to_string(), memo);
        Payload::Near(payout.expect("worlds pay well-formed accounts"))
    };
    let payload = payout(receiver, amount, Some(&key));
    let second = payout(&format!("another.{receiver}"), amount, Some(&key));
    let mut others = vec![payout(receiver, amount + 1, Some(&key)), second.clone()];
    if !may_be_forgotten {
        others.push(payout(receiver, amount, None));
        others.push(payout(receiver, amount, Some(&format!("{key} again"))));
    }
    Wish { key, payload, second, others }
}

/// Small batches, where many are to be on their way at once, and few retries for receivers that can
/// never be registered.
fn pace_of(plan: &Plan) -> Pace {
    let batch_max = match plan.near.window {
        1 => 100,
        _ if plan.bursts_ms > 0 => 2,
        _ => 8,
    };
    Pace { batch_max, prepare_retries: 4, ..Pace::default() }
}

fn genesis(plan: &Plan, keys: &[SecretKey]) -> Genesis {
    Genesis {
        chain_id: CHAIN_ID.to_owned(),
        timestamp_ns: START_MS * 1_000_000,
        token: TOKEN.parse().expect("a well-formed account id"),
        relay: RELAY.parse().expect("a well-formed account id"),
        relay_keys: keys.iter().map(SecretKey::public_key).collect(),
        relay_near: RELAY_NEAR,
        relay_tokens: RELAY_TOKENS,
        settings: Settings { validity_blocks: plan.near.validity_blocks, ..Settings::default() },
    }
}
