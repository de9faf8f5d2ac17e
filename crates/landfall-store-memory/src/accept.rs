//! New transfers: created, already there, in conflict, or after something that is claimed.
//!
//! **Invariant:** a key, once taken, belongs to its transfer until both are forgotten, which only
//! rails ask for whose keys may be used again. An id is never given twice.

use landfall_core::store::Accepted;
use landfall_core::wound::{self, Wound};
use landfall_core::{NewTransfer, RailName, Transfer, TransferId};

use crate::{Key, Tables};

impl Tables {
    pub(crate) fn accept(&mut self, batch: Vec<NewTransfer>) -> Vec<Accepted> {
        batch.into_iter().map(|new| self.accept_one(new)).collect()
    }

    fn accept_one(&mut self, new: NewTransfer) -> Accepted {
        let key = (new.payload.rail(), new.tenant.clone(), new.key.clone());
        let known = self.by_key(&key).filter(|_| !wound::is(Wound::RetryIsNew));
        let same = |stored: &Transfer| {
            stored.fingerprint == new.fingerprint || wound::is(Wound::FingerprintIgnored)
        };
        match known {
            Some(stored) if same(stored) => Accepted::Already(stored.clone()),
            Some(stored) => Accepted::Conflict(stored.clone()),
            None => match self.taken(&new.claims) {
                Some((key, owner)) => Accepted::Claimed { key, owner },
                None => Accepted::Created(self.create(key, new)),
            },
        }
    }

    fn create(&mut self, key: Key, new: NewTransfer) -> Transfer {
        let newest = self.transfers.last_key_value().map_or(0, |(last, _)| last.0);
        let id = TransferId(newest.max(self.newest_forgotten.0) + 1);
        let transfer = new.accepted_as(id);
        self.keys.insert(key, id);
        self.trails.insert(id, new.trail);
        self.transfers.insert(id, transfer.clone());
        for key in new.claims {
            self.claim(key, id);
        }
        transfer
    }

    /// Forgets transfers that were final before, with their keys; how many.
    pub(crate) fn forget(&mut self, rail: RailName, before_ms: u64, limit: usize) -> usize {
        let is_old = |transfer: &&Transfer| {
            let ended_ms = transfer.completed_ms.filter(|_| transfer.state.is_final());
            transfer.payload.rail() == rail && ended_ms.is_some_and(|at_ms| at_ms < before_ms)
        };
        let old: Vec<Transfer> =
            self.transfers.values().filter(is_old).take(limit).cloned().collect();
        for transfer in &old {
            self.transfers.remove(&transfer.id);
            self.trails.remove(&transfer.id);
            self.keys.remove(&(rail, transfer.tenant.clone(), transfer.key.clone()));
            self.newest_forgotten = self.newest_forgotten.max(transfer.id);
        }
        old.len()
    }

    pub(crate) fn by_key(&self, key: &Key) -> Option<&Transfer> {
        self.keys.get(key).and_then(|id| self.transfers.get(id))
    }
}
