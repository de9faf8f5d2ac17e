//! Finds what a lost hint left behind, and follows the hints that were not lost.
//!
//! A sweep pushes each due time on in the same commit, so that nothing is found twice and nothing
//! starves. While the pools are full nobody sweeps: what waits in the store waits well.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use landfall_core::Stage;
use rand::Rng;

use crate::runner::Runner;
use crate::schedule;

/// Transfers taken up by one sweep of one stage.
const SWEEP_MAX: usize = 1_000;
/// Hints taken from the queue at once.
const PULL_MAX: usize = 500;

/// Sweeps all stages in turn.
pub(crate) async fn sweep(runner: Arc<Runner>) {
    let stages = runner.rail_name().stages();
    let settings = &runner.core.settings;
    while !runner.core.is_stopping() {
        let mut more = false;
        for stage in [stages.pay, stages.prepare] {
            more |= sweep_stage(&runner, stage).await;
        }
        count_backlog(&runner).await;
        if more {
            continue;
        }
        // Jitter, so that of several processes none is always the first to find what is due.
        let wait_ms =
            runner.core.rng.lock().random_range(settings.sweep_ms / 2..=settings.sweep_ms);
        tokio::select! {
            biased;
            _ = runner.core.stopped.notified() => return,
            _ = runner.sweep.notified() => runner.core.nap(settings.sweep_ms / 4).await,
            _ = runner.core.nap(wait_ms) => {}
        }
    }
}

/// True if there is likely more to find, and room for it.
async fn sweep_stage(runner: &Arc<Runner>, stage: Stage) -> bool {
    let settings = &runner.core.settings;
    let room = runner.pools.lock().room(settings.pool_capacity).min(SWEEP_MAX);
    // Without a lane nothing found could be carried: it is left to whoever has one.
    if room == 0 || !runner.fleet().holds_any() {
        return false;
    }
    let (push_ms, horizon_ms) = (settings.sweep_push_ms, schedule::horizon_ms(settings));
    match runner.core.store.sweep(stage, room, push_ms, horizon_ms).await {
        Ok(found) => {
            if !found.is_empty() {
                tracing::debug!(%stage, found = found.len(), "swept");
                runner.core.metrics.swept(stage, found.len() as u64);
                runner.fetch(&found).await;
            }
            found.len() == room
        }
        Err(error) => {
            tracing::warn!(%stage, %error, "sweep failed");
            false
        }
    }
}

async fn count_backlog(runner: &Runner) {
    if let Ok(counts) = runner.core.store.counts().await {
        let live = counts.iter().filter(|(state, _)| !state.is_final()).map(|(_, count)| count);
        runner.core.gauges.backlog.store(live.sum(), Ordering::Relaxed);
    }
}

/// Follows the queue's hints for a stage.
pub(crate) async fn pull(runner: Arc<Runner>, stage: Stage) {
    let settings = &runner.core.settings;
    while !runner.core.is_stopping() {
        if runner.pools.lock().room(settings.pool_capacity) < PULL_MAX {
            runner.core.nap(settings.linger_ms.max(5)).await;
            continue;
        }
        match runner.core.queue.pull(stage, PULL_MAX).await {
            Ok(deliveries) => {
                let ids: Vec<_> =
                    deliveries.iter().map(|delivery| delivery.hint.transfer).collect();
                runner.fetch(&ids).await;
                // Pooled now; if this process dies the sweeper finds them.
                let _ = runner.core.queue.ack(&deliveries).await;
            }
            Err(error) => {
                tracing::warn!(%stage, %error, "queue unavailable; the sweeper goes on");
                runner.core.nap(settings.sweep_ms).await;
            }
        }
    }
}
