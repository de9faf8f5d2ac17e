//! Stores that earlier releases have left.

use std::sync::Arc;

use landfall_conformance::{ManualClock, World, earlier};
use landfall_servers::Redis;
use landfall_store_redis::{RedisOptions, RedisStore};

use crate::{operator, server};

/// One of each layout that was released, as `examples/redis_fixture.rs` wrote it in its day.
const LAYOUTS: [(u32, &str); 1] = [(1, include_str!("schema-1.txt"))];

/// Puts the kept keys in the place of everything on the server.
async fn load(server: &Redis, lines: &str) {
    let mut operator = operator(server).await;
    redis::cmd("FLUSHALL").exec_async(&mut operator).await.expect("an empty server");
    for line in lines.lines() {
        let (key, dumped) = line.split_once(' ').expect("a key and its value");
        let dumped = hex::decode(dumped).expect("hexadecimal");
        let mut restore = redis::cmd("RESTORE");
        restore.arg(key).arg(0).arg(dumped).exec_async(&mut operator).await.expect(key);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_of_every_layout_is_opened_and_finished() {
    let server = server();
    for (version, lines) in LAYOUTS {
        println!("layout {version}");
        load(&server, lines).await;
        let store = RedisStore::open(RedisOptions::new(server.url())).await.expect("it opens");
        let time = Arc::new(ManualClock::new());
        earlier::finish(&World { store: Arc::new(store), time }).await;
    }
}
