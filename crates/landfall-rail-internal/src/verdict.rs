//! What each answer comes to for a transfer, as data.
//!
//! ```text
//!  first turn     call ─ done, no answer ─▶ done, or wait
//!                   └ refused: query ─ done, in progress, no answer ─▶ the same
//!                        └ refused, or unknown within the dedupe window ─▶ refused
//!  later turns    query ─ refused, in progress, no answer ─▶ refused, or wait
//!                   ├ done ─ withdraw, deposit: call again ─▶ done for these very terms, or wait
//!                   └ unknown ─ dedupe window over ──▶ adrift
//!                        └ within it: call again ─ done, no answer ─▶ done, or wait
//!                              └ refused: query again ─▶ only what it confirms
//! ```
//!
//! **Invariant:** a refusal counts only if a query tells it too, or if nobody has called before and
//! a query knows of nothing that was done: what can never be valid is refused off the record. That
//! of a call alone may be about a repetition ("already done"), and no caller knows that its call
//! is the first to arrive: over a slow line another worker's overtakes it.
//! **Invariant:** what a query calls done counts for an amount only if the call, repeated with it,
//! is not called a conflict: a query knows nothing but the id, which a store that forgot may have
//! given to another order.
//! **Invariant:** an unknown operation is repeated or adrift, never failed.
//! **Rule:** `commit` and `rollback` must succeed in the end: their refusal is repeated too, and
//! decides nothing.
//! Pure: no clock, no I/O. Not here: making the calls (`courier`).

use landfall_core::Event;
use landfall_core::courier::{Doubt, Known, Step};
use landfall_core::guard::{self, Guard};
use landfall_core::internal::State;
use landfall_core::wound::{self, Wound};

use crate::adapter::{Answer, Operation, Standing};
use crate::sort::kind::IN_PROGRESS;

/// Kinds of doubt beside those of single answers.
pub mod kind {
    pub const MISCONFIGURED: &str = "misconfigured";
    pub const REFUSAL_UNCONFIRMED: &str = "refusal_unconfirmed";
    pub const COMMIT_REFUSED: &str = "commit_refused";
    pub const ROLLBACK_REFUSED: &str = "rollback_refused";
}

/// The least time before the end of a dedupe window in which nothing is repeated any more: a
/// request that leaves now arrives later, and clocks differ.
const MARGIN_MIN_MS: u64 = 30_000;
/// And the least share of the window.
const MARGIN_SHARE: u64 = 10;

/// What a stored state asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// An event that announces a call; nothing is called before it is stored.
    Announce(Event),
    Call(Operation),
    /// The state is final.
    Nothing,
}

pub fn due(state: State, confirmed: bool) -> Due {
    match (state, confirmed) {
        (State::Init, _) => Due::Announce(Event::SourceCall),
        (State::SourcePending, _) => Due::Call(Operation::Withdraw),
        (State::SourceDone, _) => Due::Announce(Event::TargetCall),
        (State::TargetPending, false) => Due::Call(Operation::Deposit),
        (State::TargetPending, true) => Due::Call(Operation::Commit),
        (State::Compensating, _) => Due::Call(Operation::Rollback),
        (State::Committed | State::RolledBack | State::Failed, _) => Due::Nothing,
    }
}

/// How long before the end of a dedupe window repeating ends.
pub fn margin_ms(window_ms: u64) -> u64 {
    MARGIN_MIN_MS.max(window_ms / MARGIN_SHARE)
}

/// Whether a call that may have been made at `since_ms` may be repeated: the service remembers it
/// for certain if it ever saw it.
pub fn remembered(window_ms: Option<u64>, since_ms: u64, now_ms: u64) -> bool {
    // A clock that was turned back makes nothing younger.
    let age_ms = now_ms.abs_diff(since_ms);
    let holds = |window_ms: u64| age_ms < window_ms.saturating_sub(margin_ms(window_ms));
    window_ms.is_none_or(|window_ms| holds(window_ms) || wound::is(Wound::WindowIgnored))
}

/// Whether a call that may have been made at `since_ms` is on nobody's way any more: the whole
/// window has passed. Between [`remembered`] and this one may still be.
pub fn is_over(window_ms: u64, since_ms: u64, now_ms: u64) -> bool {
    now_ms.saturating_sub(since_ms) >= window_ms
}

/// What is known of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    Done,
    Refused(String),
    Open {
        kind: &'static str,
        message: String,
    },
    /// The service has no record, and may have had one.
    Forgotten,
}

/// What a query leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    Known(Finding),
    /// Done, under this id; the call itself tells whether for these terms.
    Done,
    CallAgain,
}

/// The query before a call is repeated. `remembered` as by [`remembered`].
pub fn found(operation: Operation, standing: Standing, remembered: bool) -> Found {
    let may_fail = matches!(operation, Operation::Withdraw | Operation::Deposit);
    match standing {
        Standing::Refused(_) if !may_fail && remembered => Found::CallAgain,
        Standing::Unknown if may_fail && wound::is(Wound::NotFoundIsFailed) => {
            Found::Known(Finding::Refused("the request is not known".to_owned()))
        }
        Standing::Unknown if remembered => {
            guard::met(Guard::NotFoundRepeated);
            Found::CallAgain
        }
        Standing::Unknown => Found::Known(Finding::Forgotten),
        Standing::Done if may_fail && remembered && !wound::is(Wound::DoneForOtherTerms) => {
            Found::Done
        }
        known => Found::Known(certain(known)),
    }
}

/// What a query says that is not *unknown*.
fn certain(standing: Standing) -> Finding {
    match standing {
        Standing::Done => Finding::Done,
        Standing::Refused(why) => Finding::Refused(why),
        Standing::InProgress | Standing::Unknown => {
            Finding::Open { kind: IN_PROGRESS, message: "the service works on it".to_owned() }
        }
        Standing::NoAnswer { kind, message } => Finding::Open { kind, message },
    }
}

/// The call that was repeated though a query had called it done.
pub fn same(answer: Answer) -> Finding {
    match answer {
        // A service that refuses to do it twice has done it, as it said.
        Answer::Done | Answer::Refused(_) => Finding::Done,
        Answer::Pending { kind, message } => Finding::Open { kind, message },
    }
}

/// The query after a call was refused with `why`. `certain`: nobody had called when this call was
/// announced, and the service remembers whatever it has done since.
pub fn confirmed(standing: Standing, why: String, certain: bool) -> Finding {
    match standing {
        Standing::Refused(why) => return Finding::Refused(why),
        Standing::Unknown if certain => return Finding::Refused(why),
        _ if wound::is(Wound::RefusalUnconfirmed) => return Finding::Refused(why),
        _ => guard::met(Guard::RefusalUnconfirmed),
    }
    match standing {
        Standing::Unknown => Finding::Open {
            kind: kind::REFUSAL_UNCONFIRMED,
            message: format!("refuses ({why}), but has no record of it"),
        },
        known => self::certain(known),
    }
}

/// What is to be stored. `who` names the service and the call, for messages.
pub fn step(operation: Operation, finding: Finding, source_commits: bool, who: &str) -> Step {
    note(operation, &finding);
    match (operation, finding) {
        (_, Finding::Forgotten) => Step::Adrift(format!(
            "{who}: the service does not know it, and what is so old it may have forgotten"
        )),
        (_, Finding::Open { kind: IN_PROGRESS, .. }) if wound::is(Wound::InProgressIsDone) => {
            Step::Go(done(operation, source_commits))
        }
        (Operation::Commit, Finding::Refused(_)) if wound::is(Wound::CommitRefusedIsEnd) => {
            Step::Go(done(operation, source_commits))
        }
        (Operation::Rollback, Finding::Refused(_)) if wound::is(Wound::RollbackRefusedIsEnd) => {
            Step::Go(done(operation, source_commits))
        }
        (Operation::Deposit, Finding::Open { message, .. })
            if wound::is(Wound::CompensatedOnTimeout) =>
        {
            Step::Go(Known::refused(Event::TargetFail, message))
        }
        (operation, Finding::Open { kind, message }) => {
            wait(retry(operation), kind, format!("{who}: {message}"))
        }
        (operation, Finding::Done) => Step::Go(done(operation, source_commits)),
        (Operation::Withdraw, Finding::Refused(why)) => {
            Step::Go(Known::refused(Event::SourceFail, why))
        }
        (Operation::Deposit, Finding::Refused(why)) => {
            Step::Go(Known::refused(Event::TargetFail, why))
        }
        // The target has the funds: whatever the source says, they are not given back as well.
        (Operation::Commit, Finding::Refused(why)) => {
            let message = format!("{who} is refused though the target has the funds: {why}");
            wait(retry(Operation::Commit), kind::COMMIT_REFUSED, message)
        }
        (Operation::Rollback, Finding::Refused(why)) => {
            let message = format!("{who} is refused: {why}");
            wait(Some(Event::RollbackFail), kind::ROLLBACK_REFUSED, message)
        }
    }
}

/// Which guard holds off what this could be taken for.
fn note(operation: Operation, finding: &Finding) {
    match (operation, finding) {
        (_, Finding::Forgotten) => guard::met(Guard::WindowPassed),
        (_, Finding::Open { kind: IN_PROGRESS, .. }) => guard::met(Guard::InProgress),
        (Operation::Commit, Finding::Refused(_)) => guard::met(Guard::CommitRefused),
        (Operation::Rollback, Finding::Refused(_)) => guard::met(Guard::RollbackRefused),
        _ => {}
    }
}

/// What a call that took effect comes to.
pub fn done(operation: Operation, source_commits: bool) -> Known {
    match operation {
        Operation::Withdraw => Known::events(&[Event::SourceOk, Event::TargetCall]),
        Operation::Deposit if source_commits && !wound::is(Wound::CommitForgotten) => {
            Known { confirmed: true, ..Known::default() }
        }
        Operation::Deposit => Known { confirmed: true, ..Known::events(&[Event::TargetOk]) },
        Operation::Commit => Known::events(&[Event::TargetOk]),
        Operation::Rollback => Known::events(&[Event::RollbackOk]),
    }
}

/// The machine's word for "not yet". A rollback has one only for a refusal.
fn retry(operation: Operation) -> Option<Event> {
    match operation {
        Operation::Withdraw | Operation::Deposit | Operation::Commit => Some(Event::Retry),
        Operation::Rollback => None,
    }
}

pub fn wait(event: Option<Event>, kind: &'static str, message: String) -> Step {
    Step::Wait(Doubt { event, kind, message })
}

#[cfg(test)]
mod tests;
