//! A lane that is better left to others for a while.
//!
//! Of one whose key is not here, what is open on it is looked at and sent again, no more. Whoever
//! has the key can do more: land a fence, and pay. So the lane is given back when nothing is left
//! to do, and now and then while something is; and it is taken again only when nobody has touched
//! its lease for as long as a lease lasts, in which whoever has the key would have.
//!
//! One whose key is here is given back when its owner has nothing to sign and nothing of it is
//! open, or when its turn is over; and it is taken again when its owner wants it, or as above.

use std::time::Duration;

use landfall_core::{Epoch, Lane};

use crate::driver::{Driver, Leave};
use crate::gate::{InFlight, Standing};
use crate::held::HeldLane;
use crate::owner::Demand;

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

/// How long a lane whose turn is over is left to others, in waits of theirs.
const TURN_PAUSE_RETRIES: u64 = 2;

impl Driver {
    /// How much the lane is wanted here, where it can be signed on.
    pub fn demand(&self) -> Demand {
        match self.handle.signing {
            true => self.owner().demand(&self.handle.id),
            false => Demand::Nothing,
        }
    }

    /// Whether the lane is better left to others for now. A halted one is nobody's to use.
    pub fn may_rest(&self, held: &HeldLane) -> Option<Leave> {
        if self.handle.halted.get().is_some() {
            return None;
        }
        let explained = held.next.map(|_| held.epoch());
        let is_done = explained.is_some() && held.in_flight.is_empty();
        let held_ms = self.shared.clock.monotonic_ms().saturating_sub(held.since_ms);
        match self.demand() {
            Demand::Always => None,
            // What is not in a block yet could be overtaken by what the next holder sends.
            Demand::InTurns { .. } => {
                let settled = |one: &InFlight| one.standing == Standing::Included;
                let may_leave = self.turn_is_over(held) && held.in_flight.values().all(settled);
                may_leave.then_some(Leave::Turn)
            }
            Demand::Nothing => {
                // What is adrift for so long waits for a fence.
                let is_adrift = held_ms >= self.handle.ledger.manner.fence_after_ms;
                (is_done || is_adrift).then_some(Leave::Rest(Rest { explained }))
            }
        }
    }

    /// Whether nothing more is to be signed before others have had the lane.
    pub fn turn_is_over(&self, held: &HeldLane) -> bool {
        let held_ms = self.shared.clock.monotonic_ms().saturating_sub(held.since_ms);
        matches!(self.demand(), Demand::InTurns { turn_ms } if held_ms >= turn_ms)
    }

    /// Leaves the lane to others for a moment, for as many of theirs as want it.
    pub async fn pass_turn(&self) {
        let pause_ms = TURN_PAUSE_RETRIES * self.shared.settings.retry_ms;
        self.shared.clock.sleep(Duration::from_millis(pause_ms)).await;
    }

    /// Returns when there is something to do on the lane and nobody who does it, or when stopping.
    pub async fn rest(&self, rest: Rest) {
        let mut stop = self.shared.stop.watch();
        loop {
            let wait = Duration::from_millis(self.shared.settings.renew_ms);
            tokio::select! {
                biased;
                _ = stop.until(|stop| *stop) => return,
                _ = self.handle.wanted.notified() => return,
                _ = self.shared.clock.sleep(wait) => {}
            }
            let Some(lease) = self.handle.lease() else { continue };
            let idle_ms = self.shared.clock.monotonic_ms().saturating_sub(lease.since_ms);
            if idle_ms < self.shared.settings.lease_ms {
                continue;
            }
            match self.shared.store.open_attempts(&self.handle.id).await {
                // Who has the key has it explained before anything is signed.
                Ok(open) if open.is_empty() && self.handle.signing => self.handle.clear(),
                Ok(open) if open.is_empty() && rest.explained == Some(lease.epoch) => {
                    self.handle.clear();
                }
                Ok(_) => return,
                Err(error) => {
                    tracing::debug!(lane = %self.handle.id, %error, "not known if needed")
                }
            }
        }
    }
}
