//! Two instances behind one face: every call goes to the other one.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use landfall_core::attempt::Attempt;
use landfall_core::claim::{ClaimKey, Claimed};
use landfall_core::lane::Lane;
use landfall_core::store::{
    Accepted, AddVariant, Added, AppliedBatch, LaneStore, Leased, ListFilter, OpenAttempt, Opened,
    Result, Settled, Settlement, Sight, Store, StoreIdentity,
};
use landfall_core::{
    AttemptId, Epoch, LaneId, Move, NewTransfer, Nonce, RailName, Stage, State, TrailEntry,
    Transfer, TransferId,
};
use landfall_store_postgres::PostgresStore;

/// Takes turns.
pub struct Pair {
    stores: [PostgresStore; 2],
    calls: AtomicUsize,
}

impl Pair {
    pub fn new(one: PostgresStore, other: PostgresStore) -> Pair {
        Pair { stores: [one, other], calls: AtomicUsize::new(0) }
    }

    fn next(&self) -> &PostgresStore {
        &self.stores[self.calls.fetch_add(1, Ordering::Relaxed) % 2]
    }
}

#[async_trait]
impl LaneStore for Pair {
    async fn identity(&self) -> Result<StoreIdentity> {
        self.next().identity().await
    }

    async fn open(&self, batch: Vec<OpenAttempt>) -> Result<Vec<Opened>> {
        self.next().open(batch).await
    }

    async fn add_variant(&self, add: AddVariant) -> Result<Added> {
        self.next().add_variant(add).await
    }

    async fn settle(&self, settlement: Settlement) -> Result<Settled> {
        self.next().settle(settlement).await
    }

    async fn sight(&self, sight: Sight) -> Result<bool> {
        self.next().sight(sight).await
    }

    async fn open_attempts(&self, lane: &LaneId) -> Result<Vec<Attempt>> {
        self.next().open_attempts(lane).await
    }

    async fn attempts_after(
        &self,
        lane: &LaneId,
        above: Nonce,
        limit: usize,
    ) -> Result<Vec<Attempt>> {
        self.next().attempts_after(lane, above, limit).await
    }

    async fn attempt(&self, id: AttemptId) -> Result<Option<Attempt>> {
        self.next().attempt(id).await
    }

    async fn attempt_at(&self, lane: &LaneId, nonce: Nonce) -> Result<Option<Attempt>> {
        self.next().attempt_at(lane, nonce).await
    }

    async fn transfers(&self, ids: &[TransferId]) -> Result<Vec<Transfer>> {
        self.next().transfers(ids).await
    }

    async fn lease(
        &self,
        lane: &LaneId,
        rail: RailName,
        holder: &str,
        ttl_ms: u64,
    ) -> Result<Leased> {
        self.next().lease(lane, rail, holder, ttl_ms).await
    }

    async fn renew(&self, lanes: &[(LaneId, Epoch)], ttl_ms: u64) -> Result<Vec<bool>> {
        self.next().renew(lanes, ttl_ms).await
    }

    async fn release(&self, lanes: &[(LaneId, Epoch)]) -> Result<()> {
        self.next().release(lanes).await
    }

    async fn start_lane(&self, lane: &LaneId, epoch: Epoch, ledger_nonce: Nonce) -> Result<bool> {
        self.next().start_lane(lane, epoch, ledger_nonce).await
    }

    async fn halt(&self, lane: &LaneId, reason: &str) -> Result<()> {
        self.next().halt(lane, reason).await
    }

    async fn adopt(&self, lane: &LaneId, ledger_nonce: Nonce) -> Result<()> {
        self.next().adopt(lane, ledger_nonce).await
    }

    async fn lanes(&self) -> Result<Vec<Lane>> {
        self.next().lanes().await
    }
}

#[async_trait]
impl Store for Pair {
    async fn accept(&self, batch: Vec<NewTransfer>) -> Result<Vec<Accepted>> {
        self.next().accept(batch).await
    }

    async fn apply(&self, moves: Vec<Move>) -> Result<AppliedBatch> {
        self.next().apply(moves).await
    }

    async fn open_attempts_of(&self, rail: RailName) -> Result<Vec<Attempt>> {
        self.next().open_attempts_of(rail).await
    }

    async fn attempt_of(&self, rail: RailName, hash: &str) -> Result<Option<Attempt>> {
        self.next().attempt_of(rail, hash).await
    }

    async fn attempts_page(
        &self,
        rail: RailName,
        after: AttemptId,
        limit: usize,
    ) -> Result<Vec<Attempt>> {
        self.next().attempts_page(rail, after, limit).await
    }

    async fn sweep(
        &self,
        stage: Stage,
        limit: usize,
        push_ms: u64,
        horizon_ms: u64,
    ) -> Result<Vec<TransferId>> {
        self.next().sweep(stage, limit, push_ms, horizon_ms).await
    }

    async fn by_key(&self, rail: RailName, tenant: &str, key: &str) -> Result<Option<Transfer>> {
        self.next().by_key(rail, tenant, key).await
    }

    async fn trail(&self, id: TransferId) -> Result<Vec<TrailEntry>> {
        self.next().trail(id).await
    }

    async fn list(&self, filter: ListFilter) -> Result<Vec<Transfer>> {
        self.next().list(filter).await
    }

    async fn counts(&self) -> Result<Vec<(State, u64)>> {
        self.next().counts().await
    }

    async fn claim(&self, claims: Vec<(ClaimKey, TransferId)>) -> Result<Vec<Claimed>> {
        self.next().claim(claims).await
    }

    async fn kept(&self, keys: &[ClaimKey]) -> Result<Vec<bool>> {
        self.next().kept(keys).await
    }
}
