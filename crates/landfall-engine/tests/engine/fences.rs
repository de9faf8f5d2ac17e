//! Fences on lanes that stand still, landed without an engine.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use landfall_core::attempt::Signed;
use landfall_core::ledger::{Ledger as _, RailError};
use landfall_core::rail::Rail as _;
use landfall_core::store::{LaneStore as _, Store as _};
use landfall_core::{Attempt, CertificateKind, Fate, Lane, LaneId, Nonce, Purpose, RailName};
use landfall_lanes::{FenceSigner, Fencing, Unfenced};

use crate::ledger::{FakeRail, Net};
use crate::world::World;

struct Signer(Arc<FakeRail>);

#[async_trait]
impl FenceSigner for Signer {
    async fn sign_fence(&self, lane: &LaneId, nonce: Nonce) -> Result<Signed, RailError> {
        if !self.0.lanes().contains(lane) {
            return Err(RailError::Misconfigured("no key".into()));
        }
        self.0.sign(Purpose::Fence, &[], lane, nonce).await
    }
}

const PATIENCE: Duration = Duration::from_secs(120);

/// A relay that has worked and is stopped, its lane halted.
async fn halted() -> World {
    let world = World::new(1).await;
    world.sleep(1_000).await;
    world.engine.stop(Duration::from_secs(1)).await;
    world.store.halt(&world.rail.lanes[0], "somebody else signs").await.unwrap();
    world
}

async fn land(world: &World, lane: &LaneId, nonces: &[u64]) -> Result<(), Unfenced> {
    let fencing = Fencing {
        store: world.store.clone(),
        ledger: world.rail.clone(),
        signer: Arc::new(Signer(world.rail.clone())),
        clock: world.clock.clone(),
        instance: world.settings.instance.clone(),
    };
    let nonces: Vec<Nonce> = nonces.iter().copied().map(Nonce).collect();
    fencing.land(lane, &nonces, PATIENCE).await
}

async fn first_lane(world: &World) -> Lane {
    world.store.lanes().await.unwrap().remove(0)
}

async fn fence_at(world: &World, nonce: u64) -> Option<Attempt> {
    world.store.attempt_at(&world.rail.lanes[0], Nonce(nonce)).await.unwrap()
}

async fn fate_at(world: &World, nonce: u64) -> Option<Fate> {
    fence_at(world, nonce).await.expect("it is stored").fate
}

#[tokio::test(start_paused = true)]
async fn a_fence_lands_on_a_halted_lane_which_stays_halted_and_is_given_back() {
    let world = halted().await;
    assert_eq!(land(&world, &world.rail.lanes[0], &[1_100]).await, Ok(()));
    assert!(matches!(fate_at(&world, 1_100).await, Some(Fate::Landed(_))));
    let lane = first_lane(&world).await;
    assert!(lane.halted.is_some() && lane.holder.is_none(), "{lane:?}");
    assert_eq!(lane.next_nonce, Some(Nonce(1_101)));
}

#[tokio::test(start_paused = true)]
async fn every_fence_is_final_before_the_lane_is_called_fenced() {
    let world = halted().await;
    assert_eq!(land(&world, &world.rail.lanes[0], &[101, 102, 103]).await, Ok(()));
    for nonce in 101..104 {
        assert!(matches!(fate_at(&world, nonce).await, Some(Fate::Landed(_))), "{nonce}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fence_whose_answer_is_lost_is_looked_for() {
    let world = halted().await;
    *world.rail.net.lock() = Net::LoseAnswer;
    assert_eq!(land(&world, &world.rail.lanes[0], &[1_100]).await, Ok(()));
    assert_eq!(world.rail.state.lock().broadcasts, 1);
}

/// The lease is renewed meanwhile: nobody else takes the lane.
#[tokio::test(start_paused = true)]
async fn a_fence_that_takes_longer_than_a_lease_keeps_its_lane() {
    let world = halted().await;
    *world.rail.block_ms.lock() = 60_000;
    let lane = world.rail.lanes[0].clone();
    let taken = async {
        world.sleep(55_000).await;
        world.store.lease(&lane, RailName::Near, "another", 1_000).await.unwrap()
    };
    let (landed, taken) = futures::join!(land(&world, &lane, &[1_100]), taken);
    assert_eq!(landed, Ok(()));
    assert!(matches!(taken, landfall_core::store::Leased::Busy { .. }), "{taken:?}");
}

#[tokio::test(start_paused = true)]
async fn a_fence_that_nobody_has_seen_in_time_stays_open_and_the_next_goes_above_it() {
    let world = halted().await;
    *world.rail.net.lock() = Net::LoseRequest;
    let adrift = land(&world, &world.rail.lanes[0], &[1_100]).await;
    assert_eq!(adrift, Err(Unfenced::Adrift("unknown".into())));
    assert_eq!(fate_at(&world, 1_100).await, None);
    *world.rail.net.lock() = Net::Good;
    assert_eq!(land(&world, &world.rail.lanes[0], &[2_100]).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_fence_that_the_ledger_refuses_fences_nothing() {
    let world = halted().await;
    *world.rail.net.lock() = Net::Refuse;
    let refused = land(&world, &world.rail.lanes[0], &[1_100]).await;
    let said = "refused at its first broadcast: bad signature".to_owned();
    assert_eq!(refused, Err(Unfenced::Sunk(said)));
    let Some(Fate::Sunk(certificate)) = fate_at(&world, 1_100).await else { panic!("it is sunk") };
    assert_eq!(certificate.kind, CertificateKind::Refused);
}

#[tokio::test(start_paused = true)]
async fn a_fence_that_cannot_be_paid_for_is_not_waited_for() {
    let world = halted().await;
    world.rail.state.lock().native = 0;
    let before = world.clock.monotonic_ms();
    let unpaid = land(&world, &world.rail.lanes[0], &[1_100]).await;
    assert_eq!(unpaid, Err(Unfenced::Unpaid("lost".into())));
    assert!(world.clock.monotonic_ms() - before < 1_000);
}

#[tokio::test(start_paused = true)]
async fn a_lane_whose_key_is_not_here_is_not_fenced() {
    let world = halted().await;
    let lane = LaneId::new("near:test:relay:k9");
    let unsignable = land(&world, &lane, &[1_100]).await;
    assert_eq!(unsignable, Err(Unfenced::Unsignable("no key".into())));
    let open = world.store.open_attempts_of(RailName::Near).await.unwrap();
    assert_eq!(open, []);
}

#[tokio::test(start_paused = true)]
async fn a_lane_that_somebody_else_holds_is_left_alone() {
    let world = halted().await;
    let lane = &world.rail.lanes[0];
    world.store.lease(lane, RailName::Near, "another", 60_000).await.unwrap();
    let held = land(&world, lane, &[1_100]).await;
    assert!(matches!(&held, Err(Unfenced::Held { holder, .. }) if holder == "another"), "{held:?}");
    assert_eq!(first_lane(&world).await.holder.as_deref(), Some("another"));
    assert_eq!(fence_at(&world, 1_100).await, None);
}
