//! Writes the small store that later releases must be able to open, with the layout of this build.
//!
//! `cargo run -p landfall-store-redis --example redis_fixture -- FILE.txt`
//! For a new layout, once, when it is released: `tests/earlier/schema-VERSION.txt`. Those of
//! earlier layouts are never written anew. A line is a key and what `RESTORE` makes it from, in
//! hexadecimal.

use std::sync::Arc;

use landfall_conformance::{ManualClock, World, earlier};
use landfall_servers::{Redis, RedisOptions as ServerOptions};
use landfall_store_redis::{RedisOptions, RedisStore};
use redis::AsyncCommands;

#[tokio::main]
async fn main() {
    let to = std::env::args().nth(1).expect("the file to write, as FILE.txt");
    let server = Redis::start(ServerOptions::default()).expect("Redis starts");
    let store = RedisStore::open(RedisOptions::new(server.url())).await.expect("a new store");
    earlier::fill(&World { store: Arc::new(store), time: Arc::new(ManualClock::new()) }).await;
    let client = redis::Client::open(server.url()).expect("a URL");
    let mut operator = client.get_multiplexed_async_connection().await.expect("a connection");
    let mut keys: Vec<String> = operator.keys("*").await.expect("keys");
    keys.sort_unstable();
    let mut lines = String::new();
    for key in &keys {
        let dumped: Vec<u8> =
            redis::cmd("DUMP").arg(key).query_async(&mut operator).await.expect("a key");
        lines += &format!("{key} {}\n", hex::encode(dumped));
    }
    std::fs::write(&to, lines).expect("written");
    println!("{to}: {} keys", keys.len());
}
