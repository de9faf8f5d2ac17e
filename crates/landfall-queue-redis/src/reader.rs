//! Reading one stage: what is claimed from the dead, then what is new.
//!
//! One read at a time per stage and process. It runs in a task of its own, because a read that is
//! cut off may already have been answered: whoever gives up a pull leaves the hints to the next.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use landfall_core::queue::{Delivery, Hint, QueueError};
use landfall_core::{Stage, TransferId};
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Value};
use tokio::sync::OwnedMutexGuard;

use crate::Inner;
use crate::link::within;
use crate::settings::Keys;

/// Where claims begin, and where they are when they have seen all.
const START: &str = "0-0";

/// One stage of one process.
pub(crate) struct Reader {
    stage: Stage,
    keys: Keys,
    /// Read and not yet pulled.
    hints: Mutex<VecDeque<Delivery>>,
    turn: Arc<tokio::sync::Mutex<Turn>>,
}

/// Whoever holds it reads.
struct Turn {
    /// Its own connection: a read waits at the server and everything behind it too.
    connection: Option<MultiplexedConnection>,
    /// Where the next claim goes on.
    cursor: String,
    /// When to look again for hints that are due and for what the dead left.
    tend_at_ms: u64,
}

/// An entry of a stream, with how often it was handed out.
type Entry = (String, Value, u32);

/// A stream's name and its new entries.
type News = (String, Vec<(String, Value)>);

impl Reader {
    pub fn new(stage: Stage, keys: Keys) -> Reader {
        let turn = Turn { connection: None, cursor: START.to_owned(), tend_at_ms: 0 };
        Reader {
            stage,
            keys,
            hints: Mutex::default(),
            turn: Arc::new(tokio::sync::Mutex::new(turn)),
        }
    }

    /// Waits for at least one hint.
    pub async fn pull(
        self: &Arc<Reader>,
        inner: &Arc<Inner>,
        max: usize,
    ) -> Result<Vec<Delivery>, QueueError> {
        loop {
            let turn = match self.take(max) {
                ready if !ready.is_empty() => return Ok(ready),
                _ => self.turn.clone().lock_owned().await,
            };
            // The one before may have read for all.
            let ready = self.take(max);
            if !ready.is_empty() {
                return Ok(ready);
            }
            let read = self.clone().read(inner.clone(), turn, max);
            let done = tokio::spawn(read).await;
            done.map_err(|panic| QueueError(format!("reading failed: {panic}")))??;
        }
    }

    fn take(&self, max: usize) -> Vec<Delivery> {
        let mut hints = self.hints.lock();
        let taken = hints.len().min(max);
        hints.drain(..taken).collect()
    }

    async fn read(
        self: Arc<Reader>,
        inner: Arc<Inner>,
        mut turn: OwnedMutexGuard<Turn>,
        max: usize,
    ) -> Result<(), QueueError> {
        let read = self.read_entries(&inner, &mut turn, max).await;
        let entries = read.map_err(|error| {
            // Also when the group is gone with its stream: the next turn makes it again.
            turn.connection = None;
            QueueError(format!("Redis: {error}"))
        })?;
        let mut aside = Vec::new();
        for (id, fields, deliveries) in entries {
            match transfer_of(&fields) {
                Some(transfer) if deliveries <= inner.settings.deliveries_max => {
                    let hint = Hint { transfer, stage: self.stage };
                    self.hints.lock().push_back(Delivery { hint, receipt: id });
                }
                transfer => {
                    let stage = self.stage;
                    tracing::warn!(%stage, %id, ?transfer, deliveries, "put aside a hint");
                    aside.push(id);
                }
            }
        }
        match aside.is_empty() {
            true => Ok(()),
            false => inner.put_aside(&self.keys, &aside).await,
        }
    }

    async fn read_entries(
        &self,
        inner: &Inner,
        turn: &mut Turn,
        max: usize,
    ) -> RedisResult<Vec<Entry>> {
        let (link, settings) = (&inner.link, &inner.settings);
        let block = Duration::from_millis(settings.block_ms);
        let patience = block + Duration::from_millis(settings.timeout_ms);
        let mut connection = match turn.connection.clone() {
            Some(connection) => connection,
            None => {
                let mut fresh = link.connect(patience).await?;
                within(link, patience, self.enlist(inner, &mut fresh)).await?;
                turn.connection.insert(fresh).clone()
            }
        };
        if link.now_ms() >= turn.tend_at_ms {
            let tend = self.tend(inner, turn, &mut connection, max);
            let claimed = within(link, patience, tend).await?;
            if !claimed.is_empty() {
                return Ok(claimed);
            }
        }
        let wait_ms = turn.tend_at_ms.saturating_sub(link.now_ms());
        // Nought would wait for ever.
        let block_ms = settings.block_ms.min(wait_ms).max(1);
        let news = self.wait_for_news(inner, &mut connection, max, block_ms);
        within(link, patience, news).await
    }

    /// Makes the group if there is none, and forgets those who left it long ago.
    async fn enlist(
        &self,
        inner: &Inner,
        connection: &mut MultiplexedConnection,
    ) -> RedisResult<()> {
        let Keys { stream, group, .. } = &self.keys;
        let mut create = redis::cmd("XGROUP");
        // From the beginning: hints may have come before the first worker.
        create.arg("CREATE").arg(stream).arg(group).arg("0").arg("MKSTREAM");
        match create.query_async::<()>(connection).await {
            Err(error) if error.code() == Some("BUSYGROUP") => {}
            created => created?,
        }
        let groom = &inner.scripts.groom;
        groom
            .key(stream)
            .arg(group)
            .arg(inner.settings.gone_ms)
            .invoke_async::<()>(connection)
            .await
    }

    /// Lets go of what was held back until now and claims what the dead left.
    async fn tend(
        &self,
        inner: &Inner,
        turn: &mut Turn,
        connection: &mut MultiplexedConnection,
        max: usize,
    ) -> RedisResult<Vec<Entry>> {
        let (settings, keys) = (&inner.settings, &self.keys);
        let mut tend = inner.scripts.tend.key(&keys.stream);
        tend.key(&keys.delayed).arg(&keys.group).arg(&inner.consumer);
        tend.arg(settings.visibility_ms).arg(&turn.cursor).arg(max);
        let (cursor, claimed, wait_ms): (String, Vec<Entry>, i64) =
            tend.invoke_async(connection).await?;
        // A claim that was cut short goes on with the next read.
        let every_ms = match cursor == START && claimed.len() < max {
            true => settings.block_ms.min(settings.visibility_ms / 4),
            false => 0,
        };
        let wait_ms = u64::try_from(wait_ms).unwrap_or(u64::MAX);
        turn.cursor = cursor;
        turn.tend_at_ms = inner.link.now_ms().saturating_add(every_ms.min(wait_ms));
        Ok(claimed)
    }

    async fn wait_for_news(
        &self,
        inner: &Inner,
        connection: &mut MultiplexedConnection,
        max: usize,
        block_ms: u64,
    ) -> RedisResult<Vec<Entry>> {
        let Keys { stream, group, .. } = &self.keys;
        let mut read = redis::cmd("XREADGROUP");
        read.arg("GROUP").arg(group).arg(&inner.consumer).arg("COUNT").arg(max);
        read.arg("BLOCK").arg(block_ms).arg("STREAMS").arg(stream).arg(">");
        let news: Option<Vec<News>> = read.query_async(connection).await?;
        let entries = news.into_iter().flatten().flat_map(|(_, entries)| entries);
        Ok(entries.map(|(id, fields)| (id, fields, 1)).collect())
    }
}

/// The transfer that an entry points at, if it is a hint at all.
fn transfer_of(fields: &Value) -> Option<TransferId> {
    let fields: Vec<(Vec<u8>, Vec<u8>)> = redis::from_redis_value_ref(fields).ok()?;
    let (_, value) = fields.into_iter().find(|(name, _)| name == b"transfer_id")?;
    std::str::from_utf8(&value).ok()?.parse().ok().map(TransferId)
}
