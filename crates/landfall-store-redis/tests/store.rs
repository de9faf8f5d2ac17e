//! The Redis store, under the checks that every store passes, and what only a server can suffer.

mod clock;
mod crash;
mod earlier;
mod layout;
mod opening;
mod outage;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use landfall_conformance::{World, exercise_executions, exercise_store};
use landfall_core::store::Store;
use landfall_lanes::{RecordStore, SystemClock};
use landfall_servers::{Redis, RedisOptions as ServerOptions};
use landfall_store_redis::{RedisOptions, RedisStore};
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;

use crate::clock::ServerTime;

fn server() -> Redis {
    Redis::start(ServerOptions::default()).expect("a server")
}

async fn world(options: RedisOptions) -> World {
    let store = RedisStore::open(options).await.expect("a store that opens");
    World { store: Arc::new(store), time: Arc::new(ServerTime) }
}

/// How long the operator waits for an answer: a busy disk syncs late.
const PATIENCE: Duration = Duration::from_secs(60);

/// An operator's connection to the server.
async fn operator(server: &Redis) -> MultiplexedConnection {
    let client = redis::Client::open(server.url()).expect("a URL");
    let patient = AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
    client.get_multiplexed_async_connection_with_config(&patient).await.expect("a connection")
}

/// Has the operator run a command, given in words.
async fn run(connection: &mut MultiplexedConnection, words: &str) -> redis::Value {
    let mut command = redis::Cmd::new();
    for word in words.split(' ') {
        command.arg(word);
    }
    command.query_async(connection).await.expect(words)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_redis_store_passes_the_checks_of_every_store() {
    let server = server();
    let stores = AtomicUsize::new(0);
    let make = async || {
        let number = stores.fetch_add(1, Ordering::Relaxed);
        let mut options = RedisOptions::new(server.url());
        options.environment = format!("test-{number}");
        let store = RedisStore::open(options).await.expect("a new environment");
        Arc::new(store) as Arc<dyn Store>
    };
    exercise_store(make, Arc::new(ServerTime)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_transaction_manager_passes_its_checks_on_redis() {
    let server = server();
    let stores = AtomicUsize::new(0);
    let make = async || {
        let number = stores.fetch_add(1, Ordering::Relaxed);
        let mut options = RedisOptions::new(server.url());
        options.environment = format!("test-{number}");
        let store = RedisStore::open(options).await.expect("a new environment");
        Arc::new(store) as Arc<dyn RecordStore>
    };
    exercise_executions(make, Arc::new(SystemClock::default())).await;
}
