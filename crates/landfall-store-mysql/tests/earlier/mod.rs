//! Stores that earlier releases have left.

use std::process::Child;
use std::sync::Arc;

use landfall_conformance::{ManualClock, World, earlier};
use landfall_servers::witness;
use landfall_store_mysql::{MysqlOptions, MysqlStore};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use crate::server::{connect, new_database, run, shared};

/// One of each layout that was released, as `examples/mysql_fixture.rs` wrote it in its day, and
/// whether it counted signatures.
const LAYOUTS: [(i64, &str, bool); 1] = [(1, include_str!("schema-1.sql"), false)];

/// How much of the newest step is done, of [`PARTS`].
const DONE: &str = "SELECT
    (SELECT COUNT(*) FROM information_schema.TABLES
        WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'landfall_variants') +
    (SELECT COUNT(*) FROM information_schema.COLUMNS
        WHERE TABLE_SCHEMA = DATABASE() AND (TABLE_NAME, COLUMN_NAME) IN (
            ('landfall_lanes', 'seq'), ('landfall_attempts', 'seq'),
            ('landfall_attempts', 'variants'), ('landfall_claims', 'kept_by'))) +
    (SELECT COUNT(*) FROM information_schema.STATISTICS
        WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'landfall_bodies'
            AND INDEX_NAME = 'hash')";
const PARTS: u64 = 6;

async fn world(url: &str) -> World {
    let clock = Arc::new(ManualClock::new());
    let options = MysqlOptions { clock: Some(clock.clone()), ..MysqlOptions::default() };
    let store = MysqlStore::open(url, options).await.expect("a store that opens");
    World { store: Arc::new(store), time: clock }
}

async fn number(conn: &mut Conn, sql: &str) -> u64 {
    conn.query_first(sql).await.expect(sql).expect(sql)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_of_every_layout_is_opened_and_finished() {
    for (version, dump, counts) in LAYOUTS {
        println!("layout {version}");
        let url = new_database(shared()).await;
        run(&url, dump).await;
        earlier::finish(&world(&url).await, counts).await;
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

/// The server commits after every statement that changes a layout, so a step may be cut off between
/// any two of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_killed_with_9_anywhere_goes_on() {
    let (_, dump, counts) = LAYOUTS[LAYOUTS.len() - 1];
    let mut halves = Vec::new();
    for parts in 0..=PARTS {
        let url = new_database(shared()).await;
        run(&url, dump).await;
        let mut conn = connect(&url).await;
        let kill = |child: &mut Child| {
            let until = async { while number(&mut conn, DONE).await < parts {} };
            block_in_place(|| Handle::current().block_on(until));
            child.kill().expect("kill -9");
        };
        witness::hear::<String>("earlier::a_witness_migrates", &url, 0, 1, kill);
        // The server may still be at the last statement of somebody who is no more.
        let others = "SELECT COUNT(*) FROM information_schema.processlist
            WHERE db = DATABASE() AND id <> CONNECTION_ID()";
        while number(&mut conn, others).await > 0 {}
        let version = number(&mut conn, "SELECT value FROM landfall_meta WHERE name = 'version'");
        if version.await == 1 {
            halves.push(number(&mut conn, DONE).await);
        }
        conn.disconnect().await.expect("goodbye");
        earlier::finish(&world(&url).await, counts).await;
    }
    assert!(
        halves.iter().any(|parts| (1..PARTS).contains(parts)),
        "never in the middle: {halves:?}"
    );
}
