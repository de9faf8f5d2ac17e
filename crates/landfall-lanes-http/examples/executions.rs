//! How fast the transaction manager is on one backend, with so many keys: a line of JSON.
//!
//! `cargo run --release -p landfall-lanes-http --example executions -- BACKEND KEYS SECONDS`, where
//! BACKEND is memory, sqlite, redis, plain-redis, postgres, http or worker. Starts what it needs.

use std::sync::Arc;
use std::time::Duration;

use landfall_conformance::lifecycles::{Space, executions};
use landfall_core::{Clock, LaneId};
use landfall_lanes::{RecordStore, SystemClock};
use landfall_lanes_http::{Lanes, LanesClient, Secret, router};
use landfall_lanes_redis::{RedisLanes, RedisLanesOptions};
use landfall_servers::{Postgres, Redis, RedisOptions as ServerOptions, Workerd};
use landfall_store_memory::MemoryStore;
use landfall_store_postgres::{PostgresOptions, PostgresStore};
use landfall_store_redis::{RedisOptions, RedisStore};
use landfall_store_sqlite::{SqliteOptions, SqliteStore};
use serde_json::json;

const SECRET: &str = "a secret that only this benchmark has";

/// What has to live as long as the run, and what is measured.
struct Backend {
    _alive: Box<dyn std::any::Any>,
    spaces: Vec<Space>,
}

impl Backend {
    fn one(alive: impl std::any::Any, store: impl RecordStore, keys: usize) -> Backend {
        let lanes = (0..keys).map(|key| LaneId::new(format!("relay.near:key-{key}"))).collect();
        Backend { _alive: Box::new(alive), spaces: vec![(Arc::new(store), lanes)] }
    }
}

fn sqlite(clock: &Arc<dyn Clock>) -> (tempfile::TempDir, SqliteStore) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("landfall.db");
    let store = SqliteStore::open(&path, clock.clone(), SqliteOptions::default());
    (folder, store.expect("a store"))
}

async fn start(name: &str, keys: usize, clock: &Arc<dyn Clock>) -> Backend {
    let secret = || Secret::new(SECRET).expect("long enough");
    let redis = || Redis::start(ServerOptions::default()).expect("a server");
    match name {
        "memory" => Backend::one((), MemoryStore::new(clock.clone()), keys),
        "sqlite" => {
            let (folder, store) = sqlite(clock);
            Backend::one(folder, store, keys)
        }
        "redis" => {
            let server = redis();
            let store = RedisStore::open(RedisOptions::new(server.url())).await.expect("a store");
            Backend::one(server, store, keys)
        }
        "plain-redis" => {
            let server = redis();
            let options = RedisLanesOptions::new(server.url());
            let store = RedisLanes::open(options, clock.clone()).await.expect("a store");
            Backend::one(server, store, keys)
        }
        "postgres" => {
            let server = Postgres::start().expect("a server");
            let store = PostgresStore::open(server.url(), PostgresOptions::default()).await;
            Backend::one(server, store.expect("a store"), keys)
        }
        "http" => {
            let (folder, store) = sqlite(clock);
            let (store, clock) = (Arc::new(store), clock.clone());
            let routes = router(Lanes { store, clock: clock.clone(), secrets: vec![secret()] });
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("its number");
            tokio::spawn(async move { axum::serve(listener, routes).await });
            let client = LanesClient::new(&format!("http://{address}/v1"), secret(), clock);
            Backend::one(folder, client.expect("an address"), keys)
        }
        "worker" => {
            let worker = Workerd::tx_lane(&json!({ "LANES_SECRET": SECRET })).expect("a Worker");
            let space = |key: usize| {
                let base = format!("{}/v1/relay.near/key-{key}", worker.url());
                let client = LanesClient::new(&base, secret(), clock.clone());
                let lane = LaneId::new(format!("relay.near:key-{key}"));
                (Arc::new(client.expect("an address")) as Arc<dyn RecordStore>, vec![lane])
            };
            let spaces = (0..keys).map(space).collect();
            Backend { _alive: Box::new(worker), spaces }
        }
        other => panic!("{other} is no backend"),
    }
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().expect("BACKEND");
    let keys = arguments.next().and_then(|text| text.parse().ok()).expect("KEYS");
    let seconds = arguments.next().and_then(|text| text.parse().ok()).expect("SECONDS");
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let Backend { _alive, spaces } = start(&name, keys, &clock).await;
    let measured = executions(spaces, clock, Duration::from_secs(seconds)).await;
    let ms = |duration: Duration| (duration.as_secs_f64() * 1e5).round() / 100.0;
    let line = json!({
        "backend": name,
        "keys": keys,
        "executes_per_s": measured.busy.transfers_per_s.round(),
        "added_p50_ms": ms(measured.calm.p50),
        "added_p99_ms": ms(measured.calm.p99),
    });
    println!("{line}");
}
