//! What is known of a lack of tokens, so that nobody is sent in vain.
//!
//! While tokens are short, batches fill only up to the final balance minus what attempts may still
//! take. Who wants more than the balance waits aside. While nobody can be paid the ledger is asked
//! ever more rarely, but at once for somebody who wants less than was there; and not at all while
//! enough is left of what was seen.
//!
//! A restart forgets it: who waits aside comes back when it is due, and has the balance looked at.
//! Not here: asking, moving (`pay`). Times are of the process's own clock.

use std::collections::{BTreeMap, HashMap};

use landfall_core::{Transfer, TransferId};

use crate::pool::OUT_MAX_MS;
use crate::schedule;
use crate::settings::Settings;

/// Looks in vain after which operators are told of those who wait for open attempts.
const LASTING: u32 = 4;

/// A lack of tokens, or none.
#[derive(Default)]
pub(crate) struct Shortfall {
    /// Not everybody could be paid at the last look, or somebody waits aside.
    watched: bool,
    /// Why nobody can be paid.
    pub dry: Option<String>,
    /// What was seen last, and what no batch has taken of it since.
    seen: Budget,
    left: u128,
    /// Nobody who wants more than was seen is asked for before.
    until_ms: u64,
    /// Looks in a row that found somebody too large, or nobody to pay.
    looks: u32,
    /// Who waits aside, and for how much.
    aside: BTreeMap<TransferId, u128>,
    /// What lanes were given, and when, until it is among the open attempts.
    handed: HashMap<TransferId, (u128, u64)>,
}

/// What can be paid out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Budget {
    /// The final balance.
    pub balance: u128,
    /// What of it no attempt may still take.
    pub available: u128,
}

/// Candidates by what becomes of them.
#[derive(Debug, Default)]
pub(crate) struct Sorted {
    pub taken: Vec<Transfer>,
    /// They wait for open attempts.
    pub waiting: Vec<Transfer>,
    pub too_large: Vec<Transfer>,
}

impl Budget {
    pub fn sort(self, candidates: Vec<Transfer>) -> Sorted {
        let mut sorted = Sorted::default();
        let mut left = self.available;
        for candidate in candidates {
            let amount = candidate.payload.amount();
            if amount > self.balance {
                sorted.too_large.push(candidate);
            } else if amount <= left {
                left -= amount;
                sorted.taken.push(candidate);
            } else {
                sorted.waiting.push(candidate);
            }
        }
        sorted
    }
}

impl Shortfall {
    /// The ledger says that there is too little: whatever was seen is old.
    pub fn suspect(&mut self) {
        (self.watched, self.left) = (true, 0);
        self.outdate();
    }

    /// Whether these can be paid as far as is known, without a look.
    pub fn covers(&mut self, candidates: &[Transfer]) -> bool {
        if candidates.iter().any(|one| one.aside.is_some()) {
            return false;
        }
        if self.watched {
            let amounts = candidates.iter().map(|one| one.payload.amount());
            let wanted = amounts.fold(0, u128::saturating_add);
            let Some(left) = self.left.checked_sub(wanted) else { return false };
            self.left = left;
        }
        self.dry = None;
        true
    }

    /// What was seen last, if it is new enough for these: all of them want more.
    pub fn known(&self, candidates: &[Transfer], now_ms: u64) -> Option<Budget> {
        let more = |one: &Transfer| one.payload.amount() > self.seen.available;
        (now_ms < self.until_ms && candidates.iter().all(more)).then_some(self.seen)
    }

    /// The ledger was asked. Returns who waits aside and can be tried again at once.
    pub fn look(
        &mut self,
        seen: Budget,
        sorted: &Sorted,
        now_ms: u64,
        settings: &Settings,
    ) -> Vec<TransferId> {
        let taken = sorted.taken.iter().map(|one| one.payload.amount());
        self.left = seen.available.saturating_sub(taken.fold(0, u128::saturating_add));
        self.seen = seen;
        if sorted.too_large.is_empty() && !sorted.taken.is_empty() {
            (self.looks, self.until_ms) = (0, 0);
        } else if now_ms >= self.until_ms {
            self.until_ms = now_ms + schedule::pause_ms(settings, self.looks);
            self.looks += 1;
        }
        let small = |_: &TransferId, amount: &mut u128| *amount <= seen.balance;
        let back = self.aside.extract_if(.., small).map(|(id, _)| id).collect();
        self.aside.extend(sorted.too_large.iter().map(|one| (one.id, one.payload.amount())));
        self.watched = !self.aside.is_empty() || !sorted.waiting.is_empty();
        back
    }

    /// How long those wait who are too large.
    pub fn wait_ms(&self, now_ms: u64) -> u64 {
        self.until_ms.saturating_sub(now_ms)
    }

    /// Whether nobody, or not everybody, could be paid for several looks.
    pub fn is_lasting(&self) -> bool {
        self.looks >= LASTING
    }

    pub fn is_over(&self) -> bool {
        self.aside.is_empty()
    }

    /// An attempt was decided: what was seen is old.
    pub fn outdate(&mut self) {
        if self.watched {
            self.until_ms = 0;
        }
    }

    pub fn hand(&mut self, members: &[Transfer], now_ms: u64) {
        let given = members.iter().map(|one| (one.id, (one.payload.amount(), now_ms)));
        self.handed.extend(given);
    }

    /// These are among the open attempts now, or came back.
    pub fn handed_on(&mut self, members: impl IntoIterator<Item = TransferId>) {
        for id in members {
            self.handed.remove(&id);
        }
    }

    /// What lanes were given and have not stored yet.
    pub fn in_hand(&mut self, now_ms: u64) -> u128 {
        self.handed.retain(|_, (_, since_ms)| now_ms < *since_ms + OUT_MAX_MS);
        self.handed.values().fold(0, |sum, (amount, _)| u128::saturating_add(sum, *amount))
    }
}

#[cfg(test)]
mod tests;
