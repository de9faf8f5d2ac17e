//! A lane: one signing key of one account, whose attempts have one total order.

use serde::{Deserialize, Serialize};

use crate::ids::{Epoch, LaneId, Nonce};
use crate::machine::RailName;

/// A lane as the store knows it.
///
/// **Invariant:** no two stored attempts of a lane share a nonce; `next_nonce` and `seq` never
/// fall.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    pub id: LaneId,
    pub rail: RailName,
    pub epoch: Epoch,
    /// The instance that holds it, if its lease has not been given back.
    pub holder: Option<String>,
    pub lease_until_ms: u64,
    /// The ledger's nonce when the lane was first seen (or adopted); stored attempts come after it.
    pub base_nonce: Option<Nonce>,
    /// The nonce of the next attempt; none until the lane was first reconciled.
    pub next_nonce: Option<Nonce>,
    /// How many signatures of it were stored: attempts, fences, variants. From 0 in a store from
    /// before they were counted.
    #[serde(default)]
    pub seq: u64,
    /// Set when the ledger or the store contradicts what we know. Only an operator clears it.
    pub halted: Option<Halt>,
}

/// Why a lane stands still.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Halt {
    pub reason: String,
    pub at_ms: u64,
}

/// How far a lane is known to have come. A store that is not as far has forgotten something that
/// may have been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Mark {
    /// Of a stored attempt.
    pub nonce: Nonce,
    /// Signatures that were stored, variants too.
    pub seq: u64,
}

impl From<Nonce> for Mark {
    /// The mark of somebody who has not counted signatures.
    fn from(nonce: Nonce) -> Mark {
        Mark { nonce, seq: 0 }
    }
}
