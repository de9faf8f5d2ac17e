//! The EVM rail's own knowledge: what a call is, what it costs, how it is signed, what a node's
//! refusal means, what a revert says.
//!
//! Pure: no node is asked here, so that every rule can be tried by itself.
//! **Invariant:** a refusal is certain only if its words are in a closed table ([`refusal`]); what
//! is not in it proves nothing.

pub mod encode;
pub mod fees;
pub mod forward;
pub mod keys;
pub mod refusal;
pub mod revert;
