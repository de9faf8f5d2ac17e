//! The reference store: everything in memory, under one lock.
//!
//! Simple and obviously right, so that other stores can be compared with it and the simulator can
//! run on it. Deterministic: ids are sequential, every walk is in key order, and the identity is
//! given by the caller.
//! **Rule:** every operation checks everything before it changes anything.
//! Not here: durability. It forgets with the process, and nobody is paid from it.

mod accept;
mod attempts;
mod claims;
mod lanes;
mod moves;
mod reads;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use landfall_core::attempt::Attempt;
use landfall_core::claim::{ClaimKey, Claimed};
use landfall_core::lane::Lane;
use landfall_core::store::{
    Accepted, AddVariant, Added, AppliedBatch, LaneStore, Leased, ListFilter, OpenAttempt, Opened,
    Result, Settled, Settlement, Sight, Store, StoreIdentity,
};
use landfall_core::{
    AttemptId, Clock, Epoch, LaneId, Move, NewTransfer, Nonce, RailName, Stage, State, TrailEntry,
    Transfer, TransferId,
};
use parking_lot::Mutex;

use crate::claims::Claim;

/// The identity of a store whose maker did not name it.
const DEFAULT_IDENTITY: &str = "memory";

/// Scope and text of an idempotency key.
type Key = (RailName, String, String);

/// The whole state, in key order throughout.
#[derive(Debug, Clone, Default)]
struct Tables {
    transfers: BTreeMap<TransferId, Transfer>,
    trails: BTreeMap<TransferId, Vec<TrailEntry>>,
    keys: BTreeMap<Key, TransferId>,
    newest_forgotten: TransferId,
    attempts: BTreeMap<AttemptId, Attempt>,
    lanes: BTreeMap<LaneId, Lane>,
    claims: BTreeMap<ClaimKey, Claim>,
}

/// Everything a [`MemoryStore`] knew at one moment: its backup.
#[derive(Debug, Clone)]
pub struct Snapshot(Tables);

/// A store that lives as long as its process.
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    identity: String,
    shared: bool,
    /// Grows when it goes back.
    lives: AtomicU64,
    tables: Mutex<Tables>,
}

impl MemoryStore {
    pub fn new(clock: Arc<dyn Clock>) -> MemoryStore {
        MemoryStore::with_identity(clock, DEFAULT_IDENTITY)
    }

    /// An empty store that is told apart from others by `identity`.
    pub fn with_identity(clock: Arc<dyn Clock>, identity: impl Into<String>) -> MemoryStore {
        MemoryStore {
            clock,
            identity: identity.into(),
            shared: false,
            lives: AtomicU64::new(1),
            tables: Mutex::default(),
        }
    }

    /// The same for a world in which it stands for a server that several instances use.
    pub fn shared(self) -> MemoryStore {
        MemoryStore { shared: true, ..self }
    }

    /// A backup of the whole state.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.tables.lock().clone())
    }

    /// Goes back to a backup, forgetting what came after it, as a server does that is restarted
    /// from one: the identity stays, the incarnation is another.
    pub fn restore(&self, snapshot: Snapshot) {
        let mut tables = self.tables.lock();
        self.lives.fetch_add(1, Ordering::Relaxed);
        *tables = snapshot.0;
    }

    /// The same without another incarnation: a backup that is played into the running server.
    pub fn restore_in_place(&self, snapshot: Snapshot) {
        *self.tables.lock() = snapshot.0;
    }

    fn incarnation(&self) -> String {
        self.lives.load(Ordering::Relaxed).to_string()
    }
}

#[async_trait]
impl LaneStore for MemoryStore {
    async fn identity(&self) -> Result<StoreIdentity> {
        let (id, incarnation) = (self.identity.clone(), self.incarnation());
        Ok(StoreIdentity { id, incarnation, shared: self.shared })
    }

    async fn open(&self, batch: Vec<OpenAttempt>) -> Result<Vec<Opened>> {
        let mut tables = self.tables.lock();
        let (incarnation, now_ms) = (self.incarnation(), self.clock.now_ms());
        let open = |one| tables.open_attempt(one, &incarnation, now_ms);
        Ok(batch.into_iter().map(open).collect())
    }

    async fn add_variant(&self, add: AddVariant) -> Result<Added> {
        self.tables.lock().add_variant(&add, &self.incarnation())
    }

    async fn settle(&self, settlement: Settlement) -> Result<Settled> {
        self.tables.lock().settle(settlement, self.clock.now_ms())
    }

    async fn sight(&self, sight: Sight) -> Result<bool> {
        sight.check()?;
        Ok(self.tables.lock().sight(sight, self.clock.now_ms()))
    }

    async fn open_attempts(&self, lane: &LaneId) -> Result<Vec<Attempt>> {
        Ok(self.tables.lock().open_attempts(lane))
    }

    async fn attempts_after(
        &self,
        lane: &LaneId,
        above: Nonce,
        limit: usize,
    ) -> Result<Vec<Attempt>> {
        Ok(self.tables.lock().attempts_after(lane, above, limit))
    }

    async fn attempt(&self, id: AttemptId) -> Result<Option<Attempt>> {
        Ok(self.tables.lock().attempts.get(&id).cloned())
    }

    async fn attempt_at(&self, lane: &LaneId, nonce: Nonce) -> Result<Option<Attempt>> {
        Ok(self.tables.lock().attempt_at(lane, nonce))
    }

    async fn transfers(&self, ids: &[TransferId]) -> Result<Vec<Transfer>> {
        let tables = self.tables.lock();
        Ok(ids.iter().filter_map(|id| tables.transfers.get(id)).cloned().collect())
    }

    async fn lease(
        &self,
        lane: &LaneId,
        rail: RailName,
        holder: &str,
        ttl_ms: u64,
    ) -> Result<Leased> {
        Ok(self.tables.lock().lease(lane, rail, holder, ttl_ms, self.clock.now_ms()))
    }

    async fn renew(&self, lanes: &[(LaneId, Epoch)], ttl_ms: u64) -> Result<Vec<bool>> {
        Ok(self.tables.lock().renew(lanes, ttl_ms, self.clock.now_ms()))
    }

    async fn release(&self, lanes: &[(LaneId, Epoch)]) -> Result<()> {
        self.tables.lock().release(lanes);
        Ok(())
    }

    async fn start_lane(&self, lane: &LaneId, epoch: Epoch, ledger_nonce: Nonce) -> Result<bool> {
        Ok(self.tables.lock().start_lane(lane, epoch, ledger_nonce))
    }

    async fn halt(&self, lane: &LaneId, reason: &str) -> Result<()> {
        self.tables.lock().halt(lane, reason, self.clock.now_ms())
    }

    async fn adopt(&self, lane: &LaneId, ledger_nonce: Nonce) -> Result<()> {
        self.tables.lock().adopt(lane, ledger_nonce, self.clock.now_ms())
    }

    async fn lanes(&self) -> Result<Vec<Lane>> {
        Ok(self.tables.lock().lanes.values().cloned().collect())
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn accept(&self, batch: Vec<NewTransfer>) -> Result<Vec<Accepted>> {
        Ok(self.tables.lock().accept(batch))
    }

    async fn apply(&self, moves: Vec<Move>) -> Result<AppliedBatch> {
        self.tables.lock().apply(&moves, self.clock.now_ms())
    }

    async fn open_attempts_of(&self, rail: RailName) -> Result<Vec<Attempt>> {
        Ok(self.tables.lock().open_attempts_of(rail))
    }

    async fn attempt_of(&self, rail: RailName, hash: &str) -> Result<Option<Attempt>> {
        Ok(self.tables.lock().attempt_of(rail, hash))
    }

    async fn attempts_page(
        &self,
        rail: RailName,
        after: AttemptId,
        limit: usize,
    ) -> Result<Vec<Attempt>> {
        Ok(self.tables.lock().attempts_page(rail, after, limit))
    }

    async fn sweep(
        &self,
        stage: Stage,
        limit: usize,
        push_ms: u64,
        horizon_ms: u64,
    ) -> Result<Vec<TransferId>> {
        let now_ms = self.clock.now_ms();
        Ok(self.tables.lock().sweep(stage, limit, (push_ms, horizon_ms), now_ms))
    }

    async fn by_key(&self, rail: RailName, tenant: &str, key: &str) -> Result<Option<Transfer>> {
        Ok(self.tables.lock().by_key(&(rail, tenant.to_owned(), key.to_owned())).cloned())
    }

    async fn trail(&self, id: TransferId) -> Result<Vec<TrailEntry>> {
        Ok(self.tables.lock().trails.get(&id).cloned().unwrap_or_default())
    }

    async fn list(&self, filter: ListFilter) -> Result<Vec<Transfer>> {
        Ok(self.tables.lock().list(&filter))
    }

    async fn counts(&self) -> Result<Vec<(State, u64)>> {
        Ok(self.tables.lock().counts())
    }

    async fn claim(&self, claims: Vec<(ClaimKey, TransferId)>) -> Result<Vec<Claimed>> {
        let mut tables = self.tables.lock();
        Ok(claims.into_iter().map(|(key, asker)| tables.claim(key, asker)).collect())
    }

    async fn kept(&self, keys: &[ClaimKey]) -> Result<Vec<bool>> {
        let tables = self.tables.lock();
        let is_kept = |key| matches!(tables.claims.get(key), Some(Claim::Kept { .. }));
        Ok(keys.iter().map(is_kept).collect())
    }

    async fn forget(&self, rail: RailName, before_ms: u64, limit: usize) -> Result<usize> {
        Ok(self.tables.lock().forget(rail, before_ms, limit))
    }
}
