//! The queue in the process: one bounded ring of hints per stage and priority.
//!
//! Full means that the sweeper will find it: a push never waits and drops what has no room.
//! Not here: durability, other processes, delays. The store knows what is due.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use async_trait::async_trait;
use landfall_core::Stage;
use landfall_core::queue::{Delivery, Hint, Queue, QueueError, Terms};
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
    hints: Mutex<Hints>,
    arrived: Notify,
}

/// Hints by priority, the most urgent first, each priority oldest first.
#[derive(Default)]
struct Hints {
    by_priority: BTreeMap<Reverse<u8>, VecDeque<Hint>>,
    count: usize,
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

impl Hints {
    fn put(&mut self, hint: Hint, priority: u8) {
        self.by_priority.entry(Reverse(priority)).or_default().push_back(hint);
        self.count += 1;
    }

    fn take(&mut self, max: usize) -> Vec<Hint> {
        let mut batch = Vec::with_capacity(max.min(self.count));
        for hints in self.by_priority.values_mut() {
            let taken = hints.len().min(max - batch.len());
            batch.extend(hints.drain(..taken));
        }
        self.count -= batch.len();
        batch
    }
}

impl Ring {
    /// False if there is no room.
    fn push(&self, hint: Hint, priority: u8, capacity: usize) -> bool {
        let mut hints = self.hints.lock();
        if hints.count >= capacity {
            return false;
        }
        hints.put(hint, priority);
        drop(hints);
        self.arrived.notify_one();
        true
    }

    fn take(&self, max: usize) -> Vec<Hint> {
        let mut hints = self.hints.lock();
        let batch = hints.take(max);
        let more = hints.count > 0;
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
        self.push_on(Terms::DEFAULT, hints).await
    }

    async fn push_on(&self, terms: Terms, hints: &[Hint]) -> Result<usize, QueueError> {
        if terms.delay_ms > 0 {
            return Ok(hints.len());
        }
        let push = |hint: &&Hint| self.ring(hint.stage).push(**hint, terms.priority, self.capacity);
        Ok(hints.len() - hints.iter().filter(push).count())
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
        Ok(self.ring(stage).hints.lock().count)
    }
}
