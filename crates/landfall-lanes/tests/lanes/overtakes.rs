//! A ledger on which a later nonce kills the earlier ones.

use landfall_core::ledger::{Manner, Order};
use landfall_core::{CertificateKind, Fate, Purpose};

use crate::world::{World, manner};

#[tokio::test(start_paused = true)]
async fn a_fence_decides_what_never_arrived_and_it_is_paid_anew() {
    let mut world = World::new(manner(Order::Overtakes, 2));
    world.chain.faults(|faults| faults.lost_nonce = Some(1));
    world.accept(2).await;
    let one = world.launch("one").await;
    assert!(world.run(&[&one], 20_000).await);
    world.check().await;
    let attempts = world.attempts().await;
    assert!(attempts.iter().any(|attempt| attempt.purpose == Purpose::Fence));
    let Some(Fate::Sunk(certificate)) = &attempts[0].fate else { panic!("{:?}", attempts[0]) };
    assert_eq!(certificate.kind, CertificateKind::NoncePassed);
}

#[tokio::test(start_paused = true)]
async fn what_expired_unseen_is_signed_anew_once() {
    let mut world = World::new(Manner { fence_after_ms: 600_000, ..manner(Order::Overtakes, 1) });
    world.chain.faults(|faults| faults.lost_nonce = Some(1));
    world.accept(1).await;
    let one = world.launch("one").await;
    assert!(world.run(&[&one], 20_000).await);
    world.check().await;
    let attempts = world.attempts().await;
    assert_eq!(attempts.len(), 2);
    let Some(Fate::Sunk(certificate)) = &attempts[0].fate else { panic!("{:?}", attempts[0]) };
    assert_eq!(certificate.kind, CertificateKind::Expired);
}

/// The store has not heard of it yet: the lane itself must not let the batch go.
#[tokio::test(start_paused = true)]
async fn what_is_being_signed_when_the_lanes_are_suspected_is_neither_stored_nor_sent() {
    let mut world = World::new(manner(Order::Overtakes, 1));
    let one = world.launch("one").await;
    one.till.signs_slowly.set(true);
    world.accept(1).await;
    world.offer(&one).await;
    assert!(!world.run(&[&one], 500).await);
    assert!(one.till.waiting.lock().is_empty(), "it is being signed");
    one.till.signs_slowly.set(false);
    one.fleet.suspect("the store has forgotten something");
    world.pass(2_000).await;
    assert_eq!(world.attempts().await, []);
    assert_eq!(world.chain.sent(), [""; 0]);
    assert_eq!(one.till.waiting.lock().len(), 1, "it was given back");
}

#[tokio::test(start_paused = true)]
async fn a_nonce_that_nothing_explains_halts_the_lanes() {
    let mut world = World::new(manner(Order::Overtakes, 1));
    let foreign = world.chain.sign(world.chain.lane(), landfall_core::Nonce(9), vec![], 1);
    let one = world.launch("one").await;
    world.accept(1).await;
    world.offer(&one).await;
    assert!(world.run(&[&one], 5_000).await);
    world.chain.submit(serde_json::from_slice(&foreign.bytes).unwrap());
    world.pass(1_000).await;
    world.accept(1).await;
    world.offer(&one).await;
    assert!(!world.run(&[&one], 5_000).await, "nothing is signed on a halted lane");
    assert!(one.halts().iter().any(|halt| halt.contains("nonce 9")), "{:?}", one.halts());
    assert_eq!(world.chain.paid().len(), 1);
}
