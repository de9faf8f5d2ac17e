//! Numbers to watch, lane by lane, kept here and told to whoever wants to know at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use landfall_core::LaneId;
use parking_lot::Mutex;

/// Told of what is worth watching as it happens. Calls MUST return at once.
pub trait TxWatch: Send + Sync + 'static {
    /// So many wait for their turn on the lane.
    fn queued(&self, _lane: &LaneId, _depth: usize) {}

    /// The lane was wanted, and another process holds it.
    fn contended(&self, _lane: &LaneId) {}

    /// A stored attempt sank because its nonce was used by something else. Somebody else signs with
    /// the key, or a fence was needed.
    fn invalid_nonce(&self, _lane: &LaneId) {}

    /// A broadcast was answered, or given up, after so long.
    fn sent(&self, _lane: &LaneId, _took_ms: u64) {}

    /// The lane was taken with so many attempts open.
    fn took_over(&self, _lane: &LaneId, _attempts: usize) {}

    /// The lane stands still until an operator adopts it.
    fn halted(&self, _lane: &LaneId, _reason: &str) {}

    /// Something an operator should look at, until it is called off by the same kind.
    fn alert(&self, _kind: &str, _message: &str) {}
    fn calm(&self, _kind: &str) {}
}

/// Nobody who wants to be told.
pub struct Unwatched;

impl TxWatch for Unwatched {}

/// What was counted of one lane since the manager was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaneNumbers {
    /// How many wait for their turn now.
    pub queued: usize,
    /// How often another process held the lane when it was wanted.
    pub contentions: u64,
    pub invalid_nonces: u64,
    pub sends: u64,
    pub sends_took_ms: u64,
    pub takeovers: u64,
}

impl LaneNumbers {
    /// None before the first send.
    pub fn mean_send_ms(&self) -> Option<f64> {
        (self.sends > 0).then(|| self.sends_took_ms as f64 / self.sends as f64)
    }
}

/// Counts, and tells.
pub(crate) struct Numbers {
    lanes: Mutex<BTreeMap<LaneId, LaneNumbers>>,
    pub watch: Arc<dyn TxWatch>,
}

impl Numbers {
    pub fn new(watch: Arc<dyn TxWatch>) -> Numbers {
        Numbers { lanes: Mutex::default(), watch }
    }

    pub fn all(&self) -> BTreeMap<LaneId, LaneNumbers> {
        self.lanes.lock().clone()
    }

    fn count(&self, lane: &LaneId, change: impl FnOnce(&mut LaneNumbers)) {
        change(self.lanes.lock().entry(lane.clone()).or_default());
    }

    pub fn queued(&self, lane: &LaneId, depth: usize) {
        self.count(lane, |numbers| numbers.queued = depth);
        self.watch.queued(lane, depth);
    }

    pub fn contended(&self, lane: &LaneId) {
        self.count(lane, |numbers| numbers.contentions += 1);
        self.watch.contended(lane);
    }

    pub fn invalid_nonce(&self, lane: &LaneId) {
        self.count(lane, |numbers| numbers.invalid_nonces += 1);
        self.watch.invalid_nonce(lane);
    }

    pub fn sent(&self, lane: &LaneId, took_ms: u64) {
        self.count(lane, |numbers| {
            numbers.sends += 1;
            numbers.sends_took_ms += took_ms;
        });
        self.watch.sent(lane, took_ms);
    }

    pub fn took_over(&self, lane: &LaneId, attempts: usize) {
        self.count(lane, |numbers| numbers.takeovers += 1);
        self.watch.took_over(lane, attempts);
    }
}
