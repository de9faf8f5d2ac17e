//! One order per lane, and no more in line than was agreed.

use futures::future::join_all;
use landfall_core::ledger::Ledger;
use landfall_lanes::{Executed, NotExecuted, Route, TxSettings};

use super::process::{ExecutionWorld, Process, build, hash_of, keys};
use crate::check::checks;

checks!(ExecutionWorld:
    two_hundred_at_once_execute_in_one_order_without_an_invalid_nonce,
    a_lane_takes_in_the_order_in_which_it_was_asked,
    a_full_line_refuses_and_still_answers_what_is_known,
    several_keys_share_the_load,
    a_lane_that_nobody_has_is_a_mistake,
    what_sank_is_built_anew_and_done_once,
);

async fn two_hundred_at_once_execute_in_one_order_without_an_invalid_nonce(world: ExecutionWorld) {
    let one = world.start("one").await;
    let keys = keys("key", 200);
    let answers = one.execute_all(&world.lane(), &keys).await;
    answers.iter().for_each(|answer| _ = hash_of(answer));
    assert_eq!(world.chain.invalid_nonces(), 0);
    assert_eq!(one.manager.numbers()[&world.lane()].invalid_nonces, 0);
    world.check(&keys);
    one.kill().await;
}

async fn a_lane_takes_in_the_order_in_which_it_was_asked(world: ExecutionWorld) {
    let one = world.start("one").await;
    let lane = world.lane();
    world.chain.faults(|faults| faults.stopped = true);
    let keys = keys("key", 12);
    let mut calls = Vec::new();
    for key in &keys {
        calls.push(one.begin(&lane, key));
        world.until_told(&one, key, |_| true).await;
        // It is recorded before it is in line.
        world.pass(5).await;
    }
    world.chain.faults(|faults| faults.stopped = false);
    for call in calls {
        hash_of(&call.await.unwrap().unwrap());
    }
    assert_eq!(world.chain.done(), keys);
    world.check(&keys);
    one.kill().await;
}

/// Whether the lane takes it, or it stays in line.
async fn is_handed_on(world: &ExecutionWorld, one: &Process, key: &str) -> bool {
    let depth = || one.manager.numbers()[&world.lane()].queued;
    for _ in 0..1_000 {
        let told = one.manager.find(key).await.unwrap();
        if matches!(told, Some(Executed::InFlight { hash: Some(_) })) {
            return true;
        }
        let before = depth();
        world.pass(300).await;
        if (before, depth()) == (1, 1) {
            return false;
        }
    }
    panic!("{key} is nowhere");
}

async fn a_full_line_refuses_and_still_answers_what_is_known(world: ExecutionWorld) {
    let settings = TxSettings { queue_max: 1, ..ExecutionWorld::settings() };
    let one = world.start_with("one", settings).await;
    let lane = world.lane();
    let known = one.execute(&lane, "known").await.unwrap();
    world.chain.faults(|faults| faults.stopped = true);
    let mut calls = Vec::new();
    let mut expected = vec!["known".to_owned()];
    loop {
        let key = format!("key {}", calls.len());
        calls.push(one.begin(&lane, &key));
        expected.push(key.clone());
        if !is_handed_on(&world, &one, &key).await {
            break;
        }
    }
    let refused = one.execute(&lane, "one too many").await;
    assert_eq!(refused, Err(NotExecuted::Full { lane: lane.clone(), waiting: 1 }));
    assert_eq!(one.manager.find("one too many").await, Ok(None), "nothing of it is recorded");
    assert_eq!(one.execute(&lane, "known").await, Ok(known));
    world.chain.faults(|faults| faults.stopped = false);
    for call in calls {
        hash_of(&call.await.unwrap().unwrap());
    }
    world.check(&expected);
    one.kill().await;
}

async fn several_keys_share_the_load(world: ExecutionWorld) {
    if world.chain.lanes().len() == 1 {
        return;
    }
    let one = world.start("one").await;
    let keys = keys("key", 30);
    let spread = |key: &String| {
        let manager = one.manager.clone();
        let key = key.clone();
        async move { manager.execute(Route::LeastLoad, &key, b"", build(&key)).await }
    };
    let answers = join_all(keys.iter().map(spread)).await;
    let hashes: Vec<String> =
        answers.iter().map(|answer| hash_of(answer.as_ref().unwrap())).collect();
    for lane in world.chain.lanes() {
        let share = hashes.iter().filter(|hash| hash.starts_with(lane.as_str())).count();
        assert!((5..=15).contains(&share), "{lane} has {share} of 30");
    }
    let mut lanes = Vec::new();
    for key in ["x", "y", "z"] {
        let route = Route::Hash("alice".into());
        let answer = one.manager.execute(route, key, b"", build(key)).await.unwrap();
        lanes.push(hash_of(&answer).split('/').next().map(str::to_owned));
    }
    assert!(lanes.iter().all(|lane| *lane == lanes[0]), "{lanes:?}");
    let rest = ["x", "y", "z"].map(str::to_owned);
    world.check(&[keys, rest.to_vec()].concat());
    one.kill().await;
}

async fn a_lane_that_nobody_has_is_a_mistake(world: ExecutionWorld) {
    let one = world.start("one").await;
    let refused = one.execute(&landfall_core::LaneId::new("key:black"), "a").await;
    assert_eq!(refused, Err(NotExecuted::UnknownLane("key:black".into())));
    assert_eq!(one.manager.find("a").await, Ok(None));
    one.kill().await;
}

/// The ledger never gets the first: a fence passes its nonce, and only then it is built anew.
async fn what_sank_is_built_anew_and_done_once(world: ExecutionWorld) {
    let one = world.start("one").await;
    let lane = world.lane();
    world.chain.faults(|faults| faults.lost_nonce = Some(1));
    let call = one.begin(&lane, "a");
    let done = hash_of(&call.await.unwrap().unwrap());
    assert!(!done.contains("/1/"), "under another nonce: {done}");
    assert_eq!(one.manager.numbers()[&lane].invalid_nonces, 1);
    world.check(&["a".into()]);
    one.kill().await;
}
