//! The book in memory: the reference, and what simulated worlds use.
//!
//! Deterministic: no clock, no chance, no threads. A clone is a snapshot; lines are shared.
//! **Rule:** every call holds the one lock from beginning to end, so a call is a commit.
//! In tests it can be wounded: what keeps an operation from acting twice is then kept too late, or
//! not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use landfall_core::wound::{self, Wound};
use parking_lot::Mutex;

use crate::book::{Balances, Book, BookError, Result, Span, Statement};
use crate::rules::{self, Account, Decision, History, Past};
use crate::words::{
    AccountId, Answer, Balance, Contract, Entry, Key, Operation, Outcome, ReqId, Terms, Verb,
};

/// A book that ends with the process.
pub struct MemoryBook {
    contract: Contract,
    state: Mutex<State>,
}

#[derive(Clone, Default)]
struct State {
    accounts: BTreeMap<AccountId, Held>,
    /// By number, from 1.
    opened: Vec<AccountId>,
    records: BTreeMap<(Key, Verb), Arc<Entry>>,
    statement: Vec<Arc<Entry>>,
    /// What a crash would forget. Nothing, unless it is wounded.
    unkept: Vec<(Key, Verb)>,
    /// Done or refused too long ago to be told from what was never asked.
    forgotten: BTreeSet<(Key, Verb)>,
}

#[derive(Clone, Copy)]
struct Held {
    account: Account,
    number: u64,
    seq: u64,
}

impl MemoryBook {
    pub fn new(contract: Contract) -> MemoryBook {
        MemoryBook { contract, state: Mutex::default() }
    }

    /// As [`Book::apply`], for callers that have no runtime.
    pub fn apply_now(&self, operations: &[Operation], at_ms: u64) -> Result<Vec<Answer>> {
        let mut state = self.state.lock();
        state.unkept.clear();
        let answer = |operation| state.apply(&self.contract, operation, at_ms);
        operations.iter().map(answer).collect()
    }

    /// Ends the dedupe window of what was recorded before `at_ms`: a repetition acts anew. Accounts
    /// and statement stay, and so does what a withdrawal has set aside.
    pub fn forget_before(&self, at_ms: u64) {
        let mut state = self.state.lock();
        let old = state.records.iter().filter(|(_, entry)| entry.at_ms < at_ms);
        let old: Vec<(Key, Verb)> = old.map(|(which, _)| which.clone()).collect();
        state.forgotten.extend(old);
    }

    /// Ends the process and starts another on what was committed: all that was answered.
    pub fn crash(&self) {
        let mut state = self.state.lock();
        for forgotten in std::mem::take(&mut state.unkept) {
            state.records.remove(&forgotten);
        }
    }
}

impl Clone for MemoryBook {
    fn clone(&self) -> MemoryBook {
        let state = Mutex::new(self.state.lock().clone());
        MemoryBook { contract: self.contract.clone(), state }
    }
}

impl State {
    fn apply(&mut self, contract: &Contract, asked: &Operation, at_ms: u64) -> Result<Answer> {
        let mut history = self.history(&asked.key());
        if self.forgotten.contains(&(asked.key(), asked.verb())) {
            history.0.retain(|past| past.verb != asked.verb());
        }
        let account = rules::concerns(&history, asked)
            .and_then(|id| self.accounts.get(&id))
            .map(|held| held.account);
        let decision = rules::decide(contract.kind, account, &history, asked)
            .map_err(|error| BookError::Corrupt(error.to_string()))?;
        Ok(match decision {
            Decision::Known(outcome) => Answer::Recorded(outcome),
            Decision::Conflict => Answer::Conflict,
            Decision::NotYet => Answer::NotYet,
            Decision::New { outcome: refused @ Outcome::Refused(_), .. }
                if wound::is(Wound::RefusalNotRecorded) =>
            {
                Answer::Recorded(refused)
            }
            Decision::New { account, terms, outcome } => {
                self.write(asked, at_ms, (account, terms, outcome.clone()));
                Answer::Recorded(outcome)
            }
        })
    }

    fn history(&self, key: &Key) -> History {
        let past = |entry: &Arc<Entry>| Past {
            verb: entry.verb,
            terms: entry.terms,
            outcome: entry.outcome.clone(),
        };
        let range = (key.clone(), Verb::Fund)..=(key.clone(), Verb::Rollback);
        History(self.records.range(range).map(|(_, entry)| past(entry)).collect())
    }

    fn write(
        &mut self,
        asked: &Operation,
        at_ms: u64,
        (account, terms, outcome): (Option<Account>, Terms, Outcome),
    ) {
        let seq = self.head() + 1;
        let after = account.unwrap_or_default();
        if outcome == Outcome::Done {
            self.keep(terms.account, after, seq);
        }
        let entry = Arc::new(Entry {
            seq,
            key: asked.key(),
            verb: asked.verb(),
            terms,
            outcome,
            at_ms,
            available: after.available,
            frozen: after.frozen,
        });
        if wound::is(Wound::DedupeOutsideCommit) {
            self.unkept.push((entry.key.clone(), entry.verb));
        }
        self.forgotten.remove(&(entry.key.clone(), entry.verb));
        self.records.insert((entry.key.clone(), entry.verb), entry.clone());
        self.statement.push(entry);
    }

    fn keep(&mut self, id: AccountId, account: Account, seq: u64) {
        let number = match self.accounts.get(&id) {
            Some(held) => held.number,
            None => {
                self.opened.push(id);
                self.opened.len() as u64
            }
        };
        self.accounts.insert(id, Held { account, number, seq });
    }

    fn head(&self) -> u64 {
        self.statement.len() as u64
    }

    fn balance(&self, id: AccountId) -> Option<Balance> {
        let Held { account, number, seq } = *self.accounts.get(&id)?;
        let Account { available, frozen, blocked, .. } = account;
        Some(Balance { number, account: id, available, frozen, blocked, seq })
    }
}

#[async_trait]
impl Book for MemoryBook {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    async fn apply(&self, operations: Vec<Operation>, at_ms: u64) -> Result<Vec<Answer>> {
        self.apply_now(&operations, at_ms)
    }

    async fn query(&self, req_id: ReqId, verb: Verb) -> Result<Option<Outcome>> {
        let (state, which) = (self.state.lock(), (Key::Request(req_id), verb));
        let entry = state.records.get(&which).filter(|_| !state.forgotten.contains(&which));
        Ok(entry.map(|entry| entry.outcome.clone()))
    }

    async fn block(&self, account: AccountId, blocked: bool) -> Result<bool> {
        let mut state = self.state.lock();
        let Some(held) = state.accounts.get_mut(&account) else { return Ok(false) };
        held.account.blocked = blocked;
        Ok(true)
    }

    async fn accounts(&self, user_id: u64) -> Result<Vec<Balance>> {
        let state = self.state.lock();
        let first = AccountId { user_id, asset_id: 0 };
        let last = AccountId { user_id, asset_id: u32::MAX };
        let range = state.accounts.range(first..=last);
        Ok(range.filter_map(|(id, _)| state.balance(*id)).collect())
    }

    async fn balances(&self, after: u64, limit: usize) -> Result<Balances> {
        let state = self.state.lock();
        let skipped = usize::try_from(after).unwrap_or(usize::MAX);
        let page = state.opened.iter().skip(skipped).take(limit);
        let balances = page.filter_map(|id| state.balance(*id)).collect();
        Ok(Balances { balances, head: state.head() })
    }

    async fn statement(&self, span: Span) -> Result<Statement> {
        let state = self.state.lock();
        let is_asked = |entry: &&Arc<Entry>| {
            entry.seq <= span.until && span.account.is_none_or(|id| entry.terms.account == id)
        };
        let skipped = usize::try_from(span.after).unwrap_or(usize::MAX);
        let lines = state.statement.iter().skip(skipped).filter(is_asked).take(span.limit);
        Ok(Statement {
            entries: lines.map(|entry| entry.as_ref().clone()).collect(),
            head: state.head(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;
    use crate::words::Kind;

    const ACCOUNT: AccountId = AccountId { user_id: 1, asset_id: 1 };

    fn deposit(id: u128) -> Operation {
        let terms = Terms { account: ACCOUNT, amount: NonZeroU64::MIN };
        Operation::Deposit { req_id: ReqId(id), terms, declined: false }
    }

    fn withdraw(id: u128) -> Operation {
        let terms = Terms { account: ACCOUNT, amount: NonZeroU64::MIN };
        Operation::Withdraw { req_id: ReqId(id), terms }
    }

    fn book() -> MemoryBook {
        MemoryBook::new(Contract::new("trading", Kind::Direct))
    }

    fn available(book: &MemoryBook) -> u64 {
        book.state.lock().balance(ACCOUNT).map_or(0, |balance| balance.available)
    }

    fn ask(book: &MemoryBook, operation: Operation) -> Answer {
        let answers = book.apply_now(&[operation], 0).expect("an answer");
        answers.into_iter().next().expect("one")
    }

    /// Wounds this thread until it is dropped.
    struct Hurt;

    impl Hurt {
        fn by(wound: Wound) -> Hurt {
            wound::inflict(Some(wound));
            Hurt
        }
    }

    impl Drop for Hurt {
        fn drop(&mut self) {
            wound::inflict(None);
        }
    }

    #[test]
    fn a_crash_forgets_nothing_and_a_clone_goes_its_own_way() {
        let first = book();
        ask(&first, deposit(1));
        first.crash();
        ask(&first, deposit(1));
        let second = first.clone();
        ask(&second, deposit(2));
        assert_eq!((available(&first), available(&second)), (1, 2));
    }

    #[tokio::test]
    async fn what_is_older_than_the_window_is_not_known_and_acts_anew() {
        let book = book();
        let known = || book.query(ReqId(1), Verb::Deposit);
        ask(&book, deposit(1));
        book.forget_before(0);
        ask(&book, deposit(1));
        assert_eq!((available(&book), known().await), (1, Ok(Some(Outcome::Done))));
        book.forget_before(1);
        assert_eq!(known().await, Ok(None));
        ask(&book, deposit(1));
        assert_eq!((available(&book), known().await), (2, Ok(Some(Outcome::Done))));
    }

    #[test]
    fn a_withdrawal_that_was_forgotten_is_still_set_aside() {
        let book = book();
        ask(&book, deposit(2));
        ask(&book, withdraw(1));
        book.forget_before(1);
        assert_eq!(ask(&book, Operation::Rollback { req_id: ReqId(1) }), Answer::DONE);
        assert_eq!(available(&book), 1);
    }

    #[test]
    fn a_dedupe_record_outside_the_commit_lets_a_duplicate_act_after_a_crash() {
        let _hurt = Hurt::by(Wound::DedupeOutsideCommit);
        let book = book();
        ask(&book, deposit(1));
        ask(&book, deposit(1));
        assert_eq!(available(&book), 1);
        ask(&book, deposit(2));
        book.crash();
        ask(&book, deposit(1));
        ask(&book, deposit(2));
        assert_eq!(available(&book), 3, "the first was kept, the second was not");
    }

    #[test]
    fn a_refusal_that_is_not_recorded_lets_a_late_duplicate_act() {
        let _hurt = Hurt::by(Wound::RefusalNotRecorded);
        let book = book();
        assert_eq!(
            ask(&book, withdraw(1)),
            Answer::refused(crate::words::Refusal::UNKNOWN_ACCOUNT)
        );
        ask(&book, deposit(2));
        assert_eq!(ask(&book, withdraw(1)), Answer::DONE);
    }
}
