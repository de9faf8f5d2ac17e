//! The caller's ledger, under the name of executions, with its answers timed.

use std::sync::Arc;

use async_trait::async_trait;
use landfall_core::ledger::{
    Broadcast, Later, Ledger, LedgerNonce, Look, Manner, Progress, RailError, Waiting,
};
use landfall_core::{Attempt, Clock, LaneId, RailName};

use crate::tx::numbers::Numbers;

pub(crate) struct WatchedLedger {
    pub inner: Arc<dyn Ledger>,
    pub clock: Arc<dyn Clock>,
    pub numbers: Arc<Numbers>,
}

#[async_trait]
impl Ledger for WatchedLedger {
    /// Not the ledger's own: a relay on the same store must not take these attempts for its own.
    fn name(&self) -> RailName {
        RailName::Lanes
    }

    fn manner(&self) -> Manner {
        self.inner.manner()
    }

    fn lanes(&self) -> Vec<LaneId> {
        self.inner.lanes()
    }

    fn owns(&self, lane: &LaneId) -> bool {
        self.inner.owns(lane)
    }

    async fn broadcast(&self, attempt: &Attempt, round: u32) -> Broadcast {
        let since_ms = self.clock.monotonic_ms();
        let answer = self.inner.broadcast(attempt, round).await;
        self.numbers.sent(&attempt.lane, self.clock.monotonic_ms().saturating_sub(since_ms));
        answer
    }

    async fn look(&self, attempt: &Attempt, passed: bool) -> Result<Look, RailError> {
        self.inner.look(attempt, passed).await
    }

    async fn inquest(&self, attempt: &Attempt, later: &[Later]) -> Result<Look, RailError> {
        self.inner.inquest(attempt, later).await
    }

    async fn nonce(&self, lane: &LaneId) -> Result<Option<LedgerNonce>, RailError> {
        self.inner.nonce(lane).await
    }

    async fn nonces(&self) -> Result<Vec<(LaneId, LedgerNonce)>, RailError> {
        self.inner.nonces().await
    }

    async fn pulse(&self, waiting: &[Waiting]) -> Result<Vec<Progress>, RailError> {
        self.inner.pulse(waiting).await
    }
}
