//! How many hints a second pass through Redis Streams. `cargo run --example redis_hints`.

use std::sync::Arc;
use std::time::Instant;

use landfall_conformance::pass_hints;
use landfall_core::TransferId;
use landfall_lanes::SystemClock;
use landfall_queue_redis::{RedisQueue, Settings};
use landfall_servers::{AppendFsync, Redis, RedisOptions};

const HINTS: u64 = 20_000;

#[tokio::main]
async fn main() {
    for appendfsync in [AppendFsync::EverySec, AppendFsync::Always] {
        let options = RedisOptions { appendfsync, ..RedisOptions::default() };
        let redis = Redis::start(options).expect("Redis");
        let settings = Settings::new(redis.url(), "bench", "hints");
        let end = || {
            let clock = Arc::new(SystemClock::default());
            Arc::new(RedisQueue::new(settings.clone(), clock).expect("a URL"))
        };
        let started = Instant::now();
        pass_hints(end(), end(), (0..HINTS).map(TransferId).collect()).await;
        let rate = HINTS as f64 / started.elapsed().as_secs_f64();
        println!("Redis Streams, AOF {appendfsync:?}: {rate:.0} hints/s");
    }
}
