//! Whether a statement adds up: written without the rules, so that it can catch them out.
//!
//! Feed every line of a service from the first on to [`Tally::add`], then compare with its
//! balances by [`Tally::compare`]. It fails on money that appeared as well as on money that went.

use std::collections::{BTreeMap, BTreeSet};

use crate::book::{Book, BookError, Span};
use crate::words::{AccountId, Balance, Entry, Key, Kind, Outcome, Terms, Verb};

/// Lines or accounts read at a time.
const PAGE: usize = 1_000;

/// Why it does not add up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    #[error("line {found} comes after line {last}")]
    Gap { last: u64, found: u64 },
    #[error("line {seq}: {key:?} {verb} is recorded twice")]
    Twice { seq: u64, key: Key, verb: Verb },
    #[error("line {seq}: {verb} of no withdrawal, of another one, or of one that was ended")]
    Loose { seq: u64, verb: Verb },
    #[error("line {seq}: {account:?} should be {expected:?} (available, frozen), is {found:?}")]
    Sum { seq: u64, account: AccountId, expected: (i128, i128), found: (u64, u64) },
    #[error("{account:?} should be {expected:?} (available, frozen), is {found:?}")]
    Balance { account: AccountId, expected: (i128, i128), found: Option<(u64, u64)> },
    #[error(transparent)]
    Book(#[from] BookError),
}

/// The sums of a statement so far.
#[derive(Debug, Clone)]
pub struct Tally {
    kind: Kind,
    head: u64,
    sums: BTreeMap<AccountId, (i128, i128)>,
    seen: BTreeSet<(Key, Verb)>,
    /// Withdrawals done and not ended.
    open: BTreeMap<Key, Terms>,
}

impl Tally {
    pub fn new(kind: Kind) -> Tally {
        let (sums, seen, open) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        Tally { kind, head: 0, sums, seen, open }
    }

    /// The last line that was added.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Withdrawals that are neither committed nor rolled back.
    pub fn open(&self) -> &BTreeMap<Key, Terms> {
        &self.open
    }

    /// Per account what the lines add up to: available, frozen.
    pub fn sums(&self) -> &BTreeMap<AccountId, (i128, i128)> {
        &self.sums
    }

    pub fn add(&mut self, entry: &Entry) -> Result<(), Wrong> {
        let Entry { seq, verb, terms, .. } = *entry;
        if seq != self.head + 1 {
            return Err(Wrong::Gap { last: self.head, found: seq });
        }
        self.head = seq;
        let once = (entry.key.clone(), verb);
        if !self.seen.insert(once) {
            return Err(Wrong::Twice { seq, key: entry.key.clone(), verb });
        }
        if entry.outcome == Outcome::Done {
            self.count(entry)?;
        }
        let expected = self.sums.get(&terms.account).copied().unwrap_or_default();
        let found = (entry.available, entry.frozen);
        match expected == (i128::from(found.0), i128::from(found.1)) {
            true => Ok(()),
            false => Err(Wrong::Sum { seq, account: terms.account, expected, found }),
        }
    }

    fn count(&mut self, entry: &Entry) -> Result<(), Wrong> {
        let Entry { seq, verb, terms, .. } = *entry;
        let amount = i128::from(terms.amount.get());
        match verb {
            Verb::Withdraw => {
                self.open.insert(entry.key.clone(), terms);
            }
            Verb::Commit | Verb::Rollback if self.open.remove(&entry.key) != Some(terms) => {
                return Err(Wrong::Loose { seq, verb });
            }
            _ => {}
        }
        let (available, frozen) = self.sums.entry(terms.account).or_default();
        *available += match verb {
            Verb::Fund | Verb::Deposit | Verb::Rollback => amount,
            Verb::Withdraw => -amount,
            Verb::Commit => 0,
        };
        *frozen += match (self.kind, verb) {
            (Kind::Freeze, Verb::Withdraw) => amount,
            (Kind::Freeze, Verb::Commit | Verb::Rollback) => -amount,
            _ => 0,
        };
        Ok(())
    }

    /// Compares with the balances of all accounts at the same head.
    pub fn compare(&self, balances: &[Balance]) -> Result<(), Wrong> {
        let found: BTreeMap<AccountId, (u64, u64)> = balances
            .iter()
            .map(|balance| (balance.account, (balance.available, balance.frozen)))
            .collect();
        let accounts: BTreeSet<AccountId> = self.sums.keys().chain(found.keys()).copied().collect();
        for account in accounts {
            let expected = self.sums.get(&account).copied().unwrap_or_default();
            let found = found.get(&account).copied();
            if found.map(|(free, held)| (free.into(), held.into())) != Some(expected) {
                return Err(Wrong::Balance { account, expected, found });
            }
        }
        Ok(())
    }
}

/// Reads a book that nobody writes to from the first line on, and compares it with its balances.
pub async fn check(book: &dyn Book) -> Result<Tally, Wrong> {
    let mut tally = Tally::new(book.contract().kind);
    loop {
        let page = book.statement(Span::after(tally.head(), PAGE)).await?;
        page.entries.iter().try_for_each(|entry| tally.add(entry))?;
        if tally.head() == page.head {
            break;
        }
    }
    let mut balances: Vec<Balance> = Vec::new();
    loop {
        let after = balances.last().map_or(0, |balance| balance.number);
        let page = book.balances(after, PAGE).await?.balances;
        if page.is_empty() {
            break;
        }
        balances.extend(page);
    }
    tally.compare(&balances)?;
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;
    use crate::words::ReqId;

    const ACCOUNT: AccountId = AccountId { user_id: 1, asset_id: 2 };

    fn line(seq: u64, key: u128, verb: Verb, balances: (u64, u64)) -> Entry {
        Entry {
            seq,
            key: Key::Request(ReqId(key)),
            verb,
            terms: Terms { account: ACCOUNT, amount: NonZeroU64::MIN },
            outcome: Outcome::Done,
            at_ms: 0,
            available: balances.0,
            frozen: balances.1,
        }
    }

    fn check(lines: &[Entry]) -> Result<Tally, Wrong> {
        let mut tally = Tally::new(Kind::Freeze);
        lines.iter().try_for_each(|line| tally.add(line)).map(|()| tally)
    }

    #[test]
    fn a_statement_that_adds_up_passes_and_tells_what_is_open() {
        let lines = [
            line(1, 1, Verb::Deposit, (1, 0)),
            line(2, 2, Verb::Deposit, (2, 0)),
            line(3, 1, Verb::Withdraw, (1, 1)),
            line(4, 2, Verb::Withdraw, (0, 2)),
            line(5, 1, Verb::Commit, (0, 1)),
        ];
        let tally = check(&lines).expect("adds up");
        assert_eq!(tally.open().keys().collect::<Vec<_>>(), [&Key::Request(ReqId(2))]);
        let balance = Balance {
            number: 1,
            account: ACCOUNT,
            available: 0,
            frozen: 1,
            blocked: false,
            seq: 5,
        };
        assert_eq!(tally.compare(&[balance]), Ok(()));
        assert!(tally.compare(&[]).is_err());
        assert!(tally.compare(&[Balance { available: 1, ..balance }]).is_err());
    }

    #[test]
    fn what_does_not_add_up_is_named() {
        let first = line(1, 1, Verb::Deposit, (1, 0));
        let wrong = |second: Entry| check(&[first.clone(), second]).expect_err("does not add up");
        let gap = wrong(line(3, 2, Verb::Deposit, (2, 0)));
        assert_eq!(gap, Wrong::Gap { last: 1, found: 3 });
        assert!(matches!(wrong(line(2, 1, Verb::Deposit, (2, 0))), Wrong::Twice { .. }));
        assert!(matches!(wrong(line(2, 1, Verb::Commit, (1, 0))), Wrong::Loose { .. }));
        assert!(matches!(wrong(line(2, 2, Verb::Deposit, (3, 0))), Wrong::Sum { .. }));
        assert!(matches!(wrong(line(2, 2, Verb::Withdraw, (0, 0))), Wrong::Sum { .. }));
    }
}
