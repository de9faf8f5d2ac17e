//! A batch of operations, decided in memory: for books on a database server.
//!
//! Such a book locks its service's head, reads what the batch [`Needs`], has each operation decided
//! here in order, each seeing those before it, and writes the [`Changes`] in the same transaction.
//! Pure: no clock, no I/O.
//! **Rule:** whoever fills a sheet holds a lock on the head until its changes are committed. So
//! numbers are given in the order of commits, and whoever reads one can read all before it.
//! Not here: what an operation does (`rules`), SQL (each book's own).

use std::collections::{BTreeSet, HashMap};

use crate::rules::{self, Account, Contradiction, Decision, History, Past};
use crate::words::{AccountId, Answer, Entry, Key, Kind, Operation, Outcome, ReqId, Terms};

/// What has to be read before a batch can be decided. Each once, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// All that is on record under these.
    pub requests: Vec<ReqId>,
    pub references: Vec<String>,
    pub accounts: Vec<AccountId>,
    /// The accounts of the withdrawals on record under these, too.
    pub endings: Vec<ReqId>,
}

impl Needs {
    pub fn of<'a>(operations: impl IntoIterator<Item = &'a Operation>) -> Needs {
        let (mut requests, mut references) = (BTreeSet::new(), BTreeSet::new());
        let (mut accounts, mut endings) = (BTreeSet::new(), BTreeSet::new());
        for operation in operations {
            match (operation.key(), operation.terms()) {
                (Key::Request(req_id), terms) => {
                    requests.insert(req_id);
                    match terms {
                        Some(terms) => accounts.insert(terms.account),
                        None => endings.insert(req_id),
                    };
                }
                (Key::Reference(reference), terms) => {
                    references.insert(reference);
                    accounts.extend(terms.map(|terms| terms.account));
                }
            }
        }
        Needs {
            requests: requests.into_iter().collect(),
            references: references.into_iter().collect(),
            accounts: accounts.into_iter().collect(),
            endings: endings.into_iter().collect(),
        }
    }
}

/// An account as a book keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    pub number: u64,
    pub account: Account,
    /// The operation that changed it last.
    pub seq: u64,
}

/// How far a service has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The newest line of the statement.
    pub seq: u64,
    /// The newest account's number.
    pub accounts: u64,
}

/// What is to be written in one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changes {
    /// Never empty if anything else changed.
    pub entries: Vec<Entry>,
    /// By id. `blocked` is as it was read.
    pub accounts: Vec<(AccountId, Held)>,
    pub head: Head,
}

/// What was read for a batch, as the operations so far have left it.
#[derive(Debug, Clone)]
pub struct Sheet {
    kind: Kind,
    head: Head,
    histories: HashMap<Key, History>,
    accounts: HashMap<AccountId, Held>,
    entries: Vec<Entry>,
    changed: BTreeSet<AccountId>,
}

impl Sheet {
    pub fn new(kind: Kind, head: Head) -> Sheet {
        Sheet {
            kind,
            head,
            histories: HashMap::new(),
            accounts: HashMap::new(),
            entries: Vec::new(),
            changed: BTreeSet::new(),
        }
    }

    /// An operation that is on record.
    pub fn recall(&mut self, key: Key, past: Past) {
        self.histories.entry(key).or_default().0.push(past);
    }

    /// An account that there is.
    pub fn hold(&mut self, id: AccountId, held: Held) {
        self.accounts.insert(id, held);
    }

    /// Decides the next operation.
    pub fn decide(&mut self, asked: &Operation, at_ms: u64) -> Result<Answer, Contradiction> {
        let history = self.histories.entry(asked.key()).or_default();
        let id = rules::concerns(history, asked);
        let held = id.and_then(|id| self.accounts.get(&id)).map(|held| held.account);
        Ok(match rules::decide(self.kind, held, history, asked)? {
            Decision::Known(outcome) => Answer::Recorded(outcome),
            Decision::Conflict => Answer::Conflict,
            Decision::NotYet => Answer::NotYet,
            Decision::New { account, terms, outcome } => {
                let past = Past { verb: asked.verb(), terms, outcome: outcome.clone() };
                history.0.push(past);
                self.record(asked, at_ms, (account, terms, outcome.clone()));
                Answer::Recorded(outcome)
            }
        })
    }

    fn record(
        &mut self,
        asked: &Operation,
        at_ms: u64,
        (account, terms, outcome): (Option<Account>, Terms, Outcome),
    ) {
        self.head.seq += 1;
        let (seq, after) = (self.head.seq, account.unwrap_or_default());
        if outcome == Outcome::Done {
            self.changed.insert(terms.account);
            let opened = &mut self.head.accounts;
            let held = self.accounts.entry(terms.account).or_insert_with(|| {
                *opened += 1;
                Held { number: *opened, account: after, seq }
            });
            (held.account, held.seq) = (after, seq);
        }
        self.entries.push(Entry {
            seq,
            key: asked.key(),
            verb: asked.verb(),
            terms,
            outcome,
            at_ms,
            available: after.available,
            frozen: after.frozen,
        });
    }

    pub fn changes(self) -> Changes {
        let Sheet { head, accounts, entries, changed, .. } = self;
        let kept = |id: AccountId| accounts.get(&id).map(|held| (id, *held));
        Changes { entries, accounts: changed.into_iter().filter_map(kept).collect(), head }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::{Refusal, Verb};

    const ALICE: AccountId = AccountId { user_id: 1, asset_id: 1 };

    fn terms(amount: u64) -> Terms {
        Terms { account: ALICE, amount: amount.try_into().expect("an amount") }
    }

    fn withdraw(id: u128, amount: u64) -> Operation {
        Operation::Withdraw { req_id: ReqId(id), terms: terms(amount) }
    }

    #[test]
    fn each_operation_sees_those_before_it_and_numbers_have_no_gaps() {
        let mut sheet = Sheet::new(Kind::Freeze, Head { seq: 7, accounts: 3 });
        let fund = Operation::Fund { reference: "a".into(), terms: terms(10) };
        let commit = Operation::Commit { req_id: ReqId(1) };
        let poor = Answer::refused(Refusal::INSUFFICIENT_FUNDS);
        let batch = [
            (fund.clone(), Answer::DONE),
            (fund, Answer::DONE),
            (commit.clone(), Answer::NotYet),
            (withdraw(1, 10), Answer::DONE),
            (withdraw(2, 1), poor),
            (withdraw(1, 9), Answer::Conflict),
            (commit, Answer::DONE),
        ];
        for (asked, answer) in &batch {
            assert_eq!(sheet.decide(asked, 5).as_ref(), Ok(answer), "{asked:?}");
        }
        let changes = sheet.changes();
        let lines: Vec<_> = changes.entries.iter().map(|line| (line.seq, line.verb)).collect();
        let (fund, take, end) = (Verb::Fund, Verb::Withdraw, Verb::Commit);
        assert_eq!(lines, [(8, fund), (9, take), (10, take), (11, end)]);
        let held = Held { number: 4, account: Account::default(), seq: 11 };
        assert_eq!(changes.accounts, [(ALICE, held)]);
        assert_eq!(changes.head, Head { seq: 11, accounts: 4 });
    }

    #[test]
    fn what_changes_nothing_leaves_nothing_to_write() {
        let mut sheet = Sheet::new(Kind::Direct, Head { seq: 7, accounts: 3 });
        let past = Past { verb: Verb::Withdraw, terms: terms(5), outcome: Outcome::Done };
        sheet.recall(Key::Request(ReqId(1)), past);
        assert_eq!(sheet.decide(&withdraw(1, 5), 0), Ok(Answer::DONE));
        assert_eq!(sheet.changes().entries, []);
    }

    #[test]
    fn each_thing_is_read_once() {
        let commit = Operation::Commit { req_id: ReqId(2) };
        let needs = Needs::of(&[withdraw(1, 5), withdraw(1, 5), commit.clone(), commit]);
        assert_eq!(needs.requests, [ReqId(1), ReqId(2)]);
        assert_eq!(needs.accounts, [ALICE]);
        assert_eq!(needs.endings, [ReqId(2)]);
    }
}
