//! A lane whose key is not here: what is open on it is looked at and sent again, no more.
//!
//! Whoever has the key can do more: land a fence, and pay. So the lane is given back when nothing
//! is left to do, and now and then while something is; and it is taken again only when nobody has
//! touched its lease for as long as a lease lasts, in which whoever has the key would have.

use std::time::Duration;

use landfall_core::{Epoch, Lane};

use crate::deck::Deck;
use crate::driver::Driver;

/// A lane's lease as last read, and since when it has been the same, on the process's own clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lease {
    epoch: Epoch,
    until_ms: u64,
    since_ms: u64,
}

impl Lease {
    /// The lease as it is now, known to be so since it was first read so.
    pub fn read(before: Option<Lease>, lane: &Lane, now_ms: u64) -> Lease {
        let (epoch, until_ms) = (lane.epoch, lane.lease_until_ms);
        let same = before.filter(|before| (before.epoch, before.until_ms) == (epoch, until_ms));
        same.unwrap_or(Lease { epoch, until_ms, since_ms: now_ms })
    }
}

/// A lane without its key was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rest {
    /// The epoch under which the ledger's nonce was explained. Until it is, and when somebody else
    /// has held the lane since, there is something to do.
    explained: Option<Epoch>,
}

impl Rest {
    /// Before the lane was ever held here.
    pub const FIRST: Rest = Rest { explained: None };
}

impl Driver {
    /// Whether the lane is better left to others for now. A halted one is nobody's to use.
    pub fn may_rest(&self, deck: &Deck) -> Option<Rest> {
        if self.face.signing || self.face.halted.get().is_some() {
            return None;
        }
        let explained = deck.next.map(|_| deck.epoch());
        let is_done = explained.is_some() && deck.aboard.is_empty();
        let held_ms = self.shared.clock.monotonic_ms().saturating_sub(deck.since_ms);
        // What is adrift for so long waits for a fence.
        let is_adrift = held_ms >= self.shared.settings.fence_after_ms;
        (is_done || is_adrift).then_some(Rest { explained })
    }

    /// Returns when there is something to do on the lane and nobody who does it, or when stopping.
    pub async fn rest(&self, rest: Rest) {
        let mut stop = self.shared.stop.watch();
        loop {
            let wait = Duration::from_millis(self.shared.settings.renew_ms);
            tokio::select! {
                biased;
                _ = stop.until(|stop| *stop) => return,
                _ = self.shared.clock.sleep(wait) => {}
            }
            let Some(lease) = self.face.lease() else { continue };
            let idle_ms = self.shared.clock.monotonic_ms().saturating_sub(lease.since_ms);
            if idle_ms < self.shared.settings.lease_ms {
                continue;
            }
            match self.shared.store.open_attempts(&self.face.id).await {
                Ok(open) if open.is_empty() && rest.explained == Some(lease.epoch) => {
                    self.face.clear();
                }
                Ok(_) => return,
                Err(error) => tracing::debug!(lane = %self.face.id, %error, "not known if needed"),
            }
        }
    }
}
