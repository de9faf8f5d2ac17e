//! A ledger without nonces: attempts are free of each other, and die by expiry alone.

use landfall_core::ledger::{Manner, Order};
use landfall_core::{CertificateKind, Fate};

use crate::world::{World, manner};

#[tokio::test(start_paused = true)]
async fn what_expired_unseen_is_signed_anew_once_and_holds_up_nobody() {
    let mut world = World::new(manner(Order::Free, 3));
    world.chain.faults(|faults| faults.lost_nonce = Some(1));
    world.accept(3).await;
    let one = world.launch("one").await;
    assert!(!world.run(&[&one], 2_000).await);
    assert_eq!(world.chain.paid().len(), 2, "the others do not wait");
    assert!(world.run(&[&one], 20_000).await);
    world.check().await;
    let attempts = world.attempts().await;
    assert_eq!(attempts.len(), 4);
    let Some(Fate::Sunk(certificate)) = &attempts[0].fate else { panic!("{:?}", attempts[0]) };
    assert_eq!(certificate.kind, CertificateKind::Expired);
}

fn unrepeatable() -> Manner {
    Manner { repeats: false, ..manner(Order::Free, 2) }
}

#[tokio::test(start_paused = true)]
async fn where_repeating_is_forbidden_an_unanswered_broadcast_is_only_looked_for() {
    let mut world = World::new(unrepeatable());
    world.chain.faults(|faults| faults.unanswered = 1);
    world.accept(2).await;
    let one = world.launch("one").await;
    assert!(world.run(&[&one], 10_000).await);
    world.check().await;
    assert_eq!(world.chain.sent().len(), 2, "each once");
}

#[tokio::test(start_paused = true)]
async fn where_repeating_is_forbidden_nothing_is_sent_again_after_a_crash() {
    let mut world = World::new(unrepeatable());
    world.chain.faults(|faults| faults.lost = 1);
    world.accept(1).await;
    let one = world.launch("one").await;
    assert!(!world.run(&[&one], 1_000).await);
    one.kill().await;
    let again = world.launch("one").await;
    assert!(!world.run(&[&again], 1_500).await);
    assert_eq!(world.chain.sent().len(), 1, "what may have arrived is not sent again");
    assert!(world.run(&[&again], 20_000).await, "until it is proven dead");
    world.check().await;
}
