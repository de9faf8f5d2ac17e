//! What every room that keeps its data in one SQLite file does alike.
//!
//! A file is marked as its owner's and brought up to date when it is opened ([`Layout`]), and
//! locked against a second writer ([`Lock`]). One thread writes ([`Writer`]): jobs of many callers
//! go into one transaction, so one fsync answers them all. Others read beside it ([`Readers`]).
//! Not here: what is in a file, and what a failure means to whoever asked.

mod fault;
mod open;
mod readers;
mod writer;

pub use crate::fault::{Done, Fault, corrupt};
pub use crate::open::{Layout, Lock, Unopened};
pub use crate::readers::Readers;
pub use crate::writer::{Job, Keeper, Load, Writer, transaction};
