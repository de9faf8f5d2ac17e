//! The engine: accepts transfers, drives them through their stages, and is the only writer.
//!
//! Data goes one way: api → [`Engine`] → store; queue → engine → rail → engine → store. The
//! engine knows no ledger: what differs between rails is behind [`landfall_core::rail::Rail`] or
//! [`landfall_core::courier::Courier`] and in each rail's machine. The attempt protocol itself is
//! in `landfall-lanes`.
//!
//! Map: [`requests`] takes submissions and answers questions; `active_rail` is one rail at work,
//! either a `runner` (signed attempts: `prepare` and `pay` are its stages, `settle` turns fates
//! into moves, `heed` learns from them, `trouble`, `shortfall` and `unfunded` tell what keeps some
//! or all members from being paid, `report` tells operators) or a `call_runner` (calls that may be
//! repeated), or an `intake` where others do the work; `schedule` times retries; `sweeper` finds
//! what a lost hint left behind; `journal` is what logs tell, [`status`] what operators see;
//! [`operate`] and [`dead`] are what only they may do.

pub mod dead;
pub mod metrics;
pub mod operate;
pub mod requests;
pub mod settings;
pub mod status;

pub use requests::{Submission, SubmitError};
pub use settings::Settings;
pub use status::{Snapshot, Status};

mod active_rail;
mod beforehand;
mod call_runner;
mod engine;
mod heed;
mod intake;
mod journal;
mod pay;
mod pool;
mod prepare;
mod report;
mod runner;
mod schedule;
mod settle;
mod shortfall;
mod sweeper;
mod trouble;
mod unfunded;
mod watch;

pub use engine::{Engine, Parts, Role};
