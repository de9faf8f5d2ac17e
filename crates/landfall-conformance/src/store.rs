//! The checks of `landfall_core::store`, a file for each part of the seam.

mod accept;
mod attempts;
mod claims;
mod door;
mod lanes;
mod moves;
mod openings;
mod races;
mod reads;
mod settle;
mod sights;
mod variants;

use std::sync::Arc;

use landfall_core::store::Store;

use crate::check::run_checks;
use crate::clock::Time;
use crate::world::World;

/// Runs every check, each on an empty store from `make` whose clock is `time`. Wants a runtime of
/// several threads, or the races are none.
pub async fn exercise_store(make: impl AsyncFn() -> Arc<dyn Store>, time: Arc<dyn Time>) {
    let checks = [
        accept::CHECKS,
        door::CHECKS,
        moves::CHECKS,
        attempts::CHECKS,
        openings::CHECKS,
        variants::CHECKS,
        sights::CHECKS,
        settle::CHECKS,
        claims::CHECKS,
        lanes::CHECKS,
        reads::CHECKS,
        races::CHECKS,
    ];
    run_checks(&checks, async || World { store: make().await, time: time.clone() }).await;
}
