//! The way to SQS: gives up in a bounded time and rests after a failure.
//!
//! **Rule:** whoever calls gets an answer or an error within the timeout. While SQS is known to be
//! unreachable one caller at a time tries, and all others are told at once: a queue that is down
//! must not slow down whoever pushes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use aws_config::BehaviorVersion;
use aws_config::retry::RetryConfig;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{Credentials, Region};
use aws_sdk_sqs::error::{DisplayErrorContext, SdkError};
use landfall_core::Clock;
use landfall_core::queue::QueueError;
use tokio::sync::{Mutex, OnceCell};

use crate::settings::Settings;

/// How long nobody tries after a failure.
const REST_MS: u64 = 500;
/// Hints may be sent twice, so the library may repeat itself, once: the timeout bounds both.
const ATTEMPTS_MAX: u32 = 2;

pub(crate) struct Link {
    pub client: Client,
    pub clock: Arc<dyn Clock>,
    timeout: Duration,
    urls: [(String, OnceCell<String>); 2],
    failing: AtomicBool,
    rest_until_ms: AtomicU64,
    trying: Mutex<()>,
}

/// Which of the two queues.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Which {
    Live = 0,
    Dead = 1,
}

impl Link {
    pub async fn new(settings: &Settings, clock: Arc<dyn Clock>) -> Link {
        let mut config = aws_config::defaults(BehaviorVersion::latest())
            .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS_MAX));
        if let Some(region) = &settings.region {
            config = config.region(Region::new(region.clone()));
        }
        if let Some(endpoint) = &settings.endpoint {
            config = config.endpoint_url(endpoint);
        }
        if let Some(key) = &settings.credentials {
            let (id, secret) = (key.id.clone(), key.secret.clone());
            config = config.credentials_provider(Credentials::new(id, secret, None, None, "own"));
        }
        let queues = [&settings.queue, &settings.dead_queue];
        Link {
            client: Client::new(&config.load().await),
            clock,
            timeout: Duration::from_millis(settings.timeout_ms),
            urls: queues.map(|name| (name.clone(), OnceCell::new())),
            failing: AtomicBool::new(false),
            rest_until_ms: AtomicU64::new(0),
            trying: Mutex::default(),
        }
    }

    pub fn now_ms(&self) -> u64 {
        self.clock.monotonic_ms()
    }

    /// Asked once: a queue that is deleted and made again keeps its address.
    pub async fn url(&self, which: Which) -> Result<&str, QueueError> {
        let (name, url) = &self.urls[which as usize];
        let ask = async || {
            let asked = self.client.get_queue_url().queue_name(name).send();
            let answer = self.within(self.timeout, asked).await?;
            let url = answer.queue_url.ok_or_else(|| QueueError(format!("{name} has no URL")))?;
            Ok::<_, QueueError>(url)
        };
        Ok(url.get_or_try_init(ask).await?)
    }

    /// Asks, or says at once that it would be in vain.
    pub async fn ask<T>(
        &self,
        ask: impl AsyncFnOnce(&Link) -> Result<T, QueueError>,
    ) -> Result<T, QueueError> {
        let resting = || QueueError("SQS did not answer a moment ago".into());
        let mut turn = None;
        if self.failing.load(Ordering::Relaxed) {
            if self.now_ms() < self.rest_until_ms.load(Ordering::Relaxed) {
                return Err(resting());
            }
            turn = Some(self.trying.try_lock().map_err(|_| resting())?);
        }
        let answer = ask(self).await;
        match &answer {
            Ok(_) => self.failing.store(false, Ordering::Relaxed),
            Err(error) => {
                self.rest_until_ms.store(self.now_ms() + REST_MS, Ordering::Relaxed);
                if !self.failing.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%error, "SQS does not answer; hints wait for the sweeper");
                }
            }
        }
        drop(turn);
        answer
    }

    /// One request, in the usual time.
    pub async fn call<T, E>(
        &self,
        request: impl Future<Output = Result<T, SdkError<E>>>,
    ) -> Result<T, QueueError>
    where
        E: std::error::Error + 'static,
    {
        self.within(self.timeout, request).await
    }

    /// One request that waits at the server.
    pub async fn long_call<T, E>(
        &self,
        wait_s: u32,
        request: impl Future<Output = Result<T, SdkError<E>>>,
    ) -> Result<T, QueueError>
    where
        E: std::error::Error + 'static,
    {
        self.within(self.timeout + Duration::from_secs(u64::from(wait_s)), request).await
    }

    async fn within<T, E>(
        &self,
        patience: Duration,
        request: impl Future<Output = Result<T, SdkError<E>>>,
    ) -> Result<T, QueueError>
    where
        E: std::error::Error + 'static,
    {
        tokio::select! {
            biased;
            done = request => {
                done.map_err(|error| QueueError(format!("SQS: {}", DisplayErrorContext(&error))))
            }
            _ = self.clock.sleep(patience) => Err(QueueError("SQS: no answer in time".into())),
        }
    }
}
