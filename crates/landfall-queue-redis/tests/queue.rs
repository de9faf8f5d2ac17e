//! Redis Streams as a queue, on a real Redis: the checks that every queue passes, and its own.

mod cache;
mod streams;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use landfall_conformance::{Abilities, QueueWorld, ROOM_MIN, exercise_queue};
use landfall_core::Stage;
use landfall_core::queue::Queue;
use landfall_lanes::SystemClock;
use landfall_queue_redis::{RedisQueue, Settings};
use landfall_servers::{Redis, RedisOptions};
use redis::aio::MultiplexedConnection;

/// A Redis, and an environment of its own in it.
struct Streams {
    redis: Arc<Redis>,
    settings: Settings,
}

impl Streams {
    fn start() -> Streams {
        let redis = Redis::start(RedisOptions { appendonly: false, ..Default::default() });
        Streams::new(Arc::new(redis.expect("Redis")))
    }

    fn new(redis: Arc<Redis>) -> Streams {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let environment = format!("check{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let settings = Settings {
            capacity: ROOM_MIN,
            visibility_ms: 2_000,
            block_ms: 200,
            ..Settings::new(redis.url(), &environment, "test")
        };
        Streams { redis, settings }
    }

    fn end(&self) -> RedisQueue {
        RedisQueue::new(self.settings.clone(), Arc::new(SystemClock::default())).expect("a URL")
    }

    fn key(&self, rest: &str) -> String {
        format!("ftrelay:{}:{rest}", self.settings.environment)
    }

    async fn connection(&self) -> MultiplexedConnection {
        let client = redis::Client::open(self.redis.url()).expect("a URL");
        client.get_multiplexed_async_connection().await.expect("a connection")
    }

    async fn length(&self, key: &str) -> usize {
        let mut length = redis::cmd("XLEN");
        length.arg(self.key(key)).query_async(&mut self.connection().await).await.expect("length")
    }
}

#[async_trait]
impl QueueWorld for Streams {
    fn abilities(&self) -> Abilities {
        Abilities {
            ordered: true,
            priority: false,
            delay: true,
            shared: true,
            foreign: true,
            visibility_ms: Some(self.settings.visibility_ms),
            deliveries_max: Some(self.settings.deliveries_max),
            room: Some(self.settings.capacity),
        }
    }

    async fn connect(&self) -> Arc<dyn Queue> {
        Arc::new(self.end())
    }

    async fn advance(&self, by_ms: u64) {
        tokio::time::sleep(Duration::from_millis(by_ms)).await;
    }

    async fn scribble(&self, stage: Stage) -> usize {
        let key = self.key(stage.0);
        let scribbles: [(&str, &[u8]); 4] =
            [("transfer_id", b"idem-key-123"), ("transfer_id", b"-1"), ("x", b"1"), ("y", b"\xff")];
        let mut connection = self.connection().await;
        for (field, value) in scribbles {
            let mut add = redis::cmd("XADD");
            add.arg(&key).arg("*").arg(field).arg(value);
            add.query_async::<()>(&mut connection).await.expect("XADD");
        }
        scribbles.len()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn redis_streams_pass_the_checks_of_every_queue() {
    let redis = Streams::start().redis;
    exercise_queue(async || Arc::new(Streams::new(redis.clone())) as Arc<dyn QueueWorld>).await;
}
