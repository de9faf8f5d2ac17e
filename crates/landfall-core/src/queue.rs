//! The seam of hints. A queue wakes somebody up; the store decides.
//!
//! Losing a hint costs latency, never a transfer. A duplicate costs a lost compare-and-set. So a
//! queue promises little, and what it cannot do it may leave: the sweeper covers for all of it.
//! Not here: how long a hint handed out stays hidden, after how many deliveries it is put aside,
//! how much room there is. Those are each queue's own settings.

use async_trait::async_trait;

use crate::ids::TransferId;
use crate::machine::Stage;
use crate::transfer::Transfer;

/// "Look at this transfer."
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hint {
    pub transfer: TransferId,
    pub stage: Stage,
}

impl Hint {
    /// At a transfer as it is; none where nobody has to work on it.
    pub fn at(transfer: &Transfer) -> Option<Hint> {
        Some(Hint { transfer: transfer.id, stage: transfer.state.stage()? })
    }
}

/// When and how soon hints are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Not before so much time has passed.
    pub delay_ms: u64,
    /// Higher is more urgent.
    pub priority: u8,
}

impl Terms {
    /// At once, and as urgent as most.
    pub const DEFAULT: Terms = Terms { delay_ms: 0, priority: 100 };
}

impl Default for Terms {
    fn default() -> Terms {
        Terms::DEFAULT
    }
}

/// A hint handed out, to be deleted once its move has committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub hint: Hint,
    /// The queue's own handle.
    pub receipt: String,
}

/// A queue that could not be reached. The sweeper covers for it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("queue unavailable: {0}")]
pub struct QueueError(pub String);

/// Hands hints to workers, at least once while it lives.
#[async_trait]
pub trait Queue: Send + Sync + 'static {
    /// Gives hints; returns how many were dropped because the queue is full. MUST NOT wait for
    /// room, and MUST fail within a bounded time when the queue cannot be reached.
    async fn push(&self, hints: &[Hint]) -> Result<usize, QueueError>;
    /// The same on terms. A queue that knows no priorities takes all hints for equal; one that
    /// cannot hold hints back so long drops them: the store knows when their transfers are due.
    async fn push_on(&self, terms: Terms, hints: &[Hint]) -> Result<usize, QueueError> {
        match terms.delay_ms {
            0 => self.push(hints).await,
            _ => Ok(hints.len()),
        }
    }
    /// Gives hints at transfers that were just taken and are left to other processes. A queue whose
    /// messages others read may say in them what is asked for; it decides nothing.
    async fn announce(&self, transfers: &[Transfer]) -> Result<usize, QueueError> {
        let hints: Vec<Hint> = transfers.iter().filter_map(Hint::at).collect();
        self.push(&hints).await
    }
    /// Waits for at least one hint of the stage and returns up to `max`, oldest first where the
    /// queue keeps an order. A pull that is given up MUST NOT lose a hint for good. A message that
    /// is no hint MUST NOT stop the others.
    async fn pull(&self, stage: Stage, max: usize) -> Result<Vec<Delivery>, QueueError>;
    /// Deletes what was handled. MUST be harmless when repeated.
    async fn ack(&self, deliveries: &[Delivery]) -> Result<(), QueueError>;
    /// Hints waiting, for metrics.
    async fn depth(&self, stage: Stage) -> Result<usize, QueueError>;
    /// Hints put aside because they were handed out too often without being deleted, and messages
    /// that are none. Each means "look at the store", never that a transfer failed.
    async fn put_aside(&self) -> Result<usize, QueueError> {
        Ok(0)
    }
}
