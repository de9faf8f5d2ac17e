//! Hints for later, and urgent ones.

use landfall_core::near;
use landfall_core::queue::Terms;

use crate::check::checks;
use crate::queue::{End, World, hints, ids};

/// Time that a busy machine may lose between two steps of a check, at most.
const SLACK_MS: u64 = 1_000;
/// In whole seconds: some queues count no finer.
const DELAY_MS: u64 = 3_000;

checks!(World:
    a_delayed_hint_comes_in_its_time,
    urgent_hints_come_first,
);

async fn a_delayed_hint_comes_in_its_time(world: World) {
    let end = End::of(&world).await;
    let later = world.transfers(near::TRANSFER, 2, DELAY_MS).await;
    let terms = Terms { delay_ms: DELAY_MS, ..Terms::DEFAULT };
    let dropped = end.queue.push_on(terms, &hints(near::TRANSFER, &later)).await.expect("push");
    if !world.abilities().delay {
        // Too early would be a wasted look; the sweeper comes in time.
        assert_eq!(dropped, later.len());
        return;
    }
    assert_eq!(dropped, 0);
    let now = end.push(near::TRANSFER, 1).await;
    let pulled = end.pull_all(near::TRANSFER, &now).await;
    end.finish(&pulled).await;
    end.is_quiet(near::TRANSFER, DELAY_MS - 2 * SLACK_MS).await;
    let pulled = end.pull_all(near::TRANSFER, &later);
    let (pulled, ()) = futures::join!(pulled, world.advance(2 * SLACK_MS));
    end.finish(&pulled).await;
}

async fn urgent_hints_come_first(world: World) {
    let end = End::of(&world).await;
    let mut pushed = Vec::new();
    for priority in [100, 7, 200, 100] {
        let ids = world.transfers(near::TRANSFER, 2, 0).await;
        let terms = Terms { priority, ..Terms::DEFAULT };
        let dropped = end.queue.push_on(terms, &hints(near::TRANSFER, &ids)).await.expect("push");
        assert_eq!(dropped, 0);
        pushed.push(ids);
    }
    let pulled = end.pull_all(near::TRANSFER, &pushed.concat()).await;
    if world.abilities().priority {
        let by_urgency = [2, 0, 3, 1].map(|index| pushed[index].clone());
        assert_eq!(ids(&pulled), by_urgency.concat());
    }
}
