//! How fast the store is: accept, carry in attempts of 100, settle; every answer after its fsync.
//!
//! `cargo run --release -p landfall-store-mysql --example mysql_lifecycles -- [transfers] [lanes]
//! [callers…]`
//! On a MariaDB of its own, with its settings as shipped, an empty database for each number of
//! callers. Callers accept one transfer at a time. Lanes then open and settle attempts, several at
//! once.

use std::sync::Arc;

use landfall_conformance::lifecycles::{Load, payouts};
use landfall_servers::MariaDb;
use landfall_store_mysql::{MysqlOptions, MysqlStore};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

#[tokio::main]
async fn main() {
    let arguments = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let arguments: Vec<usize> = arguments.collect();
    let transfers = arguments.first().copied().unwrap_or(30_000);
    let lanes = arguments.get(1).copied().unwrap_or(8);
    let callers = arguments.get(2..).filter(|some| !some.is_empty()).unwrap_or(&[64, 256, 1024]);
    let server = MariaDb::start().expect("a server");
    let (base, _) = server.url().rsplit_once('/').expect("a URL with a database");
    for callers in callers.iter().copied() {
        let mut conn = Conn::from_url(server.url()).await.expect("a connection");
        let create = format!("CREATE DATABASE callers_{callers}");
        conn.query_drop(create).await.expect("a database");
        let url = format!("{base}/callers_{callers}");
        let store = MysqlStore::open(&url, MysqlOptions::default()).await.expect("a new store");
        let load = Load { name: "payout".into(), callers, transfers, lanes };
        payouts(Arc::new(store), &load).await.print(callers);
    }
}
