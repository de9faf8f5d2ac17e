//! Lanes: one holder at a time, a new epoch at every lease, nonces that never fall, halts.

use landfall_core::lane::Lane;
use landfall_core::store::{Leased, StoreError};
use landfall_core::{Epoch, LaneId, Nonce};

use crate::check::checks;
use crate::world::{LEASE_MS, LEDGER_NONCE, RAIL, World};

/// Short enough to be waited for on a clock that cannot be moved.
const SHORT_LEASE_MS: u64 = 200;

checks!(World:
    a_new_lane_is_leased_under_a_new_epoch,
    a_held_lane_is_busy_for_others,
    a_holder_takes_its_own_lane_back_under_a_new_epoch,
    a_lease_runs_out_by_the_clock_of_the_store,
    a_renewed_lease_does_not_run_out,
    an_old_epoch_renews_nothing,
    a_lane_given_back_is_free_at_once,
    an_old_epoch_gives_nothing_back,
    a_lane_is_started_once_and_by_its_holder,
    a_lane_keeps_its_nonces_over_a_change_of_holder,
    a_halt_keeps_its_first_reason,
    a_halted_lane_can_still_be_leased,
    adopting_ends_a_halt_above_the_nonce_of_the_ledger,
    adopting_ends_every_holder_known_or_forgotten,
    adopting_never_lowers_the_next_nonce,
    halting_an_unknown_lane_is_refused,
    lanes_are_listed_by_name,
);

async fn lane(world: &World, id: &LaneId) -> Lane {
    let lanes = world.store.lanes().await.expect("lanes");
    lanes.into_iter().find(|lane| lane.id == *id).expect("a known lane")
}

async fn try_lease(world: &World, id: &LaneId, holder: &str) -> Leased {
    world.store.lease(id, RAIL, holder, LEASE_MS).await.expect("lease")
}

fn is_busy(answer: &Leased, by: &str) -> bool {
    matches!(answer, Leased::Busy { holder, .. } if holder == by)
}

async fn a_new_lane_is_leased_under_a_new_epoch(world: World) {
    let id = LaneId::new("near:testnet:relay.near:ed25519:abc");
    let Leased::Yours(leased) = try_lease(&world, &id, "one").await else { panic!("busy") };
    assert_eq!((&leased.id, leased.rail, leased.holder.as_deref()), (&id, RAIL, Some("one")));
    assert_eq!((leased.base_nonce, leased.next_nonce), (None, None));
    assert!(leased.epoch > Epoch(0) && leased.halted.is_none());
    assert!(leased.lease_until_ms > world.now_ms());
    assert_eq!(lane(&world, &id).await, leased);
}

async fn a_held_lane_is_busy_for_others(world: World) {
    let id = LaneId::new("lane");
    let Leased::Yours(leased) = try_lease(&world, &id, "one").await else { panic!("busy") };
    let busy = Leased::Busy { holder: "one".into(), until_ms: leased.lease_until_ms };
    assert_eq!(try_lease(&world, &id, "two").await, busy);
    assert_eq!(lane(&world, &id).await, leased);
}

async fn a_holder_takes_its_own_lane_back_under_a_new_epoch(world: World) {
    let id = LaneId::new("lane");
    let first = world.lease(&id, "one").await;
    let second = world.lease(&id, "one").await;
    assert!(second.epoch > first.epoch);
    let renewals = [(id.clone(), first.epoch), (id, second.epoch)];
    assert_eq!(world.store.renew(&renewals, LEASE_MS).await, Ok(vec![false, true]));
}

async fn a_lease_runs_out_by_the_clock_of_the_store(world: World) {
    let id = LaneId::new("lane");
    let answer = world.store.lease(&id, RAIL, "one", SHORT_LEASE_MS).await.expect("lease");
    let Leased::Yours(first) = answer else { panic!("busy") };
    assert!(is_busy(&try_lease(&world, &id, "two").await, "one"));
    world.time.advance(SHORT_LEASE_MS).await;
    let Leased::Yours(second) = try_lease(&world, &id, "two").await else { panic!("busy") };
    assert!(second.epoch > first.epoch);
    assert_eq!(second.holder.as_deref(), Some("two"));
    assert!(is_busy(&try_lease(&world, &id, "one").await, "two"));
}

async fn a_renewed_lease_does_not_run_out(world: World) {
    let id = LaneId::new("lane");
    let answer = world.store.lease(&id, RAIL, "one", SHORT_LEASE_MS).await.expect("lease");
    let Leased::Yours(held) = answer else { panic!("busy") };
    assert_eq!(world.store.renew(&[(id.clone(), held.epoch)], LEASE_MS).await, Ok(vec![true]));
    world.time.advance(SHORT_LEASE_MS).await;
    assert!(is_busy(&try_lease(&world, &id, "two").await, "one"));
    assert_eq!(lane(&world, &id).await.epoch, held.epoch);
}

async fn an_old_epoch_renews_nothing(world: World) {
    let id = LaneId::new("lane");
    let old = world.lease(&id, "one").await;
    let answer = world.store.lease(&id, RAIL, "one", SHORT_LEASE_MS).await.expect("lease");
    let Leased::Yours(_) = answer else { panic!("busy") };
    let renewals = [(id.clone(), old.epoch), (LaneId::new("unknown"), old.epoch)];
    assert_eq!(world.store.renew(&renewals, LEASE_MS).await, Ok(vec![false, false]));
    world.time.advance(SHORT_LEASE_MS).await;
    world.lease(&id, "two").await;
}

async fn a_lane_given_back_is_free_at_once(world: World) {
    let id = LaneId::new("lane");
    let first = world.lease(&id, "one").await;
    let given = [(id.clone(), first.epoch)];
    assert_eq!(world.store.release(&given).await, Ok(()));
    assert_eq!(lane(&world, &id).await.holder, None);
    assert_eq!(world.store.renew(&given, LEASE_MS).await, Ok(vec![false]));
    let second = world.lease(&id, "two").await;
    assert!(second.epoch > first.epoch);
}

async fn an_old_epoch_gives_nothing_back(world: World) {
    let id = LaneId::new("lane");
    let old = world.lease(&id, "one").await;
    world.lease(&id, "one").await;
    assert_eq!(world.store.release(&[(id.clone(), old.epoch)]).await, Ok(()));
    assert!(is_busy(&try_lease(&world, &id, "two").await, "one"));
}

async fn a_lane_is_started_once_and_by_its_holder(world: World) {
    let id = LaneId::new("lane");
    let old = world.lease(&id, "one").await;
    let held = world.lease(&id, "one").await;
    let start = async |epoch, nonce| world.store.start_lane(&id, epoch, nonce).await;
    assert_eq!(start(old.epoch, LEDGER_NONCE).await, Ok(false));
    assert_eq!(lane(&world, &id).await.next_nonce, None);
    assert_eq!(start(held.epoch, LEDGER_NONCE).await, Ok(true));
    assert_eq!(start(held.epoch, Nonce(99)).await, Ok(false));
    let stored = lane(&world, &id).await;
    assert_eq!(stored.base_nonce, Some(LEDGER_NONCE));
    assert_eq!(stored.next_nonce, Some(LEDGER_NONCE.next()));
}

async fn a_lane_keeps_its_nonces_over_a_change_of_holder(world: World) {
    let held = world.started("lane").await;
    world.open(&held, 0, &[]).await;
    let before = lane(&world, &held.lane).await;
    world.store.release(&[(held.lane.clone(), held.epoch)]).await.expect("release");
    let Leased::Yours(after) = try_lease(&world, &held.lane, "two").await else { panic!("busy") };
    assert_eq!((after.base_nonce, after.next_nonce), (before.base_nonce, before.next_nonce));
}

async fn a_halt_keeps_its_first_reason(world: World) {
    let id = LaneId::new("lane");
    world.lease(&id, "one").await;
    for reason in ["first", "second"] {
        assert_eq!(world.store.halt(&id, reason).await, Ok(()));
    }
    assert_eq!(lane(&world, &id).await.halted.map(|halt| halt.reason), Some("first".into()));
}

async fn a_halted_lane_can_still_be_leased(world: World) {
    let held = world.started("lane").await;
    assert_eq!(world.store.halt(&held.lane, "why").await, Ok(()));
    let Leased::Yours(leased) = try_lease(&world, &held.lane, "one").await else { panic!("busy") };
    assert_eq!(leased.halted.map(|halt| halt.reason), Some("why".into()));
}

async fn adopting_ends_a_halt_above_the_nonce_of_the_ledger(world: World) {
    let held = world.started("lane").await;
    assert_eq!(world.store.halt(&held.lane, "why").await, Ok(()));
    assert_eq!(world.store.adopt(&held.lane, Nonce(500)).await, Ok(()));
    let adopted = lane(&world, &held.lane).await;
    assert_eq!(adopted.halted, None);
    assert_eq!((adopted.base_nonce, adopted.next_nonce), (Some(Nonce(500)), Some(Nonce(501))));
    let held = world.lease(&held.lane, "another").await;
    let mut opening = world.opening(&held, 0, &[]);
    opening.nonce = Nonce(501);
    let opened = world.store.open_attempt(opening).await.expect("open");
    assert!(matches!(opened, landfall_core::store::Opened::Stored(_)), "{opened:?}");
}

/// The store may have forgotten that others held it since.
async fn adopting_ends_every_holder_known_or_forgotten(world: World) {
    let held = world.started("lane").await;
    assert_eq!(world.store.halt(&held.lane, "why").await, Ok(()));
    let before_ms = world.time.now_ms();
    assert_eq!(world.store.adopt(&held.lane, Nonce(500)).await, Ok(()));
    let adopted = lane(&world, &held.lane).await;
    assert_eq!(adopted.holder, None);
    assert!(adopted.epoch.0 >= before_ms, "{}", adopted.epoch);
    assert!(adopted.seq >= before_ms, "signatures that it has forgotten are past: {}", adopted.seq);
    let renewed = world.store.renew(&[(held.lane.clone(), held.epoch)], 1_000).await;
    assert_eq!(renewed, Ok(vec![false]));
    let opened = world.store.open_attempt(world.opening(&held, 0, &[])).await.expect("open");
    assert!(matches!(opened, landfall_core::store::Opened::Fenced(_)), "{opened:?}");
    // Within the same millisecond, too.
    assert_eq!(world.store.adopt(&held.lane, Nonce(500)).await, Ok(()));
    assert!(lane(&world, &held.lane).await.epoch > adopted.epoch);
}

async fn adopting_never_lowers_the_next_nonce(world: World) {
    let held = world.started("lane").await;
    world.open(&held, 0, &[]).await;
    let before = lane(&world, &held.lane).await;
    assert_eq!(world.store.adopt(&held.lane, Nonce(1)).await, Ok(()));
    let after = lane(&world, &held.lane).await;
    assert_eq!(after.next_nonce, before.next_nonce);
    assert_eq!(after.base_nonce, before.base_nonce);
}

async fn halting_an_unknown_lane_is_refused(world: World) {
    let unknown = LaneId::new("unknown");
    let refusals =
        [world.store.halt(&unknown, "why").await, world.store.adopt(&unknown, Nonce(1)).await];
    for refused in refusals {
        assert!(matches!(refused, Err(StoreError::Corrupt(_))), "{refused:?}");
    }
}

async fn lanes_are_listed_by_name(world: World) {
    for name in ["c", "a", "b"] {
        world.lease(&LaneId::new(name), "one").await;
    }
    let lanes = world.store.lanes().await.expect("lanes");
    let names: Vec<&str> = lanes.iter().map(|lane| lane.id.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
}
