//! Several processes on one store, and what is forgotten in time.

use landfall_lanes::{Executed, TxSettings};

use super::process::{ExecutionWorld, hash_of, keys};
use crate::check::checks;

checks!(ExecutionWorld:
    two_processes_take_turns_on_one_lane,
    one_key_in_two_processes_is_executed_once,
    what_another_process_brought_to_its_end_is_heard_of,
    old_records_are_forgotten_and_none_that_is_in_flight,
);

/// Whether another process can ever have a lane while this one lives.
async fn is_shared(world: &ExecutionWorld) -> bool {
    world.store.identity().await.expect("an identity").shared
}

async fn two_processes_take_turns_on_one_lane(world: ExecutionWorld) {
    if !is_shared(&world).await {
        return;
    }
    let settings = TxSettings { turn_ms: 150, ..ExecutionWorld::settings() };
    let one = world.start_with("one", settings.clone()).await;
    let two = world.start_with("two", settings).await;
    let (ours, theirs) = (keys("ours", 60), keys("theirs", 60));
    let lane = world.lane();
    // Whoever is new to a store waits for others' objections before it signs.
    let begun = ["first", "second"].map(str::to_owned);
    hash_of(&one.execute(&lane, &begun[0]).await.unwrap());
    hash_of(&two.execute(&lane, &begun[1]).await.unwrap());
    let (mine, yours) =
        tokio::join!(one.execute_all(&lane, &ours), two.execute_all(&lane, &theirs));
    mine.iter().chain(&yours).for_each(|answer| _ = hash_of(answer));
    assert_eq!(world.chain.invalid_nonces(), 0);
    world.check(&[ours, theirs, begun.to_vec()].concat());
    let done = world.chain.done();
    let is_change = |two: &&[String]| two[0].starts_with("ours") != two[1].starts_with("ours");
    let changes = done.windows(2).filter(is_change).count();
    assert!(changes >= 2, "whoever came first kept the lane to the end");
    let contentions = [&one, &two].map(|process| {
        process.manager.numbers().get(&lane).map_or(0, |numbers| numbers.contentions)
    });
    assert!(contentions.iter().sum::<u64>() > 0, "one had to wait for the other");
    one.kill().await;
    two.kill().await;
}

async fn one_key_in_two_processes_is_executed_once(world: ExecutionWorld) {
    if !is_shared(&world).await {
        return;
    }
    let (one, two) = (world.start("one").await, world.start("two").await);
    let keys = keys("key", 10);
    let lane = world.lane();
    let (mine, yours) = tokio::join!(one.execute_all(&lane, &keys), two.execute_all(&lane, &keys));
    assert_eq!(mine, yours);
    world.check(&keys);
    one.kill().await;
    two.kill().await;
}

/// One stands still with its execution stored; another has the lane and brings it to its end.
async fn what_another_process_brought_to_its_end_is_heard_of(world: ExecutionWorld) {
    let (one, two) = (world.start("one").await, world.start("two").await);
    let lane = world.lane();
    world.chain.faults(|faults| faults.stopped = true);
    let call = one.begin(&lane, "ours");
    world
        .until_told(&one, "ours", |told| matches!(told, Executed::InFlight { hash: Some(_) }))
        .await;
    one.hold.reached.set(true);
    world.chain.faults(|faults| faults.stopped = false);
    hash_of(&two.execute(&lane, "theirs").await.unwrap());
    world.until_told(&two, "ours", |told| matches!(told, Executed::Done { .. })).await;
    one.hold.release();
    hash_of(&call.await.unwrap().unwrap());
    world.check(&["ours".into(), "theirs".into()]);
    one.kill().await;
    two.kill().await;
}

/// A store that keeps everything for ever answers as before; all others execute anew.
async fn old_records_are_forgotten_and_none_that_is_in_flight(world: ExecutionWorld) {
    let settings = TxSettings { retention_ms: 400, ..ExecutionWorld::settings() };
    let one = world.start_with("one", settings).await;
    let lane = world.lane();
    hash_of(&one.execute(&lane, "old").await.unwrap());
    world.chain.faults(|faults| faults.stopped = true);
    let call = one.begin(&lane, "in flight");
    world.pass(1_000).await;
    let kept = one.manager.find("in flight").await.unwrap();
    assert!(matches!(kept, Some(Executed::InFlight { .. })), "{kept:?}");
    world.chain.faults(|faults| faults.stopped = false);
    hash_of(&call.await.unwrap().unwrap());
    let mut expected = vec!["old".to_owned(), "in flight".to_owned()];
    if one.manager.find("old").await == Ok(None) {
        hash_of(&one.execute(&lane, "old").await.unwrap());
        expected.push("old".to_owned());
    }
    world.check(&expected);
    one.kill().await;
}
