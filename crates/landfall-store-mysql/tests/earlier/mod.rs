//! Stores that earlier releases have left.

use std::sync::Arc;

use landfall_conformance::{ManualClock, World, earlier};
use landfall_store_mysql::{MysqlOptions, MysqlStore};

use crate::server::{new_database, run, shared};

/// One of each layout that was released, as `examples/mysql_fixture.rs` wrote it in its day.
const LAYOUTS: [(i64, &str); 1] = [(1, include_str!("schema-1.sql"))];

async fn world(url: &str) -> World {
    let clock = Arc::new(ManualClock::new());
    let options = MysqlOptions { clock: Some(clock.clone()), ..MysqlOptions::default() };
    let store = MysqlStore::open(url, options).await.expect("a store that opens");
    World { store: Arc::new(store), time: clock }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_of_every_layout_is_opened_and_finished() {
    for (version, dump) in LAYOUTS {
        println!("layout {version}");
        let url = new_database(shared()).await;
        run(&url, dump).await;
        earlier::finish(&world(&url).await).await;
    }
}
