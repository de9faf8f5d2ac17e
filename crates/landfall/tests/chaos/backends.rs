//! Three relays on one shared store: one of them is killed every second, and the store itself
//! twice.
//!
//! A soak (`cargo xtask soak backends`) is as rough as the test, only longer.
//!
//! The ledger is as lossy as for a single relay. Whatever happens, each payout is on the ledger
//! exactly once, and at least half of them get there meanwhile.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(feature = "sqs")]
use landfall_servers::{MariaDb, Sqs};
use landfall_servers::{Postgres, Redis, RedisOptions, Server};
use serde_json::json;

use crate::processes::{Client, Relay, Sim, machine, pause};
use crate::{
    KILLS, RECEIVERS, SETTLE, all_faults, assert_paid_exactly_once, black_out, kills, no_faults,
    payouts, receiver, submit_all,
};

const RELAYS: usize = 3;
/// Every so many kills the store is killed too: twice in a run of the usual length.
const STORE_KILL_EVERY: usize = KILLS / 3;

/// A server that can be killed from another thread.
pub type Killable = Arc<dyn Deref<Target = Server> + Send + Sync>;

/// A store, a queue, and what a relay must be told of them.
pub struct Topology {
    store: Killable,
    /// Lives as long as the test.
    _queue: Option<Killable>,
    urls: Vec<(&'static str, String)>,
}

impl Topology {
    fn new(store: Killable, urls: Vec<(&'static str, String)>) -> Topology {
        Topology { store, _queue: None, urls }
    }

    /// Redis and its streams.
    pub fn redis() -> Topology {
        let redis = redis();
        let urls = vec![("REDIS_URL", redis.url().to_owned())];
        Topology::new(Arc::new(redis), urls)
    }

    /// PostgreSQL alone.
    pub fn postgres() -> Topology {
        let postgres = postgres();
        let urls = vec![("DATABASE_URL", postgres.url().to_owned())];
        Topology::new(Arc::new(postgres), urls)
    }

    /// MariaDB and an SQS server.
    #[cfg(feature = "sqs")]
    pub fn mysql_and_sqs() -> Topology {
        let mysql = MariaDb::start().expect("MariaDB starts");
        let sqs = Sqs::start().expect("the SQS server starts");
        let urls = vec![
            ("DATABASE_URL", mysql.url().to_owned()),
            ("LANDFALL_QUEUE__URL", "sqs:".to_owned()),
            ("AWS_ENDPOINT_URL", sqs.url().to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "test".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
        ];
        let topology = Topology::new(Arc::new(mysql), urls);
        Topology { _queue: Some(Arc::new(sqs)), ..topology }
    }

    /// With one more thing that relays are told.
    #[cfg(feature = "sqs")]
    pub fn and(mut self, name: &'static str, text: &str) -> Topology {
        self.urls.push((name, text.to_owned()));
        self
    }

    #[cfg(feature = "sqs")]
    pub fn store(&self) -> Killable {
        self.store.clone()
    }

    /// PostgreSQL, and Redis for the hints.
    pub fn postgres_and_redis() -> Topology {
        let (postgres, redis) = (postgres(), redis());
        let urls = vec![
            ("DATABASE_URL", postgres.url().to_owned()),
            ("REDIS_URL", redis.url().to_owned()),
        ];
        Topology { _queue: Some(Arc::new(redis)), ..Topology::new(Arc::new(postgres), urls) }
    }

    /// What makes a relay one of several, with a name of its own. Leases are short, so that whoever
    /// dies is replaced soon.
    pub fn variables(&self, number: usize) -> Vec<(String, String)> {
        let own = [
            ("LANDFALL_INSTANCE__NAME", format!("relay-{number}")),
            ("LANDFALL_ENGINE__LEASE_MS", "2000".into()),
            ("LANDFALL_ENGINE__RENEW_MS", "500".into()),
            ("LANDFALL_STORE__TIMEOUT_MS", "2000".into()),
        ];
        let all = own.into_iter().chain(self.urls.iter().cloned());
        all.map(|(name, text)| (name.to_owned(), text)).collect()
    }

    fn relay(&self, sim: &Sim, number: usize) -> Relay {
        Relay::with(sim, self.variables(number))
    }

    /// kill -9, and a restart on the same data.
    pub async fn kill_store(&self) {
        kill(self.store.clone()).await;
    }
}

/// kill -9, and a restart on the same data.
pub async fn kill(server: Killable) {
    let killed = tokio::task::spawn_blocking(move || {
        server.kill()?;
        server.restart()
    });
    killed.await.expect("no panic").expect("the server starts again");
}

fn redis() -> Redis {
    Redis::start(RedisOptions::default()).expect("Redis starts")
}

fn postgres() -> Postgres {
    Postgres::start().expect("PostgreSQL starts")
}

async fn holds_on(topology: Topology) {
    let sim = Sim::start(3, 6, 100).await;
    let registered: Vec<String> = (0..RECEIVERS).step_by(2).map(receiver).collect();
    sim.post("/sim/register", json!({"account_ids": registered})).await;
    sim.post("/sim/faults", all_faults()).await;
    sim.post("/sim/faults", json!({"node": 2, "lag_blocks": 3})).await;
    let mut relays: Vec<Relay> = (0..RELAYS).map(|number| topology.relay(&sim, number)).collect();
    let migrated = relays[0].command("migrate").output().expect("migrate runs");
    assert!(migrated.status.success(), "{}", String::from_utf8_lossy(&migrated.stderr));
    relays.iter_mut().for_each(Relay::start);
    let client = Client::of(&relays);
    let black_outs = tokio::spawn(black_out(sim.clone()));
    let submitting = tokio::spawn(submit_all(client.clone()));

    for kill in 0..kills() {
        let victim = &mut relays[kill % RELAYS];
        victim.kill();
        victim.start();
        if kill > 0 && kill.is_multiple_of(STORE_KILL_EVERY) {
            topology.kill_store().await;
        }
        pause(Duration::from_secs(1)).await;
    }
    let completed_meanwhile = client.completed_eventually().await;
    black_outs.abort();
    sim.post("/sim/faults", no_faults()).await;
    submitting.await.expect("the client got every payout acknowledged");

    let deadline = Instant::now() + SETTLE;
    while client.completed_eventually().await < payouts() && Instant::now() < deadline {
        pause(Duration::from_millis(200)).await;
    }
    let unsettled = client.not_completed().await;
    let logs: Vec<String> = relays.iter().map(Relay::log_tail).collect();
    assert!(unsettled.is_empty(), "not completed: {unsettled:#?}\n{}", logs.join("\n---\n"));
    assert_paid_exactly_once(&sim).await;
    relays[0].assert_audit_is_clean();
    let payouts = payouts();
    println!("{completed_meanwhile} of {payouts} completed meanwhile");
    assert!(completed_meanwhile >= payouts / 2, "only {completed_meanwhile} completed meanwhile");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_relays_on_redis_and_its_streams_pay_exactly_once() {
    let _alone = machine().await;
    holds_on(Topology::redis()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_relays_on_postgres_alone_pay_exactly_once() {
    let _alone = machine().await;
    holds_on(Topology::postgres()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_relays_on_postgres_and_redis_streams_pay_exactly_once() {
    let _alone = machine().await;
    holds_on(Topology::postgres_and_redis()).await;
}

#[cfg(feature = "sqs")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_relays_on_mysql_and_sqs_pay_exactly_once() {
    let _alone = machine().await;
    holds_on(Topology::mysql_and_sqs()).await;
}
