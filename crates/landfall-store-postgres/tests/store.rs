//! The PostgreSQL store on a real server, under the checks that every store passes, and what only a
//! server behind a network can suffer.

mod batches;
mod clock;
mod crash;
mod earlier;
mod opening;
mod outage;
mod pair;
mod tls;
mod views;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use landfall_conformance::{World, exercise_executions, exercise_store};
use landfall_core::store::Store;
use landfall_lanes::{RecordStore, SystemClock};
use landfall_servers::Postgres;
use landfall_store_postgres::{PostgresOptions, PostgresStore};

use crate::clock::RealTime;
use crate::pair::Pair;

fn world(store: PostgresStore) -> World {
    World { store: Arc::new(store), time: Arc::new(RealTime) }
}

async fn open(server: &Postgres) -> PostgresStore {
    let store = PostgresStore::open(server.url(), PostgresOptions::default()).await;
    store.expect("a store")
}

fn schema(number: &AtomicUsize) -> PostgresOptions {
    let schema = format!("store {}", number.fetch_add(1, Ordering::Relaxed));
    PostgresOptions { schema, connections: 6, ..PostgresOptions::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_postgres_store_passes_the_checks_of_every_store() {
    let server = Postgres::start().expect("PostgreSQL starts");
    let number = AtomicUsize::new(0);
    let make = async || {
        let store = PostgresStore::open(server.url(), schema(&number)).await;
        Arc::new(store.expect("a new store")) as Arc<dyn Store>
    };
    exercise_store(make, Arc::new(RealTime)).await;
}

/// What one writer gives for free must hold between instances that know nothing of each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_instances_on_one_database_pass_the_checks_of_one() {
    let server = Postgres::start().expect("PostgreSQL starts");
    let number = AtomicUsize::new(0);
    let make = async || {
        let options = schema(&number);
        let one = PostgresStore::open(server.url(), options.clone()).await;
        let other = PostgresStore::open(server.url(), options).await;
        Arc::new(Pair::new(one.expect("a new store"), other.expect("the same store")))
            as Arc<dyn Store>
    };
    exercise_store(make, Arc::new(RealTime)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_transaction_manager_passes_its_checks_on_postgres() {
    let server = Postgres::start().expect("PostgreSQL starts");
    let number = AtomicUsize::new(0);
    let make = async || {
        let store = PostgresStore::open(server.url(), schema(&number)).await;
        Arc::new(store.expect("a new store")) as Arc<dyn RecordStore>
    };
    exercise_executions(make, Arc::new(SystemClock::default())).await;
}
