//! How many hints a second pass through the store: claims of due transfers, in memory and on disk.
//! `cargo run --example store_hints`.

use std::sync::Arc;
use std::time::Instant;

use landfall_conformance::{ManualClock, World, pass_hints};
use landfall_core::TransferId;
use landfall_core::store::{Accepted, Store};
use landfall_queue_store::{Settings, StoreQueue};
use landfall_store_memory::MemoryStore;
use landfall_store_sqlite::{SqliteOptions, SqliteStore};

const HINTS: usize = 20_000;

#[tokio::main]
async fn main() {
    let clock = Arc::new(ManualClock::new());
    measure("memory", Arc::new(MemoryStore::new(clock.clone())), clock.clone()).await;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    let sqlite =
        SqliteStore::open(&path, clock.clone(), SqliteOptions::default()).expect("a store");
    measure("SQLite", Arc::new(sqlite), clock).await;
}

async fn measure(name: &str, store: Arc<dyn Store>, clock: Arc<ManualClock>) {
    let world = World { store: store.clone(), time: clock.clone() };
    let fresh = (0..HINTS).map(|number| world.ready(&number.to_string())).collect();
    let answers = store.accept(fresh).await.expect("accept");
    let ids: Vec<TransferId> = answers
        .into_iter()
        .map(|answer| match answer {
            Accepted::Created(transfer) => transfer.id,
            other => panic!("not created: {other:?}"),
        })
        .collect();
    let queue = Arc::new(StoreQueue::new(store, clock, Settings::beside_sweeper(30_000, 120_000)));
    let started = Instant::now();
    pass_hints(queue.clone(), queue, ids).await;
    let rate = HINTS as f64 / started.elapsed().as_secs_f64();
    println!("store claims, {name}: {rate:.0} hints/s");
}
