//! The nodes of one EVM chain, each with its own pool, and a switch each for what is wrong with
//! them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use landfall_core::Clock;
use landfall_rpc::{HttpAnswer, Transport, TransportError, Url};
use landfall_sim_evm::ledger::{FINAL_BLOCKS, Ledger};
use landfall_sim_evm::rpc::{self, Node};
use parking_lot::Mutex;
use serde_json::Value;

use super::liars::Liars;
use crate::plan::Plan;
use crate::seat::Dice;

/// What is wrong with a node.
#[derive(Clone, Copy, Default)]
pub struct Switch {
    pub lag_blocks: u64,
    /// Takes transactions and loses them.
    pub forgets: bool,
    pub down: bool,
}

/// Which node an address means; one that is not there if none.
pub fn node_of(url: &Url) -> usize {
    url.origin().trim_start_matches("http://evm").parse().unwrap_or(usize::MAX)
}

pub struct Network {
    pub ledger: Mutex<Ledger>,
    plan: Arc<Plan>,
    dice: Arc<Dice>,
    clock: Arc<dyn Clock>,
    switches: Mutex<Vec<Switch>>,
    liars: Liars,
}

impl Network {
    pub fn new(
        ledger: Ledger,
        plan: Arc<Plan>,
        dice: Arc<Dice>,
        clock: Arc<dyn Clock>,
        liars: Liars,
    ) -> Network {
        let switches = Mutex::new(vec![Switch::default(); plan.evm.nodes]);
        Network { ledger: Mutex::new(ledger), plan, dice, clock, switches, liars }
    }

    /// Makes a block every so often, for ever: each node in turn, of what it has. Then they tell
    /// each other of what is left, or do not.
    pub async fn make_blocks(self: Arc<Network>) {
        loop {
            self.clock.sleep(Duration::from_millis(self.plan.evm.block_ms)).await;
            let mut ledger = self.ledger.lock();
            for node in 0..self.plan.evm.nodes {
                ledger.keep_pooled(node, |_| !self.dice.strikes(self.plan.evm.dropped));
            }
            let node = (ledger.height() % self.plan.evm.nodes as u64) as usize;
            ledger.produce(node, self.clock.now_ms() / 1_000);
            if !self.dice.strikes(self.plan.evm.silent) {
                ledger.gossip();
            }
        }
    }

    /// The last blocks give way to as many empty ones; what was in them is pooled again or lost.
    pub fn reorg(&self, depth: u64, drop: bool) {
        let mut ledger = self.ledger.lock();
        let depth = depth.min(FINAL_BLOCKS - 1).min(ledger.height());
        let timestamp = ledger.head().header.timestamp;
        let fallen = ledger.cut(depth);
        for _ in 0..depth {
            ledger.append(timestamp + 1, Vec::new());
        }
        if !drop {
            ledger.pool_again(&fallen);
        }
    }

    pub fn liars(&self) -> &Liars {
        &self.liars
    }

    /// Changes one node's switch.
    pub fn node(&self, node: usize, change: impl FnOnce(&mut Switch)) {
        change(&mut self.switches.lock()[node]);
    }

    /// Changes every node's switch.
    pub fn all(&self, change: impl FnMut(&mut Switch)) {
        self.switches.lock().iter_mut().for_each(change);
    }

    /// What the node says of itself.
    pub fn answer(&self, index: usize, request: &Value) -> Value {
        let Switch { lag_blocks, forgets, .. } = self.switches.lock()[index];
        let mut ledger = self.ledger.lock();
        let mut node = Node { ledger: &mut ledger, index, lag_blocks, forgets };
        rpc::handle(&mut node, request)
    }
}

#[async_trait]
impl Transport for Network {
    async fn post(
        &self,
        url: &Url,
        body: Bytes,
        _: Duration,
    ) -> Result<HttpAnswer, TransportError> {
        let index = node_of(url);
        let switch = self.switches.lock().get(index).copied();
        let switch = switch.ok_or_else(|| TransportError::NotSent("no such node".to_owned()))?;
        if switch.down {
            return Err(TransportError::NotSent("connection refused".to_owned()));
        }
        let request: Value = serde_json::from_slice(&body).unwrap_or_default();
        let answer = match self.plan.evm.lies_at(index) {
            true => self.liars.answer(self, index, &request),
            false => self.answer(index, &request),
        };
        Ok(HttpAnswer { status: 200, body: Bytes::from(answer.to_string()) })
    }
}
