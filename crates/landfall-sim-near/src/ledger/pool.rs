//! Transactions that wait for a block.
//!
//! Ordered by key, and within a key by nonce: reversed nonces that wait together both land.
//! Keys take turns, so that a busy one does not starve the others.
//! Not here: whether a transaction is valid (`verify`); the pool is not part of the state and is
//! lost with the process, as a real one is.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use near_primitives::hash::CryptoHash;
use near_primitives::transaction::SignedTransaction;

/// Signer and key.
type Group = (String, String);

#[derive(Default)]
pub struct Pool {
    groups: BTreeMap<Group, BTreeMap<(u64, u64), Arc<SignedTransaction>>>,
    hashes: HashSet<CryptoHash>,
    arrivals: u64,
}

impl Pool {
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    pub fn contains(&self, hash: &CryptoHash) -> bool {
        self.hashes.contains(hash)
    }

    pub fn insert(&mut self, signed: Arc<SignedTransaction>) {
        if !self.hashes.insert(*signed.hash()) {
            return;
        }
        self.arrivals += 1;
        let place = (signed.transaction.nonce().nonce(), self.arrivals);
        self.groups.entry(group(&signed)).or_default().insert(place, signed);
    }

    /// Removes everything of this transaction's key and nonce.
    pub fn evict_rivals(&mut self, signed: &SignedTransaction) {
        let nonce = signed.transaction.nonce().nonce();
        let Some(waiting) = self.groups.get_mut(&group(signed)) else { return };
        let rivals: Vec<_> =
            waiting.range((nonce, 0)..=(nonce, u64::MAX)).map(|it| *it.0).collect();
        for place in rivals {
            if let Some(rival) = waiting.remove(&place) {
                self.hashes.remove(rival.hash());
            }
        }
    }

    pub fn remove(&mut self, signed: &SignedTransaction) {
        if !self.hashes.remove(signed.hash()) {
            return;
        }
        if let Some(waiting) = self.groups.get_mut(&group(signed)) {
            waiting.retain(|_, other| other.hash() != signed.hash());
        }
    }

    /// Takes transactions, one of each key in turn, for as long as `take` wants more. `take` says
    /// [`Taken::Full`] to leave this one and stop; whatever else it says, the transaction is out.
    pub fn drain(&mut self, mut take: impl FnMut(&Arc<SignedTransaction>) -> Taken) {
        'rounds: while !self.hashes.is_empty() {
            for waiting in self.groups.values_mut() {
                let Some(first) = waiting.first_entry() else { continue };
                if matches!(take(first.get()), Taken::Full) {
                    break 'rounds;
                }
                let signed = first.remove();
                self.hashes.remove(signed.hash());
            }
        }
        self.groups.retain(|_, waiting| !waiting.is_empty());
    }
}

pub enum Taken {
    Yes,
    /// Not valid: dropped in silence, as a chunk producer does.
    Dropped,
    Full,
}

fn group(signed: &SignedTransaction) -> Group {
    let transaction = &signed.transaction;
    (transaction.signer_id().to_string(), transaction.public_key().to_string())
}
