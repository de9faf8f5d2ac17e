//! How fast the store is, on a PostgreSQL of its own with the settings it is shipped with.
//!
//! `cargo run --release -p landfall-store-postgres --example postgres_lifecycles -- [transfers]
//! [connections] [flights]` With 64, 256 and 1024 callers, every answer after its commit:
//! - moves: each caller takes one internal transfer at a time through its life: accepted, then five
//!   compare-and-sets, each with an entry in the trail;
//! - attempts: callers accept one payout at a time; eight lanes then carry them, a hundred in each
//!   attempt, and settle them.

use std::sync::Arc;
use std::time::Duration;

use landfall_conformance::lifecycles::{Load, moves, payouts, print};
use landfall_servers::Postgres;
use landfall_store_postgres::{PostgresOptions, PostgresStore};

/// Signing keys.
const LANES: usize = 8;

/// Processor time of the server and of this process, per transfer, since `before`.
fn print_cpu(server: &Postgres, before: (Duration, Duration), transfers: usize) {
    let after = cpu(server);
    let each = |after: Duration, before: Duration| (after - before) / transfers as u32;
    let (server, ours) = (each(after.0, before.0), each(after.1, before.1));
    print("processor", format_args!("{server:>9.0?} of the server, {ours:.0?} of ours"));
}

fn cpu(server: &Postgres) -> (Duration, Duration) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let words = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().skip(11).take(2));
    let ticks: u32 = words.into_iter().flatten().filter_map(|word| word.parse::<u32>().ok()).sum();
    (server.cpu().expect("it runs"), Duration::from_millis(10) * ticks)
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let transfers: usize = arguments.next().unwrap_or(30_000);
    let connections: usize = arguments.next().unwrap_or(PostgresOptions::default().connections);
    let flights: usize = arguments.next().unwrap_or(PostgresOptions::default().flights);
    let server = Postgres::start().expect("PostgreSQL starts");
    let options = PostgresOptions { connections, flights, ..PostgresOptions::default() };
    let store = PostgresStore::open(server.url(), options).await.expect("a new store");
    let store = Arc::new(store);
    println!("{transfers} transfers each, {connections} connections, {flights} flights of a kind");
    let loads = [64, 256, 1024].map(|callers| {
        let name = format!("callers-{callers}");
        Load { name, callers, transfers, lanes: LANES }
    });
    for load in &loads {
        let before = cpu(&server);
        print(format_args!("moves x{}", load.callers), moves(store.clone(), load).await);
        print_cpu(&server, before, transfers);
    }
    for load in &loads {
        let before = cpu(&server);
        payouts(store.clone(), load).await.print(load.callers);
        print_cpu(&server, before, transfers);
    }
}
