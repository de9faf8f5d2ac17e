//! Only the member that the ledger names is charged for a reverted batch, and for what the ledger
//! does not explain only if it was alone.

use landfall_core::attempt::Outcome;
use landfall_core::{Attempt, Fate, Note, Purpose, TrailEntry, TrailEvent, Transfer};

use super::Broken;

pub fn check(
    attempts: &[Attempt],
    transfer: &Transfer,
    trail: &[TrailEntry],
) -> Result<(), Broken> {
    for attempt in attempts.iter().filter(|attempt| attempt.purpose == Purpose::Pay) {
        let Some(Fate::Landed(landing)) = &attempt.fate else { continue };
        let index = attempt.members.iter().position(|member| *member == transfer.id);
        let Some(outcome) = index.and_then(|index| landing.outcomes.get(index)) else { continue };
        let Some(charged) = was_charged(trail, &attempt.hash) else { continue };
        let guilty = match outcome {
            Outcome::Unprepared { .. } | Outcome::OwnFault { .. } => true,
            Outcome::Unexplained { .. } => charged && attempt.members.len() == 1,
            Outcome::Done
            | Outcome::Sibling
            | Outcome::Overtaken { .. }
            | Outcome::RelayFault { .. } => false,
        };
        if charged != guilty {
            let what =
                format!("{} by {}: {outcome:?}, charged: {charged}", transfer.key, attempt.hash);
            return Err(Broken::new(
                "blame goes where the ledger puts it",
                Some(&transfer.key),
                what,
            ));
        }
    }
    Ok(())
}

/// Whether the trail charges the transfer for this attempt; none if it says nothing of it.
fn was_charged(trail: &[TrailEntry], hash: &str) -> Option<bool> {
    let unpaid = trail.iter().position(|entry| {
        entry.event == TrailEvent::Noted(Note::Unpaid) && entry.tx_hash.as_deref() == Some(hash)
    })?;
    let next = trail.get(unpaid + 1)?;
    let failed = matches!(next.event, TrailEvent::Entered(state) if state.is_failed());
    Some(next.event == TrailEvent::Noted(Note::Retry) || failed)
}
