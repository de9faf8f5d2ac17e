//! A store whose answers can be made to take their time, as those of a process that was paused.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use landfall_core::claim::{ClaimKey, Claimed};
use landfall_core::store::*;
use landfall_core::{
    Attempt, AttemptId, Epoch, Lane, LaneId, Move, NewTransfer, Nonce, RailName, Stage, State,
    TrailEntry, Transfer, TransferId,
};

/// One engine's way to a store that others share.
pub struct SlowStore {
    inner: Arc<dyn Store>,
    /// How long the next of these takes to be answered, in milliseconds.
    pub apply_ms: AtomicU64,
    pub trail_ms: AtomicU64,
    pub open_attempts_ms: AtomicU64,
    /// How long the next of these takes to be asked.
    pub before_open_attempts_ms: AtomicU64,
    /// How often transfers were read.
    pub reads: AtomicU64,
}

impl SlowStore {
    pub fn on(inner: Arc<dyn Store>) -> SlowStore {
        let (apply_ms, trail_ms, open_attempts_ms, reads) = Default::default();
        let before_open_attempts_ms = Default::default();
        SlowStore { inner, apply_ms, trail_ms, open_attempts_ms, before_open_attempts_ms, reads }
    }
}

async fn take(ms: &AtomicU64) {
    tokio::time::sleep(Duration::from_millis(ms.swap(0, Ordering::Relaxed))).await;
}

#[async_trait]
impl LaneStore for SlowStore {
    async fn identity(&self) -> Result<StoreIdentity> {
        self.inner.identity().await
    }
    async fn open(&self, batch: Vec<OpenAttempt>) -> Result<Vec<Opened>> {
        self.inner.open(batch).await
    }
    async fn add_variant(&self, add: AddVariant) -> Result<Added> {
        self.inner.add_variant(add).await
    }
    async fn settle(&self, settlement: Settlement) -> Result<Settled> {
        self.inner.settle(settlement).await
    }
    async fn sight(&self, sight: Sight) -> Result<bool> {
        self.inner.sight(sight).await
    }
    async fn open_attempts(&self, lane: &LaneId) -> Result<Vec<Attempt>> {
        take(&self.before_open_attempts_ms).await;
        let open = self.inner.open_attempts(lane).await;
        take(&self.open_attempts_ms).await;
        open
    }
    async fn attempts_after(&self, of: &LaneId, above: Nonce, most: usize) -> Result<Vec<Attempt>> {
        self.inner.attempts_after(of, above, most).await
    }
    async fn attempt(&self, id: AttemptId) -> Result<Option<Attempt>> {
        self.inner.attempt(id).await
    }
    async fn attempt_at(&self, lane: &LaneId, nonce: Nonce) -> Result<Option<Attempt>> {
        self.inner.attempt_at(lane, nonce).await
    }
    async fn transfers(&self, ids: &[TransferId]) -> Result<Vec<Transfer>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.inner.transfers(ids).await
    }
    async fn lease(&self, of: &LaneId, rail: RailName, to: &str, ttl_ms: u64) -> Result<Leased> {
        self.inner.lease(of, rail, to, ttl_ms).await
    }
    async fn renew(&self, lanes: &[(LaneId, Epoch)], ttl_ms: u64) -> Result<Vec<bool>> {
        self.inner.renew(lanes, ttl_ms).await
    }
    async fn release(&self, lanes: &[(LaneId, Epoch)]) -> Result<()> {
        self.inner.release(lanes).await
    }
    async fn start_lane(&self, lane: &LaneId, epoch: Epoch, ledger_nonce: Nonce) -> Result<bool> {
        self.inner.start_lane(lane, epoch, ledger_nonce).await
    }
    async fn halt(&self, lane: &LaneId, reason: &str) -> Result<()> {
        self.inner.halt(lane, reason).await
    }
    async fn adopt(&self, lane: &LaneId, ledger_nonce: Nonce) -> Result<()> {
        self.inner.adopt(lane, ledger_nonce).await
    }
    async fn lanes(&self) -> Result<Vec<Lane>> {
        self.inner.lanes().await
    }
}

#[async_trait]
impl Store for SlowStore {
    async fn apply(&self, moves: Vec<Move>) -> Result<AppliedBatch> {
        let applied = self.inner.apply(moves).await;
        take(&self.apply_ms).await;
        applied
    }
    async fn trail(&self, id: TransferId) -> Result<Vec<TrailEntry>> {
        take(&self.trail_ms).await;
        self.inner.trail(id).await
    }
    async fn accept(&self, batch: Vec<NewTransfer>) -> Result<Vec<Accepted>> {
        self.inner.accept(batch).await
    }
    async fn attempt_of(&self, rail: RailName, hash: &str) -> Result<Option<Attempt>> {
        self.inner.attempt_of(rail, hash).await
    }
    async fn open_attempts_of(&self, rail: RailName) -> Result<Vec<Attempt>> {
        self.inner.open_attempts_of(rail).await
    }
    async fn attempts_page(
        &self,
        rail: RailName,
        after: AttemptId,
        limit: usize,
    ) -> Result<Vec<Attempt>> {
        self.inner.attempts_page(rail, after, limit).await
    }
    async fn sweep(
        &self,
        stage: Stage,
        limit: usize,
        push_ms: u64,
        horizon_ms: u64,
    ) -> Result<Vec<TransferId>> {
        self.inner.sweep(stage, limit, push_ms, horizon_ms).await
    }
    async fn by_key(&self, rail: RailName, tenant: &str, key: &str) -> Result<Option<Transfer>> {
        self.inner.by_key(rail, tenant, key).await
    }
    async fn list(&self, filter: ListFilter) -> Result<Vec<Transfer>> {
        self.inner.list(filter).await
    }
    async fn counts(&self) -> Result<Vec<(State, u64)>> {
        self.inner.counts().await
    }
    async fn claim(&self, claims: Vec<(ClaimKey, TransferId)>) -> Result<Vec<Claimed>> {
        self.inner.claim(claims).await
    }
    async fn kept(&self, keys: &[ClaimKey]) -> Result<Vec<bool>> {
        self.inner.kept(keys).await
    }
}
