//! How fast the store is: accept, carry in attempts of 100, settle; every answer after its fsync.
//!
//! `cargo run --release -p landfall-store-redis --example redis_lifecycles -- [transfers] [lanes]`
//! Starts a Redis of its own for each row: 64, 256 and 1024 callers that accept one transfer at a
//! time, with the append-only file synced always and every second. Lanes then open and settle
//! attempts, several at once. Ends with what a finished transfer costs in memory and on disk, and
//! with the server's own processor time for each.

use std::sync::Arc;

use landfall_conformance::lifecycles::{Load, payouts};
use landfall_servers::{AppendFsync, Redis, RedisOptions as ServerOptions};
use landfall_store_redis::{RedisOptions, RedisStore};

/// What the server says of itself, as a number.
async fn said(url: &str, name: &str) -> f64 {
    let client = redis::Client::open(url).expect("a URL");
    let mut connection = client.get_multiplexed_async_connection().await.expect("a connection");
    let info: String = redis::cmd("INFO").query_async(&mut connection).await.expect("INFO");
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|value| value.trim().parse().ok()).expect("a number of this name")
}

async fn processor(url: &str) -> f64 {
    said(url, "used_cpu_user").await + said(url, "used_cpu_sys").await
}

async fn row(fsync: AppendFsync, callers: usize, transfers: usize, lanes: usize) {
    let server = ServerOptions { appendfsync: fsync, ..ServerOptions::default() };
    let server = Redis::start(server).expect("a server");
    let mut options = RedisOptions::new(server.url());
    options.accept_durability = vec!["everysec".into()];
    let store = Arc::new(RedisStore::open(options).await.expect("a new store"));
    let (memory, busy) = (said(server.url(), "used_memory").await, processor(server.url()).await);
    let load = Load { name: "payout".into(), callers, transfers, lanes };
    let lives = payouts(store, &load).await;
    let each = |total: f64| total / transfers as f64;
    print_row([
        format!("{fsync:?}"),
        callers.to_string(),
        format!("{:.0}", lives.accept.transfers_per_s),
        format!("{:.1?}", lives.accept.p50),
        format!("{:.1?}", lives.accept.p99),
        format!("{:.0}", lives.open.transfers_per_s),
        format!("{:.1?}", lives.open.p50),
        format!("{:.1?}", lives.settle.p50),
        format!("{:.0}", lives.lives_per_s),
        format!("{:.0}", each(processor(server.url()).await - busy) * 1e6),
        format!("{:.0}", each(said(server.url(), "used_memory").await - memory)),
        format!("{:.0}", each(said(server.url(), "aof_current_size").await)),
    ]);
}

fn print_row<T: std::fmt::Display>(cells: [T; 12]) {
    println!("{}", cells.map(|cell| format!("{cell:>13}")).concat());
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let transfers: usize = arguments.next().unwrap_or(60_000);
    let lanes: usize = arguments.next().unwrap_or(8);
    print_row([
        "fsync",
        "callers",
        "accepts/s",
        "p50",
        "p99",
        "carried/s",
        "open p50",
        "settle p50",
        "lifecycles/s",
        "server cpu us",
        "memory bytes",
        "log bytes",
    ]);
    for fsync in [AppendFsync::Always, AppendFsync::EverySec] {
        for callers in [64, 256, 1024] {
            row(fsync, callers, transfers, lanes).await;
        }
    }
}
