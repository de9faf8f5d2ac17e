//! Redis: the store by scripts, the queue by streams.

use std::sync::Arc;
use std::time::Duration;

use landfall_core::Clock;
use landfall_core::cache::StatusCache;
use landfall_core::queue::Queue;
use landfall_core::store::Store;
use landfall_queue_redis::{RedisQueue, RedisStatusCache, Settings};
use landfall_store_redis::{OpenError, RedisOptions, RedisStore};

use crate::config::Config;
use crate::failure::{Failure, Result};

pub async fn store(config: &Config, url: &str) -> Result<Arc<dyn Store>> {
    let options = RedisOptions {
        environment: config.store.environment.clone(),
        accept_durability: config.store.accept_durability.clone(),
        call_timeout: Duration::from_millis(config.store.timeout_ms),
        ..RedisOptions::new(url)
    };
    let opened = RedisStore::open(options).await;
    Ok(Arc::new(opened.map_err(|error| match error {
        OpenError::Unavailable { .. } => Failure::Unable(error.to_string()),
        _ => Failure::Mistaken(error.to_string()),
    })?))
}

pub fn queue(
    config: &Config,
    url: &str,
    instance: &str,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn Queue>> {
    let settings = Settings::new(url, &config.store.environment, instance);
    let queue = RedisQueue::new(settings, clock);
    Ok(Arc::new(queue.map_err(|error| Failure::Mistaken(format!("queue.url: {error}")))?))
}

/// What final transfers of the store `id` came to.
pub fn cache(url: &str, id: &str, clock: Arc<dyn Clock>) -> Result<Arc<dyn StatusCache>> {
    let cache = RedisStatusCache::new(url, id, clock);
    Ok(Arc::new(cache.map_err(|error| Failure::Mistaken(format!("cache.url: {error}")))?))
}
