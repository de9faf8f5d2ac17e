//! The seam to a service that holds users' funds, and the contract behind it.
//!
//! A service takes four operations, each for a request id (a UUID): `withdraw` takes the funds or
//! freezes them, `commit` makes that final, `rollback` undoes it, `deposit` adds funds. It MUST:
//!
//! 1. do an operation at most once per (request id, operation), whatever is repeated, concurrent
//!    or late, and answer a repetition as it answered first;
//! 2. record a refusal like a success, in the same way and for as long: what was refused once is
//!    never done later under the same id;
//! 3. write the effect and its record in one commit, and answer after it;
//! 4. tell by a query what is on record, and say *unknown* only of what it has neither done nor
//!    refused within its dedupe window. An error on its own side is no *unknown*;
//! 5. refuse explicitly or not at all: an overload, a timeout, a missing route are no refusals;
//! 6. keep these promises for its stated dedupe window, or for ever if it states none. The window
//!    must be long against the time for which a network may hold a request back;
//! 7. let `commit` and `rollback` exclude each other for one id, and never do them before the
//!    withdrawal.
//!
//! [`crate::conformance`] checks what of this can be seen from outside.
//! Not here: what the answers mean for a transfer (`verdict`), HTTP (`http`, `sort`).

use std::fmt;

use async_trait::async_trait;
use landfall_core::rail::{EndpointHealth, RailError};

/// What can be asked of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    Withdraw,
    Deposit,
    Commit,
    Rollback,
}

impl Operation {
    pub const ALL: [Operation; 4] =
        [Operation::Withdraw, Operation::Deposit, Operation::Commit, Operation::Rollback];

    pub fn name(self) -> &'static str {
        match self {
            Operation::Withdraw => "withdraw",
            Operation::Deposit => "deposit",
            Operation::Commit => "commit",
            Operation::Rollback => "rollback",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One leg of a transfer: what is to be withdrawn or deposited, under which id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leg<'a> {
    /// A UUID, the same for every operation of one transfer.
    pub req_id: &'a str,
    pub user_id: u64,
    pub asset_id: u32,
    /// In the asset's smallest unit; at least 1.
    pub amount: u64,
}

/// The answer to an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is done, by this call or an earlier one.
    Done,
    /// It is not done and never will be, in the service's own words.
    Refused(String),
    /// Nothing is known: it may be done, it may never be.
    Pending {
        /// A short name for machines, such as `server_error`.
        kind: &'static str,
        message: String,
    },
}

/// The answer to a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    Done,
    Refused(String),
    /// The service works on it.
    InProgress,
    /// The service has no record of it: it never arrived, it is still on its way, or the record is
    /// older than the dedupe window. Never: refused.
    Unknown,
    /// Nothing is known.
    NoAnswer {
        kind: &'static str,
        message: String,
    },
}

/// One service, as a client of its contract.
#[async_trait]
pub trait ServiceAdapter: Send + Sync + 'static {
    /// As in the configuration and in orders.
    fn name(&self) -> &str;

    /// Whether a withdrawal is only set aside until it is committed.
    fn freezes(&self) -> bool;

    /// Whether the source is told when the target has the funds. MUST be true of a service that
    /// freezes; one that does not may have no such operation.
    fn commits(&self) -> bool;

    /// For how long the service remembers an operation, in milliseconds; none: for ever.
    fn dedupe_window_ms(&self) -> Option<u64>;

    /// Each of the four MUST make at most one request, with no retry of its own, and MUST call
    /// everything but the service's explicit word [`Answer::Pending`].
    async fn withdraw(&self, leg: Leg<'_>) -> Answer;

    async fn deposit(&self, leg: Leg<'_>) -> Answer;

    async fn commit(&self, req_id: &str) -> Answer;

    async fn rollback(&self, req_id: &str) -> Answer;

    /// What became of an operation. MUST have no effect.
    async fn query(&self, req_id: &str, operation: Operation) -> Standing;

    /// Whether the service has such a user; none if it cannot tell, or does not now.
    async fn knows_user(&self, user_id: u64) -> Option<bool>;

    /// Health as known; makes no call.
    fn health(&self) -> EndpointHealth;

    /// Tries the service for real, and its settings against what it says of itself.
    async fn check(&self) -> Result<String, RailError>;
}
