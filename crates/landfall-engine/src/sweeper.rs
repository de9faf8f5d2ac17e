//! Finds what a lost hint left behind, and follows the hints that were not lost.
//!
//! A sweep pushes each due time on in the same commit, so that nothing is found twice and nothing
//! starves. While the pools are full nobody sweeps: what waits in the store waits well.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use landfall_core::Stage;
use rand::Rng;

use crate::active_rail::ActiveRail;
use crate::engine::Core;

/// Transfers taken up by one sweep of one stage.
const SWEEP_MAX: usize = 1_000;
/// How often it is looked whether what operators were told of is over. They look less often.
const REVIEW_MS: u64 = 5_000;
/// Transfers looked at in one review; the others have their turn in the next.
pub(crate) const REVIEW_MAX: usize = 200;
/// Hints taken from the queue at once.
const PULL_MAX: usize = 500;
/// How long until there may be room again for what hints tell of: about as long as a batch waits.
const FULL_MS: u64 = 20;

/// Sweeps all stages in turn.
pub(crate) async fn sweep(core: Arc<Core>, active: Arc<dyn ActiveRail>) {
    let settings = &core.settings;
    let mut reviewed_ms = core.clock.monotonic_ms();
    while !core.is_stopping() {
        if core.clock.monotonic_ms() >= reviewed_ms + REVIEW_MS {
            active.review().await;
            reviewed_ms = core.clock.monotonic_ms();
        }
        let mut more = false;
        for stage in active.stages() {
            more |= sweep_stage(&core, &active, stage).await;
        }
        count_backlog(&core).await;
        if more {
            continue;
        }
        // Jitter, so that of several processes none is always the first to find what is due.
        let wait_ms = core.rng.lock().random_range(settings.sweep_ms / 2..=settings.sweep_ms);
        tokio::select! {
            biased;
            _ = core.stopped.notified() => return,
            _ = active.sweep_now().notified() => core.nap(settings.sweep_ms / 4).await,
            _ = core.nap(wait_ms) => {}
        }
    }
}

/// True if there is likely more to find, and room for it.
async fn sweep_stage(core: &Core, active: &Arc<dyn ActiveRail>, stage: Stage) -> bool {
    let settings = &core.settings;
    let room = active.room().min(SWEEP_MAX);
    if room == 0 || !active.is_able() {
        return false;
    }
    let (push_ms, horizon_ms) = (settings.sweep_push_ms, settings.horizon_ms());
    match core.store.sweep(stage, room, push_ms, horizon_ms).await {
        Ok(found) => {
            if !found.is_empty() {
                tracing::debug!(%stage, found = found.len(), "swept");
                core.metrics.swept(stage, found.len() as u64);
                active.clone().fetch(&found).await;
            }
            found.len() == room
        }
        Err(error) => {
            tracing::warn!(%stage, %error, "sweep failed");
            false
        }
    }
}

/// Counts for admission alone, in a process that sweeps nothing.
pub(crate) async fn count(core: Arc<Core>) {
    while !core.is_stopping() {
        count_backlog(&core).await;
        tokio::select! {
            biased;
            _ = core.stopped.notified() => return,
            _ = core.nap(core.settings.sweep_ms) => {}
        }
    }
}

async fn count_backlog(core: &Core) {
    if let Ok(counts) = core.store.counts().await {
        let live = counts.iter().filter(|(state, _)| !state.is_final()).map(|(_, count)| count);
        core.gauges.backlog.store(live.sum(), Ordering::Relaxed);
    }
}

/// Follows the queue's hints for a stage.
pub(crate) async fn pull(core: Arc<Core>, active: Arc<dyn ActiveRail>, stage: Stage) {
    let settings = &core.settings;
    while !core.is_stopping() {
        let room = active.room();
        // The queue may be shared: what could not be worked on here is left to whoever can.
        if !active.is_able() || room < PULL_MAX.min(active.capacity() / 4).max(1) {
            core.nap(FULL_MS).await;
            continue;
        }
        match core.queue.pull(stage, room.min(PULL_MAX)).await {
            Ok(deliveries) => {
                let ids: Vec<_> =
                    deliveries.iter().map(|delivery| delivery.hint.transfer).collect();
                active.clone().fetch(&ids).await;
                // Taken up now; if this process dies the sweeper finds them.
                let _ = core.queue.ack(&deliveries).await;
            }
            Err(error) => {
                tracing::warn!(%stage, %error, "queue unavailable; the sweeper goes on");
                core.nap(settings.sweep_ms).await;
            }
        }
    }
}
