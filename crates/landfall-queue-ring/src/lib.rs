//! The queue in the process: one bounded ring of hints per stage.
//!
//! Full means that the sweeper will find it: a push never waits and drops what has no room.
//! Not here: durability, other processes, delays. The store knows what is due.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use async_trait::async_trait;
use landfall_core::Stage;
use landfall_core::queue::{Delivery, Hint, Queue, QueueError};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Hints kept per stage: seconds of work for any rail, a quarter of a megabyte.
pub const DEFAULT_CAPACITY: usize = 10_000;

/// A ring per stage, made when the stage is first named.
pub struct RingQueue {
    capacity: usize,
    rings: Mutex<BTreeMap<Stage, Arc<Ring>>>,
}

#[derive(Default)]
struct Ring {
    hints: Mutex<VecDeque<Hint>>,
    arrived: Notify,
}

impl RingQueue {
    /// A queue with room for `capacity` hints of each stage.
    pub fn new(capacity: usize) -> RingQueue {
        RingQueue { capacity, rings: Mutex::default() }
    }

    fn ring(&self, stage: Stage) -> Arc<Ring> {
        self.rings.lock().entry(stage).or_default().clone()
    }
}

impl Default for RingQueue {
    fn default() -> RingQueue {
        RingQueue::new(DEFAULT_CAPACITY)
    }
}

impl Ring {
    /// False if there is no room.
    fn push(&self, hint: Hint, capacity: usize) -> bool {
        let mut hints = self.hints.lock();
        if hints.len() >= capacity {
            return false;
        }
        hints.push_back(hint);
        drop(hints);
        self.arrived.notify_one();
        true
    }

    fn take(&self, max: usize) -> Vec<Hint> {
        let mut hints = self.hints.lock();
        let taken = hints.len().min(max);
        let batch: Vec<Hint> = hints.drain(..taken).collect();
        let more = !hints.is_empty();
        drop(hints);
        // Several pushes may have left one permit: whoever leaves hints behind wakes the next.
        if more {
            self.arrived.notify_one();
        }
        batch
    }
}

#[async_trait]
impl Queue for RingQueue {
    async fn push(&self, hints: &[Hint]) -> Result<usize, QueueError> {
        let pushed = |hint: &&Hint| self.ring(hint.stage).push(**hint, self.capacity);
        Ok(hints.len() - hints.iter().filter(pushed).count())
    }

    async fn pull(&self, stage: Stage, max: usize) -> Result<Vec<Delivery>, QueueError> {
        let ring = self.ring(stage);
        loop {
            let batch = ring.take(max);
            if !batch.is_empty() || max == 0 {
                let deliver = |hint| Delivery { hint, receipt: String::new() };
                return Ok(batch.into_iter().map(deliver).collect());
            }
            ring.arrived.notified().await;
        }
    }

    async fn ack(&self, _deliveries: &[Delivery]) -> Result<(), QueueError> {
        Ok(())
    }

    async fn depth(&self, stage: Stage) -> Result<usize, QueueError> {
        Ok(self.ring(stage).hints.lock().len())
    }
}
