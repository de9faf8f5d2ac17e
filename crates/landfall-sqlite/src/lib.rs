//! What every room that keeps its data in one SQLite file does alike.
//!
//! Not here: what is in a file, and what a failure means to whoever asked.

mod fault;

pub use crate::fault::{Done, Fault, corrupt};
