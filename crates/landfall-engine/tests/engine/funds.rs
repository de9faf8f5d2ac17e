//! Lanes that have funds of their own, as where each key is an account.

use crate::ledger::FakeRail;
use crate::world::World;

/// Two lanes with so much of the ledger's own coin each. Alice is registered.
async fn two_lanes(funds: [u128; 2]) -> World {
    let rail = FakeRail::new(2);
    {
        let mut state = rail.state.lock();
        state.registered.insert("alice.near".into());
        state.own_funds = rail.lanes.iter().cloned().zip(funds).collect();
    }
    let world = World::on(rail, |_| {}).await;
    world.sleep(1_000).await;
    world
}

/// One payout after the other, each in an attempt of its own.
async fn pay(world: &World, count: usize) {
    for number in 0..count {
        world.submit(&format!("k{number}"), "alice.near", 10).await;
        world.sleep(500).await;
    }
}

fn fund(world: &World) {
    world.rail.state.lock().own_funds.values_mut().for_each(|funds| *funds = 5);
}

#[tokio::test(start_paused = true)]
async fn a_lane_that_lacks_funds_stands_still_alone() {
    let world = two_lanes([0, 5]).await;
    pay(&world, 5).await;
    world.sleep(10_000).await;
    assert_eq!(world.paid("alice.near"), 4, "all but the one that the poor lane carries");
    assert_eq!(world.state("k0").await, "QUEUED_VERIFICATION");
    let status = world.engine.status().await;
    assert_eq!(status.rails[0].paused, None);
    let alert = status.alerts.iter().find(|alert| alert.kind == "lane_unfunded").expect("an alert");
    assert!(alert.message.starts_with("near:test:relay:k0: "), "{}", alert.message);

    fund(&world);
    world.sleep(world.settings.pause_max_ms).await;
    assert_eq!((world.state("k0").await, world.paid("alice.near")), ("COMPLETED", 5));
    assert!(!world.alerts().await.contains(&"lane_unfunded".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_rail_none_of_whose_lanes_has_funds_says_that_it_pays_nobody() {
    let world = two_lanes([0, 0]).await;
    pay(&world, 3).await;
    world.sleep(10_000).await;
    let status = world.engine.status().await;
    assert!(status.rails[0].paused.is_some(), "{:?}", status.alerts);
    assert_eq!(world.paid("alice.near"), 0);
    fund(&world);
    world.sleep(2 * world.settings.pause_max_ms).await;
    assert_eq!(world.paid("alice.near"), 3);
    assert_eq!(world.engine.status().await.rails[0].paused, None);
}
