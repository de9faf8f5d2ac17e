//! Settling: once, by the holder of the lane, for the members it still carries.

use landfall_core::store::{Settled, Settlement, StoreError};
use landfall_core::{AttemptId, Event, Move, Note, Transfer};

use crate::check::checks;
use crate::world::{RAIL, World, leaving};

checks!(World:
    a_settlement_decides_the_attempt_and_moves_its_members,
    a_sunk_attempt_gives_its_members_back_with_the_certificate,
    an_attempt_is_settled_once,
    an_old_epoch_settles_nothing,
    a_released_epoch_settles_nothing,
    the_epoch_of_another_lane_settles_nothing,
    a_halted_lane_still_settles,
    a_later_epoch_settles_what_an_earlier_one_opened,
    a_settlement_moves_nobody_else,
    a_settlement_that_would_strand_a_member_is_refused_whole,
    a_member_that_was_noted_meanwhile_is_still_settled,
    settling_an_unknown_attempt_is_refused,
);

async fn a_settlement_decides_the_attempt_and_moves_its_members(world: World) {
    let held = world.started("lane").await;
    let members = world.accept_ready(&["a", "b"]).await;
    let attempt = world.open(&held, 0, &members).await;
    let settlement = world.settlement(&held, &attempt, Event::Landed).await;
    let carried = world.store.transfers(&attempt.members).await.expect("read");
    let moved: Vec<Transfer> = carried
        .iter()
        .zip(&settlement.moves)
        .map(|(member, step)| step.applied_to(member))
        .collect();
    let done = Settled::Done { moved: attempt.members.clone(), released: vec![] };
    assert_eq!(world.settle(settlement.clone()).await, done);
    assert_eq!(world.store.transfers(&attempt.members).await, Ok(moved));
    let stored = world.store.attempt(attempt.id).await.expect("read").expect("stored");
    assert_eq!((stored.fate, stored.decided_ms), (Some(settlement.fate), Some(settlement.now_ms)));
    assert_eq!(world.store.open_attempts_of(RAIL).await, Ok(vec![]));
    assert_eq!(world.trail(members[0].id).await.last(), Some(&"COMPLETED"));
}

async fn a_sunk_attempt_gives_its_members_back_with_the_certificate(world: World) {
    let held = world.started("lane").await;
    let members = world.accept_ready(&["a"]).await;
    let attempt = world.open(&held, 0, &members).await;
    let mut settlement = world.settlement(&held, &attempt, Event::Sunk).await;
    let landfall_core::Fate::Sunk(certificate) = settlement.fate.clone() else { panic!() };
    settlement.moves = settlement
        .moves
        .into_iter()
        .map(|step| {
            step.note(Note::Sunk).with(|entry| entry.certificate = Some(certificate.clone()))
        })
        .collect();
    world.settle(settlement).await;
    let trail = world.store.trail(members[0].id).await.expect("trail");
    assert_eq!(trail.last().and_then(|entry| entry.certificate.clone()), Some(certificate));
    let back = world.get(members[0].id).await;
    assert_eq!(back.attempt, None);
    let again = world.open(&held, 1, &[back]).await;
    assert_eq!(world.get(members[0].id).await.attempt, Some(again.id));
}

async fn an_attempt_is_settled_once(world: World) {
    let held = world.started("lane").await;
    let members = world.accept_ready(&["a"]).await;
    let attempt = world.open(&held, 0, &members).await;
    let sunk = world.settlement(&held, &attempt, Event::Sunk).await;
    let landed = world.settlement(&held, &attempt, Event::Landed).await;
    world.settle(landed).await;
    let (after, trail) = (world.get(members[0].id).await, world.trail(members[0].id).await);
    let stored = world.store.attempt(attempt.id).await;
    assert_eq!(world.settle(sunk).await, Settled::AlreadyDecided);
    assert_eq!(world.get(members[0].id).await, after);
    assert_eq!(world.trail(members[0].id).await, trail);
    assert_eq!(world.store.attempt(attempt.id).await, stored);
}

/// The settlement is fenced and the attempt stays open with its members in it.
async fn check_fenced(world: &World, settlement: Settlement) {
    let before = world.store.attempt(settlement.attempt).await.expect("read").expect("stored");
    let members = world.store.transfers(&before.members).await;
    let id = settlement.attempt;
    assert_eq!(world.settle(settlement).await, Settled::Fenced);
    assert_eq!(world.store.attempt(id).await, Ok(Some(before.clone())));
    assert_eq!(world.store.transfers(&before.members).await, members);
}

async fn an_old_epoch_settles_nothing(world: World) {
    let old = world.started("lane").await;
    let attempt = world.open(&old, 0, &world.accept_ready(&["a"]).await).await;
    let settlement = world.settlement(&old, &attempt, Event::Landed).await;
    world.lease(&old.lane, "one").await;
    check_fenced(&world, settlement).await;
}

async fn a_released_epoch_settles_nothing(world: World) {
    let held = world.started("lane").await;
    let attempt = world.open(&held, 0, &world.accept_ready(&["a"]).await).await;
    assert_eq!(world.store.release(&[(held.lane.clone(), held.epoch)]).await, Ok(()));
    let settlement = world.settlement(&held, &attempt, Event::Landed).await;
    check_fenced(&world, settlement).await;
}

async fn the_epoch_of_another_lane_settles_nothing(world: World) {
    let held = world.started("lane").await;
    let attempt = world.open(&held, 0, &world.accept_ready(&["a"]).await).await;
    let other = world.started("other").await;
    let settlement = world.settlement(&other, &attempt, Event::Landed).await;
    check_fenced(&world, settlement).await;
}

async fn a_halted_lane_still_settles(world: World) {
    let held = world.started("lane").await;
    let attempt = world.open(&held, 0, &world.accept_ready(&["a"]).await).await;
    assert_eq!(world.store.halt(&held.lane, "why").await, Ok(()));
    let settlement = world.settlement(&held, &attempt, Event::Landed).await;
    assert!(matches!(world.settle(settlement).await, Settled::Done { .. }));
}

async fn a_later_epoch_settles_what_an_earlier_one_opened(world: World) {
    let old = world.started("lane").await;
    let attempt = world.open(&old, 0, &world.accept_ready(&["a"]).await).await;
    let new = world.lease(&old.lane, "one").await;
    let settlement = world.settlement(&new, &attempt, Event::Landed).await;
    assert!(matches!(world.settle(settlement).await, Settled::Done { .. }));
}

async fn a_settlement_moves_nobody_else(world: World) {
    let held = world.started("lane").await;
    let ours = world.accept_ready(&["a"]).await;
    let theirs = world.accept_ready(&["b"]).await;
    let loose = world.accept_ready(&["c"]).await.remove(0);
    let first = world.open(&held, 0, &ours).await;
    let second = world.open(&held, 1, &theirs).await;
    let stranger = world.get(theirs[0].id).await;
    let mut settlement = world.settlement(&held, &first, Event::Landed).await;
    settlement.moves.push(leaving(&stranger, &first, Event::Landed, world.now_ms()));
    settlement.moves.push(leaving(&stranger, &second, Event::Landed, world.now_ms()));
    settlement.moves.push(Move::of(&loose, world.now_ms()).note(Note::Retry));
    let done = Settled::Done { moved: vec![ours[0].id], released: vec![] };
    assert_eq!(world.settle(settlement).await, done);
    assert_eq!(world.get(stranger.id).await, stranger);
    assert_eq!(world.get(loose.id).await, loose);
}

async fn a_settlement_that_would_strand_a_member_is_refused_whole(world: World) {
    let held = world.started("lane").await;
    let members = world.accept_ready(&["a", "b"]).await;
    let attempt = world.open(&held, 0, &members).await;
    let whole = world.settlement(&held, &attempt, Event::Landed).await;
    let mut short = whole.clone();
    short.moves.pop();
    let mut elsewhere = whole.clone();
    elsewhere.moves[1].from_state = members[1].state;
    let mut outdated = whole.clone();
    outdated.moves[1].from_version = Some(members[1].version);
    for broken in [short, elsewhere, outdated] {
        let carried = world.store.transfers(&attempt.members).await;
        let refused = world.store.settle(broken).await;
        assert!(matches!(refused, Err(StoreError::Corrupt(_))), "{refused:?}");
        assert_eq!(world.store.transfers(&attempt.members).await, carried);
        assert_eq!(world.store.open_attempts(&held.lane).await, Ok(vec![attempt.clone()]));
    }
    assert!(matches!(world.settle(whole).await, Settled::Done { .. }));
}

async fn a_member_that_was_noted_meanwhile_is_still_settled(world: World) {
    let held = world.started("lane").await;
    let members = world.accept_ready(&["a"]).await;
    let attempt = world.open(&held, 0, &members).await;
    let settlement = world.settlement(&held, &attempt, Event::Landed).await;
    let carried = world.get(members[0].id).await;
    world.apply(Move::of(&carried, world.now_ms()).note(Note::Adrift)).await;
    let done = Settled::Done { moved: vec![carried.id], released: vec![] };
    assert_eq!(world.settle(settlement).await, done);
    assert_eq!(world.get(carried.id).await.version, carried.version + 2);
}

async fn settling_an_unknown_attempt_is_refused(world: World) {
    let held = world.started("lane").await;
    let attempt = world.open(&held, 0, &world.accept_ready(&["a"]).await).await;
    let mut settlement = world.settlement(&held, &attempt, Event::Landed).await;
    settlement.attempt = AttemptId(attempt.id.0 + 1);
    let refused = world.store.settle(settlement).await;
    assert!(matches!(refused, Err(StoreError::Corrupt(_))), "{refused:?}");
}
