//! Hints in AWS SQS: one queue for all stages, and its dead letter queue.
//!
//! - A message is one hint, in seed 002's body (`message`).
//! - SQS cannot be asked for the hints of one stage, so a process receives for all and sorts
//!   (`receiver`). **Rule:** all workers of one queue serve the same rails; others need a queue of
//!   their own name, or hints would wait in the wrong process until SQS gives up on them.
//! - What is not deleted comes again after `visibility_s`; after `receives_max` times, SQS itself
//!   puts it aside. So it does with messages that are no hints: they are logged and left alone.
//! - Duplicates are normal, order is not promised, and there are no priorities.
//!
//! The library below may repeat requests by itself: hints may come twice. (Nothing that pays does.)
//! Not here: longer delays than SQS has (15 minutes); such hints are dropped, and the sweeper comes
//! in time.

mod link;
mod message;
mod receiver;
mod settings;
mod setup;

use std::sync::Arc;

use async_trait::async_trait;
use aws_sdk_sqs::types::{
    DeleteMessageBatchRequestEntry, QueueAttributeName, SendMessageBatchRequestEntry,
};
use futures::{StreamExt, TryStreamExt, stream};
use landfall_core::queue::{Delivery, Hint, Queue, QueueError, Terms};
use landfall_core::{Clock, Stage, Transfer};

use crate::link::{Link, Which};
use crate::receiver::{Receiver, seconds};

pub use crate::settings::{AccessKey, Settings};
pub use crate::setup::SetupError;

/// Messages in one request: SQS takes no more.
const BATCH: usize = 10;
/// Requests of one push or delete in flight at once.
const TOGETHER: usize = 8;
/// The longest delay SQS knows.
const DELAY_MAX_S: u64 = 900;

/// One process's end of the queue.
pub struct SqsQueue {
    link: Arc<Link>,
    receiver: Arc<Receiver>,
    settings: Settings,
}

impl SqsQueue {
    /// Reads the environment's AWS settings where none are given; asks nobody yet.
    pub async fn new(settings: Settings, clock: Arc<dyn Clock>) -> SqsQueue {
        let link = Arc::new(Link::new(&settings, clock).await);
        let receiver = Arc::new(Receiver::new(link.clone(), settings.clone()));
        SqsQueue { link, receiver, settings }
    }

    fn link(&self) -> &Link {
        &self.link
    }

    /// Sends bodies; returns how many were refused.
    async fn send_all(&self, bodies: &[String], delay_s: u32) -> Result<usize, QueueError> {
        if bodies.is_empty() {
            return Ok(0);
        }
        self.link
            .ask(async |link| {
                let mut batches = Vec::new();
                for batch in bodies.chunks(BATCH) {
                    batches.push(send(link, batch, delay_s));
                }
                let sent = stream::iter(batches).buffer_unordered(TOGETHER);
                sent.try_fold(0, async |dropped, more| Ok(dropped + more)).await
            })
            .await
    }

    async fn waiting(&self, which: Which) -> Result<usize, QueueError> {
        self.link
            .ask(async |link| {
                let name = QueueAttributeName::ApproximateNumberOfMessages;
                let request = link.client.get_queue_attributes().queue_url(link.url(which).await?);
                let answer = link.call(request.attribute_names(name.clone()).send()).await?;
                let count = answer.attributes.and_then(|mut all| all.remove(&name));
                count
                    .and_then(|count| count.parse().ok())
                    .ok_or_else(|| QueueError("SQS did not say how many messages wait".into()))
            })
            .await
    }
}

impl Drop for SqsQueue {
    fn drop(&mut self) {
        self.receiver.leave();
    }
}

/// Sends up to [`BATCH`] bodies; returns how many were refused.
async fn send(link: &Link, bodies: &[String], delay_s: u32) -> Result<usize, QueueError> {
    let entry = |(index, body): (usize, &String)| {
        let entry = SendMessageBatchRequestEntry::builder().id(index.to_string());
        let entry = entry.message_body(body);
        let delay = (delay_s > 0).then(|| seconds(delay_s));
        entry.set_delay_seconds(delay).build().expect("id and body are given")
    };
    let entries = bodies.iter().enumerate().map(entry).collect();
    let request = link.client.send_message_batch().queue_url(link.url(Which::Live).await?);
    let answer = link.call(request.set_entries(Some(entries)).send()).await?;
    for refused in &answer.failed {
        tracing::warn!(code = refused.code, message = refused.message, "SQS refused a hint");
    }
    Ok(answer.failed.len())
}

/// Deletes by receipt. One that is too old is ignored: its message comes again, or is gone.
async fn delete(link: &Link, receipts: &[String]) -> Result<(), QueueError> {
    let url = link.url(Which::Live).await?;
    let mut requests = Vec::new();
    for batch in receipts.chunks(BATCH) {
        let entry = |(index, receipt): (usize, &String)| {
            let entry = DeleteMessageBatchRequestEntry::builder().id(index.to_string());
            entry.receipt_handle(receipt).build().expect("id and receipt are given")
        };
        let entries = batch.iter().enumerate().map(entry).collect();
        let request = link.client.delete_message_batch().queue_url(url);
        requests.push(link.call(request.set_entries(Some(entries)).send()));
    }
    stream::iter(requests).buffer_unordered(TOGETHER).map_ok(|_| ()).try_collect().await
}

#[async_trait]
impl Queue for SqsQueue {
    async fn push(&self, hints: &[Hint]) -> Result<usize, QueueError> {
        self.push_on(Terms::DEFAULT, hints).await
    }

    async fn push_on(&self, terms: Terms, hints: &[Hint]) -> Result<usize, QueueError> {
        let delay_s = terms.delay_ms.div_ceil(1_000);
        if delay_s > DELAY_MAX_S {
            return Ok(hints.len());
        }
        let now_ms = self.link.clock.now_ms();
        let bodies: Vec<String> = hints.iter().map(|hint| message::encode(hint, now_ms)).collect();
        self.send_all(&bodies, delay_s as u32).await
    }

    async fn announce(&self, transfers: &[Transfer]) -> Result<usize, QueueError> {
        let now_ms = self.link.clock.now_ms();
        let body = |one: &Transfer| Some(message::announce(&Hint::at(one)?, one, now_ms));
        let bodies: Vec<String> = transfers.iter().filter_map(body).collect();
        self.send_all(&bodies, 0).await
    }

    async fn pull(&self, stage: Stage, max: usize) -> Result<Vec<Delivery>, QueueError> {
        match max {
            0 => Ok(Vec::new()),
            _ => self.receiver.pull(stage, max).await,
        }
    }

    async fn ack(&self, deliveries: &[Delivery]) -> Result<(), QueueError> {
        if deliveries.is_empty() {
            return Ok(());
        }
        let receipts: Vec<String> = deliveries.iter().map(|one| one.receipt.clone()).collect();
        self.link.ask(async |link| delete(link, &receipts).await).await
    }

    /// Of all stages together: SQS counts messages, not what is in them.
    async fn depth(&self, _: Stage) -> Result<usize, QueueError> {
        self.waiting(Which::Live).await
    }

    async fn put_aside(&self) -> Result<usize, QueueError> {
        self.waiting(Which::Dead).await
    }
}
