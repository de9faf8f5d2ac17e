//! The words of the account service: who holds what, what may be asked, what is recorded.
//!
//! **Rule:** an amount is never zero, by its type. Amounts are in an asset's smallest unit.
//! Not here: what an operation does (`rules`), how it looks on the wire (`server`).

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

/// A client's id of one transfer: a UUID, the same for every operation made for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReqId(pub u128);

/// Where the hyphens of a UUID are.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];
/// Characters of a UUID.
const UUID_LENGTH: usize = 36;

impl fmt::Display for ReqId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = format!("{:032x}", self.0);
        let part = |from: usize, to: usize| &hex[from..to];
        let (first, second) = (part(0, 8), part(8, 12));
        write!(f, "{first}-{second}-{}-{}-{}", part(12, 16), part(16, 20), part(20, 32))
    }
}

/// The text is no UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a UUID, such as 6f1c3f0e-8a51-4d0b-9d8e-0f6a1c2b3d4e")]
pub struct NoUuid;

impl FromStr for ReqId {
    type Err = NoUuid;

    fn from_str(text: &str) -> Result<ReqId, NoUuid> {
        if text.len() != UUID_LENGTH {
            return Err(NoUuid);
        }
        text.bytes()
            .enumerate()
            .try_fold(0_u128, |id, (index, byte)| {
                match (HYPHENS.contains(&index), char::from(byte).to_digit(16)) {
                    (true, _) if byte == b'-' => Ok(id),
                    (false, Some(digit)) => Ok(id << 4 | u128::from(digit)),
                    _ => Err(NoUuid),
                }
            })
            .map(ReqId)
    }
}

/// One user's holding of one asset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId {
    pub user_id: u64,
    pub asset_id: u32,
}

/// What is moved: the parameters that must be the same when an operation is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    pub account: AccountId,
    pub amount: NonZeroU64,
}

/// What an operation is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    Fund,
    Withdraw,
    Deposit,
    Commit,
    Rollback,
}

impl Verb {
    pub const ALL: [Verb; 5] =
        [Verb::Fund, Verb::Withdraw, Verb::Deposit, Verb::Commit, Verb::Rollback];

    pub fn name(self) -> &'static str {
        match self {
            Verb::Fund => "fund",
            Verb::Withdraw => "withdraw",
            Verb::Deposit => "deposit",
            Verb::Commit => "commit",
            Verb::Rollback => "rollback",
        }
    }

    pub fn named(name: &str) -> Option<Verb> {
        Verb::ALL.into_iter().find(|verb| verb.name() == name)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whose id an operation has. Together with its verb it is done once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    Request(ReqId),
    /// Money from outside has the words of whoever brought it.
    Reference(String),
}

/// One call of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Money from outside, to set an account up.
    Fund {
        reference: String,
        terms: Terms,
    },
    Withdraw {
        req_id: ReqId,
        terms: Terms,
    },
    /// `declined`: the service does not want it, for reasons of its own. Recorded like any refusal.
    Deposit {
        req_id: ReqId,
        terms: Terms,
        declined: bool,
    },
    /// Finishes the withdrawal of that id.
    Commit {
        req_id: ReqId,
    },
    /// Undoes the withdrawal of that id.
    Rollback {
        req_id: ReqId,
    },
}

impl Operation {
    pub fn verb(&self) -> Verb {
        match self {
            Operation::Fund { .. } => Verb::Fund,
            Operation::Withdraw { .. } => Verb::Withdraw,
            Operation::Deposit { .. } => Verb::Deposit,
            Operation::Commit { .. } => Verb::Commit,
            Operation::Rollback { .. } => Verb::Rollback,
        }
    }

    pub fn key(&self) -> Key {
        match self {
            Operation::Fund { reference, .. } => Key::Reference(reference.clone()),
            Operation::Withdraw { req_id, .. }
            | Operation::Deposit { req_id, .. }
            | Operation::Commit { req_id }
            | Operation::Rollback { req_id } => Key::Request(*req_id),
        }
    }

    /// None for those that take theirs from the withdrawal.
    pub fn terms(&self) -> Option<Terms> {
        match self {
            Operation::Fund { terms, .. }
            | Operation::Withdraw { terms, .. }
            | Operation::Deposit { terms, .. } => Some(*terms),
            Operation::Commit { .. } | Operation::Rollback { .. } => None,
        }
    }
}

/// What a withdrawal does before it is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Sets the amount aside; the commit takes it away.
    Freeze,
    /// Takes the amount away at once; the commit is only recorded.
    Direct,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Freeze => "freeze",
            Kind::Direct => "direct",
        }
    }

    pub fn named(name: &str) -> Option<Kind> {
        [Kind::Freeze, Kind::Direct].into_iter().find(|kind| kind.name() == name)
    }
}

/// What a service says of itself. It remembers operations for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contract {
    pub name: String,
    pub kind: Kind,
}

impl Contract {
    pub fn new(name: impl Into<String>, kind: Kind) -> Contract {
        Contract { name: name.into(), kind }
    }
}

/// Why not, in the words that the client was told and will be told again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(pub Cow<'static, str>);

impl Refusal {
    pub const INSUFFICIENT_FUNDS: Refusal = Refusal(Cow::Borrowed("insufficient funds"));
    pub const UNKNOWN_ACCOUNT: Refusal = Refusal(Cow::Borrowed("unknown account"));
    pub const ACCOUNT_FROZEN: Refusal = Refusal(Cow::Borrowed("account frozen"));
    pub const TOO_MUCH: Refusal = Refusal(Cow::Borrowed("the account cannot hold so much"));
    pub const DECLINED: Refusal = Refusal(Cow::Borrowed("declined by the service"));
    pub const NOT_WITHDRAWN: Refusal = Refusal(Cow::Borrowed("the withdrawal was refused"));
    pub const COMMITTED: Refusal = Refusal(Cow::Borrowed("the withdrawal was committed"));
    pub const ROLLED_BACK: Refusal = Refusal(Cow::Borrowed("the withdrawal was rolled back"));
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How an operation ended, once and for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Refused(Refusal),
}

/// What a caller is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is on record, by this call or an earlier one.
    Recorded(Outcome),
    /// The same id and verb stand for something else. Nothing happened.
    Conflict,
    /// The withdrawal to finish or undo has not been seen. Nothing happened, it may still come.
    NotYet,
}

impl Answer {
    pub const DONE: Answer = Answer::Recorded(Outcome::Done);

    pub fn refused(refusal: Refusal) -> Answer {
        Answer::Recorded(Outcome::Refused(refusal))
    }
}

/// One line of the statement: an operation, and its account's balances after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// From 1, without gaps, in the order in which they took effect.
    pub seq: u64,
    pub key: Key,
    pub verb: Verb,
    pub terms: Terms,
    pub outcome: Outcome,
    pub at_ms: u64,
    pub available: u64,
    pub frozen: u64,
}

/// An account as its owner sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Balance {
    /// Accounts are numbered from 1 in the order in which they were opened.
    pub number: u64,
    pub account: AccountId,
    pub available: u64,
    pub frozen: u64,
    pub blocked: bool,
    /// The operation that changed it last.
    pub seq: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_read_in_either_case_and_written_in_lower() {
        let text = "6f1c3f0e-8a51-4d0b-9d8e-0f6a1c2b3d4e";
        let id: ReqId = text.to_uppercase().parse().expect("a UUID");
        assert_eq!(id.to_string(), text);
        assert_eq!(ReqId(1).to_string(), "00000000-0000-0000-0000-000000000001");
    }

    #[test]
    fn what_is_no_uuid_is_refused() {
        for text in [
            "",
            "6f1c3f0e8a514d0b9d8e0f6a1c2b3d4e",
            "6f1c3f0e-8a51-4d0b-9d8e-0f6a1c2b3d4",
            "6f1c3f0e-8a51-4d0b-9d8e-0f6a1c2b3d4g",
            "6f1c3f0e-8a51-4d0b-9d8e0-f6a1c2b3d4e",
            "{f1c3f0e-8a51-4d0b-9d8e-0f6a1c2b3d4e",
            "ééééééééé-8a51-4d0b-9d8e-0f6a1c2b3d4e",
        ] {
            assert_eq!(text.parse::<ReqId>(), Err(NoUuid), "{text:?}");
        }
    }

    #[test]
    fn verbs_and_kinds_are_found_by_their_names() {
        for verb in Verb::ALL {
            assert_eq!(Verb::named(verb.name()), Some(verb));
        }
        assert_eq!(Verb::named("refund"), None);
        assert_eq!(Kind::named("direct"), Some(Kind::Direct));
    }
}
