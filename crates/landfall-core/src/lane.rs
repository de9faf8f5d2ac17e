//! A lane: one signing key of one account, whose attempts have one total order.

use serde::{Deserialize, Serialize};

use crate::ids::{Epoch, LaneId, Nonce};
use crate::machine::RailName;

/// A lane as the store knows it.
///
/// **Invariant:** no two stored attempts of a lane share a nonce, and `next_nonce` never falls.
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
    /// Set when the ledger or the store contradicts what we know. Only an operator clears it.
    pub halted: Option<Halt>,
}

/// Why a lane stands still.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Halt {
    pub reason: String,
    pub at_ms: u64,
}
