//! The store as its own queue: due transfers are claimed for a time, and come again if nobody moves
//! them. For many machines that share a store and nothing else.
//!
//! There is no table of hints, because the store already knows what waits where and since when:
//! a pull is a sweep of one stage, which claims what is due by pushing its due time on in the same
//! commit. Two pulls never claim the same transfer, a worker that dies loses its claims when time
//! has passed, and a delay is a due time in the future. So a push stores nothing: it wakes the
//! pulls of its own process, and other processes notice within `poll_max_ms`.
//!
//! **With the engine's own sweeper** both claim from the same rows and push by the same time, so
//! they share the work and never double it; whichever comes first wins. The sweeper comes by once a
//! second, this queue within `poll_min_ms` while there is work and `poll_max_ms` while there is
//! none. What differs from other queues is when a new transfer is seen: when it is *due*. Whoever
//! accepts transfers without working on them (a process of the API alone) should make them due at
//! once, with no grace for a hint, since no other hint will come.
//!
//! An acknowledgement does nothing: the move that handles a transfer sets its next due time, and
//! what was acknowledged but never moved comes again. Poison comes again for ever, as slowly as
//! its backoff says; the transfer itself is the record of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use landfall_core::queue::{Delivery, Hint, Queue, QueueError, Terms};
use landfall_core::store::{Store, StoreError};
use landfall_core::{Clock, Stage, State};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// How to claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How long a claim hides a transfer from everybody else. The engine's `sweep_push_ms`: as long
    /// as a transfer may wait in a worker's pool.
    pub visibility_ms: u64,
    /// A due time further away than this was never meant: the clock has jumped. The engine's own
    /// horizon: by a nearer one its backoffs would count as due.
    pub horizon_ms: u64,
    /// The first wait of a pull that found nothing; doubles.
    pub poll_min_ms: u64,
    /// The longest wait: the latency of a hint from another process.
    pub poll_max_ms: u64,
}

impl Settings {
    /// Claims as the engine's sweeper does, with its own times.
    pub fn beside_sweeper(visibility_ms: u64, horizon_ms: u64) -> Settings {
        Settings {
            visibility_ms,
            horizon_ms,
            // Far below the time of a block; ten looks at an index in the first second.
            poll_min_ms: 20,
            poll_max_ms: 500,
        }
    }
}

/// A queue without anything of its own.
pub struct StoreQueue {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    settings: Settings,
    woken: Mutex<BTreeMap<Stage, Arc<Notify>>>,
}

impl StoreQueue {
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, settings: Settings) -> StoreQueue {
        StoreQueue { store, clock, settings, woken: Mutex::default() }
    }

    fn woken(&self, stage: Stage) -> Arc<Notify> {
        self.woken.lock().entry(stage).or_default().clone()
    }
}

fn unavailable(error: StoreError) -> QueueError {
    QueueError(error.to_string())
}

#[async_trait]
impl Queue for StoreQueue {
    /// Nothing is ever dropped: what a hint points at is in the store before the hint is pushed.
    async fn push(&self, hints: &[Hint]) -> Result<usize, QueueError> {
        let mut last = None;
        for hint in hints {
            if last != Some(hint.stage) {
                self.woken(hint.stage).notify_waiters();
                last = Some(hint.stage);
            }
        }
        Ok(0)
    }

    /// The due time in the store is the delay.
    async fn push_on(&self, terms: Terms, hints: &[Hint]) -> Result<usize, QueueError> {
        match terms.delay_ms {
            0 => self.push(hints).await,
            _ => Ok(0),
        }
    }

    async fn pull(&self, stage: Stage, max: usize) -> Result<Vec<Delivery>, QueueError> {
        if max == 0 {
            return Ok(Vec::new());
        }
        let woken = self.woken(stage);
        let mut wait_ms = self.settings.poll_min_ms;
        loop {
            // Listened for before the look, so that a push between the two is not missed.
            let push = woken.notified();
            tokio::pin!(push);
            push.as_mut().enable();
            let Settings { visibility_ms, horizon_ms, poll_max_ms, .. } = self.settings;
            let found = self.store.sweep(stage, max, visibility_ms, horizon_ms).await;
            let found = found.map_err(unavailable)?;
            if !found.is_empty() {
                let deliver =
                    |transfer| Delivery { hint: Hint { transfer, stage }, receipt: String::new() };
                return Ok(found.into_iter().map(deliver).collect());
            }
            tokio::select! {
                _ = push => wait_ms = self.settings.poll_min_ms,
                _ = self.clock.sleep(Duration::from_millis(wait_ms)) => {
                    wait_ms = wait_ms.saturating_mul(2).min(poll_max_ms);
                }
            }
        }
    }

    async fn ack(&self, _deliveries: &[Delivery]) -> Result<(), QueueError> {
        Ok(())
    }

    /// All transfers in the states of the stage, those being worked on and those that wait for
    /// their next try included: the store counts no finer.
    async fn depth(&self, stage: Stage) -> Result<usize, QueueError> {
        let counts = self.store.counts().await.map_err(unavailable)?;
        let mine = |state: State| state.stage() == Some(stage);
        let count: u64 = counts.iter().filter(|(state, _)| mine(*state)).map(|(_, n)| n).sum();
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }
}
