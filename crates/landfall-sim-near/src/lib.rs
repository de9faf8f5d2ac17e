//! A simulated NEAR: a pure ledger, the JSON-RPC a node speaks, a server, faults, a state file.
//!
//! | module | holds |
//! |---|---|
//! | [`ledger`] | the chain as a pure state machine |
//! | [`rpc`] | requests and answers, without sockets |
//! | [`journal`] | the state file |
//! | [`server`] | nodes on sockets, faults, the `/sim` routes |
//!
//! **Invariant:** the ledger has no clock, no I/O and no randomness of its own.
//! A test on simulated time drives [`ledger::Ledger`] and [`rpc::handle`] itself; everything else
//! starts a [`SimNear`].

pub mod journal;
pub mod keys;
pub mod ledger;
pub mod rpc;
pub mod server;

pub use server::{SimConfig, SimNear, StartError};
