//! What every simulated ledger or service has towards its clients: sockets on which a request can
//! be lost, faults and the door at which they are set, JSON-RPC, a state file.
//!
//! | module | holds |
//! |---|---|
//! | [`host`] | what a simulator gives: how it reads a request and what it does about it |
//! | [`faults`] | what goes wrong on the way, how often, and the dice |
//! | [`routes`] | `/sim/faults` |
//! | [`sockets`] | addresses, connections, tasks that end with the simulator |
//! | [`journal`] | an append-only file of what a ledger was made from |
//! | [`rpc`] | requests and batches of JSON-RPC 2.0, without sockets |
//!
//! A simulator is a [`Host`] that holds a [`Front`]; [`Running::serve`] puts it on sockets.
//! Not here: what any ledger says, or when; time and ledgers are the simulators' own.

pub mod faults;
pub mod host;
pub mod journal;
pub mod routes;
pub mod rpc;
pub mod sockets;

pub use faults::{Dice, Faults, Own};
pub use host::{Front, Host, Reply};
pub use journal::Journal;
pub use sockets::{ListenError, Running, Sockets};
