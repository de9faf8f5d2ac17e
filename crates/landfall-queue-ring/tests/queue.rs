//! The ring, under the checks that every queue passes, and its bound.

use std::sync::Arc;

use landfall_conformance::exercise_queue;
use landfall_core::queue::{Hint, Queue};
use landfall_core::{TransferId, near};
use landfall_queue_ring::RingQueue;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_ring_passes_the_checks_of_every_queue() {
    exercise_queue(async || Arc::new(RingQueue::default()) as Arc<dyn Queue>).await;
}

#[tokio::test]
async fn a_full_ring_drops_the_newest_and_says_how_many() {
    let ring = RingQueue::new(3);
    let hint = |number, stage| Hint { transfer: TransferId(number), stage };
    let five: Vec<Hint> = (0..5).map(|number| hint(number, near::TRANSFER)).collect();
    assert_eq!(ring.push(&five).await.expect("push"), 2);
    assert_eq!(ring.push(&[hint(9, near::REGISTRATION)]).await.expect("push"), 0);
    let kept = ring.pull(near::TRANSFER, 10).await.expect("pull");
    let kept: Vec<u64> = kept.iter().map(|delivery| delivery.hint.transfer.0).collect();
    assert_eq!(kept, [0, 1, 2]);
    assert_eq!(ring.push(&five[3..]).await.expect("push"), 0);
}
