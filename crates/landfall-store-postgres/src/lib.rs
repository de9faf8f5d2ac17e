//! PostgreSQL as the truth, for many machines: any number of instances write at once.
//!
//! Many callers, few round trips: what is asked while a batch is under way goes together in the
//! next ([`landfall_gather`]), one statement per table with the rows as arrays. What one writer
//! gives SQLite for free is held by row locks here; `writer` says how, and why that is enough.
//! **Invariant:** a session whose commits the server might forget is not used (`connections`).
//! Not here: what a state means, when to retry, what a ledger says. A connection pooler that hands
//! each transaction to another session (PgBouncer's transaction mode) does not work with it:
//! sessions are set up once.

mod accept;
mod attempts;
mod claims;
mod codes;
mod connections;
mod fault;
mod lanes;
mod migrations;
mod moves;
mod open;
mod reads;
pub mod sessions;
mod tls;
mod views;
mod writer;

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
    AttemptId, Epoch, LaneId, Move, NewTransfer, Nonce, RailName, Stage, State, TrailEntry,
    Transfer, TransferId,
};
use landfall_gather::{Gather, Options, Refused};

use crate::accept::Accepting;
use crate::attempts::{Decision, Opening, Seen};
use crate::claims::Asking;
use crate::codes::Codes;
use crate::connections::Connections;
use crate::fault::{Done, text};
use crate::writer::{Answer, Batch, Job};

pub use crate::open::OpenError;

/// Jobs in one batch. An accepted or moved transfer is one; an attempt, which moves up to a
/// hundred, is one too. Larger batches gain nothing and make everybody in them wait longer.
const BATCH_ROWS: usize = 1_000;
const BATCH_ATTEMPTS: usize = 16;

/// How the store uses the server.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// The schema that holds the tables. Stores of several environments can share a database.
    pub schema: String,
    /// Most connections at once.
    pub connections: usize,
    /// Batches of one kind (accepting, moving, attempts) under way at once, each on a connection.
    pub flights: usize,
    /// How long one statement may take, and about how long a call that gets no answer.
    pub timeout: Duration,
    /// Whether opening brings an older schema up to date; else it is refused.
    pub migrate: bool,
    /// Settings of the server that make it forget, accepted by name: `fsync`, `full_page_writes`,
    /// `synchronous_commit`.
    pub accept_durability: Vec<String>,
}

impl Default for PostgresOptions {
    fn default() -> PostgresOptions {
        PostgresOptions {
            schema: "landfall".into(),
            // Two of each kind under way, and as many for reads.
            connections: 12,
            flights: 2,
            timeout: Duration::from_secs(10),
            migrate: true,
            accept_durability: Vec::new(),
        }
    }
}

/// What batches and reads share.
struct Shared {
    connections: Connections,
    codes: Codes,
}

type Gathered<J> = Gather<J, Result<<J as Gatherable>::Answer>, StoreError>;

/// A store on a PostgreSQL server. Reconnects by itself.
pub struct PostgresStore {
    shared: Arc<Shared>,
    accepting: Gathered<accept::Prepared>,
    moving: Gathered<Job>,
    /// Apart from the moves: they are larger, and lanes wait for them.
    carrying: Gathered<Job>,
    claiming: Gathered<(ClaimKey, TransferId)>,
}

impl PostgresStore {
    /// Connects, checks the server, and brings the schema up to date if the options say so.
    pub async fn open(
        url: &str,
        options: PostgresOptions,
    ) -> std::result::Result<PostgresStore, OpenError> {
        let open::Opened { maker, codes } = open::open(url, &options).await?;
        let connections = Connections::new(maker, options.connections)
            .map_err(|cause| OpenError::Address { cause })?;
        let shared = Arc::new(Shared { connections, codes });
        Ok(PostgresStore {
            accepting: gather(&shared, BATCH_ROWS, options.flights),
            moving: gather(&shared, BATCH_ROWS, options.flights),
            carrying: gather(&shared, BATCH_ATTEMPTS, options.flights),
            claiming: gather(&shared, BATCH_ROWS, 1),
            shared,
        })
    }

    /// Brings the schema up to date and does nothing else.
    pub async fn migrate(
        url: &str,
        options: PostgresOptions,
    ) -> std::result::Result<(), OpenError> {
        open::open(url, &PostgresOptions { migrate: true, ..options }).await.map(|_| ())
    }

    fn connections(&self) -> &Connections {
        &self.shared.connections
    }

    async fn job(&self, gathered: &Gathered<Job>, job: Done<Job>) -> Result<Answer> {
        let mut answers = asked(gathered, vec![job?]).await?;
        answers.pop().ok_or_else(lost)
    }
}

/// A job that goes together with those of other callers.
trait Gatherable: Sized + Send + Sync + 'static {
    type Answer: Send + 'static;

    /// One commit for all, one answer for each, in order.
    fn together(
        shared: &Shared,
        jobs: &[Self],
    ) -> impl Future<Output = Result<Vec<Self::Answer>>> + Send;
}

impl Gatherable for accept::Prepared {
    type Answer = Accepted;

    async fn together(shared: &Shared, batch: &[Self]) -> Result<Vec<Accepted>> {
        shared.connections.transact(&Accepting { batch, codes: &shared.codes }).await
    }
}

impl Gatherable for Job {
    type Answer = Answer;

    async fn together(shared: &Shared, jobs: &[Self]) -> Result<Vec<Answer>> {
        shared.connections.transact(&Batch { jobs, codes: &shared.codes }).await
    }
}

impl Gatherable for (ClaimKey, TransferId) {
    type Answer = Claimed;

    async fn together(shared: &Shared, claims: &[Self]) -> Result<Vec<Claimed>> {
        shared.connections.transact(&Asking { claims }).await
    }
}

fn gather<J: Gatherable>(shared: &Arc<Shared>, batch_max: usize, flights: usize) -> Gathered<J> {
    let shared = shared.clone();
    Gather::start(Options { batch_max, flights }, move |jobs: Vec<J>| {
        let shared = shared.clone();
        async move { run(&shared, jobs).await }
    })
}

/// A job that the database cannot take must not spoil it for the others: then each is done alone.
async fn run<J: Gatherable>(shared: &Shared, jobs: Vec<J>) -> Result<Vec<Result<J::Answer>>> {
    match J::together(shared, &jobs).await {
        Ok(answers) => Ok(answers.into_iter().map(Ok).collect()),
        Err(StoreError::Corrupt(error)) if jobs.len() > 1 => {
            tracing::warn!(%error, jobs = jobs.len(), "a batch failed; doing each alone");
            let mut answers = Vec::with_capacity(jobs.len());
            for job in &jobs {
                let alone = J::together(shared, std::slice::from_ref(job)).await;
                answers.push(alone.and_then(|mut answer| answer.pop().ok_or_else(lost)));
            }
            Ok(answers)
        }
        Err(error) => Err(error),
    }
}

async fn asked<J: Gatherable>(gathered: &Gathered<J>, jobs: Vec<J>) -> Result<Vec<J::Answer>> {
    let answers = gathered.call(jobs).await.map_err(|_| lost())??;
    answers.into_iter().collect()
}

fn refused(why: Refused) -> StoreError {
    match why {
        Refused::Full => StoreError::Unavailable("too much is waiting for the database".into()),
        Refused::Gone => lost(),
    }
}

fn lost() -> StoreError {
    StoreError::Unavailable("the store was closed, or a batch ended without an answer".into())
}

#[async_trait]
impl LaneStore for PostgresStore {
    async fn identity(&self) -> Result<StoreIdentity> {
        self.connections().identity().await
    }

    async fn open(&self, batch: Vec<OpenAttempt>) -> Result<Vec<Opened>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let batch = batch.into_iter().map(Opening::new).collect::<Done<_>>();
        match self.job(&self.carrying, batch.map(Job::Open)).await? {
            Answer::Opened(opened) => Ok(opened),
            _ => Err(lost()),
        }
    }

    async fn add_variant(&self, add: AddVariant) -> Result<Added> {
        match self.job(&self.carrying, Ok(Job::Vary(Box::new(add)))).await? {
            Answer::Varied(added) => added,
            _ => Err(lost()),
        }
    }

    async fn settle(&self, settlement: Settlement) -> Result<Settled> {
        let decision = Decision::new(settlement).map(|decision| Job::Settle(Box::new(decision)));
        match self.job(&self.carrying, decision).await? {
            Answer::Settled(settled) => settled,
            _ => Err(lost()),
        }
    }

    async fn sight(&self, sight: Sight) -> Result<bool> {
        sight.check()?;
        let seen = Seen::new(sight).map(|seen| Job::Sight(Box::new(seen)));
        match self.job(&self.carrying, seen).await? {
            Answer::Sighted(is_wanted) => Ok(is_wanted),
            _ => Err(lost()),
        }
    }

    async fn open_attempts(&self, lane: &LaneId) -> Result<Vec<Attempt>> {
        self.connections().open_attempts(lane).await
    }

    async fn attempts_after(
        &self,
        lane: &LaneId,
        above: Nonce,
        limit: usize,
    ) -> Result<Vec<Attempt>> {
        self.connections().attempts_after(lane, above, limit).await
    }

    async fn attempt(&self, id: AttemptId) -> Result<Option<Attempt>> {
        self.connections().attempt(id).await
    }

    async fn attempt_at(&self, lane: &LaneId, nonce: Nonce) -> Result<Option<Attempt>> {
        self.connections().attempt_at(lane, nonce).await
    }

    async fn transfers(&self, ids: &[TransferId]) -> Result<Vec<Transfer>> {
        self.connections().transfers(&self.shared.codes, ids).await
    }

    async fn lease(
        &self,
        lane: &LaneId,
        rail: RailName,
        holder: &str,
        ttl_ms: u64,
    ) -> Result<Leased> {
        self.connections().lease(lane, rail, holder, ttl_ms).await
    }

    async fn renew(&self, lanes: &[(LaneId, Epoch)], ttl_ms: u64) -> Result<Vec<bool>> {
        self.connections().renew(lanes, ttl_ms).await
    }

    async fn release(&self, lanes: &[(LaneId, Epoch)]) -> Result<()> {
        self.connections().release(lanes).await
    }

    async fn start_lane(&self, lane: &LaneId, epoch: Epoch, ledger_nonce: Nonce) -> Result<bool> {
        self.connections().start_lane(lane, epoch, ledger_nonce).await
    }

    async fn halt(&self, lane: &LaneId, reason: &str) -> Result<()> {
        self.connections().halt(lane, reason).await
    }

    async fn adopt(&self, lane: &LaneId, ledger_nonce: Nonce) -> Result<()> {
        self.connections().adopt(lane, ledger_nonce).await
    }

    async fn lanes(&self) -> Result<Vec<Lane>> {
        self.connections().lanes().await
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn accept(&self, batch: Vec<NewTransfer>) -> Result<Vec<Accepted>> {
        let batch = batch.into_iter().map(accept::Prepared::new).collect::<Done<Vec<_>>>()?;
        // A client waits for it: better to be told at once than to stand in a long line.
        let answers = self.accepting.call_now(batch).await.map_err(refused)??;
        answers.into_iter().collect()
    }

    async fn apply(&self, moves: Vec<Move>) -> Result<AppliedBatch> {
        if moves.is_empty() {
            return Ok(AppliedBatch::default());
        }
        match self.job(&self.moving, moves::Prepared::plain(moves).map(Job::Apply)).await? {
            Answer::Applied(batch) => Ok(batch),
            _ => Err(lost()),
        }
    }

    async fn open_attempts_of(&self, rail: RailName) -> Result<Vec<Attempt>> {
        self.connections().open_attempts_of(rail).await
    }

    async fn attempt_of(&self, rail: RailName, hash: &str) -> Result<Option<Attempt>> {
        self.connections().attempt_of(rail, hash).await
    }

    async fn attempts_page(
        &self,
        rail: RailName,
        after: AttemptId,
        limit: usize,
    ) -> Result<Vec<Attempt>> {
        self.connections().attempts_page(rail, after, limit).await
    }

    async fn sweep(
        &self,
        stage: Stage,
        limit: usize,
        push_ms: u64,
        horizon_ms: u64,
    ) -> Result<Vec<TransferId>> {
        self.connections().sweep(&self.shared.codes, stage, limit, (push_ms, horizon_ms)).await
    }

    async fn by_key(&self, rail: RailName, tenant: &str, key: &str) -> Result<Option<Transfer>> {
        self.connections().by_key(&self.shared.codes, rail, tenant, key).await
    }

    async fn trail(&self, id: TransferId) -> Result<Vec<TrailEntry>> {
        self.connections().trail(id).await
    }

    async fn list(&self, filter: ListFilter) -> Result<Vec<Transfer>> {
        self.connections().list(&self.shared.codes, &filter).await
    }

    async fn counts(&self) -> Result<Vec<(State, u64)>> {
        self.connections().counts(&self.shared.codes).await
    }

    async fn claim(&self, claims: Vec<(ClaimKey, TransferId)>) -> Result<Vec<Claimed>> {
        asked(&self.claiming, claims).await
    }

    async fn kept(&self, keys: &[ClaimKey]) -> Result<Vec<bool>> {
        let (spaces, keys): (Vec<String>, Vec<String>) =
            keys.iter().map(|key| (text(&key.space), text(&key.key))).unzip();
        let rows = self.connections().query(claims::KEPT, &[&spaces, &keys]).await?;
        Ok(rows.iter().map(|row| fault::get(row, 0)).collect::<Done<_>>()?)
    }
}
