//! Claims: asked for by transfers, ended by moves.
//!
//! **Invariant:** a claim has waiters only while it is held; whatever ends it makes them due in the
//! same commit.

use std::collections::BTreeSet;

use landfall_core::TransferId;
use landfall_core::claim::{ClaimEnd, ClaimKey, Claimed};

use crate::Tables;

/// A claim that somebody holds or that stands as a mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Claim {
    Held { owner: TransferId, waiters: BTreeSet<TransferId> },
    Kept { owner: Option<TransferId> },
}

impl Tables {
    /// The first of these that somebody has, and who.
    pub(crate) fn taken(&self, keys: &[ClaimKey]) -> Option<(ClaimKey, Option<TransferId>)> {
        keys.iter().find_map(|key| {
            let owner = match self.claims.get(key)? {
                Claim::Held { owner, .. } => Some(*owner),
                Claim::Kept { owner } => *owner,
            };
            Some((key.clone(), owner))
        })
    }

    pub(crate) fn claim(&mut self, key: ClaimKey, asker: TransferId) -> Claimed {
        let free = || Claim::Held { owner: asker, waiters: BTreeSet::new() };
        match self.claims.entry(key).or_insert_with(free) {
            Claim::Kept { owner } => Claimed::Kept { owner: *owner },
            Claim::Held { owner, .. } if *owner == asker => Claimed::Yours,
            Claim::Held { owner, waiters } => {
                waiters.insert(asker);
                Claimed::Held { owner: *owner }
            }
        }
    }

    /// Ends a claim for the mover; returns the waiters that were made due.
    pub(crate) fn end_claim(
        &mut self,
        end: &ClaimEnd,
        mover: TransferId,
        now_ms: u64,
    ) -> Vec<TransferId> {
        let (ClaimEnd::Keep(key) | ClaimEnd::Release(key) | ClaimEnd::Forget(key)) = end;
        let ended = match (self.claims.get(key), end) {
            (Some(Claim::Held { owner, .. }), ClaimEnd::Keep(_) | ClaimEnd::Release(_)) => {
                *owner == mover
            }
            (None, ClaimEnd::Keep(_)) | (Some(Claim::Kept { .. }), ClaimEnd::Forget(_)) => true,
            _ => false,
        };
        if !ended {
            return Vec::new();
        }
        let before = self.claims.remove(key);
        if matches!(end, ClaimEnd::Keep(_)) {
            let owner = before.as_ref().map(|_| mover);
            self.claims.insert(key.clone(), Claim::Kept { owner });
        }
        match before {
            Some(Claim::Held { waiters, .. }) => {
                waiters.into_iter().filter(|waiter| self.make_due(*waiter, now_ms)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Makes a waiter due, unless it is final or carried and so waits for nothing.
    fn make_due(&mut self, waiter: TransferId, now_ms: u64) -> bool {
        match self.transfers.get_mut(&waiter) {
            Some(transfer) if !transfer.state.is_final() && transfer.attempt.is_none() => {
                transfer.due_ms = Some(now_ms);
                true
            }
            _ => false,
        }
    }
}
