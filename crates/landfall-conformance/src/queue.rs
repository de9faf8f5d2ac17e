//! The checks of `landfall_core::queue`.

use std::sync::Arc;

use landfall_core::queue::{Delivery, Hint, Queue};
use landfall_core::{Stage, TransferId, near};

use crate::check::{checks, run_checks};

type World = Arc<dyn Queue>;

/// Runs every check, each on an empty queue from `make` with room for at least 1,000 hints.
pub async fn exercise_queue(make: impl AsyncFn() -> Arc<dyn Queue>) {
    run_checks(&[CHECKS], make).await;
}

checks!(World:
    hints_come_out_oldest_first,
    a_pull_takes_no_more_than_it_asked_for,
    a_pull_takes_only_its_stage,
    a_pull_waits_for_a_hint,
    every_waiting_pull_is_served,
    a_pull_given_up_loses_no_hint,
    an_acknowledgement_can_be_repeated,
    depth_counts_what_waits,
    of_many_pulls_each_hint_goes_to_one,
);

fn hint(stage: Stage, number: u64) -> Hint {
    Hint { transfer: TransferId(number), stage }
}

async fn push(queue: &World, stage: Stage, numbers: impl IntoIterator<Item = u64>) {
    let hints: Vec<Hint> = numbers.into_iter().map(|number| hint(stage, number)).collect();
    assert_eq!(queue.push(&hints).await.expect("push"), 0);
}

async fn pull(queue: &World, stage: Stage, max: usize) -> Vec<u64> {
    numbers(&queue.pull(stage, max).await.expect("pull"))
}

fn numbers(deliveries: &[Delivery]) -> Vec<u64> {
    deliveries.iter().map(|delivery| delivery.hint.transfer.0).collect()
}

async fn hints_come_out_oldest_first(queue: World) {
    push(&queue, near::TRANSFER, [3, 1]).await;
    push(&queue, near::TRANSFER, [2]).await;
    assert_eq!(pull(&queue, near::TRANSFER, 10).await, [3, 1, 2]);
}

async fn a_pull_takes_no_more_than_it_asked_for(queue: World) {
    push(&queue, near::TRANSFER, 0..5).await;
    assert_eq!(pull(&queue, near::TRANSFER, 2).await, [0, 1]);
    assert_eq!(pull(&queue, near::TRANSFER, 2).await, [2, 3]);
    assert_eq!(pull(&queue, near::TRANSFER, 2).await, [4]);
}

async fn a_pull_takes_only_its_stage(queue: World) {
    push(&queue, near::TRANSFER, [1]).await;
    push(&queue, near::REGISTRATION, [2]).await;
    assert_eq!(pull(&queue, near::REGISTRATION, 10).await, [2]);
    assert_eq!(pull(&queue, near::TRANSFER, 10).await, [1]);
}

async fn a_pull_waits_for_a_hint(queue: World) {
    let mut waiting = queue.pull(near::TRANSFER, 10);
    assert!(futures::poll!(&mut waiting).is_pending());
    push(&queue, near::REGISTRATION, [1]).await;
    push(&queue, near::TRANSFER, [7]).await;
    assert_eq!(numbers(&waiting.await.expect("pull")), [7]);
}

async fn every_waiting_pull_is_served(queue: World) {
    let mut first = queue.pull(near::TRANSFER, 1);
    let mut second = queue.pull(near::TRANSFER, 1);
    assert!(futures::poll!(&mut first).is_pending());
    assert!(futures::poll!(&mut second).is_pending());
    push(&queue, near::TRANSFER, [1, 2]).await;
    let (first, second) = futures::join!(first, second);
    let mut served = numbers(&first.expect("pull"));
    served.extend(numbers(&second.expect("pull")));
    served.sort();
    assert_eq!(served, [1, 2]);
}

async fn a_pull_given_up_loses_no_hint(queue: World) {
    let mut given_up = queue.pull(near::TRANSFER, 1);
    assert!(futures::poll!(&mut given_up).is_pending());
    drop(given_up);
    let mut waiting = queue.pull(near::TRANSFER, 1);
    assert!(futures::poll!(&mut waiting).is_pending());
    push(&queue, near::TRANSFER, [5]).await;
    assert_eq!(numbers(&waiting.await.expect("pull")), [5]);
}

async fn an_acknowledgement_can_be_repeated(queue: World) {
    push(&queue, near::TRANSFER, [1, 2]).await;
    let deliveries = queue.pull(near::TRANSFER, 1).await.expect("pull");
    for _ in 0..2 {
        queue.ack(&deliveries).await.expect("ack");
    }
    assert_eq!(pull(&queue, near::TRANSFER, 10).await, [2]);
}

async fn depth_counts_what_waits(queue: World) {
    push(&queue, near::TRANSFER, 0..3).await;
    assert_eq!(queue.depth(near::TRANSFER).await.expect("depth"), 3);
    assert_eq!(queue.depth(near::REGISTRATION).await.expect("depth"), 0);
    let deliveries = queue.pull(near::TRANSFER, 2).await.expect("pull");
    queue.ack(&deliveries).await.expect("ack");
    assert_eq!(queue.depth(near::TRANSFER).await.expect("depth"), 1);
}

async fn of_many_pulls_each_hint_goes_to_one(queue: World) {
    const HINTS: u64 = 960;
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move {
                let mut mine = Vec::new();
                while mine.len() < HINTS as usize / 16 {
                    let room = HINTS as usize / 16 - mine.len();
                    mine.extend(pull(&queue, near::TRANSFER, room.min(7)).await);
                }
                mine
            })
        })
        .collect();
    for number in 0..HINTS {
        push(&queue, near::TRANSFER, [number]).await;
    }
    let mut pulled = Vec::new();
    for task in tasks {
        pulled.extend(task.await.expect("no panic"));
    }
    pulled.sort();
    assert_eq!(pulled, (0..HINTS).collect::<Vec<_>>());
}
