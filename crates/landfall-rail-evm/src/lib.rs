//! Calls on EVM chains: what a call is, what it costs, how it is signed and sent, what became of
//! it.
//!
//! | module | holds |
//! |---|---|
//! | [`encode`], [`forward`], [`keys`] | transactions, users' requests, signing |
//! | [`fees`], [`market`] | what is offered for gas, and what it costs |
//! | [`refusal`], [`revert`] | what nodes and contracts mean |
//! | [`node`], [`answer`], [`recent`] | questions, answers, and each node's newest blocks |
//! | `broadcast`, [`look`] | sending, and what nodes together prove |
//! | [`rail`] | the seam |
//!
//! **Invariant:** a refusal is certain only if its words are in a closed table ([`refusal`]); what
//! is not in it proves nothing.

pub mod answer;
mod broadcast;
pub mod encode;
pub mod executed;
pub mod fees;
pub mod forward;
pub mod keys;
pub mod look;
pub mod market;
pub mod node;
mod preflight;
pub mod rail;
pub mod recent;
pub mod refusal;
pub mod relayer;
pub mod revert;
pub mod settings;

pub use keys::Key;
pub use rail::{BadSettings, EvmRail, lane_id, signer_of};
pub use settings::{EvmSettings, Finality};
