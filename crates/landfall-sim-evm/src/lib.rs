//! A simulated EVM chain: a pure ledger, the JSON-RPC a node speaks, a server, faults, a state
//! file.
//!
//! | module | holds |
//! |---|---|
//! | [`ledger`] | the chain and its nodes' pools as a pure state machine |
//! | [`rpc`] | requests and answers, without sockets |
//! | [`journal`] | the state file |
//! | [`server`] | nodes on sockets, faults, the `/sim` routes |
//!
//! There is no virtual machine: two contracts are natives, a forwarder with the ABI of
//! OpenZeppelin's ERC2771Forwarder 5 and a counter. All that another address can do is to be paid.
//! A test on simulated time drives [`ledger::Ledger`] and [`rpc::handle`] itself; everything else
//! starts a [`SimEvm`].

pub mod journal;
pub mod keys;
pub mod ledger;
pub mod rpc;
pub mod server;

pub use server::{SimConfig, SimEvm, StartError};
