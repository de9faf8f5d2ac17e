//! The SQLite store, under the checks that every store passes, and what only a file can suffer.

mod crash;
mod earlier;
mod opening;
mod views;

use std::sync::Arc;

use landfall_conformance::{ManualClock, exercise_executions, exercise_store};
use landfall_core::store::Store;
use landfall_lanes::{RecordStore, SystemClock};
use landfall_store_sqlite::{SqliteOptions, SqliteStore};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_sqlite_store_passes_the_checks_of_every_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Arc::new(ManualClock::new());
    let stores = std::sync::atomic::AtomicUsize::new(0);
    let make = async || {
        let number = stores.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = folder.path().join(number.to_string()).join("landfall.db");
        let store = SqliteStore::open(path, clock.clone(), SqliteOptions::default());
        Arc::new(store.expect("a new store")) as Arc<dyn Store>
    };
    exercise_store(make, clock.clone()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_transaction_manager_passes_its_checks_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Arc::new(SystemClock::default());
    let stores = std::sync::atomic::AtomicUsize::new(0);
    let make = async || {
        let number = stores.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = folder.path().join(number.to_string()).join("landfall.db");
        let store = SqliteStore::open(path, clock.clone(), SqliteOptions::default());
        Arc::new(store.expect("a new store")) as Arc<dyn RecordStore>
    };
    exercise_executions(make, clock.clone()).await;
}
