//! Servers that go away for a while under a running relay, which is never restarted.

use std::time::{Duration, Instant};

use landfall_servers::{Postgres, Redis, RedisOptions};
use serde_json::json;

use crate::world::{Relay, Simulator, ask, get, request, wait_for};

/// How long a server is away: several times the store's timeout, and longer than a lease.
const AWAY: Duration = Duration::from_secs(5);
const PAYOUTS: usize = 40;

struct World {
    simulator: Simulator,
    folder: tempfile::TempDir,
}

fn world() -> World {
    let folder = tempfile::tempdir().expect("a folder");
    let simulator = Simulator::start(folder.path(), &["--keys", "2", "--block-ms", "100"]);
    World { simulator, folder }
}

impl World {
    fn relay(&self, store: &str) -> Relay {
        let mut relay = Relay::shared(&self.simulator, self.folder.path(), "relay", store);
        relay.set("LANDFALL_STORE__TIMEOUT_MS", "1000");
        relay
    }

    fn assert_paid_once(&self, keys: usize) {
        let paid = self.simulator.paid();
        assert!(paid.len() == keys && paid.values().all(|times| *times == 1), "{paid:?}");
    }
}

/// One try: the status, and how long to wait if it says so.
fn submit(relay: &Relay, key: &str) -> (u16, Option<u64>) {
    let body = json!({"receiver_id": "alice.near", "amount": "1", "memo": key}).to_string();
    let url = format!("{}/transfer", relay.url);
    let (status, head, _) =
        ask("POST", &url, &[("X-Idempotency-Key", key)], &body).expect("an answer");
    let wait =
        head.lines().find_map(|line| line.strip_prefix("retry-after: ")?.trim().parse().ok());
    (status, wait)
}

/// Asks all the time; each time it is told to come back.
fn refused_for_a_while(relay: &Relay, key: &str) {
    let begun = Instant::now();
    wait_for("the outage to last", || {
        let (status, wait) = submit(relay, key);
        assert_eq!(status, 503);
        assert!(wait.is_some_and(|seconds| (1..=60).contains(&seconds)), "{wait:?}");
        (begun.elapsed() > AWAY).then_some(())
    });
}

/// Tasks of the relay that died and were started again.
fn deaths(relay: &Relay) -> u64 {
    let (_, metrics) = request("GET", &format!("{}/metrics", relay.url), &[], "").expect("answers");
    let metrics = metrics.as_str().expect("text").to_owned();
    let lines = metrics.lines().filter(|line| line.starts_with("landfall_task_restarts"));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[test]
fn while_the_store_is_down_submissions_are_refused_for_now_and_go_on_by_themselves() {
    let world = world();
    let postgres = Postgres::start().expect("PostgreSQL starts");
    let relay = world.relay(postgres.url());
    let process = relay.serve();
    relay.until_ready();
    relay.pay("one", "alice.near", 1);
    relay.completed("one");

    postgres.kill().expect("killed");
    refused_for_a_while(&relay, "two");
    let (status, health) =
        request("GET", &format!("{}/health", relay.url), &[], "").expect("it lives");
    assert_eq!((status, &health["store"]["status"]), (503, &json!("unavailable")), "{health}");

    postgres.restart().expect("it starts again");
    relay.pay("two", "alice.near", 1);
    relay.completed("two");
    wait_for("health", || get(&format!("{}/health", relay.url)));
    assert_eq!(deaths(&relay), 0);
    world.assert_paid_once(2);
    assert_eq!(process.terminate(), Some(0));
}

#[test]
fn while_only_the_queue_is_down_payouts_are_taken_and_paid() {
    let world = world();
    let postgres = Postgres::start().expect("PostgreSQL starts");
    let redis = Redis::start(RedisOptions::default()).expect("Redis starts");
    let mut relay = world.relay(postgres.url());
    relay.set("LANDFALL_QUEUE__URL", redis.url());
    let process = relay.serve();
    relay.until_ready();
    relay.pay("before", "alice.near", 1);
    relay.completed("before");

    redis.kill().expect("killed");
    for n in 0..PAYOUTS {
        let (status, _) = submit(&relay, &format!("without-{n}"));
        assert_eq!(status, 201, "the store has it");
    }
    for n in 0..PAYOUTS {
        relay.completed(&format!("without-{n}"));
    }
    redis.restart().expect("it starts again");
    relay.pay("after", "alice.near", 1);
    relay.completed("after");
    assert_eq!(deaths(&relay), 0);
    world.assert_paid_once(PAYOUTS + 2);
    assert_eq!(process.terminate(), Some(0));
}

#[test]
fn a_redis_that_stalls_for_seconds_kills_no_worker() {
    let world = world();
    let redis = Redis::start(RedisOptions::default()).expect("Redis starts");
    let mut relay = world.relay(redis.url());
    relay.set("LANDFALL_QUEUE__URL", redis.url());
    let process = relay.serve();
    relay.until_ready();
    for n in 0..PAYOUTS {
        relay.pay(&format!("before-{n}"), "alice.near", 1);
    }
    redis.pause().expect("stopped");
    refused_for_a_while(&relay, "meanwhile");
    redis.resume().expect("goes on");
    for n in 0..PAYOUTS {
        relay.completed(&format!("before-{n}"));
    }
    relay.pay("meanwhile", "alice.near", 1);
    relay.completed("meanwhile");
    assert_eq!(deaths(&relay), 0);
    world.assert_paid_once(PAYOUTS + 1);
    assert_eq!(process.terminate(), Some(0));
}
