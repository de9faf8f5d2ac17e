//! The MySQL store on a real server, under the checks that every store passes, and what only a
//! server can suffer.

mod crash;
mod earlier;
mod instances;
mod opening;
mod outage;
mod server;
mod views;

use std::sync::Arc;

use landfall_conformance::{ManualClock, exercise_store};
use landfall_core::Clock;
use landfall_core::store::Store;
use landfall_store_mysql::{MysqlOptions, MysqlStore};

use crate::server::{ServerTime, new_database, shared};

async fn check_on(time: Arc<dyn landfall_conformance::Time>, clock: Option<Arc<dyn Clock>>) {
    let make = async || {
        let url = new_database(shared()).await;
        let options = MysqlOptions { clock: clock.clone(), ..MysqlOptions::default() };
        Arc::new(MysqlStore::open(&url, options).await.expect("a new store")) as Arc<dyn Store>
    };
    exercise_store(make, time).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_mysql_store_passes_the_checks_of_every_store() {
    let clock = Arc::new(ManualClock::new());
    check_on(clock.clone(), Some(clock)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_mysql_store_passes_the_checks_of_every_store_by_the_clock_of_its_server() {
    check_on(Arc::new(ServerTime), None).await;
}
