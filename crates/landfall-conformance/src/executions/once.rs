//! One key, one execution, one answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use landfall_core::ledger::RailError;
use landfall_core::{LaneId, Nonce};
use landfall_lanes::{Executed, NotExecuted, TxSettings};

use super::process::{ExecutionWorld, build, hash_of};
use crate::check::checks;

checks!(ExecutionWorld:
    the_first_caller_executes_and_later_ones_have_its_result,
    callers_at_once_execute_one_key_once,
    another_payload_under_the_same_key_is_refused,
    what_is_in_flight_is_told_with_its_hash,
    a_builder_that_says_no_leaves_the_key_free,
    a_builder_that_hangs_or_panics_holds_up_nobody_else,
    what_is_reverted_has_failed_for_good,
    what_the_ledger_will_never_take_has_failed_for_good,
    a_refusal_that_is_the_senders_fault_leaves_the_key_free,
    a_manager_that_has_ended_lets_go_of_its_store,
);

async fn the_first_caller_executes_and_later_ones_have_its_result(world: ExecutionWorld) {
    let one = world.start("one").await;
    let first = one.execute(&world.lane(), "a").await.unwrap();
    let again = one.execute(&world.lane(), "a").await.unwrap();
    assert_eq!(hash_of(&first), hash_of(&again));
    assert_eq!(one.manager.find("a").await, Ok(Some(first.clone())));
    one.kill().await;
    let next = world.start("one").await;
    assert_eq!(next.execute(&world.lane(), "a").await, Ok(first));
    assert_eq!(next.manager.find("b").await, Ok(None));
    world.check(&["a".into()]);
    next.kill().await;
}

async fn callers_at_once_execute_one_key_once(world: ExecutionWorld) {
    let one = world.start("one").await;
    let lane = world.lane();
    let all = join_all((0..30).map(|_| one.execute(&lane, "a"))).await;
    let hashes: Vec<String> = all.iter().map(|one| hash_of(one.as_ref().unwrap())).collect();
    assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:?}");
    world.check(&["a".into()]);
    one.kill().await;
}

async fn another_payload_under_the_same_key_is_refused(world: ExecutionWorld) {
    let one = world.start("one").await;
    let lane = world.lane();
    one.execute(&lane, "a").await.unwrap();
    let other = one.manager.execute(&lane, "a", b"other", build("other")).await;
    assert_eq!(other, Err(NotExecuted::Conflict));
    world.check(&["a".into()]);
    one.kill().await;
}

async fn what_is_in_flight_is_told_with_its_hash(world: ExecutionWorld) {
    let settings = TxSettings { patience_ms: 1_000, ..ExecutionWorld::settings() };
    let one = world.start_with("one", settings).await;
    let lane = world.lane();
    world.chain.faults(|faults| faults.stopped = true);
    let first = one.begin(&lane, "a");
    world.until_told(&one, "a", |told| matches!(told, Executed::InFlight { hash: Some(_) })).await;
    let told = one.manager.find("a").await.unwrap().unwrap();
    assert_eq!(one.execute(&lane, "a").await, Ok(told));
    assert!(matches!(first.await.unwrap(), Ok(Executed::InFlight { .. })));
    world.chain.faults(|faults| faults.stopped = false);
    world.until_told(&one, "a", |told| matches!(told, Executed::Done { .. })).await;
    world.check(&["a".into()]);
    one.kill().await;
}

async fn a_builder_that_says_no_leaves_the_key_free(world: ExecutionWorld) {
    let one = world.start("one").await;
    let lane = world.lane();
    let never = |_: LaneId, _: Nonce| async { Err(RailError::Unavailable("no block".into())) };
    let refused = one.manager.execute(&lane, "a", b"a", never).await;
    assert!(matches!(refused, Err(NotExecuted::Unbuilt(_))), "{refused:?}");
    hash_of(&one.execute(&lane, "a").await.unwrap());
    world.check(&["a".into()]);
    one.kill().await;
}

async fn a_builder_that_hangs_or_panics_holds_up_nobody_else(world: ExecutionWorld) {
    let settings = TxSettings { build_ms: 200, ..ExecutionWorld::settings() };
    let one = world.start_with("one", settings).await;
    let lane = world.lane();
    let asked = Arc::new(AtomicUsize::new(0));
    for _ in 0..2 {
        let asked = asked.clone();
        let hangs_or_panics = move |_: LaneId, _: Nonce| {
            let before = asked.fetch_add(1, Ordering::Relaxed);
            async move {
                assert_eq!(before, 0, "a builder that panics, as this check wants it");
                std::future::pending().await
            }
        };
        let refused = one.manager.execute(&lane, "stuck", b"stuck", hangs_or_panics).await;
        assert!(matches!(refused, Err(NotExecuted::Unbuilt(_))), "{refused:?}");
    }
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    hash_of(&one.execute(&lane, "a").await.unwrap());
    world.check(&["a".into()]);
    one.kill().await;
}

async fn what_is_reverted_has_failed_for_good(world: ExecutionWorld) {
    let one = world.start("one").await;
    let lane = world.lane();
    world.chain.faults(|faults| faults.reverting = Some("a".into()));
    let failed = one.execute(&lane, "a").await.unwrap();
    assert!(matches!(&failed, Executed::Failed { hash: Some(_), why } if why == "reverted"));
    world.chain.faults(|faults| faults.reverting = None);
    assert_eq!(one.execute(&lane, "a").await, Ok(failed));
    world.check(&["a".into()]);
    one.kill().await;
}

async fn what_the_ledger_will_never_take_has_failed_for_good(world: ExecutionWorld) {
    let one = world.start("one").await;
    let lane = world.lane();
    world.chain.faults(|faults| faults.refusing = Some(false));
    let failed = one.execute(&lane, "a").await.unwrap();
    assert!(matches!(failed, Executed::Failed { .. }), "{failed:?}");
    world.chain.faults(|faults| faults.refusing = None);
    assert_eq!(one.execute(&lane, "a").await, Ok(failed));
    hash_of(&one.execute(&lane, "b").await.unwrap());
    world.check(&["b".into()]);
    one.kill().await;
}

async fn a_refusal_that_is_the_senders_fault_leaves_the_key_free(world: ExecutionWorld) {
    let one = world.start("one").await;
    let lane = world.lane();
    world.chain.faults(|faults| faults.refusing = Some(true));
    let refused = one.execute(&lane, "a").await;
    assert!(matches!(refused, Err(NotExecuted::Unsent(_))), "{refused:?}");
    world.chain.faults(|faults| faults.refusing = None);
    hash_of(&one.execute(&lane, "a").await.unwrap());
    world.check(&["a".into()]);
    one.kill().await;
}

async fn a_manager_that_has_ended_lets_go_of_its_store(world: ExecutionWorld) {
    let before = Arc::strong_count(&world.store);
    let one = world.start("one").await;
    hash_of(&one.execute(&world.lane(), "a").await.unwrap());
    one.kill().await;
    for _ in 0..1_000 {
        if Arc::strong_count(&world.store) == before {
            return;
        }
        world.pass(10).await;
    }
    panic!("{} still have the store", Arc::strong_count(&world.store) - before);
}
