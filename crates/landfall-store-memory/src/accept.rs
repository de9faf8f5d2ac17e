//! New transfers: created, already there, in conflict, or after something that is claimed.
//!
//! **Invariant:** a key, once taken, belongs to its transfer for ever.

use landfall_core::store::Accepted;
use landfall_core::wound::{self, Wound};
use landfall_core::{NewTransfer, Transfer, TransferId};

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
        let id = TransferId(self.transfers.last_key_value().map_or(0, |(last, _)| last.0) + 1);
        let transfer = new.accepted_as(id);
        self.keys.insert(key, id);
        self.trails.insert(id, new.trail);
        self.transfers.insert(id, transfer.clone());
        for key in new.claims {
            self.claim(key, id);
        }
        transfer
    }

    pub(crate) fn by_key(&self, key: &Key) -> Option<&Transfer> {
        self.keys.get(key).and_then(|id| self.transfers.get(id))
    }
}
