//! Lanes and idempotency records on a Redis of your own, under names that other tools can read: for
//! whoever has a Redis and wants no more of it than a lock, a nonce and a record.
//!
//! ```text
//!  txlock:{lane}      the token of who holds it, EPOCH:HOLDER   lives as long as the lease
//!  txnonce:{lane}     the last nonce that was stored            for ever
//!  txidem:{key}       the record: status (queued, inflight,     for ever until it is final,
//!                     done, failed), txHash, outcome, updatedAt then retention_ms
//!  txq:{lane}         a stream, if it is wanted: which key was  the newest 10,000
//!                     signed for, in which order
//!  txlane:{lane}      epoch, count of signatures, halt          for ever
//!  txattempt:{lane}:{nonce}                                     for ever: they explain the
//!                     what was signed, what became of it        ledger's nonces
//!  txlanes, txattempts:{lane}, txopen:{lane}, txattemptid:{id}, txrecord:{id}, txids, txstore
//!                     where to find these, and which numbers were given
//! ```
//!
//! **Invariant:** whatever changes is written by one script, which first compares everything that
//! the decision was made from, the lock's token included: a process that slept past its lock's time
//! writes nothing, and two that decide at once are one and a repeat. The rules themselves are those
//! of `landfall_core::opening`.
//! **Rule:** a server that may forget what it has answered is refused, as `landfall-store-redis`
//! does.
//! Not here: a relay's transfers (`landfall-store-redis` keeps those, and lanes as well).

mod attempts;
mod lanes;
mod names;
mod records;
mod server;

use std::sync::Arc;

use async_trait::async_trait;
use landfall_core::store::{
    Accepted, AddVariant, Added, LaneStore, Leased, OpenAttempt, Opened, Result, Settled,
    Settlement, Sight, StoreIdentity,
};
use landfall_core::{
    Attempt, AttemptId, Clock, Epoch, Lane, LaneId, NewTransfer, Nonce, RailName, Transfer,
    TransferId,
};
use landfall_lanes::RecordStore;
use landfall_store_redis::{OpenError, RedisOptions};

use crate::server::Server;

/// How records are kept.
#[derive(Debug, Clone)]
pub struct RedisLanesOptions {
    /// The server; prefix and environment are not used: the names are as they are.
    pub server: RedisOptions,
    /// How long a record is kept after it is final; longer than any client retries.
    pub retention_ms: u64,
    /// Whether each lane has its stream, `txq:{lane}`.
    pub has_streams: bool,
}

impl RedisLanesOptions {
    /// A week, and no streams.
    pub fn new(url: impl Into<String>) -> RedisLanesOptions {
        let server = RedisOptions::new(url);
        RedisLanesOptions { server, retention_ms: 7 * 24 * 3_600_000, has_streams: false }
    }
}

/// Lanes and records on a Redis server. Any number of processes may use one at once.
pub struct RedisLanes {
    server: Server,
    clock: Arc<dyn Clock>,
    retention_ms: u64,
    has_streams: bool,
}

impl RedisLanes {
    /// Connects, and checks what the server promises.
    pub async fn open(
        options: RedisLanesOptions,
        clock: Arc<dyn Clock>,
    ) -> std::result::Result<RedisLanes, OpenError> {
        let RedisLanesOptions { server, retention_ms, has_streams } = options;
        let server = Server::connect(&server).await?;
        Ok(RedisLanes { server, clock, retention_ms, has_streams })
    }
}

#[async_trait]
impl LaneStore for RedisLanes {
    async fn identity(&self) -> Result<StoreIdentity> {
        self.server.identity().await
    }

    async fn open(&self, batch: Vec<OpenAttempt>) -> Result<Vec<Opened>> {
        let mut answers = Vec::with_capacity(batch.len());
        for open in batch {
            answers.push(self.open_one(open).await?);
        }
        Ok(answers)
    }

    async fn add_variant(&self, add: AddVariant) -> Result<Added> {
        self.vary(add).await
    }

    async fn settle(&self, settlement: Settlement) -> Result<Settled> {
        self.decide(settlement).await
    }

    async fn sight(&self, sight: Sight) -> Result<bool> {
        self.note(sight).await
    }

    async fn open_attempts(&self, lane: &LaneId) -> Result<Vec<Attempt>> {
        self.listed(&names::open(lane), None, usize::MAX).await
    }

    async fn attempts_after(
        &self,
        lane: &LaneId,
        above: Nonce,
        limit: usize,
    ) -> Result<Vec<Attempt>> {
        self.listed(&names::attempts(lane), Some(above), limit).await
    }

    async fn attempt(&self, id: AttemptId) -> Result<Option<Attempt>> {
        Ok(self.attempt_by_id(id).await?.map(|kept| kept.value.into()))
    }

    async fn attempt_at(&self, lane: &LaneId, nonce: Nonce) -> Result<Option<Attempt>> {
        let kept = self.attempt_by_name(names::attempt(lane, nonce)).await?;
        Ok(kept.map(|kept| kept.value.into()))
    }

    async fn transfers(&self, ids: &[TransferId]) -> Result<Vec<Transfer>> {
        let mut found = Vec::new();
        for id in ids {
            if let Some(kept) = self.record_by_id(*id).await? {
                found.push(kept.value.transfer()?);
            }
        }
        Ok(found)
    }

    async fn lease(
        &self,
        lane: &LaneId,
        _rail: RailName,
        holder: &str,
        ttl_ms: u64,
    ) -> Result<Leased> {
        self.take(lane, holder, ttl_ms).await
    }

    async fn renew(&self, lanes: &[(LaneId, Epoch)], ttl_ms: u64) -> Result<Vec<bool>> {
        let mut renewed = Vec::with_capacity(lanes.len());
        for (lane, epoch) in lanes {
            renewed.push(self.prolong(lane, *epoch, ttl_ms).await?);
        }
        Ok(renewed)
    }

    async fn release(&self, lanes: &[(LaneId, Epoch)]) -> Result<()> {
        for (lane, epoch) in lanes {
            self.give_back(lane, *epoch).await?;
        }
        Ok(())
    }

    async fn start_lane(&self, lane: &LaneId, epoch: Epoch, ledger_nonce: Nonce) -> Result<bool> {
        self.begin(lane, epoch, ledger_nonce).await
    }

    async fn halt(&self, lane: &LaneId, reason: &str) -> Result<()> {
        self.stop(lane, reason).await
    }

    async fn adopt(&self, lane: &LaneId, ledger_nonce: Nonce) -> Result<()> {
        self.go_on(lane, ledger_nonce).await
    }

    async fn lanes(&self) -> Result<Vec<Lane>> {
        self.all_lanes().await
    }
}

#[async_trait]
impl RecordStore for RedisLanes {
    async fn enter(&self, new: NewTransfer) -> Result<Accepted> {
        self.record_new(new).await
    }

    async fn record(&self, key: &str) -> Result<Option<Transfer>> {
        let kept = self.record_by_key(key).await?;
        kept.map(|kept| kept.value.transfer()).transpose()
    }

    /// The server forgets them by itself.
    async fn forget_records(&self, _before_ms: u64, _limit: usize) -> Result<usize> {
        Ok(0)
    }
}
