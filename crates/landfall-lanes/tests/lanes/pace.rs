//! How often bytes are sent and looked for, and what is believed of a refusal.

use landfall_core::ledger::{Manner, Order};
use landfall_core::{CertificateKind, Fate};

use crate::world::{Process, World, manner};

/// A lane that never fences, and one transfer.
async fn one_transfer(order: Order, weather: impl FnOnce(&World)) -> (World, Process) {
    let mut world = World::new(Manner { fence_after_ms: 600_000, ..manner(order, 1) });
    world.accept(1).await;
    weather(&world);
    let one = world.launch("one").await;
    (world, one)
}

/// After 200, 400, 800 and then every 1,000 ms.
#[tokio::test(start_paused = true)]
async fn what_nobody_answers_is_sent_ever_more_rarely_and_by_another_way_each_time() {
    let lost = |world: &World| world.chain.faults(|faults| faults.lost = usize::MAX);
    let (world, one) = one_transfer(Order::Overtakes, lost).await;
    assert!(!world.run(&[&one], 3_300).await);
    assert_eq!(world.chain.rounds(), [0, 1, 2, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn what_is_in_a_block_is_sent_again_when_it_does_not_become_final_and_not_before() {
    let stuck = |world: &World| world.chain.faults(|faults| faults.final_at_most = Some(0));
    let (world, one) = one_transfer(Order::Overtakes, stuck).await;
    assert!(!world.run(&[&one], 4_500).await);
    assert_eq!(world.chain.calls("broadcast"), 1);
    assert!((20..60).contains(&world.chain.calls("look")), "once in a block");
    assert!(!world.run(&[&one], 3_000).await);
    assert!(world.chain.calls("broadcast") > 1, "a node may show a fork for ever");
    world.chain.faults(|faults| faults.final_at_most = None);
    assert!(world.run(&[&one], 10_000).await);
    world.check().await;
    assert_eq!(world.attempts().await.len(), 1);
}

/// Nodes need not agree on the block that each of them calls final.
#[tokio::test(start_paused = true)]
async fn what_a_pulse_calls_final_and_no_look_does_is_looked_at_once_in_a_block() {
    let manner = Manner { pulse_tells_finality: true, ..manner(Order::Queues, 1) };
    let mut world = World::new(manner);
    world.accept(1).await;
    world.chain.faults(|faults| (faults.hasty, faults.final_at_most) = (true, Some(0)));
    let one = world.launch("one").await;
    assert!(!world.run(&[&one], 4_500).await);
    assert!((20..120).contains(&world.chain.calls("look")), "{}", world.chain.calls("look"));
    world.chain.faults(|faults| faults.final_at_most = None);
    assert!(world.run(&[&one], 10_000).await);
    world.check().await;
}

/// A look is far away; the pulse says that it is worth it now.
#[tokio::test(start_paused = true)]
async fn what_a_pulse_calls_final_is_looked_at_without_waiting_for_a_block() {
    let manner = Manner { pulse_tells_finality: true, look_ms: 60_000, ..manner(Order::Queues, 1) };
    let mut world = World::new(manner);
    world.accept(1).await;
    let one = world.launch("one").await;
    assert!(world.run(&[&one], 10_000).await);
    world.check().await;
}

/// Nodes take it each time, and say no more.
#[tokio::test(start_paused = true)]
async fn what_nodes_take_again_and_again_and_no_block_holds_dies_when_it_expires() {
    let stopped = |world: &World| world.chain.faults(|faults| faults.stopped = true);
    let (world, one) = one_transfer(Order::Free, stopped).await;
    assert!(!world.run(&[&one], 6_000).await);
    let first = &world.attempts().await[0];
    let Some(Fate::Sunk(certificate)) = &first.fate else { panic!("{first:?}") };
    assert_eq!(certificate.kind, CertificateKind::Expired);
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_at_its_first_broadcast_is_signed_anew() {
    let refusing = |world: &World| world.chain.faults(|faults| faults.refusing = true);
    let (world, one) = one_transfer(Order::Overtakes, refusing).await;
    assert!(!world.run(&[&one], 50).await);
    world.chain.faults(|faults| faults.refusing = false);
    assert!(world.run(&[&one], 10_000).await);
    world.check().await;
    let first = &world.attempts().await[0];
    let Some(Fate::Sunk(certificate)) = &first.fate else { panic!("{first:?}") };
    assert_eq!(certificate.kind, CertificateKind::Refused);
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_when_it_may_have_arrived_is_waited_for() {
    let unanswered = |world: &World| {
        world.chain.faults(|faults| (faults.unanswered, faults.stopped) = (1, true));
    };
    let (world, one) = one_transfer(Order::Overtakes, unanswered).await;
    assert!(!world.run(&[&one], 50).await);
    world.chain.faults(|faults| faults.refusing = true);
    assert!(!world.run(&[&one], 1_000).await);
    assert!(world.chain.calls("broadcast") > 1, "refused");
    world.chain.faults(|faults| faults.stopped = false);
    assert!(world.run(&[&one], 10_000).await);
    world.check().await;
    assert_eq!(world.attempts().await.len(), 1);
}
