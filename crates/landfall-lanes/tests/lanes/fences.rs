//! Fences on a lane that no fleet holds, where nothing lands before its predecessor.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use landfall_core::attempt::{Signed, VariantKind};
use landfall_core::ledger::{Order, RailError};
use landfall_core::store::LaneStore as _;
use landfall_core::{Attempt, CertificateKind, Fate, LaneId, Nonce};
use landfall_lanes::{FenceSigner, Fencing, Known, Unfenced, fences};

use crate::chain::{Chain, Tx};
use crate::world::{World, manner};

/// Pays so much for a fence, and no more than so much for other bytes.
struct Signer {
    chain: Arc<Chain>,
    fee: u64,
    fee_max: AtomicU64,
}

#[async_trait]
impl FenceSigner for Signer {
    async fn sign_fence(&self, lane: &LaneId, nonce: Nonce) -> Result<Signed, RailError> {
        Ok(self.chain.sign(lane, nonce, Vec::new(), self.fee))
    }

    async fn sign_anew(
        &self,
        fence: &Attempt,
        _: VariantKind,
    ) -> Result<Option<Signed>, RailError> {
        let before: Tx = serde_json::from_slice(&fence.newest().bytes).unwrap();
        let fee = self.fee_max.load(Ordering::Relaxed);
        let better = fee > before.fee;
        Ok(better.then(|| self.chain.sign(&fence.lane, fence.nonce, Vec::new(), fee)))
    }
}

/// One transfer is paid, under nonce 1, and its process has ended.
async fn one_paid() -> World {
    let mut world = World::new(manner(Order::Queues, 2));
    world.accept(1).await;
    let one = world.launch("one").await;
    assert!(world.run(&[&one], 10_000).await);
    one.kill().await;
    world.store.halt(world.chain.lane(), "the store has gone back").await.unwrap();
    world.pass(2_000).await;
    world
}

/// What the store has forgotten: it waits in the nodes' pools, and pays somebody.
fn forgotten(world: &World, nonce: u64) -> Tx {
    let lane = world.chain.lane().as_str().to_owned();
    Tx { lane, nonce, pays: vec![99], fee: 3, expires_height: None }
}

async fn land(world: &World, fee: u64, fee_max: u64) -> Result<(), Unfenced> {
    let fee_max = AtomicU64::new(fee_max);
    let fencing = Fencing {
        store: world.store.clone(),
        ledger: world.chain.clone(),
        signer: Arc::new(Signer { chain: world.chain.clone(), fee, fee_max }),
        clock: world.clock.clone(),
        instance: "one".to_owned(),
    };
    let known = Known { used: Nonce(1), stored: Nonce(1), remembered: Nonce(2) };
    let nonces = fences(&manner(Order::Queues, 2), known);
    assert_eq!(nonces, [2, 3, 4].map(Nonce));
    fencing.land(world.chain.lane(), &nonces, Duration::from_secs(20)).await
}

#[tokio::test(start_paused = true)]
async fn fences_take_every_nonce_under_which_something_forgotten_waits() {
    let world = one_paid().await;
    world.chain.faults(|faults| faults.stopped = true);
    [2, 3, 4].into_iter().for_each(|nonce| world.chain.submit(forgotten(&world, nonce)));
    let opens = async {
        world.pass(3_000).await;
        world.chain.faults(|faults| faults.stopped = false);
    };
    let (landed, ()) = futures::join!(land(&world, 10, 10), opens);
    assert_eq!(landed, Ok(()));
    world.pass(2_000).await;
    assert_eq!(world.chain.paid().len(), 1, "what was forgotten never lands");
}

#[tokio::test(start_paused = true)]
async fn fences_that_are_worth_too_little_are_replaced() {
    let world = one_paid().await;
    world.chain.faults(|faults| faults.fee_floor = 5);
    assert_eq!(land(&world, 1, 10).await, Ok(()));
    let fence = world.store.attempt_at(world.chain.lane(), Nonce(2)).await.unwrap().unwrap();
    let Some(Fate::Sunk(certificate)) = &fence.fate else { panic!("{fence:?}") };
    assert_eq!(certificate.kind, CertificateKind::Cancelled, "by bytes that do nothing either");
    assert_eq!(world.chain.paid().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lane_is_not_fenced_by_what_was_forgotten_and_lands_after_all() {
    let world = one_paid().await;
    world.chain.submit(forgotten(&world, 2));
    let displaced = land(&world, 1, 1).await;
    assert!(matches!(displaced, Err(Unfenced::Displaced(_))), "{displaced:?}");
    assert_eq!(world.chain.paid().len(), 2);
}
