//! Lanes by plain names on a real Redis, under the manager's own checks, and with a real process
//! that stands still in the middle of a send.

mod process;

use std::sync::Arc;

use landfall_conformance::exercise_executions_on_one_lane;
use landfall_core::store::LaneStore;
use landfall_core::{Clock, LaneId, RailName};
use landfall_lanes::{Executed, RecordStore, SystemClock};
use landfall_lanes_redis::{RedisLanes, RedisLanesOptions};
use landfall_servers::{Redis, RedisOptions as ServerOptions, witness};

use crate::process::{LEASE_MS, Process, ask, operator};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_transaction_manager_passes_its_checks_on_plain_redis() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let servers = std::sync::Mutex::new(Vec::new());
    let make = async || {
        let server = Redis::start(ServerOptions::default()).expect("a server");
        let mut options = RedisLanesOptions::new(server.url());
        options.has_streams = true;
        let store = RedisLanes::open(options, clock.clone()).await.expect("it opens");
        servers.lock().unwrap().push(server);
        (Arc::new(store) as Arc<dyn RecordStore>, LaneId::new("relay.near:ed25519:key"))
    };
    exercise_executions_on_one_lane(make, clock.clone()).await;
}

#[tokio::test]
async fn keys_have_the_names_that_are_written_down() {
    let server = Redis::start(ServerOptions::default()).expect("a server");
    let process = Process::start(server.url(), "one", true).await;
    assert!(matches!(process.execute("a").await, Ok(Executed::Done { .. })));
    let mut operator = operator(server.url()).await;
    let lane = process.ledger.lane();
    let nonce: u64 = ask(&mut operator, &["GET", &format!("txnonce:{lane}")]).await;
    assert_eq!(nonce, 1);
    let record: String = ask(&mut operator, &["GET", "txidem:a"]).await;
    let record: serde_json::Value = serde_json::from_str(&record).expect("JSON");
    assert_eq!((&record["status"], &record["txHash"]), (&"done".into(), &"lane/1/a".into()));
    let left_ms: u64 = ask(&mut operator, &["PTTL", "txidem:a"]).await;
    assert!(left_ms > 6 * 24 * 3_600_000, "final, it has a week: {left_ms}");
    let length: u64 = ask(&mut operator, &["XLEN", &format!("txq:{lane}")]).await;
    assert_eq!(length, 1);
    process.manager.abort().await;
    let clock = Arc::new(SystemClock::default());
    let store = RedisLanes::open(RedisLanesOptions::new(server.url()), clock).await.expect("open");
    let other = LaneId::new("relay.near:ed25519:other");
    store.lease(&other, RailName::Lanes, "two", LEASE_MS).await.expect("leased");
    let token: String = ask(&mut operator, &["GET", &format!("txlock:{other}")]).await;
    assert_eq!(token, "1:two");
    let left_ms: i64 = ask(&mut operator, &["PTTL", &format!("txlock:{other}")]).await;
    assert!((1..=LEASE_MS as i64).contains(&left_ms), "{left_ms}");
}

/// Two real processes. One is stopped in the middle of a send, for longer than its lock lives; the
/// other takes over, brings what was stored to its end, and goes on; then the first sends.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_process_that_is_paused_past_its_locks_time_in_a_send_changes_nothing() {
    let server = Redis::start(ServerOptions::default()).expect("a server");
    let url = server.url().to_owned();
    let runtime = tokio::runtime::Handle::current();
    let other = url.clone();
    let listening = tokio::task::spawn_blocking(move || {
        witness::hear::<String>("the_process_that_is_paused", &url, 1, 1, |child| {
            witness::pause(child);
            runtime.block_on(take_over(&other));
            witness::resume(child);
        })
    });
    let said = listening.await.expect("it is heard");
    assert_eq!(said, ["sending", "done lane/1/a", "done lane/3/c"]);
    let mut operator = operator(server.url()).await;
    let landed: Vec<String> = ask(&mut operator, &["LRANGE", "ledger", "0", "-1"]).await;
    assert_eq!(landed, ["lane/1/a", "lane/2/b", "lane/3/c"], "once each, in one order");
}

async fn take_over(url: &str) {
    let two = Process::start(url, "two", false).await;
    assert_eq!(two.execute("a").await, Ok(Executed::Done { hash: "lane/1/a".into() }));
    assert_eq!(two.execute("b").await, Ok(Executed::Done { hash: "lane/2/b".into() }));
    two.manager.stop(std::time::Duration::from_secs(10)).await;
    let mut operator = operator(url).await;
    let _: String = ask(&mut operator, &["SET", "go", "1"]).await;
}

/// Started once more by the test above; by itself it is nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_process_that_is_paused() {
    let Some((url, _)) = witness::called() else { return };
    let one = Process::start(&url, "one", true).await;
    for key in ["a", "c"] {
        match one.execute(key).await {
            Ok(Executed::Done { hash }) => witness::say(format!("done {hash}")),
            other => witness::say(format!("{other:?}")),
        }
    }
    // As whoever calls it expects.
    std::process::exit(1);
}
