//! Attempts that stay adrift: those that the nodes' evidence cannot decide are the operator's.
//!
//! The ledgers' own books are the explorers on which the operator looks them up.
//! **Rule:** only where the relay may leave it to an operator. An attempt that is open for any
//! other reason stays open here, and the run fails for it.

use std::collections::BTreeMap;

use landfall_core::store::Store;
use landfall_core::{Attempt, Fate, LaneId, Nonce};
use landfall_engine::Engine;

use crate::part::Part;

/// Adrift for so long is adrift for long. By the book it is an hour; worlds have fences and
/// backoffs that are a few times shorter than a relay's, and end sooner.
const LONG_MS: u64 = 300_000;

/// What the operator has noted: which attempts are open, and since when (the relay's own clock may
/// have jumped), and which were decided by hand.
#[derive(Default)]
pub struct Noted {
    since_ms: BTreeMap<String, u64>,
    ruled: Vec<(LaneId, Nonce)>,
}

impl Noted {
    /// Decides what is the operator's to decide. Returns it, in words.
    pub async fn decide(
        &mut self,
        store: &dyn Store,
        parts: &[Box<dyn Part>],
        engine: &Engine,
        now_ms: u64,
    ) -> Vec<String> {
        let mut decided = Vec::new();
        for part in parts {
            let Some(explorer) = part.explorer() else { continue };
            for attempt in &store.open_attempts_of(part.rail()).await.unwrap_or_default() {
                let since_ms = *self.since_ms.entry(attempt.hash.clone()).or_insert(now_ms);
                if since_ms + LONG_MS > now_ms {
                    continue;
                }
                let excuse = explorer.excuse(attempt).or(self.passed_by_word(attempt));
                let Some(why) = excuse else { continue };
                let Some(fate) = explorer.truth(attempt) else { continue };
                let is = if matches!(fate, Fate::Sunk(_)) { "sunk" } else { "landed" };
                // Decided meanwhile by the relay itself: all the better.
                if engine.decide(attempt.id, fate).await.is_ok() {
                    self.ruled.push((attempt.lane.clone(), attempt.nonce));
                    decided.push(format!("attempt {} is {is}: {why}", attempt.id));
                }
            }
        }
        decided
    }

    /// Who passed its nonce may be known by an operator's word alone.
    fn passed_by_word(&self, attempt: &Attempt) -> Option<&'static str> {
        let passes =
            |(lane, nonce): &(LaneId, Nonce)| *lane == attempt.lane && *nonce > attempt.nonce;
        self.ruled.iter().any(passes).then_some("a later one was decided by hand")
    }
}
