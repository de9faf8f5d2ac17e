//! The store on MySQL 8 or MariaDB: many machines, one truth.
//!
//! Jobs of many callers go together (`landfall-gather`): a batch locks the rows it is about in one
//! round trip, is decided in memory, and is written and committed in another. Any number of
//! instances may do so at once; the locks of rows decide between them.
//! **Invariant:** an answer is given after the server's commit, and the server's settings, checked
//! on every connection, make that commit outlive `kill -9` and power cuts.
//! **Rule:** a transaction that meets another (deadlock, lock wait) is done again here; a
//! connection that is lost is `Unavailable`, and the next call makes a new one. Nothing waits much
//! longer than [`MysqlOptions::timeout`].
//! Not here: what a state means, when to retry, what a ledger says.

mod accept;
mod attempts;
mod claims;
mod codes;
mod connections;
mod counts;
mod fault;
mod lanes;
mod life;
mod migrations;
mod moves;
mod open;
mod reads;
pub mod sessions;
mod settings;
mod sql;
mod views;

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use landfall_core::attempt::Attempt;
use landfall_core::claim::{ClaimKey, Claimed};
use landfall_core::lane::Lane;
use landfall_core::store::{
    Accepted, AddVariant, Added, Applied, AppliedBatch, LaneStore, Leased, ListFilter, OpenAttempt,
    Opened, Result, Settled, Settlement, Sight, Store, StoreError, StoreIdentity,
};
use landfall_core::{
    AttemptId, Clock, Epoch, LaneId, Move, NewTransfer, Nonce, RailName, Stage, State, TrailEntry,
    Transfer, TransferId,
};
use landfall_gather::{Gather, Gone, Options, Refused};

use crate::attempts::{Decision, Opening, Seen};
use crate::codes::Codes;
use crate::connections::{Answer, Connections, take};
use crate::fault::{Done, corrupt, uint};
use crate::life::Identity;
use crate::open::Target;
use crate::sql::{SERVER_NOW, Script};

pub use crate::open::OpenError;

/// How the store uses the server.
#[derive(Clone)]
pub struct MysqlOptions {
    /// Most connections of this process to the server.
    pub connections: usize,
    /// Batches of one kind (accepting, moving, opening, settling) under way at once, each on a
    /// connection.
    pub flights: usize,
    /// Longest that a batch or a read waits for its answer; a call that waits for a batch before
    /// its own waits at most twice that.
    pub timeout: Duration,
    /// Longest that a statement waits for a lock before its transaction is done again. Shorter than
    /// `timeout`, so that what a lost connection was in the middle of is over soon.
    pub lock_wait: Duration,
    /// Encrypt, and check the server against the authorities that browsers know.
    pub tls: bool,
    /// Encrypt, and check the server against the authorities in this file as well (PEM).
    pub tls_ca: Option<PathBuf>,
    /// Settings of the server that may forget commits, and are accepted all the same, by name.
    pub accept_durability: Vec<String>,
    /// Bring the tables up to date when opening. If not, `landfall migrate` has to.
    pub migrate: bool,
    /// Time for tests. None is the server's own clock, the only one that instances share.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Default for MysqlOptions {
    fn default() -> MysqlOptions {
        MysqlOptions {
            // Two of each kind under way, and some for reads.
            connections: 12,
            flights: 2,
            timeout: Duration::from_secs(10),
            lock_wait: Duration::from_secs(4),
            tls: false,
            tls_ca: None,
            accept_durability: Vec::new(),
            migrate: true,
            clock: None,
        }
    }
}

/// New transfers, moves and claims that go together: enough to be worth a commit, short of a pause.
const BATCH_ROWS: usize = 500;
/// Attempts that go together. Each has up to 100 members.
const BATCH_ATTEMPTS: usize = 8;

type Calls<J, A> = Gather<J, Result<A>, StoreError>;

/// What all calls share.
pub(crate) struct Core {
    connections: Connections,
    codes: Codes,
    clock: Option<Arc<dyn Clock>>,
}

/// A store on a server. Its connections close with it.
pub struct MysqlStore {
    core: Arc<Core>,
    timeout: Duration,
    accepts: Calls<accept::Prepared, Accepted>,
    applies: Calls<moves::Prepared, (Applied, Vec<TransferId>)>,
    opens: Calls<Vec<Opening>, Vec<Opened>>,
    settles: Calls<Decision, Settled>,
    claims: Calls<(ClaimKey, TransferId), Claimed>,
}

impl MysqlStore {
    /// Opens the store in the database that `url` names (`mysql://user:password@host:port/name`).
    /// Needs a runtime around it for as long as the store lives.
    pub async fn open(
        url: &str,
        options: MysqlOptions,
    ) -> std::result::Result<MysqlStore, OpenError> {
        let target = Target::new(url, &options)?;
        let (identity, codes) = target.prepare(&options.accept_durability, options.migrate).await?;
        let rows = Options { batch_max: BATCH_ROWS, flights: options.flights };
        let attempts = Options { batch_max: BATCH_ATTEMPTS, ..rows };
        let MysqlOptions { connections, timeout, lock_wait, accept_durability, clock, .. } =
            options;
        let connections =
            Connections::new(target.options, connections, lock_wait, accept_durability);
        connections.insist_on(identity);
        let core = Arc::new(Core { connections, codes, clock });
        Ok(MysqlStore {
            accepts: gather(&core, timeout, rows, |core, jobs| each(core.accept(jobs))),
            applies: gather(&core, timeout, rows, |core, jobs| each(core.apply(jobs))),
            opens: gather(&core, timeout, attempts, |core, jobs| each(core.open(jobs))),
            settles: gather(&core, timeout, attempts, |core, jobs| Box::pin(core.settle(jobs))),
            claims: gather(&core, timeout, rows, |core, jobs| each(core.claim(jobs))),
            core,
            timeout,
        })
    }

    /// Brings the tables up to date, and does nothing else.
    pub async fn migrate(url: &str, options: MysqlOptions) -> std::result::Result<(), OpenError> {
        let target = Target::new(url, &options)?;
        target.prepare(&options.accept_durability, true).await.map(|_| ())
    }
}

/// A batch of jobs on its way: one answer per job, in order.
type Running<'a, A> = Pin<Box<dyn Future<Output = Done<Vec<Result<A>>>> + Send + 'a>>;

/// Every job of the batch was done, or none.
fn each<'a, A: 'a>(work: impl Future<Output = Done<Vec<A>>> + Send + 'a) -> Running<'a, A> {
    Box::pin(async { Ok(work.await?.into_iter().map(Ok).collect()) })
}

/// Gathers jobs. If a batch contradicts the rules, each of its jobs is done again alone, so that
/// one cannot spoil the others.
fn gather<J, A>(
    core: &Arc<Core>,
    timeout: Duration,
    options: Options,
    run: for<'a> fn(&'a Core, &'a [J]) -> Running<'a, A>,
) -> Calls<J, A>
where
    J: Send + Sync + 'static,
    A: Send + 'static,
{
    let core = core.clone();
    Gather::start(options, move |jobs: Vec<J>| {
        let core = core.clone();
        async move {
            let done = match within(timeout, run(&core, &jobs)).await {
                Err(StoreError::Corrupt(why)) if jobs.len() > 1 => {
                    tracing::warn!(why, jobs = jobs.len(), "a batch failed; doing each alone");
                    let mut answers = Vec::with_capacity(jobs.len());
                    for job in &jobs {
                        let alone = within(timeout, run(&core, std::slice::from_ref(job))).await;
                        answers.push(alone.and_then(|mut answers| answers.remove(0)));
                    }
                    return Ok(answers);
                }
                done => done?,
            };
            Ok(done)
        }
    })
}

/// Gives up on what takes too long; a connection that it was using is closed.
async fn within<T>(timeout: Duration, work: impl Future<Output = Done<T>>) -> Result<T> {
    match tokio::time::timeout(timeout, work).await {
        Ok(done) => done.map_err(StoreError::from),
        Err(_) => Err(StoreError::Unavailable(format!("no answer within {timeout:?}"))),
    }
}

/// The time that [`Core::say_now`] asked for.
pub(crate) fn now_from(answer: &mut Answer) -> Done<u64> {
    let row =
        answer.rows.first_mut().ok_or_else(|| corrupt("the server does not know the time"))?;
    uint(take(row, 0)?)
}

impl Core {
    /// The store's clock, as SQL.
    fn now_sql(&self) -> String {
        match &self.clock {
            Some(clock) => clock.now_ms().to_string(),
            None => SERVER_NOW.to_owned(),
        }
    }

    /// Asks for the store's time.
    fn say_now(&self, script: &mut Script) -> usize {
        let statement = script.say("SELECT ");
        script.text(&self.now_sql());
        statement
    }
}

impl MysqlStore {
    async fn read<T>(&self, work: impl Future<Output = Done<T>>) -> Result<T> {
        within(self.timeout, work).await
    }

    /// Has jobs done together with those of others.
    async fn call<J, A>(&self, calls: &Calls<J, A>, jobs: Vec<J>) -> Result<Vec<A>>
    where
        J: Send + 'static,
        A: Send + 'static,
    {
        let called = async { calls.call(jobs).await.map_err(|Gone| Refused::Gone) };
        self.within_two(called).await
    }

    /// Its batch and the one before it each end in time.
    async fn within_two<A>(
        &self,
        called: impl Future<Output = std::result::Result<Result<Vec<Result<A>>>, Refused>>,
    ) -> Result<Vec<A>> {
        let full = || StoreError::Unavailable("too much is waiting for the server".into());
        match tokio::time::timeout(self.timeout * 2, called).await {
            Ok(Ok(answers)) => answers?.into_iter().collect(),
            Ok(Err(Refused::Gone)) => Err(StoreError::Unavailable("the store is closed".into())),
            Ok(Err(Refused::Full)) | Err(_) => Err(full()),
        }
    }
}

fn one<A>(answers: Vec<A>) -> Result<A> {
    let lost = || StoreError::Unavailable("the answer was lost".into());
    answers.into_iter().next().ok_or_else(lost)
}

#[async_trait]
impl LaneStore for MysqlStore {
    /// Asked of the server every time: it may have been replaced.
    async fn identity(&self) -> Result<StoreIdentity> {
        let found = self.read(self.core.connections.identity()).await?;
        let gone = || StoreError::Corrupt("the database no longer holds a store".into());
        let Identity { id, incarnation } = found.ok_or_else(gone)?;
        Ok(StoreIdentity { id, incarnation, shared: true })
    }

    async fn open(&self, batch: Vec<OpenAttempt>) -> Result<Vec<Opened>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let batch = batch.into_iter().map(Opening::new).collect::<Done<Vec<_>>>()?;
        one(self.call(&self.opens, vec![batch]).await?)
    }

    async fn add_variant(&self, add: AddVariant) -> Result<Added> {
        self.read(self.core.add_variant(&add)).await
    }

    async fn settle(&self, settlement: Settlement) -> Result<Settled> {
        one(self.call(&self.settles, vec![Decision::new(settlement)?]).await?)
    }

    async fn sight(&self, sight: Sight) -> Result<bool> {
        sight.check()?;
        let seen = Seen::new(sight)?;
        self.read(self.core.sight(&seen)).await
    }

    async fn open_attempts(&self, lane: &LaneId) -> Result<Vec<Attempt>> {
        self.read(self.core.open_attempts(lane)).await
    }

    async fn attempts_after(
        &self,
        lane: &LaneId,
        above: Nonce,
        limit: usize,
    ) -> Result<Vec<Attempt>> {
        self.read(self.core.attempts_after(lane, above, limit)).await
    }

    async fn attempt(&self, id: AttemptId) -> Result<Option<Attempt>> {
        self.read(self.core.attempt(id)).await
    }

    async fn attempt_at(&self, lane: &LaneId, nonce: Nonce) -> Result<Option<Attempt>> {
        self.read(self.core.attempt_at(lane, nonce)).await
    }

    async fn transfers(&self, ids: &[TransferId]) -> Result<Vec<Transfer>> {
        self.read(self.core.transfers(ids)).await
    }

    async fn lease(
        &self,
        lane: &LaneId,
        rail: RailName,
        holder: &str,
        ttl_ms: u64,
    ) -> Result<Leased> {
        self.read(self.core.lease(lane, rail, holder, ttl_ms)).await
    }

    async fn renew(&self, lanes: &[(LaneId, Epoch)], ttl_ms: u64) -> Result<Vec<bool>> {
        self.read(self.core.renew(lanes, ttl_ms)).await
    }

    async fn release(&self, lanes: &[(LaneId, Epoch)]) -> Result<()> {
        self.read(self.core.release(lanes)).await
    }

    async fn start_lane(&self, lane: &LaneId, epoch: Epoch, ledger_nonce: Nonce) -> Result<bool> {
        self.read(self.core.start_lane(lane, epoch, ledger_nonce)).await
    }

    async fn halt(&self, lane: &LaneId, reason: &str) -> Result<()> {
        self.read(self.core.halt(lane, reason)).await
    }

    async fn adopt(&self, lane: &LaneId, ledger_nonce: Nonce) -> Result<()> {
        self.read(self.core.adopt(lane, ledger_nonce)).await
    }

    async fn lanes(&self) -> Result<Vec<Lane>> {
        self.read(self.core.lanes()).await
    }
}

#[async_trait]
impl Store for MysqlStore {
    async fn accept(&self, batch: Vec<NewTransfer>) -> Result<Vec<Accepted>> {
        let batch = batch.into_iter().map(accept::Prepared::new).collect::<Done<Vec<_>>>()?;
        // A client waits for it: better to be told at once than to stand in a long line.
        self.within_two(self.accepts.call_now(batch)).await
    }

    async fn apply(&self, moves: Vec<Move>) -> Result<AppliedBatch> {
        let mut batch = AppliedBatch::default();
        for (applied, released) in self.call(&self.applies, moves::Prepared::plain(moves)?).await? {
            batch.moves.push(applied);
            batch.released.extend(released);
        }
        Ok(batch)
    }

    async fn open_attempts_of(&self, rail: RailName) -> Result<Vec<Attempt>> {
        self.read(self.core.open_attempts_of(rail)).await
    }

    async fn attempt_of(&self, rail: RailName, hash: &str) -> Result<Option<Attempt>> {
        self.read(self.core.attempt_of(rail, hash)).await
    }

    async fn attempts_page(
        &self,
        rail: RailName,
        after: AttemptId,
        limit: usize,
    ) -> Result<Vec<Attempt>> {
        self.read(self.core.attempts_page(rail, after, limit)).await
    }

    async fn sweep(
        &self,
        stage: Stage,
        limit: usize,
        push_ms: u64,
        horizon_ms: u64,
    ) -> Result<Vec<TransferId>> {
        self.read(self.core.sweep(stage, limit, (push_ms, horizon_ms))).await
    }

    async fn by_key(&self, rail: RailName, tenant: &str, key: &str) -> Result<Option<Transfer>> {
        self.read(self.core.by_key(rail, tenant, key)).await
    }

    async fn trail(&self, id: TransferId) -> Result<Vec<TrailEntry>> {
        self.read(self.core.trail(id)).await
    }

    async fn list(&self, filter: ListFilter) -> Result<Vec<Transfer>> {
        self.read(self.core.list(&filter)).await
    }

    async fn counts(&self) -> Result<Vec<(State, u64)>> {
        self.read(self.core.counts()).await
    }

    async fn claim(&self, claims: Vec<(ClaimKey, TransferId)>) -> Result<Vec<Claimed>> {
        self.call(&self.claims, claims).await
    }

    async fn kept(&self, keys: &[ClaimKey]) -> Result<Vec<bool>> {
        self.read(self.core.kept(keys)).await
    }
}
