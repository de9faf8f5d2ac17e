//! The contract on a real socket: the transaction manager's own checks through it, and who is kept
//! out; the same of the Worker on real workerd.

mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use landfall_conformance::exercise_executions;
use landfall_core::store::{LaneStore, Leased};
use landfall_core::{Clock, Epoch, LaneId, Nonce, RailName};
use landfall_lanes::{RecordStore, SystemClock};
use landfall_lanes_http::{
    Asked, ID_HEADER, Lanes, LanesClient, SIGNATURE_HEADER, Secret, TIME_HEADER, router,
};
use landfall_store_memory::MemoryStore;
use landfall_store_sqlite::{SqliteOptions, SqliteStore};
use tokio::net::TcpListener;

const SECRET: &str = "a secret that our own servers share";

fn secret() -> Secret {
    Secret::new(SECRET).expect("long enough")
}

/// Serves a store on a port of its own; the space's address.
async fn serve(store: Arc<dyn RecordStore>, clock: Arc<dyn Clock>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its number");
    // Made here: what is sent from now on was sent after it was started.
    let routes = router(Lanes { store, clock, secrets: vec![secret()] });
    tokio::spawn(async move { axum::serve(listener, routes).await });
    format!("http://{address}/v1")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_transaction_manager_passes_its_checks_over_http() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let folder = tempfile::tempdir().expect("a folder");
    let stores = AtomicUsize::new(0);
    let make = async || {
        let number = stores.fetch_add(1, Ordering::Relaxed);
        let home = folder.path().join(number.to_string());
        std::fs::create_dir(&home).expect("a folder for each");
        let path = home.join("landfall.db");
        let store = SqliteStore::open(&path, clock.clone(), SqliteOptions::default());
        let base = serve(Arc::new(store.expect("a store that opens")), clock.clone()).await;
        let client = LanesClient::new(&base, secret(), clock.clone()).expect("an address");
        Arc::new(client) as Arc<dyn RecordStore>
    };
    exercise_executions(make, clock.clone()).await;
}

/// A memory store, served, and the client of it.
async fn small() -> (Arc<MemoryStore>, String, LanesClient) {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let store = Arc::new(MemoryStore::new(clock.clone()));
    let base = serve(store.clone(), clock.clone()).await;
    let client = LanesClient::new(&base, secret(), clock).expect("an address");
    (store, base, client)
}

/// The epoch under which it is had.
async fn leased(store: &dyn LaneStore, lane: &LaneId, rail: RailName) -> Epoch {
    match store.lease(lane, rail, "somebody", 60_000).await {
        Ok(Leased::Yours(lane)) => lane.epoch,
        other => panic!("not leased: {other:?}"),
    }
}

#[tokio::test]
async fn a_relays_own_lanes_are_not_reached() {
    let (store, _, client) = small().await;
    let (relays, ours) = (LaneId::new("near:mainnet:relay.near:a"), LaneId::new("relay.near:b"));
    leased(&*store, &relays, RailName::Near).await;
    assert!(client.lease(&relays, RailName::Lanes, "somebody", 1_000).await.is_err());
    assert!(client.halt(&relays, "because").await.is_err());
    assert!(client.adopt(&relays, Nonce(7)).await.is_err());
    leased(&client, &ours, RailName::Lanes).await;
    let seen: Vec<LaneId> = client.lanes().await.unwrap().into_iter().map(|lane| lane.id).collect();
    assert_eq!(seen, [ours]);
    let untouched = store.lanes().await.unwrap();
    assert!(untouched.iter().all(|lane| lane.halted.is_none()), "{untouched:?}");
}

/// One request by hand, to halt a lane; its status.
async fn ask(base: &str, by: &Secret, time_ms: u64, id: &str) -> u16 {
    let body = br#"{"lane":"relay.near:b","reason":"by hand"}"#;
    let url = reqwest::Url::parse(&format!("{base}/halt")).expect("an address");
    let asked = Asked { method: "POST", path: url.path(), time_ms, id, body };
    let proof = by.sign(&asked);
    let request = reqwest::Client::new()
        .post(url)
        .header(TIME_HEADER, proof.time_ms)
        .header(ID_HEADER, proof.id)
        .header(SIGNATURE_HEADER, proof.signature)
        .body(body.to_vec());
    request.send().await.expect("an answer").status().as_u16()
}

#[tokio::test]
async fn a_forged_and_a_replayed_request_are_refused() {
    let (_, base, client) = small().await;
    leased(&client, &LaneId::new("relay.near:b"), RailName::Lanes).await;
    let halted = async || client.lanes().await.unwrap()[0].halted.is_some();
    let now_ms = SystemClock::default().now_ms();
    let theirs = Secret::new("a secret that somebody has guessed at").unwrap();
    assert_eq!(ask(&base, &theirs, now_ms, "forged-0123456789").await, 401);
    assert_eq!(ask(&base, &secret(), now_ms - 60_000, "old-0123456789abcdef").await, 401);
    assert!(!halted().await, "nothing happened");
    assert_eq!(ask(&base, &secret(), now_ms, "ours-0123456789abcdef").await, 200);
    assert!(halted().await);
    assert_eq!(ask(&base, &secret(), now_ms, "ours-0123456789abcdef").await, 401);
    let bare = reqwest::Client::new().post(format!("{base}/lanes")).body("{}").send().await;
    assert_eq!(bare.expect("an answer").status().as_u16(), 401);
}
