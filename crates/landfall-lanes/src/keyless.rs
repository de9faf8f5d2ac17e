//! A lane whose key is not here: what is open on it is looked at and sent again, no more.
//!
//! Whoever has the key can do more: land a fence, and pay. So the lane is given back when nothing
//! is left to do, and now and then while something is; and before it is taken again, whoever has
//! the key had the time to take it first.

use std::time::Duration;

use crate::deck::Deck;
use crate::driver::Driver;

/// Why a lane without its key was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rest {
    /// Whether the ledger's nonce was explained. Until it is, there is something to do.
    explained: bool,
}

impl Driver {
    /// Whether the lane is better left to others for now. A halted one is nobody's to use.
    pub fn may_rest(&self, deck: &Deck) -> Option<Rest> {
        if self.face.signing || self.face.halted.get().is_some() {
            return None;
        }
        let explained = deck.next.is_some();
        let is_done = explained && deck.aboard.is_empty();
        let held_ms = self.shared.clock.monotonic_ms().saturating_sub(deck.since_ms);
        // What is adrift for so long waits for a fence.
        let is_adrift = held_ms >= self.shared.settings.fence_after_ms;
        (is_done || is_adrift).then_some(Rest { explained })
    }

    /// Returns when there is something to do on the lane that nobody with its key may be doing, or
    /// when stopping.
    pub async fn rest(&self, rest: Rest) {
        let mut stop = self.shared.stop.watch();
        loop {
            // Whoever waits for a lane asks for it several times per lease.
            let lease = Duration::from_millis(self.shared.settings.lease_ms);
            tokio::select! {
                biased;
                _ = stop.until(|stop| *stop) => return,
                _ = self.shared.clock.sleep(lease) => {}
            }
            match self.shared.store.open_attempts(&self.face.id).await {
                Ok(open) if open.is_empty() && rest.explained => self.face.clear(),
                Ok(_) => return,
                Err(error) => tracing::debug!(lane = %self.face.id, %error, "not known if needed"),
            }
        }
    }
}
