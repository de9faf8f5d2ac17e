//! What a lane has in flight at once, and what it costs to wait.

use landfall_core::ledger::{Manner, Order};

use crate::world::{World, manner};

const ORDERS: [Order; 3] = [Order::Overtakes, Order::Queues, Order::Free];

#[tokio::test(start_paused = true)]
async fn a_lane_has_as_much_in_flight_as_its_window_and_pays_everybody_once() {
    for order in ORDERS {
        let mut world = World::new(Manner { fence_after_ms: 60_000, ..manner(order, 3) });
        world.chain.faults(|faults| faults.stopped = true);
        world.accept(5).await;
        let one = world.launch("one").await;
        assert!(!world.run(&[&one], 400).await);
        assert_eq!(world.attempts().await.len(), 3, "{order:?}");
        world.chain.faults(|faults| faults.stopped = false);
        assert!(world.run(&[&one], 10_000).await, "{order:?}");
        assert_eq!(world.attempts().await.len(), 5, "{order:?}");
        world.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_unsure_attempt_closes_the_window_unless_attempts_are_free_of_each_other() {
    for (order, expected) in ORDERS.into_iter().zip([1, 1, 3]) {
        assert_eq!(opened_behind_an_unsure_attempt(order).await, expected, "{order:?}");
    }
}

/// How many attempts a lane has opened when its first may have arrived, or may not.
pub async fn opened_behind_an_unsure_attempt(order: Order) -> usize {
    let mut world = World::new(Manner { fence_after_ms: 60_000, ..manner(order, 3) });
    world.chain.faults(|faults| faults.lost_nonce = Some(1));
    world.accept(3).await;
    let one = world.launch("one").await;
    assert!(!world.run(&[&one], 2_000).await);
    world.attempts().await.len()
}

#[tokio::test(start_paused = true)]
async fn a_window_that_waits_for_long_asks_one_question_about_all() {
    // Nothing gets into a block for a minute: nodes are asked once in a while for everything.
    let patient = Manner {
        inclusion_ms: 60_000,
        fence_after_ms: 600_000,
        replace_after_ms: 600_000,
        rebroadcast_ms: 20_000,
        rebroadcast_max_ms: 60_000,
        pulse_ms: 1_000,
        ..manner(Order::Queues, 8)
    };
    let mut world = World::new(patient);
    world.chain.faults(|faults| faults.stopped = true);
    world.accept(8).await;
    let one = world.launch("one").await;
    assert!(!world.run(&[&one], 65_000).await);
    let calls = |name: &str| world.chain.calls(name);
    assert_eq!(calls("look") + calls("inquest"), 0, "nothing has passed");
    assert!((50..=66).contains(&calls("pulse")), "{} pulses", calls("pulse"));
    // Half of an inclusion later, and then twice as late as without having been taken.
    assert_eq!(calls("broadcast"), 2 * 8);
    world.chain.faults(|faults| faults.stopped = false);
    assert!(world.run(&[&one], 20_000).await);
    world.check().await;
}
