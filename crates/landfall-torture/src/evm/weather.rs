//! The weather on the chain: nodes that are behind or away, blocks that fall off, fees that leap,
//! signers whom others use, liars.

use std::sync::Arc;

use alloy_primitives::{Bytes, U256};
use landfall_rail_evm::Key;
use landfall_rail_evm::encode::{self, Draft};
use landfall_rail_evm::fees::Offer;
use landfall_sim_evm::ledger::{FINAL_BLOCKS, Transaction};

use super::network::{Network, Switch};
use crate::plan::Plan;
use crate::seat::Dice;

/// Ticks for which nodes are away, or in trouble, and lies last: at most so many.
const DOWN_TICKS: u64 = 40;
const TROUBLE_TICKS: u64 = 80;
const LASTING_TICKS: u64 = 160;
/// A node lags at most so many blocks behind.
const LAG_BLOCKS: u64 = 100;
/// By how much fees leap at most.
const LEAP: u64 = 60;
/// What somebody else pays for gas.
const FOREIGN_FEE: u128 = 400_000_000_000;

pub struct Weather {
    plan: Arc<Plan>,
    dice: Arc<Dice>,
    network: Arc<Network>,
    keys: Vec<Key>,
    /// How often somebody else used one of them.
    pub keys_used: u64,
    node_until: Vec<Option<u64>>,
    black_out_until: Option<u64>,
    lying_until: Option<u64>,
}

impl Weather {
    pub fn new(plan: Arc<Plan>, dice: Arc<Dice>, network: Arc<Network>, keys: Vec<Key>) -> Weather {
        Weather {
            node_until: vec![None; plan.evm.nodes],
            plan,
            dice,
            network,
            keys,
            keys_used: 0,
            black_out_until: None,
            lying_until: None,
        }
    }

    /// Whether a fault of so many chances per second strikes in this tick.
    fn strikes(&self, rate: f64) -> bool {
        self.dice.strikes(rate / 4.0)
    }

    pub fn tick(&mut self, tick: u64) {
        self.strike_nodes(tick);
        self.strike_chain();
        self.strike_liars(tick);
    }

    fn strike_nodes(&mut self, tick: u64) {
        for node in 0..self.plan.evm.nodes {
            if self.node_until[node].is_some_and(|until| tick >= until) {
                self.network.node(node, |switch| *switch = Switch::default());
                self.node_until[node] = None;
            } else if self.node_until[node].is_none() && self.strikes(self.plan.evm.node_trouble) {
                let lag_blocks = self.dice.between(0, LAG_BLOCKS);
                let forgets = self.dice.between(0, 2) == 0;
                let down = self.dice.between(0, 3) == 0;
                self.network.node(node, |switch| *switch = Switch { lag_blocks, forgets, down });
                self.node_until[node] = Some(tick + self.dice.between(4, TROUBLE_TICKS));
            }
        }
        if self.black_out_until.is_some_and(|until| tick >= until) {
            self.network.all(|switch| switch.down = false);
            self.black_out_until = None;
        } else if self.black_out_until.is_none() && self.strikes(self.plan.evm.black_out) {
            self.network.all(|switch| switch.down = true);
            self.black_out_until = Some(tick + self.dice.between(4, DOWN_TICKS));
        }
    }

    fn strike_chain(&mut self) {
        if self.strikes(self.plan.evm.reorg) {
            let depth = self.dice.between(1, FINAL_BLOCKS - 1);
            self.network.reorg(depth, self.dice.between(0, 1) == 0);
        }
        if self.strikes(self.plan.evm.spike) {
            let mut ledger = self.network.ledger.lock();
            let base_fee = ledger.next_base_fee(ledger.head());
            ledger.force_base_fee(base_fee.saturating_mul(self.dice.between(2, LEAP)));
        }
        if self.strikes(self.plan.evm.foreign) {
            let index = self.dice.between(0, self.keys.len() as u64 - 1) as usize;
            self.use_key(index);
            self.keys_used += 1;
        }
    }

    /// Somebody else signs with one of the relay's keys, and is in the next block.
    fn use_key(&self, index: usize) {
        let key = &self.keys[index];
        let mut ledger = self.network.ledger.lock();
        let chain_id = ledger.genesis().chain_id;
        let draft = Draft {
            chain_id,
            nonce: ledger.nonce_at(ledger.height(), key.address()),
            to: key.address(),
            value: U256::from(1),
            input: Bytes::from_static(b"somebody else"),
            gas: 100_000,
            offer: Offer::Base { fee_max: FOREIGN_FEE, tip_max: FOREIGN_FEE / 100 },
        };
        let (raw, _) = encode::sign(&draft, key);
        let Ok(transaction) = Transaction::read(raw.into(), chain_id) else { return };
        let timestamp = ledger.head().header.timestamp;
        ledger.append(timestamp + 1, vec![Arc::new(transaction)]);
    }

    fn strike_liars(&mut self, tick: u64) {
        let evm = &self.plan.evm;
        if evm.for_good || evm.liars == 0 {
            return;
        }
        if self.lying_until.is_some_and(|until| tick >= until) {
            self.network.liars().lie(false);
            self.lying_until = None;
        } else if self.lying_until.is_none() && self.strikes(evm.lying) {
            self.network.liars().lie(true);
            self.lying_until = Some(tick + self.dice.between(4, LASTING_TICKS));
        }
    }

    /// Everything is well again, but for liars who lie for good.
    pub fn calm(&mut self) {
        self.network.all(|switch| *switch = Switch::default());
        self.network.liars().lie(self.plan.evm.for_good);
    }
}
