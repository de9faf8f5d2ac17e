//! Stores that earlier releases have left.

use std::sync::Arc;

use landfall_conformance::{ManualClock, World, earlier};
use landfall_servers::Postgres;
use tokio_postgres::{Client, NoTls};

use crate::open;

/// One of each layout that was released, as `examples/postgres_fixture.rs` wrote it in its day.
const LAYOUTS: [(i64, &str); 1] = [(1, include_str!("schema-1.sql"))];

async fn operator(server: &Postgres) -> Client {
    let (client, connection) = tokio_postgres::connect(server.url(), NoTls).await.expect("connect");
    tokio::spawn(connection);
    client
}

async fn load(server: &Postgres, dump: &str) {
    let operator = operator(server).await;
    operator.batch_execute("DROP SCHEMA IF EXISTS landfall CASCADE").await.expect("drop");
    operator.batch_execute(dump).await.expect("the dump loads");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_of_every_layout_is_opened_and_finished() {
    let server = Postgres::start().expect("PostgreSQL starts");
    for (version, dump) in LAYOUTS {
        println!("layout {version}");
        load(&server, dump).await;
        let store = Arc::new(open(&server).await);
        earlier::finish(&World { store, time: Arc::new(ManualClock::new()) }).await;
    }
}
