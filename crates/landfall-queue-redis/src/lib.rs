//! Hints in Redis Streams: one stream and one consumer group per stage.
//!
//! - An entry is one hint (`transfer_id`); it is deleted when it was handled, so a stream holds
//!   what waits and what is in hand, and nothing else.
//! - Each process start is a consumer of its own name. What a dead one held is claimed by the
//!   others (`XAUTOCLAIM`) after `visibility_ms`.
//! - Hints for later wait in a sorted set, by the server's clock, and are moved when due.
//! - What was handed out `deliveries_max` times, and what is no hint, goes to the stage's dead
//!   letter stream, which keeps about `dead_max`. It means "look at the store".
//! - A push is one script per stage; full means dropped, and says so.
//!
//! Redis may stall, die, forget everything and come back: every call ends in a bounded time, and
//! connections and groups are made again by whoever needs them. Needs Redis 6.2.
//! Beside it, [`RedisStatusCache`] remembers what final transfers came to.
//! Not here: priorities (a stream has one order), and whether Redis survives a power cut: hints
//! may be lost.

mod cache;
mod link;
mod reader;
mod scripts;
mod settings;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use landfall_core::queue::{Delivery, Hint, Queue, QueueError, Terms};
use landfall_core::{Clock, Stage};
use parking_lot::Mutex;

use crate::link::Link;
use crate::reader::Reader;
use crate::scripts::Scripts;
use crate::settings::Keys;

pub use crate::cache::RedisStatusCache;
pub use crate::settings::Settings;

/// Hints in one script or command: keeps the server free for others, and larger ones gain nothing.
const BATCH: usize = 200;

/// The URL of no Redis.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a Redis URL ({0}); write redis://host:6379 or rediss://host:6379")]
pub struct BadUrl(String);

/// One process's end of the streams.
pub struct RedisQueue {
    inner: Arc<Inner>,
    readers: Mutex<BTreeMap<Stage, Arc<Reader>>>,
}

pub(crate) struct Inner {
    settings: Settings,
    /// Its name in every group.
    consumer: String,
    scripts: Scripts,
    link: Link,
}

impl RedisQueue {
    /// Connects when it is first used, so that a relay can start before its Redis.
    pub fn new(settings: Settings, clock: Arc<dyn Clock>) -> Result<RedisQueue, BadUrl> {
        let client = client(&settings.url)?;
        let link = Link::new(client, clock, settings.timeout_ms);
        let consumer = format!("{}-{:016x}", settings.instance, rand::random::<u64>());
        let inner = Inner { settings, consumer, scripts: Scripts::new(), link };
        Ok(RedisQueue { inner: Arc::new(inner), readers: Mutex::default() })
    }

    fn reader(&self, stage: Stage) -> Arc<Reader> {
        let mut readers = self.readers.lock();
        let reader = || Arc::new(Reader::new(stage, self.inner.settings.keys(stage)));
        readers.entry(stage).or_insert_with(reader).clone()
    }
}

fn client(url: &str) -> Result<redis::Client, BadUrl> {
    let client = redis::Client::open(url);
    let client = client.map_err(|error| BadUrl(error.category().to_owned()))?;
    if url.starts_with("rediss") {
        // Whoever installed one before decided; Redis's client wants one to be there.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    Ok(client)
}

impl Inner {
    async fn push(&self, keys: &Keys, delay_ms: u64, ids: &[String]) -> Result<usize, QueueError> {
        self.link
            .ask(async |connection| {
                let mut push = self.scripts.push.key(&keys.stream);
                push.key(&keys.delayed).arg(self.settings.capacity).arg(delay_ms).arg(ids);
                push.invoke_async(connection).await
            })
            .await
    }

    async fn put_aside(&self, keys: &Keys, ids: &[String]) -> Result<(), QueueError> {
        self.link
            .ask(async |connection| {
                let mut aside = self.scripts.aside.key(&keys.stream);
                aside.key(&keys.dead).arg(&keys.group).arg(self.settings.dead_max).arg(ids);
                aside.invoke_async(connection).await
            })
            .await
    }

    async fn delete(&self, keys: &Keys, ids: &[String]) -> Result<(), QueueError> {
        let mut delete = redis::pipe();
        delete.cmd("XACK").arg(&keys.stream).arg(&keys.group).arg(ids).ignore();
        delete.cmd("XDEL").arg(&keys.stream).arg(ids).ignore();
        self.link.ask(async |connection| delete.query_async(connection).await).await
    }
}

/// Sorts by stage what a caller gives in any order, keeping the order within a stage.
fn by_stage<T>(items: impl IntoIterator<Item = (Stage, T)>) -> BTreeMap<Stage, Vec<T>> {
    let mut sorted: BTreeMap<Stage, Vec<T>> = BTreeMap::new();
    for (stage, item) in items {
        sorted.entry(stage).or_default().push(item);
    }
    sorted
}

#[async_trait]
impl Queue for RedisQueue {
    async fn push(&self, hints: &[Hint]) -> Result<usize, QueueError> {
        self.push_on(Terms::DEFAULT, hints).await
    }

    async fn push_on(&self, terms: Terms, hints: &[Hint]) -> Result<usize, QueueError> {
        let ids = by_stage(hints.iter().map(|hint| (hint.stage, hint.transfer.to_string())));
        let mut taken = 0;
        for (stage, ids) in ids {
            let keys = self.inner.settings.keys(stage);
            for batch in ids.chunks(BATCH) {
                let room = self.inner.push(&keys, terms.delay_ms, batch).await?;
                taken += room;
                if room < batch.len() {
                    break;
                }
            }
        }
        Ok(hints.len().saturating_sub(taken))
    }

    async fn pull(&self, stage: Stage, max: usize) -> Result<Vec<Delivery>, QueueError> {
        match max {
            0 => Ok(Vec::new()),
            _ => self.reader(stage).pull(&self.inner, max).await,
        }
    }

    async fn ack(&self, deliveries: &[Delivery]) -> Result<(), QueueError> {
        let receipt = |one: &Delivery| (one.hint.stage, one.receipt.clone());
        for (stage, ids) in by_stage(deliveries.iter().map(receipt)) {
            let keys = self.inner.settings.keys(stage);
            for batch in ids.chunks(BATCH) {
                self.inner.delete(&keys, batch).await?;
            }
        }
        Ok(())
    }

    async fn depth(&self, stage: Stage) -> Result<usize, QueueError> {
        let (inner, keys) = (&self.inner, self.inner.settings.keys(stage));
        inner
            .link
            .ask(async |connection| {
                let mut depth = inner.scripts.depth.key(&keys.stream);
                depth.arg(&keys.group).invoke_async(connection).await
            })
            .await
    }

    async fn put_aside(&self) -> Result<usize, QueueError> {
        let mut counts = redis::pipe();
        for stage in Stage::ALL {
            counts.cmd("XLEN").arg(self.inner.settings.keys(stage).dead);
        }
        let ask = async |connection: &mut _| counts.query_async::<Vec<usize>>(connection).await;
        Ok(self.inner.link.ask(ask).await?.into_iter().sum())
    }
}
