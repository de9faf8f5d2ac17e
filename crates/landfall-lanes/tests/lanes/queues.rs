//! A ledger on which nothing lands before its predecessor: variants, cancels, and what a store may
//! forget.

use std::sync::atomic::Ordering;

use landfall_core::attempt::VariantKind;
use landfall_core::ledger::Order;
use landfall_core::store::{LaneStore, Store};
use landfall_core::{Attempt, CertificateKind, Fate, Nonce, RailName};

use crate::perils::Perils;
use crate::till::IN_A_BLOCK;
use crate::world::{Process, World, manner};

/// One transfer whose fee has become too low, and a process that would pay more by now.
async fn outbid() -> (World, Process) {
    let mut world = World::new(manner(Order::Queues, 2));
    world.accept(1).await;
    let one = world.launch("one").await;
    world.chain.faults(|faults| faults.fee_floor = 5);
    assert!(!world.run(&[&one], 300).await);
    one.pay_fee(10);
    (world, one)
}

async fn the_attempt(world: &World) -> Attempt {
    let attempts = world.attempts().await;
    assert_eq!(attempts.len(), 1, "no other nonce is used for it");
    attempts.into_iter().next().unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_original_loses_to_its_bump() {
    let (world, one) = outbid().await;
    assert!(world.run(&[&one], 10_000).await);
    world.check().await;
    let attempt = the_attempt(&world).await;
    assert_eq!(attempt.variants.len(), 1);
    assert_eq!(attempt.variants[0].kind, VariantKind::Replaces);
    assert_eq!(one.halts(), [""; 0], "what we have stored is no stranger");
    assert_eq!(attempt.landed_as(), Some(attempt.variants[0].signed.hash.as_str()));
    let found = world.store.attempt_of(RailName::Near, &attempt.variants[0].signed.hash).await;
    assert_eq!(found.unwrap().map(|found| found.id), Some(attempt.id));
}

#[tokio::test(start_paused = true)]
async fn a_bump_loses_to_the_original() {
    let (world, one) = outbid().await;
    world.chain.faults(|faults| faults.lost = usize::MAX);
    assert!(!world.run(&[&one], 1_000).await);
    assert!(!the_attempt(&world).await.variants.is_empty());
    world.chain.faults(|faults| faults.fee_floor = 0);
    assert!(world.run(&[&one], 10_000).await);
    world.check().await;
    let attempt = the_attempt(&world).await;
    assert_eq!(attempt.landed_as(), Some(attempt.hash.as_str()));
}

/// A node may say that it has what all others refuse.
#[tokio::test(start_paused = true)]
async fn what_was_taken_and_is_refused_ever_after_is_cancelled_and_signed_anew() {
    let mut world = World::new(manner(Order::Queues, 2));
    world.accept(1).await;
    world.chain.faults(|faults| faults.stopped = true);
    let one = world.launch("one").await;
    assert!(!world.run(&[&one], 50).await);
    world.chain.drop_pool();
    world.chain.faults(|faults| (faults.refusing, faults.stopped) = (true, false));
    assert!(!world.run(&[&one], 3_000).await);
    world.chain.faults(|faults| faults.refusing = false);
    assert!(world.run(&[&one], 10_000).await);
    world.check().await;
    let first = &world.attempts().await[0];
    let Some(Fate::Sunk(certificate)) = &first.fate else { panic!("{first:?}") };
    assert_eq!(certificate.kind, CertificateKind::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn bumps_go_on_while_better_terms_are_to_be_had_and_no_longer() {
    let (world, one) = outbid().await;
    world.chain.faults(|faults| faults.fee_floor = 100);
    assert!(!world.run(&[&one], 5_000).await);
    assert_eq!(the_attempt(&world).await.variants.len(), 1, "no more is offered");
    one.pay_fee(100);
    assert!(world.run(&[&one], 10_000).await);
    world.check().await;
    assert_eq!(the_attempt(&world).await.variants.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_refused_variant_decides_nothing_about_the_others() {
    a_bump_is_refused_and_the_original_lands().await;
}

pub async fn a_bump_is_refused_and_the_original_lands() {
    let (world, one) = outbid().await;
    world.chain.faults(|faults| faults.refused_fee = Some(10));
    assert!(!world.run(&[&one], 1_000).await);
    world.chain.faults(|faults| faults.fee_floor = 0);
    assert!(world.run(&[&one], 10_000).await);
    world.check().await;
}

/// Nodes refuse the best that may be offered, for ever, and have dropped what was offered before.
#[tokio::test(start_paused = true)]
async fn older_bytes_are_sent_again_where_nobody_takes_the_newest() {
    let (world, one) = outbid().await;
    world.chain.faults(|faults| faults.refused_fee = Some(10));
    assert!(!world.run(&[&one], 1_000).await);
    assert_eq!(the_attempt(&world).await.variants.len(), 1, "no more is offered");
    world.chain.drop_pool();
    world.chain.faults(|faults| faults.fee_floor = 0);
    assert!(world.run(&[&one], 10_000).await);
    world.check().await;
    let attempt = the_attempt(&world).await;
    assert_eq!(attempt.landed_as(), Some(attempt.hash.as_str()));
}

/// Of several bytes that nodes would take, none but the newest are sent once there are newer ones.
#[tokio::test(start_paused = true)]
async fn what_nodes_take_is_sent_again_and_nothing_older() {
    let (world, one) = outbid().await;
    world.chain.faults(|faults| faults.stopped = true);
    assert!(!world.run(&[&one], 3_000).await);
    let attempt = the_attempt(&world).await;
    let place = |hash: &String| attempt.hashes().position(|known| known == hash);
    let sent: Vec<_> = world.chain.sent().iter().map(place).collect();
    assert!(sent.is_sorted() && sent.contains(&Some(1)), "{sent:?}");
    assert!(sent.len() > attempt.hashes().count(), "something is sent twice: {sent:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_for_certain_is_cancelled_and_what_queues_behind_it_lands() {
    let mut world = World::new(manner(Order::Queues, 2));
    world.chain.faults(|faults| faults.refusing = true);
    world.accept(2).await;
    let one = world.launch("one").await;
    assert!(!world.run(&[&one], 600).await);
    world.chain.faults(|faults| faults.refusing = false);
    assert!(world.run(&[&one], 20_000).await);
    world.check().await;
    let first = &world.attempts().await[0];
    let Some(Fate::Sunk(certificate)) = &first.fate else { panic!("{first:?}") };
    assert_eq!(certificate.kind, CertificateKind::Cancelled);
    assert!(certificate.refusal().is_some(), "{certificate:?}");
    assert_eq!(one.halts(), [""; 0], "a cancel of ours explains its nonce");
}

/// A process has sent a bump that the store forgets; another takes over, and the bump lands.
pub async fn a_forgotten_bump_lands() -> (World, Process) {
    let (world, one) = outbid().await;
    world.chain.faults(|faults| faults.fee_floor = 1_000);
    let before = world.store.snapshot();
    assert!(!world.run(&[&one], 1_000).await);
    assert_eq!(the_attempt(&world).await.variants.len(), 1);
    one.kill().await;
    world.store.restore_in_place(before);
    assert!(the_attempt(&world).await.variants.is_empty());
    world.chain.faults(|faults| faults.fee_floor = 5);
    let two = world.launch("two").await;
    world.run(&[&two], 10_000).await;
    (world, two)
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_variant_that_lands_is_known_by_its_content_and_halts_the_lanes() {
    let (world, two) = a_forgotten_bump_lands().await;
    world.check().await;
    assert_eq!(world.chain.paid().len(), 1);
    assert!(two.halts().iter().any(|halt| halt.contains("is not stored")), "{:?}", two.halts());
    let lanes = world.store.lanes().await.unwrap();
    assert!(lanes.iter().all(|lane| lane.halted.is_some()));
}

#[tokio::test(start_paused = true)]
async fn what_somebody_else_puts_in_its_place_halts_the_lanes_and_sinks_it_once_they_are_adopted() {
    let (mut world, one) = outbid().await;
    world.chain.faults(|faults| faults.lost = usize::MAX);
    let foreign = world.chain.sign(world.chain.lane(), Nonce(1), vec![999], 50);
    world.chain.submit(serde_json::from_slice(&foreign.bytes).unwrap());
    assert!(!world.run(&[&one], 5_000).await);
    assert!(!one.halts().is_empty());
    let attempt = &world.attempts().await[0];
    assert_eq!(attempt.fate, None, "until an operator has looked");
    world.chain.faults(|faults| faults.lost = 0);
    let nonce = Nonce(1);
    world.store.adopt(world.chain.lane(), nonce).await.unwrap();
    assert!(world.run(&[&one], 20_000).await);
    let attempt = &world.attempts().await[0];
    let Some(Fate::Sunk(certificate)) = &attempt.fate else { panic!("{attempt:?}") };
    assert_eq!(certificate.kind, CertificateKind::Displaced);
    world.transfers.push(landfall_core::TransferId(999));
    let mut paid = world.chain.paid();
    paid.sort_unstable();
    assert_eq!(paid, [1, 999]);
}

#[tokio::test(start_paused = true)]
async fn what_nodes_dropped_is_sent_again() {
    let mut world = World::new(manner(Order::Queues, 3));
    world.accept(3).await;
    world.chain.faults(|faults| faults.stopped = true);
    let one = world.launch("one").await;
    assert!(!world.run(&[&one], 400).await);
    world.chain.drop_pool();
    world.chain.faults(|faults| faults.stopped = false);
    assert!(world.run(&[&one], 20_000).await);
    world.check().await;
}

/// In a block, out of it again, and landed; so many sightings in the block are stored without an
/// answer.
async fn seen_in_a_block_that_falls_off(unheard_sightings: usize) {
    let mut world = World::new(manner(Order::Queues, 1));
    world.accept(1).await;
    let perils = Perils::none();
    perils.unheard_sightings.store(unheard_sightings, Ordering::Relaxed);
    let one = world.start("one", perils.clone()).await.unwrap();
    let shown = async |expected: Option<&str>| {
        for _ in 0..300 {
            one.till.dispatch();
            world.pass(5).await;
            if world.all().await[0].aside.as_deref() == expected && world.chain.height() > 0 {
                return;
            }
        }
        panic!("never shown as {expected:?}: {:?}", world.all().await);
    };
    shown(Some(IN_A_BLOCK)).await;
    // Until it is shown as it stands it cannot land, and be shown as nothing for that.
    world.chain.faults(|faults| faults.stopped = true);
    world.chain.reorganise();
    perils.unheard_sightings.store(0, Ordering::Relaxed);
    shown(None).await;
    world.chain.faults(|faults| faults.stopped = false);
    assert!(world.run(&[&one], 20_000).await);
    world.check().await;
    assert_eq!(world.attempts().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_in_a_block_is_shown_and_falls_back_with_the_block_and_lands_again_once() {
    seen_in_a_block_that_falls_off(0).await;
}

/// They have moved since they were last read: else nobody would move them back.
#[tokio::test(start_paused = true)]
async fn members_are_read_again_after_a_sighting_whose_answer_was_lost() {
    seen_in_a_block_that_falls_off(usize::MAX).await;
}
