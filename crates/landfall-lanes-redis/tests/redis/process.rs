//! A process with a manager, and a ledger that several processes reach: a list on the same Redis,
//! in which everything is final at once, and a nonce that was passed never lands.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use landfall_core::attempt::{Landing, Outcome, Signed};
use landfall_core::ledger::{
    Broadcast, Later, Ledger, LedgerNonce, Look, Manner, Progress, RailError, Reach, Waiting,
};
use landfall_core::{Attempt, Clock, LaneId, Nonce, RailName};
use landfall_lanes::{
    Executed, FenceSigner, HighWater, LaneSettings, NotExecuted, SystemClock, TxManager, TxParts,
    TxSettings, Unwatched,
};
use landfall_lanes_redis::{RedisLanes, RedisLanesOptions};
use landfall_servers::witness;
use redis::FromRedisValue;
use redis::aio::MultiplexedConnection;

pub const LEASE_MS: u64 = 1_000;

const SEND: &str = "
if redis.call('LPOS', 'ledger', ARGV[1]) then return 1 end
local last = tonumber(redis.call('GET', 'ledger:nonce') or '0')
if tonumber(ARGV[2]) <= last then return 0 end
redis.call('RPUSH', 'ledger', ARGV[1])
redis.call('SET', 'ledger:nonce', ARGV[2])
return 1
";

pub async fn operator(url: &str) -> MultiplexedConnection {
    let client = redis::Client::open(url).expect("a URL");
    client.get_multiplexed_async_connection().await.expect("a connection")
}

pub async fn ask<T: FromRedisValue>(to: &mut MultiplexedConnection, words: &[&str]) -> T {
    let mut command = redis::Cmd::new();
    words.iter().for_each(|word| _ = command.arg(*word));
    command.query_async(to).await.expect("an answer")
}

pub struct SharedLedger {
    connection: MultiplexedConnection,
    /// Whether it says that it sends, and waits to be told to go on.
    is_held: bool,
}

impl SharedLedger {
    pub fn lane(&self) -> LaneId {
        LaneId::new("relay.near:ed25519:key")
    }

    async fn ask<T: FromRedisValue>(&self, words: &[&str]) -> T {
        ask(&mut self.connection.clone(), words).await
    }

    async fn last(&self) -> Nonce {
        Nonce(self.ask::<Option<u64>>(&["GET", "ledger:nonce"]).await.unwrap_or_default())
    }
}

#[async_trait]
impl Ledger for SharedLedger {
    fn name(&self) -> RailName {
        RailName::Near
    }

    fn manner(&self) -> Manner {
        Manner { look_ms: 20, pulse_ms: 20, rebroadcast_ms: 100, ..Manner::OVERTAKES }
    }

    fn lanes(&self) -> Vec<LaneId> {
        vec![self.lane()]
    }

    fn owns(&self, lane: &LaneId) -> bool {
        *lane == self.lane()
    }

    async fn broadcast(&self, attempt: &Attempt, _: u32) -> Broadcast {
        if self.is_held && self.ask::<u64>(&["EXISTS", "go"]).await == 0 {
            witness::say("sending");
            while self.ask::<u64>(&["EXISTS", "go"]).await == 0 {
                SystemClock::default().sleep(Duration::from_millis(10)).await;
            }
        }
        let nonce = attempt.nonce.to_string();
        let sent: u64 = self.ask(&["EVAL", SEND, "0", &attempt.hash, &nonce]).await;
        match sent {
            1 => Broadcast::Sent(None),
            _ => Broadcast::Unsure { cause: "InvalidNonce".into(), shortage: None },
        }
    }

    async fn look(&self, attempt: &Attempt, _: bool) -> Result<Look, RailError> {
        let at: Option<u64> = self.ask(&["LPOS", "ledger", &attempt.hash]).await;
        Ok(match at {
            Some(at) => Look::Landed(Landing {
                hash: None,
                block_height: at,
                block_hash: format!("block {at}"),
                outcomes: vec![Outcome::Done; attempt.members.len()],
            }),
            None => Look::Adrift { why: "in no block".into(), sightings: Vec::new() },
        })
    }

    async fn inquest(&self, attempt: &Attempt, _: &[Later]) -> Result<Look, RailError> {
        self.look(attempt, false).await
    }

    async fn nonce(&self, _: &LaneId) -> Result<Option<LedgerNonce>, RailError> {
        Ok(Some(LedgerNonce { nonce: self.last().await, final_height: 1 }))
    }

    async fn nonces(&self) -> Result<Vec<(LaneId, LedgerNonce)>, RailError> {
        let nonce = LedgerNonce { nonce: self.last().await, final_height: 1 };
        Ok(vec![(self.lane(), nonce)])
    }

    async fn pulse(&self, _: &[Waiting]) -> Result<Vec<Progress>, RailError> {
        let reach = Reach::UpTo(self.last().await);
        Ok(vec![Progress { lane: self.lane(), reach, is_final: true }])
    }
}

fn sign(nonce: Nonce, does: &str) -> Signed {
    let hash = format!("lane/{nonce}/{does}");
    Signed { bytes: hash.clone().into_bytes(), hash, base: None, expires_height: None }
}

struct Fences;

#[async_trait]
impl FenceSigner for Fences {
    async fn sign_fence(&self, _: &LaneId, nonce: Nonce) -> Result<Signed, RailError> {
        Ok(sign(nonce, ""))
    }
}

pub struct Process {
    pub manager: TxManager,
    pub ledger: Arc<SharedLedger>,
}

impl Process {
    /// `is_held` needs somebody who says `go`; where nobody pauses it, nothing is said.
    pub async fn start(url: &str, instance: &str, is_held: bool) -> Process {
        let is_held = is_held && witness::called().is_some();
        let ledger = Arc::new(SharedLedger { connection: operator(url).await, is_held });
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let options = RedisLanesOptions { has_streams: true, ..RedisLanesOptions::new(url) };
        let store = RedisLanes::open(options, clock.clone()).await.expect("it opens");
        let lanes = LaneSettings { lease_ms: LEASE_MS, renew_ms: 250, ..LaneSettings::default() };
        let manager = TxManager::start(TxParts {
            store: Arc::new(store),
            ledger: ledger.clone(),
            fences: Some(Arc::new(Fences)),
            clock,
            high_water: Arc::new(HighWater::in_memory()),
            settings: TxSettings { patience_ms: 300_000, lanes, ..TxSettings::default() },
            instance: instance.to_owned(),
            watch: Arc::new(Unwatched),
        });
        Process { manager: manager.await.expect("it starts"), ledger }
    }

    pub async fn execute(&self, key: &str) -> Result<Executed, NotExecuted> {
        let does = key.to_owned();
        let build = move |_: LaneId, nonce: Nonce| {
            let signed = sign(nonce, &does);
            async move { Ok(signed) }
        };
        self.manager.execute(self.ledger.lane(), key, key.as_bytes(), build).await
    }
}
