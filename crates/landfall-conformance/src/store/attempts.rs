//! Opening attempts: stored with their members moved, or not at all; found again.

use landfall_core::attempt::Purpose;
use landfall_core::store::{OpenAttempt, Opened};
use landfall_core::{AttemptId, Epoch, Event, LaneId, Nonce, Transfer};

use crate::check::checks;
use crate::world::{Held, LEDGER_NONCE, RAIL, World};

checks!(World:
    an_opened_attempt_reads_back_with_its_members_moved,
    opening_advances_the_nonce_exactly_once,
    an_old_epoch_opens_nothing,
    a_released_epoch_opens_nothing,
    a_halted_lane_opens_nothing,
    a_lane_nobody_leased_opens_nothing,
    a_lane_that_was_not_started_opens_nothing,
    a_nonce_that_is_not_the_next_opens_nothing,
    a_fence_passes_a_halt_and_may_leave_a_hole,
    a_store_behind_the_openers_marks_opens_nothing,
    another_incarnation_of_the_store_opens_nothing,
    one_stale_member_opens_nothing,
    a_carried_member_cannot_be_carried_again,
    a_member_named_twice_opens_nothing,
    a_fence_carries_nobody,
    a_full_batch_keeps_the_order_of_its_actions,
    attempts_are_found_by_lane_nonce_and_rail,
    sunk_attempts_do_not_crowd_out_later_ones,
    decided_attempts_are_paged_by_id,
);

async fn an_opened_attempt_reads_back_with_its_members_moved(world: World) {
    let held = world.started("lane").await;
    let members = world.accept_ready(&["a", "b"]).await;
    let opening = world.opening(&held, 0, &members);
    let opened = world.store.open_attempt(opening.clone()).await.expect("open");
    let Opened::Stored(attempt) = opened else { panic!("not stored: {opened:?}") };
    let attempt = *attempt;
    assert_eq!(attempt.lane, held.lane);
    assert_eq!((attempt.epoch, attempt.nonce, attempt.rail), (held.epoch, opening.nonce, RAIL));
    assert_eq!((attempt.purpose, &attempt.bytes), (Purpose::Pay, &opening.signed.bytes));
    assert_eq!(attempt.signed_as(&opening.signed.hash), Some(opening.signed.clone()));
    assert_eq!((attempt.seq, &attempt.variants[..]), (1, &[][..]));
    assert_eq!(
        (attempt.opened_ms, attempt.fate.clone(), attempt.decided_ms),
        (opening.now_ms, None, None)
    );
    assert_eq!(attempt.members, [members[0].id, members[1].id]);
    assert_eq!(world.store.attempt(attempt.id).await, Ok(Some(attempt.clone())));
    for (member, step) in members.iter().zip(&opening.moves) {
        let moved = Transfer { attempt: Some(attempt.id), ..step.applied_to(member) };
        assert_eq!(world.get(member.id).await, moved);
        let trail = world.trail(member.id).await;
        assert_eq!(trail[trail.len() - 2..], ["SUBMITTED", "QUEUED_VERIFICATION"]);
    }
}

async fn opening_advances_the_nonce_exactly_once(world: World) {
    let held = world.started("lane").await;
    for offset in 0..3 {
        let members = world.accept_ready(&[&format!("k{offset}")]).await;
        world.open(&held, offset, &members).await;
        assert_eq!(next_nonce(&world, &held.lane).await, Some(Nonce(LEDGER_NONCE.0 + 2 + offset)));
    }
}

async fn next_nonce(world: &World, lane: &LaneId) -> Option<Nonce> {
    let lanes = world.store.lanes().await.expect("lanes");
    lanes.into_iter().find(|known| known.id == *lane).and_then(|known| known.next_nonce)
}

/// The opening is refused and nothing at all has changed.
async fn check_refused(world: &World, opening: OpenAttempt, refused: impl Fn(&Opened) -> bool) {
    let ids: Vec<_> = opening.moves.iter().map(|step| step.id).collect();
    let members = world.store.transfers(&ids).await;
    let lanes = world.store.lanes().await;
    let open = world.store.open_attempts_of(RAIL).await;
    let mut trails = Vec::new();
    for id in &ids {
        trails.push(world.trail(*id).await);
    }
    let answer = world.store.open_attempt(opening).await.expect("open");
    assert!(refused(&answer), "{answer:?}");
    assert_eq!(world.store.transfers(&ids).await, members);
    assert_eq!(world.store.lanes().await, lanes);
    assert_eq!(world.store.open_attempts_of(RAIL).await, open);
    for (id, trail) in ids.iter().zip(trails) {
        assert_eq!(world.trail(*id).await, trail);
    }
}

fn fenced(answer: &Opened) -> bool {
    matches!(answer, Opened::Fenced(_))
}

async fn an_old_epoch_opens_nothing(world: World) {
    let old = world.started("lane").await;
    let members = world.accept_ready(&["a"]).await;
    let new = world.lease(&old.lane, "one").await;
    check_refused(&world, world.opening(&old, 0, &members), fenced).await;
    let future = Held { epoch: Epoch(new.epoch.0 + 1), ..new.clone() };
    check_refused(&world, world.opening(&future, 0, &members), fenced).await;
    world.open(&new, 0, &members).await;
}

async fn a_released_epoch_opens_nothing(world: World) {
    let held = world.started("lane").await;
    let members = world.accept_ready(&["a"]).await;
    assert_eq!(world.store.release(&[(held.lane.clone(), held.epoch)]).await, Ok(()));
    check_refused(&world, world.opening(&held, 0, &members), fenced).await;
}

async fn a_halted_lane_opens_nothing(world: World) {
    let held = world.started("lane").await;
    let members = world.accept_ready(&["a"]).await;
    assert_eq!(world.store.halt(&held.lane, "foreign nonce").await, Ok(()));
    let says_why =
        |answer: &Opened| matches!(answer, Opened::Fenced(why) if why.contains("foreign nonce"));
    check_refused(&world, world.opening(&held, 0, &members), says_why).await;
}

async fn a_lane_nobody_leased_opens_nothing(world: World) {
    let members = world.accept_ready(&["a"]).await;
    let held =
        Held { lane: LaneId::new("unknown"), epoch: Epoch(0), ..world.started("known").await };
    check_refused(&world, world.opening(&held, 0, &members), fenced).await;
}

async fn a_lane_that_was_not_started_opens_nothing(world: World) {
    let members = world.accept_ready(&["a"]).await;
    let held = world.lease(&LaneId::new("lane"), "one").await;
    let stale = |answer: &Opened| *answer == Opened::StaleNonce;
    check_refused(&world, world.opening(&held, 0, &members), stale).await;
}

async fn a_nonce_that_is_not_the_next_opens_nothing(world: World) {
    let held = world.started("lane").await;
    let members = world.accept_ready(&["a"]).await;
    world.open(&held, 0, &world.accept_ready(&["first"]).await).await;
    for offset in [0, 2] {
        let stale = |answer: &Opened| *answer == Opened::StaleNonce;
        check_refused(&world, world.opening(&held, offset, &members), stale).await;
    }
    world.open(&held, 1, &members).await;
}

/// It carries nobody, and an operator has it landed above all that may have been forgotten.
async fn a_fence_passes_a_halt_and_may_leave_a_hole(world: World) {
    let held = world.started("lane").await;
    world.open(&held, 0, &world.accept_ready(&["first"]).await).await;
    assert_eq!(world.store.halt(&held.lane, "foreign nonce").await, Ok(()));
    let fence =
        |offset| OpenAttempt { purpose: Purpose::Fence, ..world.opening(&held, offset, &[]) };
    let stale = |answer: &Opened| *answer == Opened::StaleNonce;
    check_refused(&world, fence(0), stale).await;
    let opened = world.store.open_attempt(fence(7)).await.expect("open");
    let Opened::Stored(attempt) = opened else { panic!("{opened:?}") };
    assert_eq!(attempt.nonce, Nonce(LEDGER_NONCE.0 + 8));
    assert_eq!(next_nonce(&world, &held.lane).await, Some(Nonce(LEDGER_NONCE.0 + 9)));
    check_refused(&world, fence(5), stale).await;
}

/// The marks may be of other lanes: what one of them forgot, this one would pay again.
async fn a_store_behind_the_openers_marks_opens_nothing(world: World) {
    let (held, other) = (world.started("lane").await, world.started("other").await);
    let members = world.accept_ready(&["a"]).await;
    let is_behind = |opened: &Opened| matches!(opened, Opened::Behind(_));
    for (lane, mark) in [
        (other.lane.clone(), Nonce(LEDGER_NONCE.0 + 1)),
        (held.lane.clone(), Nonce(LEDGER_NONCE.0 + 1)),
        (LaneId::new("never seen"), Nonce(1)),
    ] {
        let opening = OpenAttempt {
            marks: vec![(held.lane.clone(), LEDGER_NONCE.into()), (lane, mark.into())],
            ..world.opening(&held, 0, &members)
        };
        check_refused(&world, opening, is_behind).await;
    }
    let opening = OpenAttempt {
        marks: vec![(held.lane.clone(), LEDGER_NONCE.into()), (other.lane, LEDGER_NONCE.into())],
        ..world.opening(&held, 0, &members)
    };
    let opened = world.store.open_attempt(opening).await;
    assert!(matches!(opened, Ok(Opened::Stored(_))), "{opened:?}");
}

/// Whoever looked the lanes over before the store was restarted must look again.
async fn another_incarnation_of_the_store_opens_nothing(world: World) {
    let held = world.started("lane").await;
    let members = world.accept_ready(&["a"]).await;
    let before =
        OpenAttempt { incarnation: "the one before".into(), ..world.opening(&held, 0, &members) };
    check_refused(&world, before, |opened| *opened == Opened::Restarted).await;
    world.open(&held, 0, &members).await;
}

async fn one_stale_member_opens_nothing(world: World) {
    let held = world.started("lane").await;
    let members = world.accept_ready(&["a", "b", "c"]).await;
    let mut opening = world.opening(&held, 0, &members);
    opening.moves[1].from_version = Some(members[1].version + 1);
    let names_it = |answer: &Opened| *answer == Opened::StaleMembers(vec![members[1].id]);
    check_refused(&world, opening, names_it).await;
    world.open(&held, 0, &members).await;
}

async fn a_carried_member_cannot_be_carried_again(world: World) {
    let held = world.started("lane").await;
    let members = world.accept_ready(&["a"]).await;
    let attempt = world.open(&held, 0, &members).await;
    let mut opening = world.opening(&held, 1, &members);
    let carried = world.get(members[0].id).await;
    opening.moves[0].from_state = carried.state;
    opening.moves[0].from_version = Some(carried.version);
    opening.moves[0].from_attempt = Some(attempt.id);
    let names_it = |answer: &Opened| *answer == Opened::StaleMembers(vec![carried.id]);
    check_refused(&world, opening, names_it).await;
}

async fn a_member_named_twice_opens_nothing(world: World) {
    let held = world.started("lane").await;
    let member = world.accept_ready(&["a"]).await.remove(0);
    let opening = world.opening(&held, 0, &[member.clone(), member.clone()]);
    let names_it = |answer: &Opened| *answer == Opened::StaleMembers(vec![member.id]);
    check_refused(&world, opening, names_it).await;
}

async fn a_fence_carries_nobody(world: World) {
    let held = world.started("lane").await;
    let fence = world.open(&held, 0, &[]).await;
    assert_eq!((fence.purpose, fence.members.len()), (Purpose::Fence, 0));
    assert_eq!(world.store.open_attempts(&held.lane).await, Ok(vec![fence]));
}

async fn a_full_batch_keeps_the_order_of_its_actions(world: World) {
    let held = world.started("lane").await;
    let keys: Vec<String> = (0..100).map(|number| format!("k{number}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let mut members = world.accept_ready(&keys).await;
    members.reverse();
    let attempt = world.open(&held, 0, &members).await;
    let ids: Vec<_> = members.iter().map(|member| member.id).collect();
    assert_eq!(attempt.members, ids);
    assert_eq!(world.store.attempt(attempt.id).await, Ok(Some(attempt)));
}

async fn attempts_are_found_by_lane_nonce_and_rail(world: World) {
    let (second, first) = (world.started("lane-b").await, world.started("lane-a").await);
    let b0 = world.open(&second, 0, &world.accept_ready(&["b0"]).await).await;
    let a0 = world.open(&first, 0, &world.accept_ready(&["a0"]).await).await;
    let a1 = world.open(&first, 1, &world.accept_ready(&["a1"]).await).await;
    let a2 = world.open(&first, 2, &[]).await;
    world.settle(world.settlement(&first, &a1, Event::Landed).await).await;
    let a1 = world.store.attempt(a1.id).await.expect("read").expect("stored");
    let store = &world.store;
    assert_eq!(store.open_attempts(&first.lane).await, Ok(vec![a0.clone(), a2.clone()]));
    assert_eq!(store.open_attempts_of(RAIL).await, Ok(vec![a0.clone(), a2.clone(), b0.clone()]));
    assert_eq!(store.attempt_at(&first.lane, a1.nonce).await, Ok(Some(a1.clone())));
    assert_eq!(store.attempt_at(&second.lane, a1.nonce).await, Ok(None));
    let after = store.attempts_after(&first.lane, a0.nonce, 10).await;
    assert_eq!(after, Ok(vec![a1.clone(), a2]));
    assert_eq!(store.attempts_after(&first.lane, LEDGER_NONCE, 2).await, Ok(vec![a0, a1]));
    assert_eq!(store.attempts_after(&LaneId::new("none"), Nonce(0), 2).await, Ok(vec![]));
    assert_eq!(store.attempt(AttemptId(b0.id.0 + 100)).await, Ok(None));
}

/// They explain nothing, however many there are between an attempt and the one that passed it.
async fn sunk_attempts_do_not_crowd_out_later_ones(world: World) {
    let held = world.started("lane").await;
    let first = world.open(&held, 0, &world.accept_ready(&["first"]).await).await;
    let mut expected = Vec::new();
    for offset in 1..12 {
        let fence = world.open(&held, offset, &[]).await;
        match offset {
            // Left open.
            7 | 11 => expected.push(fence),
            9 => {
                world.settle(world.settlement(&held, &fence, Event::Landed).await).await;
                expected.extend(world.store.attempt(fence.id).await.expect("read"));
            }
            _ => _ = world.settle(world.settlement(&held, &fence, Event::Sunk).await).await,
        }
    }
    for limit in 0..=4 {
        let after = world.store.attempts_after(&held.lane, first.nonce, limit).await;
        assert_eq!(after, Ok(expected[..limit.min(3)].to_vec()), "at most {limit}");
    }
    let sunk = Nonce(first.nonce.0 + 1);
    let stored = world.store.attempt_at(&held.lane, sunk).await.expect("read");
    assert!(stored.is_some_and(|stored| stored.fate.is_some()), "it is still there");
}

async fn decided_attempts_are_paged_by_id(world: World) {
    let held = world.started("lane").await;
    let mut decided = Vec::new();
    for offset in 0..4 {
        let key = format!("k{offset}");
        let attempt = world.open(&held, offset, &world.accept_ready(&[&key]).await).await;
        if offset != 1 {
            world.settle(world.settlement(&held, &attempt, Event::Landed).await).await;
            decided.push(world.store.attempt(attempt.id).await.expect("read").expect("stored"));
        }
    }
    let first = world.store.attempts_page(RAIL, AttemptId(0), 2).await.expect("page");
    assert_eq!(first, decided[..2]);
    let rest = world.store.attempts_page(RAIL, first[1].id, 2).await.expect("page");
    assert_eq!(rest, decided[2..]);
}
