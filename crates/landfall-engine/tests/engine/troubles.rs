//! Faults that look like the relay's: one receiver's, everybody's, or a lack of tokens.

use landfall_core::attempt::{Outcome, Shortage};

use crate::ledger::FakeRail;
use crate::world::World;

const MINUTE_MS: u64 = 60_000;

fn fault(shortage: Shortage) -> Outcome {
    Outcome::RelayFault { shortage, message: "by the relay".into() }
}

async fn submit_healthy(world: &World, count: usize) {
    for n in 0..count {
        world.submit(&format!("k{n}"), &format!("r{n}.near"), 1).await;
    }
}

async fn check_completed(world: &World, count: usize) {
    for n in 0..count {
        let one = world.find(&format!("k{n}")).await;
        assert_eq!((one.state.name(), one.retry_count), ("COMPLETED", 0), "{n}");
        assert_eq!(world.paid(&format!("r{n}.near")), 1);
    }
}

/// A registration that fails whoever shares its attempt. The receiver's other payouts wait for it.
#[tokio::test(start_paused = true)]
async fn a_receiver_that_cannot_be_registered_meets_its_siblings_once() {
    let world = World::new(2).await;
    let bad = ("bad.near".to_owned(), fault(Shortage::Gas));
    world.rail.state.lock().unpreparable.extend([bad]);
    world.submit("bad0", "bad.near", 1).await;
    world.submit("bad1", "bad.near", 1).await;
    submit_healthy(&world, 20).await;
    world.sleep(5_000).await;
    check_completed(&world, 20).await;
    world.sleep(60 * MINUTE_MS).await;
    let reverted = world.rail.state.lock().reverted.clone();
    assert_eq!(reverted.iter().filter(|members| **members > 1).count(), 1, "{reverted:?}");
    assert!(reverted.len() <= 20, "{reverted:?}");
    assert!(world.find("bad0").await.aside.is_some());
    assert!(world.alerts().await.contains(&"set_aside".to_owned()));
    world.rail.state.lock().unpreparable.clear();
    world.sleep(6 * MINUTE_MS).await;
    assert_eq!(world.paid("bad.near"), 2);
    assert!(world.alerts().await.is_empty());
}

/// Each of them is named in turn, in company; whoever is healthy is paid all the same, soon.
#[tokio::test(start_paused = true)]
async fn several_bad_receivers_hold_up_nobody_for_long() {
    let world = World::new(2).await;
    *world.rail.block_ms.lock() = 600;
    for n in 0..10 {
        let bad = (format!("bad{n}.near"), fault(Shortage::Contract));
        world.rail.state.lock().unpayable.extend([bad]);
        world.submit(&format!("b{n}"), &format!("bad{n}.near"), 1).await;
    }
    submit_healthy(&world, 50).await;
    world.sleep(MINUTE_MS).await;
    check_completed(&world, 50).await;
    for n in 0..10 {
        let one = world.find(&format!("b{n}")).await;
        assert_eq!((one.state.name(), one.retry_count), ("QUEUED_TRANSFER", 0));
    }
    world.rail.state.lock().reverted.clear();
    world.sleep(60 * MINUTE_MS).await;
    let reverted = world.rail.state.lock().reverted.clone();
    assert!(reverted.iter().all(|members| *members == 1), "they are known: {reverted:?}");
    assert!(reverted.len() <= 10 * 20, "{}", reverted.len());
}

/// What fails alone for a reason that nobody knows is given up in the end: late, where nobody else
/// shows that it is this receiver's own.
#[tokio::test(start_paused = true)]
async fn a_receiver_that_fails_without_a_reason_is_given_up_sooner_if_others_are_paid() {
    let world = World::on(FakeRail::new(1).giving_up_after(4), |_| {}).await;
    let unexplained = Outcome::Unexplained { message: "trap".into() };
    world.rail.state.lock().unpayable.insert("bad.near".into(), unexplained);
    let took_ms = async |key: &str| {
        let failed = world.find(key).await;
        assert_eq!((failed.state.name(), failed.retry_count), ("FAILED", 4));
        failed.updated_ms - failed.created_ms
    };
    world.submit("alone", "bad.near", 1).await;
    world.sleep(60 * MINUTE_MS).await;
    let alone_ms = took_ms("alone").await;
    let unexplained = Outcome::Unexplained { message: "trap".into() };
    world.rail.state.lock().unpayable.insert("worse.near".into(), unexplained);
    world.submit("beside", "worse.near", 1).await;
    for n in 0..400 {
        world.submit(&format!("k{n}"), &format!("r{n}.near"), 1).await;
        world.sleep(200).await;
    }
    check_completed(&world, 400).await;
    world.sleep(60 * MINUTE_MS).await;
    let beside_ms = took_ms("beside").await;
    assert!(beside_ms < alone_ms, "{beside_ms} {alone_ms}");
}

#[tokio::test(start_paused = true)]
async fn while_everybody_fails_one_probe_at_a_time_is_sent() {
    let world = World::new(10).await;
    *world.rail.block_ms.lock() = 3_000;
    submit_healthy(&world, 100).await;
    world.sleep(10_000).await;
    check_completed(&world, 100).await;
    world.rail.state.lock().outage = Some(fault(Shortage::Contract));
    for n in 0..1_000 {
        world.submit(&format!("b{n}"), &format!("r{}.near", n % 100), 1).await;
        world.sleep(10).await;
    }
    world.sleep(MINUTE_MS).await;
    world.rail.state.lock().in_flight_max = 0;
    let before = world.rail.state.lock().reverted.len();
    world.sleep(30 * MINUTE_MS).await;
    {
        let mut state = world.rail.state.lock();
        assert_eq!(state.in_flight_max, 1);
        assert!((25..=32).contains(&(state.reverted.len() - before)), "one a minute");
        assert!(state.reverted[before..].iter().all(|members| *members == 1));
        state.outage = None;
    }
    assert!(world.engine.status().await.rails[0].paused.is_some());
    world.sleep(3 * MINUTE_MS).await;
    for n in 0..1_000 {
        assert_eq!(world.state(&format!("b{n}")).await, "COMPLETED", "{n}");
    }
    assert!(world.alerts().await.is_empty());
}

/// Two lanes, and a balance that ends in the middle: what one lane has in hand is not promised to
/// the other.
#[tokio::test(start_paused = true)]
async fn while_tokens_are_short_no_batch_is_larger_than_what_is_left() {
    let world = World::new(4).await;
    *world.rail.block_ms.lock() = 600;
    world.rail.state.lock().balance = 1_000;
    for n in 0..400 {
        world.submit(&format!("k{n}"), &format!("r{n}.near"), 10).await;
    }
    let gist = || {
        let state = world.rail.state.lock();
        (state.balance, state.paid.len(), state.reverted.len())
    };
    world.sleep(MINUTE_MS).await;
    assert_eq!(gist(), (0, 100, 3), "those that were on their way revert");
    world.sleep(10 * MINUTE_MS).await;
    assert_eq!(gist(), (0, 100, 3));
    assert!(world.engine.status().await.rails[0].paused.is_some());
    assert!(world.alerts().await.contains(&"tokens_short".to_owned()));
    world.rail.state.lock().balance = 1_000;
    world.sleep(2 * MINUTE_MS).await;
    assert_eq!(gist(), (0, 200, 3));
    world.rail.state.lock().balance = 10_000;
    world.sleep(2 * MINUTE_MS).await;
    check_completed(&world, 400).await;
    assert!(world.alerts().await.is_empty());
    assert_eq!(world.engine.status().await.rails[0].paused, None);
}

/// One who waits for tokens does not make others wait who want less.
#[tokio::test(start_paused = true)]
async fn a_small_payout_is_paid_at_once_while_a_large_one_waits_for_tokens() {
    let world = World::new(2).await;
    world.rail.state.lock().balance = 1_000;
    world.submit("large", "whale.near", 5_000).await;
    world.sleep(30 * MINUTE_MS).await;
    assert!(world.find("large").await.aside.is_some());
    world.submit("k0", "r0.near", 1).await;
    world.sleep(2_000).await;
    check_completed(&world, 1).await;
}
