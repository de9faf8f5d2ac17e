//! Claims: a unique (space, key) owned by one transfer at a time.
//!
//! A registration in flight, a nullifier, a forwarder's nonce. A claim is *held* while its
//! owner works, and ends *kept* (a lasting mark: this account is registered, this nullifier is
//! spent; it remembers who held it) or *released* (proven that nothing happened). Either end wakes
//! those who wait for it, in the same commit. What is part of what a client asks for is claimed in
//! the commit that accepts it ([`NewTransfer::claims`](crate::NewTransfer)).

use serde::{Deserialize, Serialize};

use crate::ids::TransferId;

/// What is claimed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClaimKey {
    /// Scopes the key, such as `near-registered:{network}:{token}`.
    pub space: String,
    pub key: String,
}

/// The answer to asking for a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// The asker owns it (now, or already).
    Yours,
    /// It ended kept: the mark stands. Without an owner if whoever kept it never held it, or did
    /// so before owners were remembered.
    Kept { owner: Option<TransferId> },
    /// Somebody else owns it; the asker now waits and is made due when it ends.
    Held { owner: TransferId },
}

/// How a move ends a claim. Applied only if its move is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClaimEnd {
    /// The mover owned it (or nobody did): keep the mark, release the waiters.
    Keep(ClaimKey),
    /// The mover owned it: remove it, release the waiters.
    Release(ClaimKey),
    /// The ledger denied the mark: remove it if it was kept.
    Forget(ClaimKey),
}
