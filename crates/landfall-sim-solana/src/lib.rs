//! A simulated Solana: a pure ledger with a shield pool, the JSON-RPC a node speaks, a server,
//! faults, a state file.
//!
//! | module | holds |
//! |---|---|
//! | [`ledger`] | the chain and the shield pool as a pure state machine |
//! | [`rpc`] | requests and answers, without sockets |
//! | [`request`] | withdraws that the pool takes |
//! | [`journal`] | the state file |
//! | [`server`] | nodes on sockets, faults, the `/sim` routes |
//!
//! There is no virtual machine: three programs are natives, that of the system (transfers alone),
//! that of the compute budget, and the shield pool. A test on simulated time drives
//! [`ledger::Ledger`] and [`rpc::handle`] itself; everything else starts a [`SimSolana`].

pub mod journal;
pub mod keys;
pub mod ledger;
pub mod request;
pub mod rpc;
pub mod server;

pub use server::{SimConfig, SimSolana, StartError};
