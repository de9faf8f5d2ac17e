//! Stores that earlier releases have left.

use std::process::Child;
use std::sync::Arc;

use landfall_conformance::{ManualClock, World, earlier};
use landfall_servers::{Postgres, witness};
use landfall_store_postgres::{PostgresOptions, PostgresStore};
use tokio::runtime::Handle;
use tokio::task::block_in_place;
use tokio_postgres::{Client, NoTls};

/// One of each layout that was released, as `examples/postgres_fixture.rs` wrote it in its day, and
/// whether it counted signatures.
const LAYOUTS: [(i64, &str, bool); 1] = [(1, include_str!("schema-1.sql"), false)];

/// So many attempts more that migrating takes a while.
const MANY: i64 = 100_000;

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

async fn world(url: &str) -> World {
    let store = PostgresStore::open(url, PostgresOptions::default()).await;
    let store = Arc::new(store.expect("a store that opens"));
    World { store, time: Arc::new(ManualClock::new()) }
}

async fn number(operator: &Client, sql: &str) -> i64 {
    operator.query_one(sql, &[]).await.expect(sql).get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_of_every_layout_is_opened_and_finished() {
    let server = Postgres::start().expect("PostgreSQL starts");
    for (version, dump, counts) in LAYOUTS {
        println!("layout {version}");
        load(&server, dump).await;
        earlier::finish(&world(server.url()).await, counts).await;
    }
}

/// Opens a store, and so migrates it, if it was started as the witness.
#[tokio::test]
async fn a_witness_migrates() {
    let Some((at, _)) = witness::called() else { return };
    witness::say("opening");
    let _world = world(&at).await;
    witness::say("opened");
    std::future::pending().await
}

/// Kills, until each kind has come in the middle.
const ROUNDS: usize = 20;

/// Of whoever migrates, and of the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_killed_with_9_is_done_whole_by_the_next() {
    let (version, dump, counts) = LAYOUTS[LAYOUTS.len() - 1];
    let server = Postgres::start().expect("PostgreSQL starts");
    let mut in_the_middle = Vec::new();
    for kills_server in [false, true].into_iter().cycle().take(ROUNDS) {
        load(&server, dump).await;
        let asking = operator(&server).await;
        let many = "INSERT INTO landfall.attempts
            SELECT 1000 + i, 999, i, 1, 0, 0, 'pay', md5(i::text), '', 0, 0, '{}', NULL, ''
            FROM generate_series(1, $1::bigint) AS i";
        asking.execute(many, &[&MANY]).await.expect("more attempts");
        let kill = |child: &mut Child| {
            let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted";
            let begun = async { while number(&asking, locks).await == 0 {} };
            block_in_place(|| Handle::current().block_on(begun));
            if kills_server {
                server.kill().expect("kill -9");
            }
            child.kill().expect("kill -9");
        };
        witness::hear::<String>("earlier::a_witness_migrates", server.url(), 0, 1, kill);
        if kills_server {
            server.restart().expect("it starts again");
        }
        let asking = operator(&server).await;
        let others = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'landfall'";
        while number(&asking, others).await > 0 {}
        let left = "SELECT value::bigint FROM landfall.meta WHERE name = 'landfall schema'";
        let columns = "SELECT count(*) FROM information_schema.columns
            WHERE table_schema = 'landfall' AND column_name = 'seq' AND table_name = 'lanes'";
        let is_done = number(&asking, left).await > version;
        assert_eq!(number(&asking, columns).await > 0, is_done, "it is half done");
        earlier::finish(&world(server.url()).await, counts).await;
        if !is_done {
            in_the_middle.push(kills_server);
        }
        if in_the_middle.contains(&false) && in_the_middle.contains(&true) {
            return;
        }
    }
    panic!("no kill came in the middle: {in_the_middle:?}");
}
