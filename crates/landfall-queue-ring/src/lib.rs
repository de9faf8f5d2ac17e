//! The default queue: in process, bounded, first come first served.
//!
//! Full means that the sweeper will find it. Nothing survives the process, and nothing needs to:
//! the store is the truth.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use async_trait::async_trait;
use landfall_core::Stage;
use landfall_core::queue::{Delivery, Hint, Queue, QueueError};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Hints a stage holds by default: seconds of work at full speed, about a megabyte.
pub const DEFAULT_CAPACITY: usize = 10_000;

/// A bounded queue per stage.
pub struct RingQueue {
    capacity: usize,
    stages: Mutex<BTreeMap<Stage, Arc<Ring>>>,
}

#[derive(Default)]
struct Ring {
    hints: Mutex<VecDeque<Hint>>,
    arrived: Notify,
}

impl RingQueue {
    /// A queue that holds at most `capacity` hints per stage.
    pub fn new(capacity: usize) -> RingQueue {
        RingQueue { capacity, stages: Mutex::default() }
    }

    fn ring(&self, stage: Stage) -> Arc<Ring> {
        self.stages.lock().entry(stage).or_default().clone()
    }
}

#[async_trait]
impl Queue for RingQueue {
    async fn push(&self, hints: &[Hint]) -> Result<usize, QueueError> {
        let mut dropped = 0;
        for hint in hints {
            let ring = self.ring(hint.stage);
            let mut waiting = ring.hints.lock();
            match waiting.len() < self.capacity {
                true => waiting.push_back(*hint),
                false => dropped += 1,
            }
            drop(waiting);
            ring.arrived.notify_one();
        }
        Ok(dropped)
    }

    async fn pull(&self, stage: Stage, max: usize) -> Result<Vec<Delivery>, QueueError> {
        let ring = self.ring(stage);
        loop {
            let taken: Vec<Hint> = {
                let mut waiting = ring.hints.lock();
                let count = waiting.len().min(max);
                waiting.drain(..count).collect()
            };
            if !taken.is_empty() {
                // Another puller may have been woken by the same push and left with nothing.
                ring.arrived.notify_one();
                let deliver = |hint| Delivery { hint, receipt: String::new() };
                return Ok(taken.into_iter().map(deliver).collect());
            }
            ring.arrived.notified().await;
        }
    }

    async fn ack(&self, _: &[Delivery]) -> Result<(), QueueError> {
        Ok(())
    }

    async fn depth(&self, stage: Stage) -> Result<usize, QueueError> {
        Ok(self.ring(stage).hints.lock().len())
    }
}
