//! The way to Redis: connects by itself, gives up in a bounded time, and rests after a failure.
//!
//! **Rule:** whoever calls gets an answer or an error within the timeout. While Redis is known to
//! be unreachable one caller at a time tries, and all others are told at once: a queue that is down
//! must not slow down whoever pushes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use landfall_core::Clock;
use landfall_core::queue::QueueError;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisResult};
use tokio::sync::Mutex;

/// How long nobody tries after a failure: a restart takes longer, a blip is over.
const REST_MS: u64 = 200;
/// Commands waiting in one connection; beyond it callers wait, within their timeout.
const PIPELINE: usize = 1_000;

pub(crate) struct Link {
    client: Client,
    clock: Arc<dyn Clock>,
    timeout: Duration,
    /// What a failure means to whoever uses it.
    meaning: &'static str,
    shared: Mutex<Option<MultiplexedConnection>>,
    failing: AtomicBool,
    rest_until_ms: AtomicU64,
    trying: Mutex<()>,
}

impl Link {
    pub fn new(client: Client, clock: Arc<dyn Clock>, timeout_ms: u64) -> Link {
        Link::meaning(client, clock, timeout_ms, "hints wait for the sweeper")
    }

    /// The same for something else than hints.
    pub fn meaning(
        client: Client,
        clock: Arc<dyn Clock>,
        timeout_ms: u64,
        meaning: &'static str,
    ) -> Link {
        Link {
            client,
            clock,
            timeout: Duration::from_millis(timeout_ms),
            meaning,
            shared: Mutex::default(),
            failing: AtomicBool::new(false),
            rest_until_ms: AtomicU64::new(0),
            trying: Mutex::default(),
        }
    }

    pub fn now_ms(&self) -> u64 {
        self.clock.monotonic_ms()
    }

    /// Asks over the shared connection.
    pub async fn ask<T>(
        &self,
        ask: impl AsyncFnOnce(&mut MultiplexedConnection) -> RedisResult<T>,
    ) -> Result<T, QueueError> {
        let resting = || QueueError("Redis did not answer a moment ago".into());
        let mut turn = None;
        if self.failing.load(Ordering::Relaxed) {
            if self.now_ms() < self.rest_until_ms.load(Ordering::Relaxed) {
                return Err(resting());
            }
            turn = Some(self.trying.try_lock().map_err(|_| resting())?);
        }
        let answer = within(self, self.timeout, async {
            let mut connection = self.shared().await?;
            ask(&mut connection).await
        });
        let answer = answer.await;
        match &answer {
            Ok(_) => self.failing.store(false, Ordering::Relaxed),
            Err(error) => self.rest(error),
        }
        drop(turn);
        answer.map_err(|error| QueueError(format!("Redis: {error}")))
    }

    /// A connection of one's own, for commands that wait at the server.
    pub async fn connect(&self, patience: Duration) -> RedisResult<MultiplexedConnection> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeout))
            .set_response_timeout(Some(patience))
            .set_pipeline_buffer_size(PIPELINE);
        let connect = self.client.get_multiplexed_async_connection_with_config(&config);
        within(self, self.timeout, connect).await
    }

    async fn shared(&self) -> RedisResult<MultiplexedConnection> {
        let mut shared = self.shared.lock().await;
        match &*shared {
            Some(connection) => Ok(connection.clone()),
            None => Ok(shared.insert(self.connect(self.timeout).await?).clone()),
        }
    }

    /// An answer of Redis, even a bad one, shows that it lives. Anything else ends the connection.
    fn rest(&self, error: &redis::RedisError) {
        if error.code().is_some() && !error.is_unrecoverable_error() {
            return;
        }
        // Whoever holds the lock is connecting anew.
        if let Ok(mut shared) = self.shared.try_lock() {
            *shared = None;
        }
        self.rest_until_ms.store(self.now_ms() + REST_MS, Ordering::Relaxed);
        if !self.failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(%error, "Redis does not answer; {}", self.meaning);
        }
    }
}

/// Gives up after `patience`, as the library's own timeouts do.
pub(crate) async fn within<T>(
    link: &Link,
    patience: Duration,
    work: impl Future<Output = RedisResult<T>>,
) -> RedisResult<T> {
    tokio::select! {
        biased;
        done = work => done,
        _ = link.clock.sleep(patience) => {
            Err(redis::RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut)))
        }
    }
}
