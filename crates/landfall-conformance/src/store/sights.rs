//! What is seen of attempts, and what that shows of their members.

use landfall_core::attempt::Sighting;
use landfall_core::store::{Sight, StoreError};
use landfall_core::{Attempt, AttemptId, Event, LaneId, Move, State, Transfer, near};

use crate::check::checks;
use crate::world::{Held, World};

checks!(World:
    sightings_are_kept_oldest_first,
    a_sighting_by_an_old_epoch_is_refused,
    a_sighting_of_a_decided_or_unknown_attempt_is_refused,
    a_sighting_moves_members_forwards_and_back,
    a_stale_move_is_left_out_of_a_sighting,
    a_refused_sighting_moves_nobody,
    a_sighting_takes_nobody_out_of_an_attempt,
    a_member_that_a_sighting_moved_is_settled_as_it_is,
);

fn sighting(endpoint: &str, height: Option<u64>) -> Sighting {
    Sighting {
        endpoint: endpoint.into(),
        block_hash: "block".into(),
        block_height: height,
        was_final: height.is_some(),
        at_ms: 5,
    }
}

fn sight(held: &Held, attempt: &Attempt, moves: Vec<Move>) -> Sight {
    Sight {
        attempt: attempt.id,
        lane: held.lane.clone(),
        epoch: held.epoch,
        sightings: vec![sighting("n", Some(7)), sighting("m", None)],
        moves,
    }
}

async fn sightings_are_kept_oldest_first(world: World) {
    let held = world.started("lane").await;
    let attempt = world.open(&held, 0, &world.accept_ready(&["a"]).await).await;
    let seen = [sighting("z", None), sighting("a", Some(7)), sighting("z", None)];
    for one in &seen {
        assert!(world.sight(&held, attempt.id, one.clone()).await);
    }
    let mut stored = world.attempt(attempt.id).await;
    assert_eq!(stored.sightings, seen);
    assert_eq!(world.store.open_attempts(&held.lane).await, Ok(vec![stored.clone()]));
    assert_eq!(world.store.sight(sight(&held, &attempt, Vec::new())).await, Ok(true));
    stored.sightings.extend([sighting("n", Some(7)), sighting("m", None)]);
    assert_eq!(world.attempt(attempt.id).await, stored);
}

async fn a_sighting_by_an_old_epoch_is_refused(world: World) {
    let old = world.started("lane").await;
    let attempt = world.open(&old, 0, &world.accept_ready(&["a"]).await).await;
    world.lease(&old.lane, "one").await;
    assert!(!world.sight(&old, attempt.id, sighting("n", None)).await);
    assert_eq!(world.attempt(attempt.id).await, attempt);
}

async fn a_sighting_of_a_decided_or_unknown_attempt_is_refused(world: World) {
    let held = world.started("lane").await;
    let attempt = world.open(&held, 0, &world.accept_ready(&["a"]).await).await;
    world.settle(world.settlement(&held, &attempt, Event::Sunk).await).await;
    let unknown = AttemptId(attempt.id.0 + 1);
    for id in [attempt.id, unknown] {
        assert!(!world.sight(&held, id, sighting("n", None)).await);
    }
    assert_eq!(world.attempt(attempt.id).await.sightings, []);
}

/// An attempt of two members who have been submitted and not looked at.
async fn submitted(world: &World, held: &Held) -> (Attempt, Vec<Transfer>) {
    let ready = world.accept_ready(&["a", "b"]).await;
    let mut opening = world.opening(held, 0, &ready);
    for (step, member) in opening.moves.iter_mut().zip(&ready) {
        *step = Move::of(member, world.now_ms()).fire(Event::AttemptStored).expect("legal");
    }
    let opened = world.store.open_attempt(opening).await.expect("open");
    let landfall_core::store::Opened::Stored(attempt) = opened else { panic!("{opened:?}") };
    let members = world.store.transfers(&attempt.members).await.expect("read");
    (*attempt, members)
}

fn noticed(world: &World, member: &Transfer) -> Move {
    Move::of(member, world.now_ms()).fire(Event::Enqueued).expect("legal").due(None)
}

async fn a_sighting_moves_members_forwards_and_back(world: World) {
    let held = world.started("lane").await;
    let (attempt, members) = submitted(&world, &held).await;
    let steps: Vec<Move> = members.iter().map(|member| noticed(&world, member)).collect();
    assert_eq!(world.store.sight(sight(&held, &attempt, steps.clone())).await, Ok(true));
    for (member, step) in members.iter().zip(&steps) {
        assert_eq!(world.get(member.id).await, step.applied_to(member));
        assert_eq!(world.trail(member.id).await.last(), Some(&"QUEUED_VERIFICATION"));
    }
    let seen = world.attempt(attempt.id).await;
    assert_eq!((seen.sightings.len(), seen.members), (2, attempt.members.clone()));
    // No machine here has a way back; the store would not mind.
    let mined = world.get(members[0].id).await;
    let mut back = Move::of(&mined, world.now_ms());
    back.state = State::Near(near::State::Submitted);
    assert_eq!(world.store.sight(sight(&held, &attempt, vec![back])).await, Ok(true));
    let fallen = world.get(mined.id).await;
    assert_eq!((fallen.state, fallen.attempt), (members[0].state, Some(attempt.id)));
    assert_eq!(fallen.version, mined.version + 1);
}

async fn a_stale_move_is_left_out_of_a_sighting(world: World) {
    let held = world.started("lane").await;
    let (attempt, members) = submitted(&world, &held).await;
    let mut steps: Vec<Move> = members.iter().map(|member| noticed(&world, member)).collect();
    steps[0].from_version = Some(members[0].version + 1);
    assert_eq!(world.store.sight(sight(&held, &attempt, steps.clone())).await, Ok(true));
    assert_eq!(world.get(members[0].id).await, members[0]);
    assert_eq!(world.get(members[1].id).await, steps[1].applied_to(&members[1]));
    assert_eq!(world.attempt(attempt.id).await.sightings.len(), 2);
}

async fn a_refused_sighting_moves_nobody(world: World) {
    let held = world.started("lane").await;
    let (attempt, members) = submitted(&world, &held).await;
    let steps: Vec<Move> = members.iter().map(|member| noticed(&world, member)).collect();
    let (good, another) = (sight(&held, &attempt, steps), world.started("another").await);
    let elsewhere = Sight { lane: another.lane, epoch: another.epoch, ..good.clone() };
    let nowhere = Sight { lane: LaneId::new("none"), ..good.clone() };
    world.lease(&held.lane, "one").await;
    for refused in [good, elsewhere, nowhere] {
        assert_eq!(world.store.sight(refused).await, Ok(false));
    }
    assert_eq!(world.store.transfers(&attempt.members).await, Ok(members));
    assert_eq!(world.attempt(attempt.id).await, attempt);
}

async fn a_sighting_takes_nobody_out_of_an_attempt(world: World) {
    let held = world.started("lane").await;
    let (attempt, members) = submitted(&world, &held).await;
    let stranger = world.accept(world.ready("stranger")).await;
    let leaving = Move { attempt: None, ..noticed(&world, &members[0]) };
    let boarding = Move { attempt: Some(attempt.id), ..Move::of(&stranger, world.now_ms()) };
    for step in [leaving, boarding, Move::of(&stranger, world.now_ms())] {
        let seen = world.store.sight(sight(&held, &attempt, vec![step])).await;
        assert!(matches!(seen, Err(StoreError::Corrupt(_))), "{seen:?}");
    }
    assert_eq!(world.store.transfers(&attempt.members).await, Ok(members));
    assert_eq!(world.attempt(attempt.id).await, attempt);
}

async fn a_member_that_a_sighting_moved_is_settled_as_it_is(world: World) {
    let held = world.started("lane").await;
    let (attempt, members) = submitted(&world, &held).await;
    let before = world.settlement(&held, &attempt, Event::Landed).await;
    let step = noticed(&world, &members[1]);
    assert_eq!(world.store.sight(sight(&held, &attempt, vec![step])).await, Ok(true));
    // Made of what the members were: it would leave one behind.
    let early = world.store.settle(before).await;
    assert!(matches!(early, Err(StoreError::Corrupt(_))), "{early:?}");
    world.settle(world.settlement(&held, &attempt, Event::Landed).await).await;
    for member in &members {
        assert!(world.get(member.id).await.state.is_completed());
    }
}
