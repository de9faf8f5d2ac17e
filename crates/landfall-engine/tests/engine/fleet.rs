//! Several workers on one store, each with keys of its own: whose lanes are whose.

use std::sync::Arc;
use std::time::Duration;

use landfall_core::store::{LaneStore, Store};
use landfall_core::{LaneId, RailName};

use crate::ledger::Net;
use crate::world::World;

/// A worker with the key k0, and another with k1 that came later. Alice is registered.
async fn two_workers() -> (World, World) {
    let world = World::new(1).await;
    world.rail.state.lock().registered.insert("alice.near".into());
    world.sleep(1_000).await;
    let rail = world.rail.beside(&[LaneId::new("near:test:relay:k1")]);
    let other = world.another("other", &Arc::new(rail)).await;
    // Others had the time to object to a store that it has never seen.
    other.sleep(world.settings.lanes.lease_ms + 1_000).await;
    (world, other)
}

/// Leaves a payout in an attempt of the worker that nobody has heard of, and kills the worker.
async fn dies_with_an_attempt(worker: &World) {
    *worker.rail.net.lock() = Net::LoseRequest;
    worker.submit("k", "alice.near", 10).await;
    worker.sleep(500).await;
    let open = worker.store.open_attempts_of(RailName::Near).await.unwrap();
    assert_eq!((open.len(), &open[0].lane), (1, &worker.rail.lanes[0]));
    worker.engine.abort().await;
}

#[tokio::test(start_paused = true)]
async fn a_lane_that_appeared_while_a_worker_ran_is_looked_after_when_its_own_has_died() {
    let (world, other) = two_workers().await;
    dies_with_an_attempt(&other).await;
    world.sleep(60_000).await;
    assert_eq!((world.state("k").await, world.paid("alice.near")), ("COMPLETED", 1));
}

#[tokio::test(start_paused = true)]
async fn a_lane_is_given_back_to_the_worker_that_has_its_key() {
    let (world, mut other) = two_workers().await;
    dies_with_an_attempt(&other).await;
    world.sleep(30_000).await;
    let lane = other.rail.lanes[0].clone();
    let holder = async || {
        let lanes = world.store.lanes().await.unwrap();
        lanes.into_iter().find(|stored| stored.id == lane).unwrap().holder
    };
    assert_eq!((world.state("k").await, holder().await), ("COMPLETED", None));
    *other.rail.net.lock() = Net::Good;
    other.crash().await;
    other.submit("next", "alice.near", 10).await;
    other.sleep(5_000).await;
    assert_eq!(holder().await.as_deref(), Some("other"));
    assert_eq!(other.state("next").await, "COMPLETED");
}

/// Only whoever has the key can land a fence, however many others would hold the lane.
#[tokio::test(start_paused = true)]
async fn what_is_adrift_is_left_to_the_worker_that_has_the_key_now_and_then() {
    for offset_ms in (0..3_000).step_by(600) {
        let (world, mut other) = two_workers().await;
        let mut workers = Vec::new();
        for name in ["near:test:relay:k2", "near:test:relay:k3", "near:test:relay:k4"] {
            let rail = Arc::new(world.rail.beside(&[LaneId::new(name)]));
            workers.push(world.another(name, &rail).await);
            world.sleep(700).await;
        }
        dies_with_an_attempt(&other).await;
        workers.push(world);
        for worker in &workers {
            *worker.rail.net.lock() = Net::LoseRequest;
        }
        other.sleep(30_000 + offset_ms).await;
        assert_eq!(other.state("k").await, "QUEUED_VERIFICATION");
        *other.rail.net.lock() = Net::Good;
        other.crash().await;
        let fence_after_ms = other.rail.manner.lock().fence_after_ms;
        other.sleep(fence_after_ms + 2 * other.settings.lanes.renew_ms).await;
        assert_eq!((other.state("k").await, other.paid("alice.near")), ("COMPLETED", 1));
    }
}

/// Its lane is held now and then; that nobody knows what became of the attempt is seen throughout.
#[tokio::test(start_paused = true)]
async fn what_is_adrift_on_a_lane_without_its_key_is_shown_all_the_time() {
    let (world, other) = two_workers().await;
    dies_with_an_attempt(&other).await;
    *world.rail.net.lock() = Net::LoseRequest;
    world.sleep(60_000).await;
    for second in 0..150 {
        world.sleep(1_000).await;
        assert!(world.alerts().await.contains(&"adrift".to_owned()), "after {second} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_can_sign_on_none_of_its_lanes_takes_up_nothing() {
    let (world, other) = two_workers().await;
    dies_with_an_attempt(&other).await;
    *world.rail.net.lock() = Net::LoseRequest;
    world.engine.stop(Duration::from_secs(1)).await;
    let mine = &world.rail.lanes[0];
    world.store.lease(mine, RailName::Near, "somebody", 600_000).await.unwrap();
    let standby = world.another("standby", &world.rail).await;
    standby.sleep(30_000).await;
    let status = standby.engine.status().await;
    assert_eq!(status.rails[0].lanes_held, 1, "that of the dead worker");

    // Taken by one that has died since.
    let waiting = other.submit("waits", "alice.near", 10).await;
    standby.sleep(20_000).await;
    assert_eq!(world.find("waits").await, waiting, "left to whoever can sign");
}

/// Whoever has sent what is forgotten is gone; nobody else had stored anything.
#[tokio::test(start_paused = true)]
async fn a_standby_without_lanes_notices_that_the_store_went_back() {
    let world = World::new(1).await;
    world.rail.state.lock().registered.insert("alice.near".into());
    world.sleep(1_000).await;
    let rail = Arc::new(world.rail.beside(&world.rail.lanes));
    let standby = world.another("standby", &rail).await;
    standby.sleep(world.settings.lanes.lease_ms + 1_000).await;
    assert_eq!(standby.engine.status().await.rails[0].lanes_held, 0);

    *world.rail.net.lock() = Net::LoseRequest;
    let backup = world.store.snapshot();
    world.submit("k", "alice.near", 10).await;
    world.sleep(world.settings.lanes.renew_ms + 1_000).await;
    let forgotten = world.store.open_attempts_of(RailName::Near).await.unwrap();
    assert_eq!(forgotten.len(), 1);
    world.engine.abort().await;
    world.store.restore(backup);
    standby.submit("k", "alice.near", 10).await;
    standby.sleep(60_000).await;
    assert_eq!(world.paid("alice.near"), 0, "what is forgotten may still land");
    let lanes = world.store.lanes().await.unwrap();
    assert!(lanes[0].halted.is_some(), "{lanes:?}");
}

/// The key was taken out of service, and its lane has nothing open.
#[tokio::test(start_paused = true)]
async fn a_foreign_nonce_of_a_key_that_is_not_here_is_noticed_as_soon_as_the_ledger_answers() {
    let mut world = World::new(2).await;
    world.sleep(1_000).await;
    world.engine.abort().await;
    let retired = world.rail.lanes[1].clone();
    world.rail = Arc::new(world.rail.beside(&world.rail.lanes[..1]));
    *world.rail.state.lock().nonces.get_mut(&retired).unwrap() += 5;
    *world.rail.down.lock() = true;
    world.crash().await;
    world.sleep(120_000).await;
    *world.rail.down.lock() = false;
    world.sleep(30_000).await;
    let lanes = world.store.lanes().await.unwrap();
    assert!(lanes.iter().all(|lane| lane.halted.is_some()), "{lanes:?}");
}
