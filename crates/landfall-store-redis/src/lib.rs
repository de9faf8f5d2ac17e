//! The store on Redis 7: one Lua script per batch, so that a state change, its events, its indexes
//! and its claims are one atomic step, and the jobs of many callers go into one script.
//!
//! **What an answer means.** With `appendfsync always` Redis writes the effects of the scripts of
//! one turn of its event loop to the append-only file and syncs it *before* it sends the answers of
//! that turn (`beforeSleep` flushes the file, then serves pending writes; an answer that does not
//! fit the socket is held back by a barrier until the next flush). A script's effects are one
//! MULTI/EXEC there, and a file cut off inside one is loaded without it. If the file cannot be
//! written or synced Redis ends itself rather than answer. So an answer is a commit that survives
//! `kill -9` and power loss. Servers that promise less are refused unless accepted by name
//! ([`RedisOptions::accept_durability`]).
//!
//! **What a failover forgets.** Replication is asynchronous: a replica that is promoted lacks what
//! the primary acknowledged last, whatever the primary had synced. Nothing here waits for
//! replicas. The lanes' high-water marks notice it and halt (`landfall-lanes`); until an operator
//! adopts them nothing more is paid.
//!
//! **What a transfer costs.** See docs/redis.md for bytes and rates, measured.
//!
//! Keys and their layout: [`keys`]. Final transfers stay; removing them is not done here.
//! Not here: what a state means, when to retry, what a ledger says.

mod accept;
mod answer;
mod attempts;
mod claims;
mod codes;
mod facts;
mod fault;
mod gathered;
mod keys;
mod lanes;
mod link;
mod moves;
mod open;
mod reads;
mod script;
mod server;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

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

use crate::accept::Judged;
use crate::gathered::Gathered;
use crate::link::Link;
use crate::moves::Moved;

pub use crate::open::{FitServer, OpenError};
pub use crate::server::Refusal;

/// Which server, which environment, and how it is used.
#[derive(Clone)]
pub struct RedisOptions {
    /// `redis://[user:password@]host:port[/database]`, or `rediss://` for TLS. Never shown.
    pub url: String,
    /// Whom a `rediss://` server is vouched for by, in PEM; the system's own authorities if none.
    pub root_certificate: Option<Vec<u8>>,
    /// What the names of all keys begin with, before the environment.
    pub prefix: String,
    /// One store; several may live on one server.
    pub environment: String,
    /// Ways to forget that are put up with, by name: `no-aof`, `everysec`, `no-fsync`,
    /// `no-fsync-on-rewrite`, `unverified`. Empty: none.
    pub accept_durability: Vec<String>,
    /// After this a call has failed, whatever the server does.
    pub call_timeout: Duration,
    /// Jobs of several callers in one script. Beyond 100 nothing is gained.
    pub batch_max: usize,
    /// Scripts of one kind under way at once: while the server runs one, the next is on its way.
    pub flights: usize,
}

impl RedisOptions {
    pub fn new(url: impl Into<String>) -> RedisOptions {
        RedisOptions {
            url: url.into(),
            root_certificate: None,
            prefix: "landfall".into(),
            environment: "main".into(),
            accept_durability: Vec::new(),
            call_timeout: Duration::from_secs(5),
            batch_max: 100,
            flights: 3,
        }
    }
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("url", &"…")
            .field("root_certificate", &self.root_certificate.is_some())
            .field("prefix", &self.prefix)
            .field("environment", &self.environment)
            .field("accept_durability", &self.accept_durability)
            .field("call_timeout", &self.call_timeout)
            .field("batch_max", &self.batch_max)
            .field("flights", &self.flights)
            .finish()
    }
}

/// A store on a Redis server. Any number of processes may use one environment at once.
pub struct RedisStore {
    link: Arc<Link>,
    accepts: Gathered<Judged>,
    moves: Gathered<Moved>,
    claims: Gathered<Claimed>,
}

impl RedisStore {
    /// Connects, checks what the server promises, and makes the environment if it is new. Needs a
    /// runtime with time and I/O around it for as long as it lives.
    pub async fn open(options: RedisOptions) -> std::result::Result<RedisStore, OpenError> {
        let link = Arc::new(open::link(&options).await?);
        Ok(RedisStore {
            accepts: Gathered::start(&link, &options, accept::accept),
            moves: Gathered::start(&link, &options, moves::apply),
            claims: Gathered::start(&link, &options, claims::claim),
            link,
        })
    }
}

#[async_trait]
impl LaneStore for RedisStore {
    async fn identity(&self) -> Result<StoreIdentity> {
        self.read_identity().await
    }

    async fn open(&self, batch: Vec<OpenAttempt>) -> Result<Vec<Opened>> {
        self.open_batch(batch).await
    }

    async fn add_variant(&self, add: AddVariant) -> Result<Added> {
        self.add_one_variant(add).await
    }

    async fn settle(&self, settlement: Settlement) -> Result<Settled> {
        self.settle_attempt(settlement).await
    }

    async fn sight(&self, sight: Sight) -> Result<bool> {
        self.add_sight(sight).await
    }

    async fn open_attempts(&self, lane: &LaneId) -> Result<Vec<Attempt>> {
        self.open_of_lane(lane).await
    }

    async fn attempts_after(
        &self,
        lane: &LaneId,
        above: Nonce,
        limit: usize,
    ) -> Result<Vec<Attempt>> {
        self.after(lane, above, limit).await
    }

    async fn attempt(&self, id: AttemptId) -> Result<Option<Attempt>> {
        Ok(self.read_attempts(&[id]).await?.pop())
    }

    async fn attempt_at(&self, lane: &LaneId, nonce: Nonce) -> Result<Option<Attempt>> {
        self.at(lane, nonce).await
    }

    async fn transfers(&self, ids: &[TransferId]) -> Result<Vec<Transfer>> {
        self.read_transfers(ids).await
    }

    async fn lease(
        &self,
        lane: &LaneId,
        rail: RailName,
        holder: &str,
        ttl_ms: u64,
    ) -> Result<Leased> {
        self.lease_lane(lane, rail, holder, ttl_ms).await
    }

    async fn renew(&self, lanes: &[(LaneId, Epoch)], ttl_ms: u64) -> Result<Vec<bool>> {
        self.renew_leases(lanes, ttl_ms).await
    }

    async fn release(&self, lanes: &[(LaneId, Epoch)]) -> Result<()> {
        self.release_leases(lanes).await
    }

    async fn start_lane(&self, lane: &LaneId, epoch: Epoch, ledger_nonce: Nonce) -> Result<bool> {
        self.start(lane, epoch, ledger_nonce).await
    }

    async fn halt(&self, lane: &LaneId, reason: &str) -> Result<()> {
        self.halt_lane(lane, reason).await
    }

    async fn adopt(&self, lane: &LaneId, ledger_nonce: Nonce) -> Result<()> {
        self.adopt_lane(lane, ledger_nonce).await
    }

    async fn lanes(&self) -> Result<Vec<Lane>> {
        self.all_lanes().await
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn accept(&self, batch: Vec<NewTransfer>) -> Result<Vec<Accepted>> {
        self.accept_batch(batch).await
    }

    async fn apply(&self, moves: Vec<Move>) -> Result<AppliedBatch> {
        self.apply_moves(moves).await
    }

    async fn open_attempts_of(&self, rail: RailName) -> Result<Vec<Attempt>> {
        self.open_of_rail(rail).await
    }

    async fn attempt_of(&self, rail: RailName, hash: &str) -> Result<Option<Attempt>> {
        self.of_hash(rail, hash).await
    }

    async fn attempts_page(
        &self,
        rail: RailName,
        after: AttemptId,
        limit: usize,
    ) -> Result<Vec<Attempt>> {
        self.decided_page(rail, after, limit).await
    }

    async fn sweep(
        &self,
        stage: Stage,
        limit: usize,
        push_ms: u64,
        horizon_ms: u64,
    ) -> Result<Vec<TransferId>> {
        self.sweep_stage(stage, limit, (push_ms, horizon_ms)).await
    }

    async fn by_key(&self, rail: RailName, tenant: &str, key: &str) -> Result<Option<Transfer>> {
        self.find_key(rail, tenant, key).await
    }

    async fn trail(&self, id: TransferId) -> Result<Vec<TrailEntry>> {
        self.read_trail(id).await
    }

    async fn list(&self, filter: ListFilter) -> Result<Vec<Transfer>> {
        self.list_page(&filter).await
    }

    async fn counts(&self) -> Result<Vec<(State, u64)>> {
        self.count_states().await
    }

    async fn claim(&self, claims: Vec<(ClaimKey, TransferId)>) -> Result<Vec<Claimed>> {
        self.claim_all(claims).await
    }

    async fn kept(&self, keys: &[ClaimKey]) -> Result<Vec<bool>> {
        self.kept_marks(keys).await
    }
}
