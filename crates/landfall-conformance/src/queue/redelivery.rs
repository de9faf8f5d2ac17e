//! What is not deleted comes again; what is deleted does not.

use landfall_core::near;

use crate::check::checks;
use crate::queue::{End, World, ids};

checks!(World:
    what_is_deleted_does_not_come_again,
    deleting_twice_is_harmless,
    what_is_in_hand_is_not_handed_out_again_before_its_time,
    what_a_dead_worker_held_comes_again,
    hints_outlive_whoever_pushed_them,
);

async fn what_is_deleted_does_not_come_again(world: World) {
    let end = End::of(&world).await;
    let pushed = end.push(near::TRANSFER, 3).await;
    let pulled = end.pull_all(near::TRANSFER, &pushed).await;
    end.finish(&pulled).await;
    let again_ms = world.abilities().visibility_ms.map_or(0, |visibility_ms| visibility_ms * 2);
    end.is_quiet(near::TRANSFER, again_ms).await;
}

async fn deleting_twice_is_harmless(world: World) {
    let end = End::of(&world).await;
    let first = end.push(near::TRANSFER, 1).await;
    let pulled = end.pull_all(near::TRANSFER, &first).await;
    end.finish(&pulled).await;
    let second = end.push(near::TRANSFER, 1).await;
    for _ in 0..2 {
        end.queue.ack(&pulled).await.expect("ack");
    }
    let pulled = end.pull_all(near::TRANSFER, &second).await;
    assert_eq!(ids(&pulled), second);
}

async fn what_is_in_hand_is_not_handed_out_again_before_its_time(world: World) {
    let Some(visibility_ms) = world.abilities().visibility_ms else { return };
    let (one, other) = (End::of(&world).await, End::of(&world).await);
    let pushed = one.push(near::TRANSFER, 2).await;
    one.pull_all(near::TRANSFER, &pushed).await;
    other.is_quiet(near::TRANSFER, visibility_ms / 4).await;
}

async fn what_a_dead_worker_held_comes_again(world: World) {
    let Some(visibility_ms) = world.abilities().visibility_ms else { return };
    let (one, other) = (End::of(&world).await, End::of(&world).await);
    let pushed = one.push(near::TRANSFER, 3).await;
    one.pull_all(near::TRANSFER, &pushed).await;
    drop(one);
    let again = other.pull_all(near::TRANSFER, &pushed);
    let (again, ()) = futures::join!(again, world.advance(visibility_ms));
    other.finish(&again).await;
    other.is_quiet(near::TRANSFER, visibility_ms).await;
}

async fn hints_outlive_whoever_pushed_them(world: World) {
    if !world.abilities().shared {
        return;
    }
    let one = End::of(&world).await;
    let pushed = one.push(near::TRANSFER, 3).await;
    drop(one);
    End::of(&world).await.pull_all(near::TRANSFER, &pushed).await;
}
