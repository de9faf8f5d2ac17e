//! Where a process can die, or be held up: before and after every call to store and ledger.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use landfall_core::ledger::{
    Broadcast, Later, Ledger, LedgerNonce, Look, Manner, Progress, RailError, Waiting,
};
use landfall_core::store::*;
use landfall_core::{
    Attempt, AttemptId, Epoch, Lane, LaneId, Nonce, RailName, Transfer, TransferId,
};
use landfall_lanes::watched::Watched;
use landfall_store_memory::MemoryStore;

use crate::chain::Chain;

/// One process's peril: at one point of its life it stands still, whatever it was about.
pub struct Perils {
    at: usize,
    points: AtomicUsize,
    /// True once the point was reached.
    pub reached: Watched<bool>,
    /// True once it may go on.
    pub resumed: Watched<bool>,
    /// So many sightings are stored, and whoever stores them is not told.
    pub unheard_sightings: AtomicUsize,
}

impl Perils {
    pub fn at(point: usize) -> Arc<Perils> {
        let (reached, resumed) = (Watched::new(false), Watched::new(false));
        let (points, unheard_sightings) = Default::default();
        Arc::new(Perils { at: point, points, reached, resumed, unheard_sightings })
    }

    pub fn none() -> Arc<Perils> {
        Perils::at(usize::MAX)
    }

    async fn point(&self) {
        if self.points.fetch_add(1, Ordering::Relaxed) == self.at {
            self.reached.set(true);
        }
        if self.reached.get() {
            self.resumed.watch().until(|resumed| *resumed).await;
        }
    }

    async fn around<T>(&self, act: impl Future<Output = T>) -> T {
        self.point().await;
        let answer = act.await;
        self.point().await;
        answer
    }
}

/// A process's way to the store.
pub struct PerilousStore {
    pub inner: Arc<MemoryStore>,
    pub perils: Arc<Perils>,
}

#[async_trait]
impl LaneStore for PerilousStore {
    async fn identity(&self) -> Result<StoreIdentity> {
        self.perils.around(self.inner.identity()).await
    }
    async fn open(&self, batch: Vec<OpenAttempt>) -> Result<Vec<Opened>> {
        self.perils.around(self.inner.open(batch)).await
    }
    async fn add_variant(&self, add: AddVariant) -> Result<Added> {
        self.perils.around(self.inner.add_variant(add)).await
    }
    async fn settle(&self, settlement: Settlement) -> Result<Settled> {
        self.perils.around(self.inner.settle(settlement)).await
    }
    async fn sight(&self, sight: Sight) -> Result<bool> {
        let stored = self.perils.around(self.inner.sight(sight)).await;
        let unheard = &self.perils.unheard_sightings;
        let left = unheard.load(Ordering::Relaxed);
        if left > 0 {
            unheard.store(left - 1, Ordering::Relaxed);
            return Err(StoreError::Unavailable("the answer is lost".to_owned()));
        }
        stored
    }
    async fn open_attempts(&self, lane: &LaneId) -> Result<Vec<Attempt>> {
        self.perils.around(self.inner.open_attempts(lane)).await
    }
    async fn attempts_after(&self, of: &LaneId, above: Nonce, most: usize) -> Result<Vec<Attempt>> {
        self.perils.around(self.inner.attempts_after(of, above, most)).await
    }
    async fn attempt(&self, id: AttemptId) -> Result<Option<Attempt>> {
        self.perils.around(self.inner.attempt(id)).await
    }
    async fn attempt_at(&self, lane: &LaneId, nonce: Nonce) -> Result<Option<Attempt>> {
        self.perils.around(self.inner.attempt_at(lane, nonce)).await
    }
    async fn transfers(&self, ids: &[TransferId]) -> Result<Vec<Transfer>> {
        self.perils.around(self.inner.transfers(ids)).await
    }
    async fn lease(&self, of: &LaneId, rail: RailName, by: &str, ttl_ms: u64) -> Result<Leased> {
        self.perils.around(self.inner.lease(of, rail, by, ttl_ms)).await
    }
    async fn renew(&self, lanes: &[(LaneId, Epoch)], ttl_ms: u64) -> Result<Vec<bool>> {
        self.perils.around(self.inner.renew(lanes, ttl_ms)).await
    }
    async fn release(&self, lanes: &[(LaneId, Epoch)]) -> Result<()> {
        self.perils.around(self.inner.release(lanes)).await
    }
    async fn start_lane(&self, lane: &LaneId, epoch: Epoch, nonce: Nonce) -> Result<bool> {
        self.perils.around(self.inner.start_lane(lane, epoch, nonce)).await
    }
    async fn halt(&self, lane: &LaneId, reason: &str) -> Result<()> {
        self.perils.around(self.inner.halt(lane, reason)).await
    }
    async fn adopt(&self, lane: &LaneId, nonce: Nonce) -> Result<()> {
        self.perils.around(self.inner.adopt(lane, nonce)).await
    }
    async fn lanes(&self) -> Result<Vec<Lane>> {
        self.perils.around(self.inner.lanes()).await
    }
}

/// A process's way to the ledger.
pub struct PerilousLedger {
    pub inner: Arc<Chain>,
    pub perils: Arc<Perils>,
}

#[async_trait]
impl Ledger for PerilousLedger {
    fn name(&self) -> RailName {
        self.inner.name()
    }
    fn manner(&self) -> Manner {
        self.inner.manner()
    }
    fn lanes(&self) -> Vec<LaneId> {
        self.inner.lanes()
    }
    fn owns(&self, lane: &LaneId) -> bool {
        self.inner.owns(lane)
    }
    async fn broadcast(&self, attempt: &Attempt, round: u32) -> Broadcast {
        self.perils.around(self.inner.broadcast(attempt, round)).await
    }
    async fn look(&self, attempt: &Attempt, passed: bool) -> std::result::Result<Look, RailError> {
        self.perils.around(self.inner.look(attempt, passed)).await
    }
    async fn inquest(
        &self,
        attempt: &Attempt,
        later: &[Later],
    ) -> std::result::Result<Look, RailError> {
        self.perils.around(self.inner.inquest(attempt, later)).await
    }
    async fn nonce(&self, lane: &LaneId) -> std::result::Result<Option<LedgerNonce>, RailError> {
        self.perils.around(self.inner.nonce(lane)).await
    }
    async fn nonces(&self) -> std::result::Result<Vec<(LaneId, LedgerNonce)>, RailError> {
        self.perils.around(self.inner.nonces()).await
    }
    async fn pulse(&self, waiting: &[Waiting]) -> std::result::Result<Vec<Progress>, RailError> {
        self.perils.around(self.inner.pulse(waiting)).await
    }
}
