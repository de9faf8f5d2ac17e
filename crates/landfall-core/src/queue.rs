//! The seam of hints. A queue wakes somebody up; the store decides.
//!
//! Losing a hint costs latency, never a transfer. A duplicate costs a lost compare-and-set.

use async_trait::async_trait;

use crate::ids::TransferId;
use crate::machine::Stage;

/// "Look at this transfer."
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hint {
    pub transfer: TransferId,
    pub stage: Stage,
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
    /// room.
    async fn push(&self, hints: &[Hint]) -> Result<usize, QueueError>;
    /// Waits for at least one hint of the stage and returns up to `max`, oldest first.
    async fn pull(&self, stage: Stage, max: usize) -> Result<Vec<Delivery>, QueueError>;
    /// Deletes what was handled. MUST be harmless when repeated.
    async fn ack(&self, deliveries: &[Delivery]) -> Result<(), QueueError>;
    /// Hints waiting, for metrics.
    async fn depth(&self, stage: Stage) -> Result<usize, QueueError>;
}
