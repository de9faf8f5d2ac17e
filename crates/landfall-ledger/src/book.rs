//! The seam between the rules and where accounts are kept.
//!
//! A book keeps accounts, what is on record under each key, and the statement. Many callers use
//! it at once.
//! Not here: what an operation does (`rules`), HTTP (`server`).

use async_trait::async_trait;

use crate::words::{AccountId, Answer, Balance, Contract, Entry, Operation, Outcome, ReqId, Verb};

/// A failed call, cut by what the caller does next. Never an answer about an operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BookError {
    /// It may or may not have been written. Repeat the same call.
    #[error("book unavailable: {0}")]
    Unavailable(String),
    /// What is kept contradicts itself. An operator must look.
    #[error("book corrupt: {0}")]
    Corrupt(String),
}

pub type Result<T> = std::result::Result<T, BookError>;

/// Lines of a statement, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    pub entries: Vec<Entry>,
    /// The newest sequence number of the whole service when this was read: up to here nothing
    /// will ever be added.
    pub head: u64,
}

/// Accounts, oldest first, all as they were at `head`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Balances {
    pub balances: Vec<Balance>,
    pub head: u64,
}

/// Which lines of a statement to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// One account's lines, or all.
    pub account: Option<AccountId>,
    /// Only those with a greater number.
    pub after: u64,
    /// Only those up to this number.
    pub until: u64,
    pub limit: usize,
}

impl Span {
    /// Everything after a sequence number.
    pub fn after(after: u64, limit: usize) -> Span {
        Span { account: None, after, until: u64::MAX, limit }
    }
}

/// Where accounts are kept.
#[async_trait]
pub trait Book: Send + Sync {
    /// Whose book it is. MUST be the same for the whole life of what is kept.
    fn contract(&self) -> &Contract;

    /// Decides each operation by `rules::decide`, in order, each seeing those before it, and
    /// answers each.
    ///
    /// MUST write an operation's record, its line and its account in one commit, refusals too, and
    /// MUST answer after that commit. Of callers with the same key and verb exactly one acts.
    async fn apply(&self, operations: Vec<Operation>, at_ms: u64) -> Result<Vec<Answer>>;

    /// What is on record; none means that it has not been seen.
    async fn query(&self, req_id: ReqId, verb: Verb) -> Result<Option<Outcome>>;

    /// Blocks an account or frees it; false if there is none.
    async fn block(&self, account: AccountId, blocked: bool) -> Result<bool>;

    /// A user's accounts by asset; none for a user who is not known.
    async fn accounts(&self, user_id: u64) -> Result<Vec<Balance>>;

    /// Accounts with a number greater than `after`, and the head at which this is how they are.
    async fn balances(&self, after: u64, limit: usize) -> Result<Balances>;

    /// Recorded operations. Sequence numbers have no gaps, and MUST appear in order: a reader who
    /// saw one has seen, or can read, all before it.
    async fn statement(&self, span: Span) -> Result<Statement>;
}
