//! Receiving for all stages at once, and sorting.
//!
//! One SQS queue carries the hints of all stages, and SQS cannot be asked for those of one. So a
//! process receives for all of them, one turn at a time, and sorts what came into a short line per
//! stage, from which pulls take. What waits there too long is let go: by then SQS hands it to
//! somebody else.
//! A turn runs in a task of its own: whoever gives up a pull leaves the hints to the next.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use aws_sdk_sqs::types::Message;
use futures::future::try_join_all;
use landfall_core::Stage;
use landfall_core::queue::{Delivery, QueueError};
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedMutexGuard};
use tokio::task::AbortHandle;

use crate::link::{Link, Which};
use crate::message;
use crate::settings::Settings;
use crate::{BATCH, delete};

/// Receives at once in a turn, while there is plenty.
const TOGETHER: usize = 8;

pub(crate) struct Receiver {
    link: Arc<Link>,
    settings: Settings,
    lines: BTreeMap<Stage, Line>,
    /// Whoever holds it receives.
    turn: Arc<tokio::sync::Mutex<()>>,
    running: Mutex<Option<AbortHandle>>,
}

/// Received and not yet pulled.
#[derive(Default)]
struct Line {
    hints: Mutex<VecDeque<Received>>,
    arrived: Notify,
}

struct Received {
    delivery: Delivery,
    at_ms: u64,
}

impl Receiver {
    pub fn new(link: Arc<Link>, settings: Settings) -> Receiver {
        let lines = Stage::ALL.into_iter().map(|stage| (stage, Line::default())).collect();
        Receiver { link, settings, lines, turn: Arc::default(), running: Mutex::default() }
    }

    /// Waits for at least one hint of the stage.
    pub async fn pull(
        self: &Arc<Receiver>,
        stage: Stage,
        max: usize,
    ) -> Result<Vec<Delivery>, QueueError> {
        let line = self.lines.get(&stage);
        let line = line.ok_or_else(|| QueueError(format!("no stage is called {stage}")))?;
        loop {
            // Listened for before the look, so that nothing arrives between the two unnoticed.
            let arrived = line.arrived.notified();
            tokio::pin!(arrived);
            arrived.as_mut().enable();
            let ready = self.take(line, max);
            if !ready.is_empty() {
                return Ok(ready);
            }
            let turn = tokio::select! {
                _ = &mut arrived => continue,
                turn = self.turn.clone().lock_owned() => turn,
            };
            let ready = self.take(line, max);
            if !ready.is_empty() {
                return Ok(ready);
            }
            let receiving = tokio::spawn(self.clone().receive(turn, max));
            *self.running.lock() = Some(receiving.abort_handle());
            tokio::select! {
                _ = arrived => {}
                done = receiving => {
                    done.map_err(|panic| QueueError(format!("receiving failed: {panic}")))??;
                }
            }
        }
    }

    /// Ends a receive that waits at the server: nobody is left to take what it brings.
    pub fn leave(&self) {
        if let Some(running) = self.running.lock().take() {
            running.abort();
        }
    }

    fn take(&self, line: &Line, max: usize) -> Vec<Delivery> {
        let visibility_ms = u64::from(self.settings.visibility_s) * 1_000;
        let now_ms = self.link.now_ms();
        let mut hints = line.hints.lock();
        while hints.front().is_some_and(|first| now_ms >= first.at_ms + visibility_ms) {
            hints.pop_front();
        }
        let taken = hints.len().min(max);
        hints.drain(..taken).map(|received| received.delivery).collect()
    }

    /// One turn: waits for the first messages, and while they come in full batches asks for more.
    async fn receive(
        self: Arc<Receiver>,
        turn: OwnedMutexGuard<()>,
        max: usize,
    ) -> Result<(), QueueError> {
        let first = self.receive_once(self.settings.wait_s).await?;
        let mut plenty = first.len() == BATCH;
        let mut wanted = max.saturating_sub(first.len());
        self.sort(first).await;
        while plenty && wanted > 0 {
            let together = wanted.div_ceil(BATCH).min(TOGETHER);
            let receives = (0..together).map(|_| self.receive_once(0));
            let messages = try_join_all(receives).await?.concat();
            plenty = messages.len() == together * BATCH;
            wanted = wanted.saturating_sub(messages.len());
            self.sort(messages).await;
        }
        drop(turn);
        Ok(())
    }

    async fn receive_once(&self, wait_s: u32) -> Result<Vec<Message>, QueueError> {
        let settings = &self.settings;
        let url = self.link.url(Which::Live).await?;
        let request = self.link.client.receive_message().queue_url(url);
        let request = request.max_number_of_messages(BATCH as i32);
        let request = request.wait_time_seconds(seconds(wait_s));
        let request = request.visibility_timeout(seconds(settings.visibility_s));
        let answer = self.link.long_call(wait_s, request.send()).await?;
        Ok(answer.messages.unwrap_or_default())
    }

    async fn sort(&self, messages: Vec<Message>) {
        let at_ms = self.link.now_ms();
        let mut overflow = Vec::new();
        for message in messages {
            let (Some(body), Some(receipt)) = (message.body, message.receipt_handle) else {
                continue;
            };
            let Some(hint) = message::decode(&body) else {
                // Left where it is: after its last receive SQS puts it aside.
                tracing::warn!(id = message.message_id, "a message that is no hint");
                continue;
            };
            let Some(line) = self.lines.get(&hint.stage) else { continue };
            let mut hints = line.hints.lock();
            if hints.len() >= self.settings.buffer {
                overflow.push(receipt);
                continue;
            }
            hints.push_back(Received { delivery: Delivery { hint, receipt }, at_ms });
            drop(hints);
            line.arrived.notify_waiters();
        }
        if !overflow.is_empty() {
            tracing::debug!(hints = overflow.len(), "no room; the sweeper finds them");
            // If it fails they come again, which is as good.
            let _ = delete(&self.link, &overflow).await;
        }
    }
}

pub(crate) fn seconds(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}
