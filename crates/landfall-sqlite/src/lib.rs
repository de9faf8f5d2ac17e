//! What every room that keeps its data in one SQLite file does alike.
//!
//! A file is marked as its owner's and brought up to date when it is opened ([`Layout`]), and
//! locked against a second writer ([`Lock`]).
//! Not here: what is in a file, and what a failure means to whoever asked.

mod fault;
mod open;

pub use crate::fault::{Done, Fault, corrupt};
pub use crate::open::{Layout, Lock, Unopened};
