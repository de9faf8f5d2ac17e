//! The wire of a world: requests go to a node's handler, answers come back, or do not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use landfall_core::Clock;
use landfall_lanes::watched::Watched;
use landfall_rpc::{HttpAnswer, Transport, TransportError, Url};
use landfall_sim_near::ledger::Ledger;
use landfall_sim_near::rpc::{self, Answer, Body, Node, Reply, Waiting};
use near_primitives::transaction::SignedTransaction;
use parking_lot::Mutex;
use serde_json::Value;

/// A node that lies: an answer of its own to some requests.
pub type Lie = Arc<dyn Fn(&Value) -> Option<HttpAnswer> + Send + Sync>;

/// Who answers in a node's place, and may say anything.
#[async_trait]
pub trait Liar: Send + Sync {
    async fn answer(&self, node: Honest<'_>, request: &Value) -> Answer;
}

/// The node behind a liar: it knows the truth, and takes what it is given.
pub struct Honest<'a> {
    network: &'a Network,
    switch: &'a Switch,
}

impl Honest<'_> {
    pub async fn answer(&self, request: &Value) -> Answer {
        self.network.answer(self.switch, request).await
    }
}

/// What is wrong with a node.
#[derive(Clone, Default)]
pub struct Switch {
    pub lag_blocks: u64,
    /// Takes transactions and loses them.
    pub forgets: bool,
    /// Takes transactions into a pool of its own, and its peers see them later.
    pub holds_back: bool,
    /// Has forgotten which transactions there were; all else it tells truly.
    pub amnesic: bool,
    /// Keeps no outcomes of transactions; what was in which block it tells truly.
    pub without_outcomes: bool,
    /// Has collected all blocks but the newest so many.
    pub history_blocks: Option<u64>,
    pub down: bool,
    /// Requests vanish before they arrive.
    pub lose_requests: bool,
    /// Requests arrive and take effect; their answers vanish.
    pub lose_answers: bool,
    /// The same, but only of broadcasts and looks: the relay sees the chain, not its transactions.
    pub lose_fates: bool,
    pub lie: Option<Lie>,
    pub liar: Option<Arc<dyn Liar>>,
}

impl Switch {
    /// The same node on its feet again: what it has lost and whom it serves stay as they are.
    pub fn untroubled(&self) -> Switch {
        Switch {
            holds_back: self.holds_back,
            amnesic: self.amnesic,
            without_outcomes: self.without_outcomes,
            history_blocks: self.history_blocks,
            liar: self.liar.clone(),
            ..Switch::default()
        }
    }
}

/// Which node an address means; one that is not there if none.
pub fn node_of(url: &Url) -> usize {
    url.origin().trim_start_matches("http://node").parse().unwrap_or(usize::MAX)
}

/// The nodes of one ledger, and their switches.
pub struct Network {
    pub ledger: Mutex<Ledger>,
    switches: Mutex<Vec<Switch>>,
    /// What nodes have taken and not passed on yet.
    held_back: Mutex<Vec<Arc<SignedTransaction>>>,
    blocks: Watched<u64>,
    /// How long nodes hold a request that waits for a transaction, in milliseconds.
    patience_ms: AtomicU64,
    clock: Arc<dyn Clock>,
}

impl Network {
    pub fn new(ledger: Ledger, nodes: usize, clock: Arc<dyn Clock>) -> Network {
        Network {
            blocks: Watched::new(ledger.height()),
            ledger: Mutex::new(ledger),
            switches: Mutex::new(vec![Switch::default(); nodes]),
            held_back: Mutex::default(),
            patience_ms: AtomicU64::new(rpc::TIMEOUT_MS),
            clock,
        }
    }

    /// Makes a block every `block_ms` for ever.
    pub async fn make_blocks(self: Arc<Network>, block_ms: u64) {
        loop {
            self.clock.sleep(Duration::from_millis(block_ms)).await;
            let height = {
                let mut ledger = self.ledger.lock();
                let after = ledger.chain().head().timestamp_ns + 1;
                ledger.produce(after.max(self.clock.now_ms() * 1_000_000)).block.height
            };
            self.blocks.set(height);
        }
    }

    pub fn reorg(&self, depth: u64, drop: bool) {
        let height = {
            let mut ledger = self.ledger.lock();
            ledger.reorg(depth, drop);
            ledger.height()
        };
        self.blocks.set(height);
    }

    /// Of what nodes have held back, each one is passed on for which `is_due` says so.
    pub fn pass_on(&self, mut is_due: impl FnMut() -> bool) {
        let mut ledger = self.ledger.lock();
        for signed in self.held_back.lock().extract_if(.., |_| is_due()) {
            ledger.submit(signed);
        }
    }

    /// Nodes whose operators have set another time for it.
    pub fn set_patience(&self, ms: u64) {
        self.patience_ms.store(ms, Ordering::Relaxed);
    }

    pub fn count(&self) -> usize {
        self.switches.lock().len()
    }

    /// How many honest nodes keep the block at this height.
    pub fn keeping(&self, height: u64) -> usize {
        let ledger = self.ledger.lock();
        let keeps = |switch: &&Switch| {
            let view = ledger.view(0).with_history(switch.history_blocks);
            switch.liar.is_none() && view.block_at(height).is_some()
        };
        self.switches.lock().iter().filter(keeps).count()
    }

    /// Changes one node's switch.
    pub fn node(&self, node: usize, change: impl FnOnce(&mut Switch)) {
        change(&mut self.switches.lock()[node]);
    }

    /// Changes every node's switch.
    pub fn all(&self, change: impl FnMut(&mut Switch)) {
        self.switches.lock().iter_mut().for_each(change);
    }

    /// Waits, block by block, for what a request waits for.
    async fn wait(&self, waiting: Waiting, switch: &Switch) -> Answer {
        let mut blocks = self.blocks.watch();
        let patience_ms = self.patience_ms.load(Ordering::Relaxed);
        let timeout = self.clock.sleep(Duration::from_millis(patience_ms));
        tokio::pin!(timeout);
        loop {
            {
                let ledger = self.ledger.lock();
                let view = ledger.view(switch.lag_blocks).with_history(switch.history_blocks);
                let view =
                    view.with_amnesia(switch.amnesic).with_outcomes(!switch.without_outcomes);
                if let Some(answer) = waiting.poll(view) {
                    return answer;
                }
            }
            tokio::select! {
                biased;
                _ = &mut timeout => return waiting.timeout(),
                _ = blocks.changed() => {}
            }
        }
    }

    async fn serve(&self, switch: &Switch, request: &Value) -> HttpAnswer {
        if let Some(answer) = switch.lie.as_ref().and_then(|lie| lie(request)) {
            return answer;
        }
        let answer = match &switch.liar {
            Some(liar) => liar.answer(Honest { network: self, switch }, request).await,
            None => self.answer(switch, request).await,
        };
        let body = match answer.body {
            Body::Json(json) => json.to_string(),
            Body::Text(text) => text,
        };
        HttpAnswer { status: answer.http_status, body: Bytes::from(body) }
    }

    /// What the node says of itself.
    async fn answer(&self, switch: &Switch, request: &Value) -> Answer {
        let reply = {
            let mut ledger = self.ledger.lock();
            let mut held_back = self.held_back.lock();
            let mut node = Node {
                ledger: &mut ledger,
                lag_blocks: switch.lag_blocks,
                forgets: switch.forgets,
                held_back: switch.holds_back.then_some(&mut *held_back),
                amnesic: switch.amnesic,
                without_outcomes: switch.without_outcomes,
                history_blocks: switch.history_blocks,
                rpc_addr: "node",
            };
            rpc::handle(&mut node, request)
        };
        match reply {
            Reply::Answer(answer) => answer,
            Reply::Wait(waiting) => self.wait(waiting, switch).await,
        }
    }
}

#[async_trait]
impl Transport for Network {
    async fn post(
        &self,
        url: &Url,
        body: Bytes,
        timeout: Duration,
    ) -> Result<HttpAnswer, TransportError> {
        let lost = || TransportError::Unsure("the answer never came".to_owned());
        let switch = self.switches.lock().get(node_of(url)).cloned();
        let switch = switch.ok_or_else(|| TransportError::NotSent("no such node".to_owned()))?;
        if switch.down {
            return Err(TransportError::NotSent("connection refused".to_owned()));
        }
        if switch.lose_requests {
            self.clock.sleep(timeout).await;
            return Err(lost());
        }
        let request: Value = serde_json::from_slice(&body).unwrap_or_default();
        let answer = tokio::select! {
            biased;
            answer = self.serve(&switch, &request) => answer,
            _ = self.clock.sleep(timeout) => return Err(lost()),
        };
        let about_fate = matches!(rpc::method_of(&request), "send_tx" | "tx");
        if switch.lose_answers || (switch.lose_fates && about_fate) {
            self.clock.sleep(timeout).await;
            return Err(lost());
        }
        Ok(answer)
    }
}
