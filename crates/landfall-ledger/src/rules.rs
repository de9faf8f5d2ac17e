//! What an operation does to an account: the one place that decides it.
//!
//! [`decide`] is pure: no clock, no I/O. A book looks up what it needs, and writes what comes back
//! in one commit: the account, the record and the statement's line.
//!
//! **Invariant:** balances change as [`effect`] says and in no other way.
//! **Invariant:** available, frozen and reserved together fit into 64 bits, so that a rollback
//! always finds room. What a direct withdrawal took stays reserved until it is committed or
//! rolled back; no deposit can fill that room.
//! **Rule:** commit and rollback go through whether the account is blocked or not.

use crate::words::{AccountId, Kind, Operation, Outcome, Refusal, Terms, Verb};

/// An account as the rules see it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Account {
    pub available: u64,
    pub frozen: u64,
    /// Taken by direct withdrawals that are neither committed nor rolled back.
    pub reserved: u64,
    /// Takes neither withdrawals nor deposits.
    pub blocked: bool,
}

/// An operation on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Past {
    pub verb: Verb,
    pub terms: Terms,
    pub outcome: Outcome,
}

/// All that is on record under one key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History(pub Vec<Past>);

impl History {
    pub fn of(&self, verb: Verb) -> Option<&Past> {
        self.0.iter().find(|past| past.verb == verb)
    }

    fn is_done(&self, verb: Verb) -> bool {
        self.of(verb).is_some_and(|past| past.outcome == Outcome::Done)
    }
}

/// What is to become of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It is on record: say the same again.
    Known(Outcome),
    /// Its key stands for something else.
    Conflict,
    /// Its withdrawal has not been seen.
    NotYet,
    /// To be written in one commit. The account is none if there is none and none is opened.
    New { account: Option<Account>, terms: Terms, outcome: Outcome },
}

/// What was read cannot be: nothing may be written on top of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the account holds less than its own records say")]
pub struct Contradiction;

/// The account that an operation is about, as far as it can be known.
pub fn concerns(history: &History, operation: &Operation) -> Option<AccountId> {
    let withdrawal = || history.of(Verb::Withdraw).map(|past| past.terms);
    operation.terms().or_else(withdrawal).map(|terms| terms.account)
}

/// Decides about an operation on the account that it [`concerns`].
pub fn decide(
    kind: Kind,
    account: Option<Account>,
    history: &History,
    operation: &Operation,
) -> Result<Decision, Contradiction> {
    let verb = operation.verb();
    if let Some(past) = history.of(verb) {
        let same = operation.terms().is_none_or(|terms| terms == past.terms);
        return Ok(if same { Decision::Known(past.outcome.clone()) } else { Decision::Conflict });
    }
    let withdrawal = history.of(Verb::Withdraw);
    let Some(terms) = operation.terms().or(withdrawal.map(|past| past.terms)) else {
        return Ok(Decision::NotYet);
    };
    if let Some(refusal) = refusal(account, history, operation, terms) {
        return Ok(Decision::New { account, terms, outcome: Outcome::Refused(refusal) });
    }
    let before = account.unwrap_or_default();
    let after = changed(before, effect(kind, verb, terms)).ok_or(Contradiction)?;
    Ok(Decision::New { account: Some(after), terms, outcome: Outcome::Done })
}

/// Why an operation that is new is not done, if it is not.
fn refusal(
    account: Option<Account>,
    history: &History,
    operation: &Operation,
    terms: Terms,
) -> Option<Refusal> {
    let amount = terms.amount.get();
    let is_blocked = account.is_some_and(|account| account.blocked);
    let held = account.unwrap_or_default();
    let no_room = held.total() + u128::from(amount) > u128::from(u64::MAX);
    let was_refused = !history.is_done(Verb::Withdraw);
    let cases: &[(bool, Refusal)] = match operation {
        Operation::Fund { .. } => &[(no_room, Refusal::TOO_MUCH)],
        Operation::Withdraw { .. } => &[
            (account.is_none(), Refusal::UNKNOWN_ACCOUNT),
            (is_blocked, Refusal::ACCOUNT_FROZEN),
            (held.available < amount, Refusal::INSUFFICIENT_FUNDS),
        ],
        Operation::Deposit { declined, .. } => &[
            (*declined, Refusal::DECLINED),
            (is_blocked, Refusal::ACCOUNT_FROZEN),
            (no_room, Refusal::TOO_MUCH),
        ],
        Operation::Commit { .. } => &[
            (was_refused, Refusal::NOT_WITHDRAWN),
            (history.is_done(Verb::Rollback), Refusal::ROLLED_BACK),
        ],
        Operation::Rollback { .. } => &[
            (was_refused, Refusal::NOT_WITHDRAWN),
            (history.is_done(Verb::Commit), Refusal::COMMITTED),
        ],
    };
    cases.iter().find(|(holds, _)| *holds).map(|(_, refusal)| refusal.clone())
}

/// By how much the three parts of an account change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effect {
    pub available: i128,
    pub frozen: i128,
    pub reserved: i128,
}

/// What an operation that is done changes.
pub fn effect(kind: Kind, verb: Verb, terms: Terms) -> Effect {
    let amount = i128::from(terms.amount.get());
    let (available, held) = match verb {
        Verb::Fund | Verb::Deposit => (amount, 0),
        Verb::Withdraw => (-amount, amount),
        Verb::Commit => (0, -amount),
        Verb::Rollback => (amount, -amount),
    };
    match kind {
        Kind::Freeze => Effect { available, frozen: held, reserved: 0 },
        Kind::Direct => Effect { available, frozen: 0, reserved: held },
    }
}

impl Account {
    fn total(&self) -> u128 {
        u128::from(self.available) + u128::from(self.frozen) + u128::from(self.reserved)
    }
}

/// None if a part would fall below zero or the whole would not fit.
fn changed(before: Account, by: Effect) -> Option<Account> {
    let part = |value: u64, by: i128| u64::try_from(i128::from(value) + by).ok();
    let after = Account {
        available: part(before.available, by.available)?,
        frozen: part(before.frozen, by.frozen)?,
        reserved: part(before.reserved, by.reserved)?,
        blocked: before.blocked,
    };
    (after.total() <= u128::from(u64::MAX)).then_some(after)
}

#[cfg(test)]
mod tests;
