//! What only an operator may do, with evidence on record.

use landfall_core::store::{Settled, Settlement, StoreError};
use landfall_core::{AttemptId, Fate};
use landfall_lanes::Owner;

use crate::engine::Engine;

/// Why an operator's word was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperateError {
    #[error("there is no attempt {0}")]
    NoSuchAttempt(AttemptId),
    #[error("attempt {0} is decided already")]
    Decided(AttemptId),
    #[error("the attempt has {0} members; each needs its outcome")]
    OutcomesMissing(usize),
    #[error("the lane changed hands meanwhile; try again")]
    LaneChanged,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// Decides an attempt that no evidence of the ledger can decide, as `landfall adrift decide`.
    /// The word of an operator stands in the members' trails as the death certificate does.
    pub async fn decide(&self, id: AttemptId, fate: Fate) -> Result<(), OperateError> {
        let attempt = self.store().attempt(id).await?.ok_or(OperateError::NoSuchAttempt(id))?;
        if attempt.fate.is_some() {
            return Err(OperateError::Decided(id));
        }
        let Some(runner) = self.runner(attempt.rail) else {
            return Err(OperateError::NoSuchAttempt(id));
        };
        let members = self.store().transfers(&attempt.members).await?;
        if let Fate::Landed(landing) = &fate
            && landing.outcomes.len() != members.len()
        {
            return Err(OperateError::OutcomesMissing(members.len()));
        }
        let lanes = self.store().lanes().await?;
        let lane = lanes.iter().find(|lane| lane.id == attempt.lane);
        let epoch = lane.ok_or(OperateError::LaneChanged)?.epoch;
        let now_ms = self.clock().now_ms();
        let moves = runner.settling(&attempt, &members, &fate, now_ms);
        let settlement = Settlement {
            attempt: id,
            lane: attempt.lane.clone(),
            epoch,
            fate: fate.clone(),
            moves: moves.clone(),
            now_ms,
        };
        match self.store().settle(settlement).await? {
            Settled::Done { moved, released } => {
                runner.settled(&attempt, &members, &fate, moves, moved, released).await;
                Ok(())
            }
            Settled::AlreadyDecided => Err(OperateError::Decided(id)),
            Settled::Fenced => Err(OperateError::LaneChanged),
        }
    }
}
