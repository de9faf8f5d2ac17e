//! The embedded store, the default: one file, no server.
//!
//! One thread writes ([`Writer`]): jobs of many callers go into one transaction, so one fsync
//! answers them all. Others read beside it ([`Readers`]). No file is touched on a caller's thread
//! once the store is open.
//! **Rule:** clients wait for acceptances, so those are urgent; all else is patient, or a block's
//! worth of settlements would hold up whoever is at the door.
//! **Invariant:** one process writes; a lock file beside the store refuses a second.
//! Not here: what a state means, when to retry, what a ledger says.

mod accept;
mod attempts;
mod claims;
mod codes;
mod fault;
mod lanes;
mod migrations;
mod moves;
mod open;
mod reads;
mod views;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use landfall_core::attempt::Attempt;
use landfall_core::claim::{ClaimKey, Claimed};
use landfall_core::lane::Lane;
use landfall_core::store::{
    Accepted, AddVariant, Added, AppliedBatch, LaneStore, Leased, ListFilter, OpenAttempt, Opened,
    Result, Settled, Settlement, Sight, Store, StoreError, StoreIdentity,
};
use landfall_core::{
    AttemptId, Clock, Epoch, LaneId, Move, NewTransfer, Nonce, RailName, Stage, State, TrailEntry,
    Transfer, TransferId,
};
use landfall_sqlite::{Keeper, Load, Readers, Writer};

use crate::attempts::{Decision, Opening, Seen};
use crate::codes::Codes;
use crate::fault::{Done, Fault, told};
use crate::reads::Reader;
use crate::writer::{StoreKeeper, Tx};

pub use crate::open::OpenError;

/// One process writes, and it cannot go back while it has the file open.
const INCARNATION: &str = "embedded";

/// How the store uses the machine.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// Threads that read beside the writer, each with a connection of its own.
    pub readers: usize,
    /// How long a connection waits for another process (a backup, an audit) to let go.
    pub busy_timeout: Duration,
}

impl Default for SqliteOptions {
    fn default() -> SqliteOptions {
        SqliteOptions { readers: 2, busy_timeout: Duration::from_secs(5) }
    }
}

/// A store in one file. Dropping it waits until what was asked is written and the file is closed.
pub struct SqliteStore {
    identity: String,
    // Before the writer, so that it goes first: the writer's close then empties the WAL.
    readers: Readers<Codes>,
    /// None if the file was opened to be read only.
    writer: Option<Writer<StoreKeeper>>,
}

impl SqliteStore {
    /// Opens the file, making it if there is none and bringing its schema up to date. Blocks.
    pub fn open(
        path: impl AsRef<Path>,
        clock: Arc<dyn Clock>,
        options: SqliteOptions,
    ) -> std::result::Result<SqliteStore, OpenError> {
        let path = path.as_ref();
        let lock = open::lock(path)?;
        let db = open::writer(path, options.busy_timeout)?;
        let (identity, codes) = open::facts(&db, path)?;
        let readers = start_readers(path, &codes, &options)?;
        let unavailable = |fault| unavailable(path, fault);
        let keeper = StoreKeeper::new(db, codes, clock).map_err(unavailable)?;
        let writer = Writer::start(keeper, lock).map_err(unavailable)?;
        Ok(SqliteStore { identity, readers, writer: Some(writer) })
    }

    /// Opens the file for audits while a relay may be writing to it; refuses every write. Blocks.
    pub fn open_read_only(
        path: impl AsRef<Path>,
        options: SqliteOptions,
    ) -> std::result::Result<SqliteStore, OpenError> {
        let path = path.as_ref();
        let db = open::reader(path, options.busy_timeout)?;
        let (identity, codes) = open::facts(&db, path)?;
        let readers = start_readers(path, &codes, &options)?;
        Ok(SqliteStore { identity, readers, writer: None })
    }

    async fn write<T: Send + 'static>(
        &self,
        load: Load,
        job: impl FnMut(&mut Tx<'_>) -> Done<T> + Send + 'static,
    ) -> Result<T> {
        let read_only = || StoreError::Unavailable("the store was opened to be read only".into());
        self.writer.as_ref().ok_or_else(read_only)?.call(load, job).await.map_err(told)
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Reader<'_>) -> Done<T> + Send + 'static,
    ) -> Result<T> {
        self.readers.call(move |db, codes| read(&Reader { db, codes })).await.map_err(told)
    }
}

fn start_readers(
    path: &Path,
    codes: &Codes,
    options: &SqliteOptions,
) -> std::result::Result<Readers<Codes>, OpenError> {
    let connections = (0..options.readers.max(1))
        .map(|_| open::reader(path, options.busy_timeout))
        .collect::<std::result::Result<Vec<_>, OpenError>>()?;
    Readers::start(StoreKeeper::NAME, connections, codes).map_err(|fault| unavailable(path, fault))
}

fn unavailable(path: &Path, fault: Fault) -> OpenError {
    OpenError::Unavailable { path: path.to_path_buf(), cause: told(fault).to_string() }
}

fn prepared<T>(work: Done<T>) -> Result<T> {
    work.map_err(told)
}

#[async_trait]
impl LaneStore for SqliteStore {
    async fn identity(&self) -> Result<StoreIdentity> {
        let (id, incarnation) = (self.identity.clone(), INCARNATION.to_owned());
        Ok(StoreIdentity { id, incarnation, shared: false })
    }

    async fn open(&self, batch: Vec<OpenAttempt>) -> Result<Vec<Opened>> {
        let batch: Vec<_> = prepared(batch.into_iter().map(Opening::new).collect::<Done<_>>())?;
        let load = Load::Patient(batch.iter().map(|opening| opening.moves.len()).sum());
        self.write(load, move |tx| tx.open(&batch)).await
    }

    async fn add_variant(&self, add: AddVariant) -> Result<Added> {
        self.write(Load::Patient(1), move |tx| tx.add_variant(&add)).await?
    }

    async fn settle(&self, settlement: Settlement) -> Result<Settled> {
        let decision = prepared(Decision::new(settlement))?;
        let load = Load::Patient(decision.moves.len());
        self.write(load, move |tx| tx.settle(&decision)).await?
    }

    async fn sight(&self, sight: Sight) -> Result<bool> {
        sight.check()?;
        let seen = prepared(Seen::new(sight))?;
        let load = Load::Patient(seen.moves.len());
        self.write(load, move |tx| tx.sight(&seen)).await
    }

    async fn open_attempts(&self, lane: &LaneId) -> Result<Vec<Attempt>> {
        let lane = lane.clone();
        self.read(move |reader| reader.open_attempts(&lane)).await
    }

    async fn attempts_after(
        &self,
        lane: &LaneId,
        above: Nonce,
        limit: usize,
    ) -> Result<Vec<Attempt>> {
        let lane = lane.clone();
        self.read(move |reader| reader.attempts_after(&lane, above, limit)).await
    }

    async fn attempt(&self, id: AttemptId) -> Result<Option<Attempt>> {
        self.read(move |reader| reader.attempt(id)).await
    }

    async fn attempt_at(&self, lane: &LaneId, nonce: Nonce) -> Result<Option<Attempt>> {
        let lane = lane.clone();
        self.read(move |reader| reader.attempt_at(&lane, nonce)).await
    }

    async fn transfers(&self, ids: &[TransferId]) -> Result<Vec<Transfer>> {
        let ids = ids.to_vec();
        self.read(move |reader| reader.transfers(&ids)).await
    }

    async fn lease(
        &self,
        lane: &LaneId,
        rail: RailName,
        holder: &str,
        ttl_ms: u64,
    ) -> Result<Leased> {
        let (lane, holder) = (lane.clone(), holder.to_owned());
        self.write(Load::Patient(1), move |tx| tx.lease(&lane, rail, &holder, ttl_ms)).await
    }

    async fn renew(&self, lanes: &[(LaneId, Epoch)], ttl_ms: u64) -> Result<Vec<bool>> {
        let lanes = lanes.to_vec();
        self.write(Load::Patient(1), move |tx| tx.renew(&lanes, ttl_ms)).await
    }

    async fn release(&self, lanes: &[(LaneId, Epoch)]) -> Result<()> {
        let lanes = lanes.to_vec();
        self.write(Load::Patient(1), move |tx| tx.release(&lanes)).await
    }

    async fn start_lane(&self, lane: &LaneId, epoch: Epoch, ledger_nonce: Nonce) -> Result<bool> {
        let lane = lane.clone();
        self.write(Load::Patient(1), move |tx| tx.start_lane(&lane, epoch, ledger_nonce)).await
    }

    async fn halt(&self, lane: &LaneId, reason: &str) -> Result<()> {
        let (lane, reason) = (lane.clone(), reason.to_owned());
        self.write(Load::Patient(1), move |tx| tx.halt(&lane, &reason)).await?
    }

    async fn adopt(&self, lane: &LaneId, ledger_nonce: Nonce) -> Result<()> {
        let lane = lane.clone();
        self.write(Load::Patient(1), move |tx| tx.adopt(&lane, ledger_nonce)).await?
    }

    async fn lanes(&self) -> Result<Vec<Lane>> {
        self.read(|reader| reader.lanes()).await
    }
}

#[async_trait]
impl Store for SqliteStore {
    /// A commit of its own: only that shows a disk that is full, or a writer that has died.
    async fn health(&self) -> Result<()> {
        self.write(Load::Patient(1), |tx| tx.touch()).await
    }

    async fn accept(&self, batch: Vec<NewTransfer>) -> Result<Vec<Accepted>> {
        let batch: Vec<_> =
            prepared(batch.into_iter().map(accept::Prepared::new).collect::<Done<_>>())?;
        let load = Load::Urgent(batch.len());
        self.write(load, move |tx| tx.accept(&batch)).await
    }

    async fn apply(&self, moves: Vec<Move>) -> Result<AppliedBatch> {
        let moves = prepared(moves::Prepared::plain(moves))?;
        let load = Load::Patient(moves.len());
        self.write(load, move |tx| tx.apply(&moves)).await
    }

    async fn open_attempts_of(&self, rail: RailName) -> Result<Vec<Attempt>> {
        self.read(move |reader| reader.open_attempts_of(rail)).await
    }

    async fn attempt_of(&self, rail: RailName, hash: &str) -> Result<Option<Attempt>> {
        let hash = hash.to_owned();
        self.read(move |reader| reader.attempt_of(rail, &hash)).await
    }

    async fn attempts_page(
        &self,
        rail: RailName,
        after: AttemptId,
        limit: usize,
    ) -> Result<Vec<Attempt>> {
        self.read(move |reader| reader.attempts_page(rail, after, limit)).await
    }

    async fn sweep(
        &self,
        stage: Stage,
        limit: usize,
        push_ms: u64,
        horizon_ms: u64,
    ) -> Result<Vec<TransferId>> {
        self.write(Load::Patient(1), move |tx| tx.sweep(stage, limit, (push_ms, horizon_ms))).await
    }

    async fn by_key(&self, rail: RailName, tenant: &str, key: &str) -> Result<Option<Transfer>> {
        let (tenant, key) = (tenant.to_owned(), key.to_owned());
        self.read(move |reader| reader.by_key(rail, &tenant, &key)).await
    }

    async fn trail(&self, id: TransferId) -> Result<Vec<TrailEntry>> {
        self.read(move |reader| reader.trail(id)).await
    }

    async fn list(&self, filter: ListFilter) -> Result<Vec<Transfer>> {
        self.read(move |reader| reader.list(&filter)).await
    }

    async fn counts(&self) -> Result<Vec<(State, u64)>> {
        self.read(|reader| reader.counts()).await
    }

    async fn claim(&self, claims: Vec<(ClaimKey, TransferId)>) -> Result<Vec<Claimed>> {
        let load = Load::Patient(claims.len());
        self.write(load, move |tx| tx.claim_all(&claims)).await
    }

    async fn kept(&self, keys: &[ClaimKey]) -> Result<Vec<bool>> {
        let keys = keys.to_vec();
        self.read(move |reader| reader.kept(&keys)).await
    }
}
