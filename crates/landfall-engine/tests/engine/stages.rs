//! Preparing, batching, retries, funds.

use landfall_core::near::{Payout, Terms};
use landfall_core::rail::Backoff;
use landfall_core::store::Store as _;
use landfall_core::{Move, Payload};

use crate::ledger::{FakeRail, Net};
use crate::world::{World, taker};

#[tokio::test(start_paused = true)]
async fn many_transfers_to_one_new_account_register_it_once() {
    let world = World::new(3).await;
    for n in 0..150 {
        world.submit(&format!("k{n}"), "alice.near", 1).await;
    }
    world.sleep(60_000).await;
    assert_eq!(world.rail.state.lock().registrations["alice.near"], 1);
    assert_eq!(world.paid("alice.near"), 150);
}

#[tokio::test(start_paused = true)]
async fn one_poison_member_fails_alone() {
    let world = World::new(1).await;
    for n in 0..20 {
        let receiver = if n == 7 { "poison.near".to_owned() } else { format!("r{n}.near") };
        world.submit(&format!("k{n}"), &receiver, 1).await;
    }
    world.sleep(30_000).await;
    for n in 0..20 {
        let expected = if n == 7 { "FAILED" } else { "COMPLETED" };
        assert_eq!(world.state(&format!("k{n}")).await, expected, "{n}");
        assert_eq!(world.find(&format!("k{n}")).await.retry_count, 0);
    }
    assert_eq!(world.paid("poison.near"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_receiver_unregistered_behind_our_back_is_registered_anew() {
    let world = World::new(1).await;
    world.rail.state.lock().unregistering.insert("alice.near".into(), 2);
    world.submit("a", "alice.near", 1).await;
    world.submit("b", "bob.near", 1).await;
    world.sleep(60_000).await;
    assert_eq!(world.state("a").await, "COMPLETED");
    assert_eq!(world.state("b").await, "COMPLETED");
    assert_eq!(world.rail.state.lock().registrations["alice.near"], 3);
    assert_eq!((world.paid("alice.near"), world.paid("bob.near")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_receiver_who_keeps_unregistering_is_given_up_in_the_end() {
    let world = World::on(FakeRail::new(1).giving_up_after(4), |_| {}).await;
    world.rail.state.lock().unregistering.insert("alice.near".into(), 1_000);
    world.submit("a", "alice.near", 1).await;
    world.sleep(600_000).await;
    assert_eq!(world.state("a").await, "FAILED");
    assert_eq!(world.rail.state.lock().registrations["alice.near"], 4);
    assert_eq!(world.paid("alice.near"), 0);
}

/// The engine's own backoff would have it tried again within a second.
#[tokio::test(start_paused = true)]
async fn a_rail_waits_as_long_as_it_says_itself_before_it_tries_again() {
    const HOUR_MS: u64 = 3_600_000;
    let backoff = Backoff { first_ms: HOUR_MS, max_ms: HOUR_MS };
    let world = World::on(FakeRail::new(1).waiting(backoff), |_| {}).await;
    world.rail.state.lock().unregistering.insert("alice.near".into(), 1);
    world.submit("a", "alice.near", 1).await;
    world.sleep(HOUR_MS / 3).await;
    assert_eq!(world.paid("alice.near"), 0);
    world.sleep(HOUR_MS).await;
    assert_eq!(world.paid("alice.near"), 1);
    assert_eq!(world.state("a").await, "COMPLETED");
}

#[tokio::test(start_paused = true)]
async fn a_transfer_larger_than_the_balance_waits_aside_until_it_is_topped_up() {
    let world = World::new(2).await;
    world.rail.state.lock().balance = 1_000;
    world.submit("large", "whale.near", 5_000).await;
    for n in 0..50 {
        world.submit(&format!("k{n}"), &format!("r{n}.near"), 10).await;
    }
    world.sleep(60_000).await;
    assert_eq!(world.state("large").await, "QUEUED_TRANSFER");
    assert!(world.find("large").await.aside.is_some());
    assert!(world.engine.status().await.alerts.iter().any(|alert| alert.kind == "tokens_short"));
    for n in 0..50 {
        assert_eq!(world.state(&format!("k{n}")).await, "COMPLETED");
    }
    world.rail.state.lock().balance += 10_000;
    world.sleep(30_000).await;
    assert_eq!(world.state("large").await, "COMPLETED");
    assert_eq!(world.paid("whale.near"), 1);
    assert!(world.engine.status().await.alerts.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_empty_relay_fails_nobody_and_goes_on_when_funded() {
    let world = World::new(2).await;
    world.rail.state.lock().native = 0;
    for n in 0..10 {
        world.submit(&format!("k{n}"), &format!("r{n}.near"), 10).await;
    }
    world.sleep(300_000).await;
    let status = world.engine.status().await;
    assert!(status.rails[0].paused.is_some());
    world.rail.state.lock().native = 100;
    world.sleep(60_000).await;
    for n in 0..10 {
        assert_eq!(world.state(&format!("k{n}")).await, "COMPLETED");
        assert_eq!(world.paid(&format!("r{n}.near")), 1);
    }
    assert!(world.engine.status().await.rails[0].paused.is_none());
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_hours_is_charged_to_nobody() {
    let world = World::new(2).await;
    *world.rail.down.lock() = true;
    *world.rail.net.lock() = Net::LoseRequest;
    for n in 0..10 {
        world.submit(&format!("k{n}"), &format!("r{n}.near"), 10).await;
    }
    world.sleep(3 * 3_600_000).await;
    *world.rail.down.lock() = false;
    *world.rail.net.lock() = Net::Good;
    world.sleep(120_000).await;
    for n in 0..10 {
        assert_eq!(world.state(&format!("k{n}")).await, "COMPLETED");
        assert_eq!(world.find(&format!("k{n}")).await.retry_count, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_the_pools_is_found_by_the_sweeper() {
    let world = World::with(2, |settings| settings.pool_capacity = 600).await;
    for n in 0..2_000 {
        world.submit(&format!("k{n}"), &format!("r{}.near", n % 40), 1).await;
    }
    world.sleep(120_000).await;
    let paid = world.rail.state.lock().paid.len();
    assert_eq!(paid, 2_000);
}

#[tokio::test(start_paused = true)]
async fn the_same_key_gives_the_same_transfer_for_ever() {
    let world = World::new(1).await;
    let first = world.submit("k", "alice.near", 10).await;
    world.sleep(10_000).await;
    let again = world.submit("k", "alice.near", 10).await;
    assert_eq!(first.id, again.id);
    world.sleep(10_000).await;
    assert_eq!(world.paid("alice.near"), 1);
}

/// Accepted under a configuration that has changed since: set aside, and nobody else waits for it.
#[tokio::test(start_paused = true)]
async fn a_payout_that_cannot_be_signed_holds_up_nobody_else() {
    let world = World::new(1).await;
    for n in 0..20 {
        let receiver = if n == 3 { "elsewhere.near".to_owned() } else { format!("r{n}.near") };
        world.submit(&format!("k{n}"), &receiver, 1).await;
    }
    world.sleep(60_000).await;
    for n in 0..20 {
        let expected = if n == 3 { "QUEUED_TRANSFER" } else { "COMPLETED" };
        assert_eq!(world.state(&format!("k{n}")).await, expected, "{n}");
    }
    let unsignable = world.find("k3").await;
    assert!(unsignable.aside.is_some());
    let status = world.engine.status().await;
    assert!(status.alerts.iter().any(|alert| alert.kind == "unsignable"));
    assert_eq!(status.rails[0].aside, 1);

    // Another process, which can sign it, takes it up.
    let mut step = Move::of(&unsignable, world.clock.now_ms()).due(None);
    step.aside = None;
    world.store.apply(vec![step]).await.unwrap();
    world.sleep(30_000).await;
    let status = world.engine.status().await;
    assert_eq!((status.rails[0].aside, status.alerts), (0, vec![]));
}

#[tokio::test(start_paused = true)]
async fn states_that_nobody_is_in_any_more_are_counted_as_empty() {
    let world = World::new(1).await;
    let count = async |state: &str| {
        let label = format!("landfall_transfers{{rail=\"near\",state=\"{state}\"}} ");
        let metrics = world.metrics().await;
        metrics.lines().find_map(|line| line.strip_prefix(&label)?.parse::<u64>().ok())
    };
    *world.rail.down.lock() = true;
    world.submit("k", "alice.near", 1).await;
    assert_eq!(count("QUEUED_REGISTRATION").await, Some(1));
    *world.rail.down.lock() = false;
    world.sleep(120_000).await;
    assert_eq!((count("COMPLETED").await, count("QUEUED_REGISTRATION").await), (Some(1), Some(0)));
}

/// Whoever registers a receiver has the others wait, but only while it can.
#[tokio::test(start_paused = true)]
async fn a_payout_that_cannot_be_signed_keeps_nobody_else_from_registering_its_receiver() {
    let world = World::new(1).await;
    world.submit_from("relay.before", "old", "alice.near", 1).await;
    world.submit("waits", "alice.near", 1).await;
    world.sleep(1_000).await;
    let old = world.find("old").await;
    assert_eq!((old.state.name(), old.aside.is_some()), ("QUEUED_REGISTRATION", true));
    assert_eq!(world.state("waits").await, "COMPLETED");
    world.submit("new", "alice.near", 1).await;
    world.sleep(30_000).await;
    assert_eq!(world.state("new").await, "COMPLETED");
    assert_eq!(world.rail.state.lock().registrations["alice.near"], 1);
    let old = world.find("old").await;
    assert_eq!((old.state.name(), old.aside.is_some()), ("QUEUED_TRANSFER", true));
}

/// New receivers arrive faster than one lane can register and pay them.
#[tokio::test(start_paused = true)]
async fn payments_do_not_starve_behind_registrations() {
    let world = World::new(1).await;
    *world.rail.block_ms.lock() = 1_200;
    for n in 0..3_000 {
        world.submit(&format!("k{n}"), &format!("r{n}.near"), 1).await;
        world.sleep(10).await;
    }
    let paid = world.rail.state.lock().paid.len();
    assert!(paid > 500, "{paid} were paid while others still arrived");
}

/// A wrong key: every broadcast is refused for certain. The rail pauses and says so.
#[tokio::test(start_paused = true)]
async fn a_relay_that_is_refused_pauses_instead_of_signing_in_a_loop() {
    let world = World::new(1).await;
    world.rail.state.lock().registered.insert("alice.near".into());
    *world.rail.net.lock() = Net::Refuse;
    world.submit("k", "alice.near", 1).await;
    world.sleep(60_000).await;
    let broadcasts = world.rail.state.lock().broadcasts;
    assert!((2..60).contains(&broadcasts), "{broadcasts} broadcasts in a minute");
    assert!(world.engine.status().await.rails[0].paused.is_some());
    *world.rail.net.lock() = Net::Good;
    world.sleep(30_000).await;
    assert_eq!((world.state("k").await, world.paid("alice.near")), ("COMPLETED", 1));
}

#[tokio::test(start_paused = true)]
async fn a_rail_says_what_it_cannot_take_also_where_transfers_are_only_taken() {
    let world = World::new(1).await;
    let taker = taker(&world).await;
    let terms = Terms { network: "test".into(), token: "token".into(), sender: "relay".into() };
    let payload = |receiver| Payload::Near(Payout::new(&terms, receiver, "1", None).unwrap());
    for engine in [&world.engine, &taker] {
        let refused = engine.screen(&payload("banned.near")).await.unwrap_err();
        assert_eq!(refused.to_string(), "receiver_id: is not paid here");
        assert_eq!(engine.screen(&payload("alice.near")).await, Ok(()));
    }
}
