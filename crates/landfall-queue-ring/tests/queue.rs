//! The ring, under the checks that every queue passes.

use std::sync::Arc;

use async_trait::async_trait;
use landfall_conformance::{Abilities, QueueWorld, ROOM_MIN, exercise_queue};
use landfall_core::queue::Queue;
use landfall_queue_ring::RingQueue;

struct Ring(Arc<RingQueue>);

#[async_trait]
impl QueueWorld for Ring {
    fn abilities(&self) -> Abilities {
        Abilities { ordered: true, priority: true, room: Some(ROOM_MIN), ..Abilities::default() }
    }

    async fn connect(&self) -> Arc<dyn Queue> {
        self.0.clone()
    }

    /// The ring knows no time.
    async fn advance(&self, _: u64) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_ring_passes_the_checks_of_every_queue() {
    let ring = || Arc::new(RingQueue::new(ROOM_MIN));
    exercise_queue(async || Arc::new(Ring(ring())) as Arc<dyn QueueWorld>).await;
}
