//! The PostgreSQL store on a real server, under the checks that every store passes, and what only a
//! server behind a network can suffer.

mod clock;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use landfall_conformance::exercise_store;
use landfall_core::store::Store;
use landfall_servers::Postgres;
use landfall_store_postgres::{PostgresOptions, PostgresStore};

use crate::clock::RealTime;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_postgres_store_passes_the_checks_of_every_store() {
    let server = Postgres::start().expect("PostgreSQL starts");
    let stores = AtomicUsize::new(0);
    let make = async || {
        let number = stores.fetch_add(1, Ordering::Relaxed);
        let schema = format!("store {number}");
        let options = PostgresOptions { schema, connections: 6, ..PostgresOptions::default() };
        let store = PostgresStore::open(server.url(), options).await;
        Arc::new(store.expect("a new store")) as Arc<dyn Store>
    };
    exercise_store(make, Arc::new(RealTime)).await;
}
