//! Moves: the compare-and-set of one transfer, with its trail and the claims it ends.
//!
//! **Invariant:** a plain move never changes which attempt carries a transfer; opening and
//! settling alone do.

use landfall_core::store::{Applied, AppliedBatch, Result, StoreError};
use landfall_core::{AttemptId, Move, TransferId};

use crate::Tables;

impl Tables {
    pub(crate) fn apply(&mut self, moves: &[Move], now_ms: u64) -> Result<AppliedBatch> {
        if let Some(broken) = moves.iter().find(|step| step.attempt != step.from_attempt) {
            return Err(StoreError::Corrupt(format!(
                "a move of transfer {} changes its attempt without opening or settling one",
                broken.id
            )));
        }
        let mut batch = AppliedBatch::default();
        for step in moves {
            let applied = if self.is_current(step) {
                self.write_move(step, step.attempt, now_ms, &mut batch.released);
                Applied::Applied
            } else {
                Applied::Stale
            };
            batch.moves.push(applied);
        }
        Ok(batch)
    }

    /// Whether the transfer is as the move expects it.
    pub(crate) fn is_current(&self, step: &Move) -> bool {
        self.transfers.get(&step.id).is_some_and(|transfer| {
            transfer.state == step.from_state
                && step.from_version.is_none_or(|version| {
                    version == transfer.version && step.from_updated_ms == transfer.updated_ms
                })
                && transfer.attempt == step.from_attempt
        })
    }

    /// Writes a move that was found current, and leaves `attempt` to carry the transfer.
    pub(crate) fn write_move(
        &mut self,
        step: &Move,
        attempt: Option<AttemptId>,
        now_ms: u64,
        released: &mut Vec<TransferId>,
    ) {
        let Some(transfer) = self.transfers.get_mut(&step.id) else { return };
        *transfer = step.applied_to(transfer);
        transfer.attempt = attempt;
        self.trails.entry(step.id).or_default().extend(step.trail.iter().cloned());
        for end in &step.claims {
            released.extend(self.end_claim(end, step.id, now_ms));
        }
    }
}
