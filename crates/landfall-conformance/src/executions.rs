//! The checks of the transaction manager, on whatever keeps its lanes and records.
//!
//! Each plays a story with one or two processes on one small ledger. In every story what is sent is
//! stored before, and no two attempts share a nonce; the world looks for that at its end.
//! **Rule:** no check believes in a quick machine: each waits for what must happen in the end.

mod chain;
mod crashes;
mod lines;
mod once;
mod process;
mod sharing;

use std::sync::Arc;

use futures::future::join_all;
use landfall_core::{Clock, LaneId};
use landfall_lanes::RecordStore;

use crate::check::run_checks;

pub use process::ExecutionWorld;

/// Runs every check, each on an empty store from `make`, by this clock, which may be the host's.
pub async fn exercise_executions(
    make: impl AsyncFn() -> Arc<dyn RecordStore>,
    clock: Arc<dyn Clock>,
) {
    exercise(async || ExecutionWorld::new(make().await, clock.clone())).await;
}

/// The same where a store has one lane alone, which it names.
pub async fn exercise_executions_on_one_lane(
    make: impl AsyncFn() -> (Arc<dyn RecordStore>, LaneId),
    clock: Arc<dyn Clock>,
) {
    let world = async || {
        let (store, lane) = make().await;
        ExecutionWorld::with_lanes(store, vec![lane], clock.clone())
    };
    exercise(world).await;
}

async fn exercise(world: impl AsyncFn() -> ExecutionWorld) {
    // Side by side: most of a story is waiting for leases and blocks.
    join_all([once::CHECKS, lines::CHECKS, crashes::CHECKS, sharing::CHECKS].map(async |checks| {
        run_checks(&[checks], &world).await;
    }))
    .await;
}
