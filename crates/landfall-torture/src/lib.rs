//! The machine that tries to make Landfall pay twice.
//!
//! From one seed: the real engine and the real rails, several instances of them on one store, with
//! their ledgers and services, in one thread, on paused time, without sockets. A **storm** in which
//! everything goes wrong that the seed's [`Plan`] names, then a **calm** in which everything must
//! come to rest. Safety is checked throughout, by [`checkers`]; the same seed gives the same
//! history, byte for byte ([`Report::digest`]).
//!
//! Map: [`plan`] draws the faults; [`seat`] is where an instance is crashed, frozen and lied to by
//! `store` and `wire`; `chaos` strikes instances and parts, `past` is where the store may go back
//! to; `clients` and `operator` are the people. A rail is a [`part`] of the world, in a folder of
//! its own: [`near`], [`internal`], [`evm`].

pub mod checkers;
pub mod enumerate;
pub mod evm;
pub mod internal;
pub mod near;
pub mod part;
pub mod plan;
pub mod seat;

mod chaos;
mod clients;
mod instance;
mod operator;
mod past;
mod run;
mod store;
mod story;
mod wire;

pub use checkers::Broken;
pub use plan::Plan;
pub use run::{Failure, Options, Report, run, run_plan};
