//! Simulated ledgers for tests, benchmarks and `landfall dev`.
//!
//! Each ledger is a pure state machine behind a server that speaks the real protocol, so that
//! nothing in a rail knows whether it talks to the simulator.
//! **Invariant:** a ledger has no clock, no I/O and no randomness of its own.
//! The [`world`] puts the real relay beside them, in one thread, on paused time.

pub mod near;
pub mod torture;
pub mod world;
