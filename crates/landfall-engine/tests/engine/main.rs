//! The engine and the attempt protocol, on paused time, against a ledger of a few lines.

mod calls;
mod dead;
mod fences;
mod fleet;
mod funds;
mod journal;
mod ledger;
mod protocol;
mod slow;
mod stages;
mod troubles;
mod waits;
mod world;
