//! The checks of `landfall_core::queue`.
//!
//! Every queue runs all of them and says what it can ([`Abilities`]): a check of something that a
//! queue does not have passes at once. What a queue has by its nature beyond that (names of keys,
//! bodies of messages) is its own to check.
//! **Rule:** no check believes in exactly once: each takes duplicates, none takes a loss.

mod aside;
mod order;
mod pace;
mod redelivery;
mod terms;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use landfall_core::queue::{Delivery, Hint, Queue};
use landfall_core::{Stage, TransferId};

use crate::check::run_checks;

pub use pace::pass_hints;

/// Longer than any check takes when nothing is lost, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Hints for which every queue under the checks has room at once, per stage.
pub const ROOM_MIN: usize = 1_000;

/// What a queue can do beyond its duty. All checks run with these, so they should be small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Abilities {
    /// Hands hints out in the order in which they came.
    pub ordered: bool,
    /// Hands urgent hints out first.
    pub priority: bool,
    /// Holds hints back.
    pub delay: bool,
    /// Is shared by several processes, and outlives each.
    pub shared: bool,
    /// Others can write to it.
    pub foreign: bool,
    /// Hands out again what was not deleted after so long.
    pub visibility_ms: Option<u64>,
    /// Puts aside what was handed out so often.
    pub deliveries_max: Option<u32>,
    /// Drops what exceeds so many hints in a stage. At least [`ROOM_MIN`].
    pub room: Option<usize>,
}

/// One queue and what is around it.
#[async_trait]
pub trait QueueWorld: Send + Sync + 'static {
    fn abilities(&self) -> Abilities;
    /// An end of the queue, each time as in a process of its own where the queue is shared.
    async fn connect(&self) -> Arc<dyn Queue>;
    /// Transfers that wait in the stage and are due after `delay_ms`. Most queues never ask.
    async fn transfers(&self, stage: Stage, count: usize, delay_ms: u64) -> Vec<TransferId> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let _ = (stage, delay_ms);
        (0..count).map(|_| TransferId(NEXT.fetch_add(1, Ordering::Relaxed))).collect()
    }
    /// What a worker does when its moves have committed.
    async fn finish(&self, queue: &dyn Queue, deliveries: &[Delivery]) {
        queue.ack(deliveries).await.expect("ack");
    }
    /// Lets time pass for the queue.
    async fn advance(&self, by_ms: u64);
    /// Puts messages that are no hints where the stage's hints are; returns how many.
    async fn scribble(&self, stage: Stage) -> usize {
        panic!("nobody else writes to the {stage} of this queue");
    }
}

type World = Arc<dyn QueueWorld>;

/// Runs every check, each on an empty queue.
pub async fn exercise_queue(make: impl AsyncFn() -> Arc<dyn QueueWorld>) {
    let checks = [order::CHECKS, redelivery::CHECKS, terms::CHECKS, aside::CHECKS];
    run_checks(&checks, make).await;
}

/// One end of the queue, and the shortest way to say what a check needs.
struct End {
    world: World,
    queue: Arc<dyn Queue>,
}

impl End {
    async fn of(world: &World) -> End {
        End { world: world.clone(), queue: world.connect().await }
    }

    /// Pushes hints of new transfers, all of which find room.
    async fn push(&self, stage: Stage, count: usize) -> Vec<TransferId> {
        let ids = self.world.transfers(stage, count, 0).await;
        assert_eq!(self.queue.push(&hints(stage, &ids)).await.expect("push"), 0);
        ids
    }

    async fn pull(&self, stage: Stage, max: usize) -> Vec<Delivery> {
        let pulled = tokio::time::timeout(PATIENCE, self.queue.pull(stage, max)).await;
        let pulled = pulled.expect("a hint in time").expect("pull");
        assert!(!pulled.is_empty(), "a pull waits for at least one hint");
        assert!(pulled.len() <= max, "{} hints where {max} were asked for", pulled.len());
        assert!(pulled.iter().all(|delivery| delivery.hint.stage == stage), "{pulled:?}");
        pulled
    }

    /// Pulls until each of `wanted` has come, and nothing else.
    async fn pull_all(&self, stage: Stage, wanted: &[TransferId]) -> Vec<Delivery> {
        let mut pulled: Vec<Delivery> = Vec::new();
        let mut missing: BTreeSet<TransferId> = wanted.iter().copied().collect();
        while !missing.is_empty() {
            for delivery in self.pull(stage, missing.len()).await {
                let id = delivery.hint.transfer;
                assert!(wanted.contains(&id), "transfer {id} was handed out");
                missing.remove(&id);
                pulled.push(delivery);
            }
        }
        pulled
    }

    async fn finish(&self, deliveries: &[Delivery]) {
        self.world.finish(self.queue.as_ref(), deliveries).await;
    }

    /// Sees that the stage hands out nothing for so long.
    async fn is_quiet(&self, stage: Stage, for_ms: u64) {
        tokio::select! {
            biased;
            pulled = self.queue.pull(stage, 10) => panic!("handed out: {pulled:?}"),
            _ = self.world.advance(for_ms) => {}
        }
    }
}

fn hints(stage: Stage, ids: &[TransferId]) -> Vec<Hint> {
    ids.iter().map(|id| Hint { transfer: *id, stage }).collect()
}

fn ids(deliveries: &[Delivery]) -> Vec<TransferId> {
    deliveries.iter().map(|delivery| delivery.hint.transfer).collect()
}
