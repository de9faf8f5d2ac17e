//! The Worker, on Cloudflare's own runtime: the manager's checks, kill -9, replays, alarms, and the
//! client in TypeScript.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::routing::post;
use axum::{Json, Router};
use landfall_conformance::exercise_executions_on_one_lane;
use landfall_core::attempt::Signed;
use landfall_core::execution::{Execution, State};
use landfall_core::store::{Accepted, LaneStore, OpenAttempt, Opened};
use landfall_core::{
    Attempt, Clock, Epoch, LaneId, NewTransfer, Nonce, Payload, Purpose, RailName, Transfer,
    machine,
};
use landfall_lanes::{RecordStore, SystemClock, record_opening};
use landfall_lanes_http::LanesClient;
use landfall_servers::{TypeScript, Workerd, node};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{SECRET, ask, leased, secret};

fn start(more: Value) -> Workerd {
    let mut variables = json!({ "LANES_SECRET": SECRET });
    if let (Some(all), Value::Object(more)) = (variables.as_object_mut(), more) {
        all.extend(more);
    }
    Workerd::tx_lane(&variables).expect("a Worker")
}

/// The space of one key of `relay.near`.
fn base(worker: &Workerd, key: &str) -> String {
    format!("{}/v1/relay.near/{key}", worker.url())
}

fn client(worker: &Workerd, key: &str) -> LanesClient {
    let clock = Arc::new(SystemClock::default());
    LanesClient::new(&base(worker, key), secret(), clock).expect("an address")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_transaction_manager_passes_its_checks_in_a_durable_object() {
    let worker = start(json!({}));
    let objects = AtomicUsize::new(0);
    let make = async || {
        let key = format!("key-{}", objects.fetch_add(1, Ordering::Relaxed));
        let store = Arc::new(client(&worker, &key)) as Arc<dyn RecordStore>;
        (store, LaneId::new(format!("relay.near:{key}")))
    };
    exercise_executions_on_one_lane(make, Arc::new(SystemClock::default())).await;
}

#[test]
fn the_typescript_client_passes_its_tests_on_the_worker() {
    let (worker, built) = (start(json!({})), TypeScript::compiled().expect("compiled"));
    let mut tests = Command::new(node().expect("node"));
    tests
        .args(["--test", "--test-force-exit"])
        .arg(built.root.join("clients/typescript/test/execute.test.mjs"));
    tests.env("LANES_URL", worker.url()).env("LANES_SECRET", SECRET);
    tests.env("LANES_SPACES", "object").env("LANES_CLIENT", &built.client);
    let output = tests.output().expect("node runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// A lane that is held and started.
async fn begin(store: &LanesClient, lane: &LaneId) -> Epoch {
    let epoch = leased(store, lane, RailName::Lanes).await;
    // False where an earlier life has started it.
    store.start_lane(lane, epoch, Nonce(0)).await.expect("started");
    epoch
}

async fn enter(store: &LanesClient, key: &str) -> Result<Transfer, String> {
    let payload = Payload::Lanes(Execution::of(key.as_bytes()));
    let (print, first) = (payload.fingerprint(), machine::State::Lanes(State::Queued));
    let scope = (String::new(), key.to_owned());
    let new = NewTransfer::begin(scope, print, payload, first, &[], 1).expect("it begins");
    match store.enter(new).await {
        Ok(Accepted::Created(record) | Accepted::Already(record)) => Ok(record),
        other => Err(format!("{other:?}")),
    }
}

/// Stores bytes of the record under the nonce, and sends nothing.
async fn open(
    store: &LanesClient,
    (lane, epoch, nonce): (&LaneId, Epoch, Nonce),
    record: &Transfer,
) -> Result<Attempt, String> {
    let hash = format!("0x{:064x}", nonce.0);
    let opened = OpenAttempt {
        rail: RailName::Lanes,
        lane: lane.clone(),
        epoch,
        nonce,
        purpose: Purpose::Pay,
        moves: vec![record_opening(record, &hash, 2).expect("it is queued")],
        signed: Signed { bytes: b"bytes".to_vec(), hash, base: None, expires_height: None },
        marks: Vec::new(),
        incarnation: store.identity().await.map_err(|error| error.to_string())?.incarnation,
        now_ms: 2,
    };
    match store.open_attempt(opened).await {
        Ok(Opened::Stored(attempt)) => Ok(*attempt),
        other => Err(format!("{other:?}")),
    }
}

/// Stores one after the other until nobody answers; what was answered.
async fn work(store: &LanesClient, lane: &LaneId, run: usize) -> Vec<(Transfer, Attempt)> {
    let epoch = begin(store, lane).await;
    let next = store.lanes().await.expect("lanes")[0].next_nonce.expect("it is started");
    let mut answered = Vec::new();
    for number in next.0.. {
        let Ok(record) = enter(store, &format!("run {run} key {number}")).await else { break };
        let at = (lane, epoch, Nonce(number));
        let Ok(attempt) = open(store, at, &record).await else { break };
        answered.push((record, attempt));
    }
    answered
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn kill_9_of_workerd_loses_nothing_that_was_answered() {
    let worker = Arc::new(start(json!({})));
    let lane = LaneId::new("relay.near:key");
    let mut answered = Vec::new();
    for run in 0..3 {
        let store = Arc::new(client(&worker, "key"));
        let working = {
            let (store, lane) = (store.clone(), lane.clone());
            tokio::spawn(async move { work(&store, &lane, run).await })
        };
        let before = answered.len() as u64;
        let clock = SystemClock::default();
        // Killed in the middle of work, not before it.
        while store.open_attempts(&lane).await.map_or(0, |open| open.len() as u64) < before + 10 {
            clock.sleep(Duration::from_millis(5)).await;
        }
        let killed = worker.clone();
        tokio::task::spawn_blocking(move || killed.kill()).await.unwrap().expect("killed");
        answered.extend(working.await.expect("it works until it is killed"));
        let started = worker.clone();
        tokio::task::spawn_blocking(move || started.restart()).await.unwrap().expect("started");
        for (record, attempt) in &answered {
            let found = store.attempt_at(&lane, attempt.nonce).await.expect("an answer");
            assert_eq!(found.as_ref(), Some(attempt));
            let kept = store.record(&record.key).await.expect("an answer").expect("it is there");
            assert_eq!((kept.id, kept.attempt), (record.id, Some(attempt.id)));
        }
        let stored = store.open_attempts(&lane).await.expect("an answer").len();
        // One may be stored whose answer was lost.
        assert!((answered.len()..=answered.len() + run + 1).contains(&stored), "{stored}");
    }
}

#[tokio::test]
async fn a_forged_and_a_replayed_request_are_refused_by_the_worker_after_a_crash_too() {
    let worker = Arc::new(start(json!({})));
    let (base, store) = (base(&worker, "b"), client(&worker, "b"));
    leased(&store, &LaneId::new("relay.near:b"), RailName::Lanes).await;
    let now_ms = SystemClock::default().now_ms();
    let theirs = landfall_lanes_http::Secret::new("a secret that somebody has guessed at").unwrap();
    assert_eq!(ask(&base, &theirs, now_ms, "forged-0123456789").await, 401);
    assert!(store.lanes().await.unwrap()[0].halted.is_none(), "nothing happened");
    assert_eq!(ask(&base, &secret(), now_ms, "ours-0123456789abcdef").await, 200);
    assert_eq!(ask(&base, &secret(), now_ms, "ours-0123456789abcdef").await, 401);
    let again = worker.clone();
    tokio::task::spawn_blocking(move || again.restart()).await.unwrap().expect("started");
    assert_eq!(ask(&base, &secret(), now_ms, "ours-0123456789abcdef").await, 401);
    let other = format!("{}/v1/relay.near/c", worker.url());
    assert_eq!(ask(&other, &secret(), now_ms, "other-0123456789abcdef").await, 400);
}

/// A node of an EVM chain that has whatever was sent to it in its one block, final; its address,
/// and what was sent.
async fn chain() -> (String, Arc<Mutex<Vec<Value>>>) {
    let sent: Arc<Mutex<Vec<Value>>> = Arc::default();
    let kept = sent.clone();
    let answer = move |Json(asked): Json<Value>| {
        let result = match asked["method"].as_str() {
            Some("eth_sendRawTransaction") => {
                kept.lock().push(asked["params"][0].clone());
                json!("0x1")
            }
            Some("eth_getTransactionReceipt") if !kept.lock().is_empty() => {
                json!({ "blockNumber": "0x7", "blockHash": "0xseven", "status": "0x1" })
            }
            Some("eth_getBlockByNumber") => json!({ "number": "0x9", "hash": "0xseven" }),
            _ => Value::Null,
        };
        async move { Json(json!({ "jsonrpc": "2.0", "id": 1, "result": result })) }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its number");
    let routes = Router::new().route("/", post(answer));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (format!("http://{address}"), sent)
}

/// Its bytes are stored and its process dies: nobody comes back for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_alarm_sends_what_is_stuck_and_settles_what_has_landed() {
    let (rpc, sent) = chain().await;
    let worker = start(json!({ "LEDGER": "evm", "LEDGER_RPC": rpc, "STUCK_MS": "100" }));
    let (store, lane) = (client(&worker, "key"), LaneId::new("relay.near:key"));
    let epoch = begin(&store, &lane).await;
    let record = enter(&store, "a").await.expect("recorded");
    let attempt = open(&store, (&lane, epoch, Nonce(1)), &record).await.expect("stored");
    let clock = SystemClock::default();
    let done = machine::State::Lanes(State::Done);
    loop {
        let record = store.record("a").await.expect("an answer").expect("it is there");
        if record.state == done {
            assert_eq!(record.tx_hash, Some(attempt.hash));
            break;
        }
        assert_eq!(record.state, machine::State::Lanes(State::Inflight));
        clock.sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(sent.lock().first(), Some(&json!("0x6279746573")), "the same bytes");
    assert_eq!(store.open_attempts(&lane).await, Ok(Vec::new()));
}
