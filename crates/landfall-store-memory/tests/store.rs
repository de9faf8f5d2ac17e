//! The memory store, under the checks that every store passes.

use std::sync::Arc;

use landfall_conformance::{ManualClock, exercise_store};
use landfall_core::store::Store;
use landfall_store_memory::MemoryStore;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_memory_store_passes_the_checks_of_every_store() {
    let clock = Arc::new(ManualClock::new());
    let make = async || Arc::new(MemoryStore::new(clock.clone())) as Arc<dyn Store>;
    exercise_store(make, clock.clone()).await;
}
