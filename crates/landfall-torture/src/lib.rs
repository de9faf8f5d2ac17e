//! The machine that tries to make Landfall pay twice.
//!
//! From one seed: the real engine and the real rails, several instances of them on one store, one
//! ledger and two account services, in one thread, on paused time, without sockets. A **storm** in
//! which everything goes wrong that the seed's [`Plan`] names, then a **calm** in which everything
//! must come to rest. Safety is checked throughout, by [`checkers`]; the same seed gives the same
//! history, byte for byte ([`Report::digest`]).
//!
//! Map: [`plan`] draws the faults; [`seat`] is where an instance is crashed, frozen and lied to by
//! `store`, `wire` and `services`; `chaos` is the weather, `near` that of the ledger, `past` where
//! the store may go back to; `liars` are nodes; `clients` and `operator` are the people.

pub mod checkers;
pub mod enumerate;
pub mod near;
pub mod plan;
pub mod seat;

mod chaos;
mod clients;
mod instance;
mod internal;
mod operator;
mod past;
mod run;
mod store;
mod story;
mod wire;

pub use checkers::Broken;
pub use plan::Plan;
pub use run::{Failure, Options, Report, run, run_plan};
