//! A process that dies, or stands still and wakes up again, around a send.

use landfall_lanes::Executed;

use super::process::{At, Call, ExecutionWorld, Process, hash_of};
use crate::check::checks;

checks!(ExecutionWorld:
    a_crash_between_store_and_send_ends_with_the_same_hash,
    a_crash_between_send_and_answer_ends_with_the_same_hash,
    a_process_that_sleeps_past_its_lease_before_a_send_changes_nothing,
    a_process_that_sleeps_past_its_lease_after_a_send_changes_nothing,
    what_a_dead_process_left_is_brought_to_its_end_without_a_caller,
);

/// Begins one execution and returns when its process stands still: the call, and the hash that is
/// stored.
async fn stuck(world: &ExecutionWorld, one: &Process, at: At) -> (Call, String) {
    one.hold.set(at);
    let call = one.begin(&world.lane(), "a");
    one.hold.reached.watch().until(|reached| *reached).await;
    match one.manager.find("a").await {
        Ok(Some(Executed::InFlight { hash: Some(hash) })) => (call, hash),
        other => panic!("stored before it is sent: {other:?}"),
    }
}

async fn crash(world: ExecutionWorld, at: At) {
    let one = world.start("one").await;
    let (_, hash) = stuck(&world, &one, at).await;
    one.kill().await;
    let next = world.start("one").await;
    let answer = next.execute(&world.lane(), "a").await.unwrap();
    assert_eq!(hash_of(&answer), hash);
    assert_eq!(next.execute(&world.lane(), "a").await, Ok(answer));
    hash_of(&next.execute(&world.lane(), "b").await.unwrap());
    world.check(&["a".into(), "b".into()]);
    next.kill().await;
}

async fn a_crash_between_store_and_send_ends_with_the_same_hash(world: ExecutionWorld) {
    crash(world, At::BeforeSend).await;
}

async fn a_crash_between_send_and_answer_ends_with_the_same_hash(world: ExecutionWorld) {
    crash(world, At::AfterSend).await;
}

/// Another process takes the lane over in the meantime and uses it; then the sleeper goes on.
async fn sleep(world: ExecutionWorld, at: At) {
    let one = world.start("one").await;
    let (call, _) = stuck(&world, &one, at).await;
    let two = world.start("two").await;
    // Usually under the same hash; after a fence, proven sunk, under another.
    let hash = hash_of(&two.execute(&world.lane(), "a").await.unwrap());
    hash_of(&two.execute(&world.lane(), "b").await.unwrap());
    assert_eq!(two.manager.numbers()[&world.lane()].takeovers, 1);
    one.hold.release();
    assert_eq!(hash_of(&call.await.unwrap().unwrap()), hash);
    assert_eq!(hash_of(&one.execute(&world.lane(), "a").await.unwrap()), hash);
    two.kill().await;
    hash_of(&one.execute(&world.lane(), "c").await.unwrap());
    world.check(&["a".into(), "b".into(), "c".into()]);
    assert_eq!(world.chain.invalid_nonces(), 0);
    one.kill().await;
}

async fn a_process_that_sleeps_past_its_lease_before_a_send_changes_nothing(world: ExecutionWorld) {
    sleep(world, At::BeforeSend).await;
}

async fn a_process_that_sleeps_past_its_lease_after_a_send_changes_nothing(world: ExecutionWorld) {
    sleep(world, At::AfterSend).await;
}

async fn what_a_dead_process_left_is_brought_to_its_end_without_a_caller(world: ExecutionWorld) {
    let one = world.start("one").await;
    let (_, hash) = stuck(&world, &one, At::BeforeSend).await;
    one.kill().await;
    let two = world.start("two").await;
    world.until_told(&two, "a", |told| *told == Executed::Done { hash: hash.clone() }).await;
    world.check(&["a".into()]);
    two.kill().await;
}
