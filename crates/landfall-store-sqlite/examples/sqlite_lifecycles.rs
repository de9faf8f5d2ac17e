//! How fast the store is: accept, carry in attempts of 100, settle; every answer after its fsync.
//!
//! `cargo run --release -p landfall-store-sqlite --example sqlite_lifecycles -- [callers]
//! [transfers] [lanes]`
//! Callers accept one transfer at a time. Lanes then open and settle attempts, several at once.

use std::sync::Arc;

use landfall_conformance::ManualClock;
use landfall_conformance::lifecycles::{Load, payouts};
use landfall_store_sqlite::{SqliteOptions, SqliteStore};

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let callers: usize = arguments.next().unwrap_or(1024);
    let transfers: usize = arguments.next().unwrap_or(60_000);
    let lanes: usize = arguments.next().unwrap_or(8);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("landfall.db");
    let clock = Arc::new(ManualClock::new());
    let store = SqliteStore::open(path, clock, SqliteOptions::default()).expect("a new store");
    let load = Load { name: "payout".into(), callers, transfers, lanes };
    payouts(Arc::new(store), &load).await.print(callers);
}
