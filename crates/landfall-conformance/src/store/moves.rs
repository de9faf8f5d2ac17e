//! Moves: applied where everything is as expected, without effect anywhere else.

use landfall_core::store::{Applied, ListFilter, StoreError};
use landfall_core::{
    AttemptId, ClaimEnd, Claimed, Event, Fault, Move, Note, RailName, Transfer, TransferId,
    internal,
};

use crate::check::checks;
use crate::world::{HORIZON_MS, TENANT, World, claim_key};

checks!(World:
    a_move_replaces_every_value_and_grows_the_version,
    a_move_from_another_state_is_stale,
    a_move_from_another_version_is_stale,
    a_move_from_another_life_of_the_id_is_stale,
    a_move_from_another_attempt_is_stale,
    a_move_of_a_transfer_nobody_accepted_is_stale,
    a_stale_move_leaves_no_trail_and_ends_no_claim,
    a_stale_move_does_not_spoil_its_batch,
    a_batch_is_applied_in_order,
    a_note_on_a_carried_transfer_leaves_its_attempt,
    a_plain_move_cannot_take_a_transfer_from_its_attempt,
    the_trail_keeps_every_entry_in_order,
    a_fact_beside_the_state_is_kept_through_every_move,
    the_same_key_on_another_rail_is_another_transfer,
);

async fn a_fact_beside_the_state_is_kept_through_every_move(world: World) {
    let mut transfer = world.accept(world.order("k")).await;
    let fire = |transfer: &Transfer, events: &[Event]| {
        let step = Move::of(transfer, world.now_ms());
        events.iter().try_fold(step, |step, event| step.fire(*event)).expect("legal")
    };
    for events in [&[Event::SourceCall][..], &[Event::SourceOk, Event::TargetCall]] {
        let step = fire(&transfer, events);
        assert_eq!(world.apply(step).await, Applied::Applied);
        transfer = world.get(transfer.id).await;
        assert!(!transfer.confirmed);
    }
    let confirmed = Move::of(&transfer, world.now_ms()).confirm();
    let expected = confirmed.applied_to(&transfer);
    assert_eq!(world.apply(confirmed).await, Applied::Applied);
    transfer = world.get(transfer.id).await;
    assert_eq!(transfer, expected);
    assert!(transfer.confirmed);
    let swept = world.store.sweep(internal::STAGE, 10, 1_000, HORIZON_MS).await.expect("sweep");
    assert_eq!(swept, [transfer.id]);

    let step = fire(&world.get(transfer.id).await, &[Event::TargetOk]);
    assert_eq!(world.apply(step).await, Applied::Applied);
    let done = world.get(transfer.id).await;
    assert!(done.confirmed && done.state.is_completed());
    let names =
        ["init", "source_pending", "source_done", "target_pending", "CONFIRMED", "committed"];
    assert_eq!(world.trail(transfer.id).await, names);
}

async fn the_same_key_on_another_rail_is_another_transfer(world: World) {
    let payout = world.accept(world.fresh("k")).await;
    let order = world.accept(world.order("k")).await;
    assert_ne!(payout.id, order.id);
    let found = world.store.by_key(RailName::Internal, TENANT, "k").await.expect("read");
    assert_eq!(found, Some(order.clone()));
    let filter = ListFilter { rail: Some(RailName::Internal), limit: 10, ..ListFilter::default() };
    assert_eq!(world.store.list(filter).await.expect("list"), [order]);
}

fn prepared(transfer: &Transfer, now_ms: u64) -> Move {
    let step = Move::of(transfer, now_ms).fire(Event::Prepared).expect("legal");
    step.fire(Event::Enqueued).expect("legal")
}

async fn a_move_replaces_every_value_and_grows_the_version(world: World) {
    let before = world.accept(world.fresh("k")).await;
    let mut step = prepared(&before, world.now_ms() + 5).due(Some(world.now_ms() + 77));
    step.retry_count = 3;
    step.stage_retries = 2;
    step.aside = Some("no funds".into());
    step.tx_hash = Some("hash".into());
    step.error = Some(Fault {
        error_type: "Timeout".into(),
        message: "it \"took\" too long".into(),
        retry_count: 3,
        will_retry: true,
    });
    let expected = step.applied_to(&before);
    assert_eq!(world.apply(step).await, Applied::Applied);
    let after = world.get(before.id).await;
    assert_eq!(after, expected);
    assert_eq!(after.version, before.version + 1);

    let failed = Move::of(&after, world.now_ms()).fire(Event::GaveUp).expect("legal");
    let expected = failed.applied_to(&after);
    assert_eq!(world.apply(failed).await, Applied::Applied);
    assert_eq!(world.get(before.id).await, expected);
}

async fn a_move_from_another_state_is_stale(world: World) {
    let transfer = world.accept(world.fresh("k")).await;
    let mut step = prepared(&transfer, world.now_ms());
    step.from_state = step.state;
    check_stale(&world, &transfer, step).await;
}

async fn a_move_from_another_version_is_stale(world: World) {
    let transfer = world.accept(world.fresh("k")).await;
    for version in [transfer.version - 1, transfer.version + 1] {
        let mut step = prepared(&transfer, world.now_ms());
        step.from_version = Some(version);
        check_stale(&world, &transfer, step).await;
    }
}

/// A store that went back gives a forgotten transfer's id to another, which may have come as far.
async fn a_move_from_another_life_of_the_id_is_stale(world: World) {
    let transfer = world.accept(world.fresh("k")).await;
    let mut step = prepared(&transfer, world.now_ms());
    step.from_updated_ms = transfer.updated_ms - 1;
    check_stale(&world, &transfer, step).await;
    let mut second = prepared(&transfer, world.now_ms() + 5);
    assert_eq!(world.apply(second.clone()).await, Applied::Applied);
    let moved = world.get(transfer.id).await;
    second = Move::of(&moved, world.now_ms() + 9).note(Note::Retry);
    second.from_updated_ms = transfer.updated_ms;
    check_stale(&world, &moved, second.clone()).await;
    second.from_updated_ms = moved.updated_ms;
    assert_eq!(world.apply(second).await, Applied::Applied);
}

async fn a_move_from_another_attempt_is_stale(world: World) {
    let held = world.started("lane").await;
    let loose = world.accept(world.ready("loose")).await;
    let carried = world.accept_ready(&["carried"]).await.remove(0);
    let attempt = world.open(&held, 0, std::slice::from_ref(&carried)).await;

    let mut step = Move::of(&loose, world.now_ms()).note(Note::Retry);
    (step.from_attempt, step.attempt) = (Some(attempt.id), Some(attempt.id));
    check_stale(&world, &loose, step).await;

    let carried = world.get(carried.id).await;
    for other in [None, Some(AttemptId(attempt.id.0 + 1))] {
        let mut step = Move::of(&carried, world.now_ms()).note(Note::Retry);
        (step.from_attempt, step.attempt) = (other, other);
        check_stale(&world, &carried, step).await;
    }
}

async fn a_move_of_a_transfer_nobody_accepted_is_stale(world: World) {
    let transfer = world.accept(world.fresh("k")).await;
    let mut step = prepared(&transfer, world.now_ms());
    step.id = TransferId(transfer.id.0 + 1);
    assert_eq!(world.apply(step.clone()).await, Applied::Stale);
    assert_eq!(world.store.transfers(&[step.id]).await, Ok(Vec::new()));
    assert_eq!(world.store.trail(step.id).await, Ok(Vec::new()));
}

async fn check_stale(world: &World, transfer: &Transfer, step: Move) {
    let trail = world.trail(transfer.id).await;
    assert_eq!(world.apply(step).await, Applied::Stale);
    assert_eq!(world.get(transfer.id).await, *transfer);
    assert_eq!(world.trail(transfer.id).await, trail);
}

async fn a_stale_move_leaves_no_trail_and_ends_no_claim(world: World) {
    let owner = world.accept(world.fresh("owner")).await;
    let waiter = world.accept(world.fresh("waiter")).await;
    let key = claim_key("alice.near");
    let asked = vec![(key.clone(), owner.id), (key.clone(), waiter.id)];
    let answers = world.store.claim(asked).await;
    assert_eq!(answers, Ok(vec![Claimed::Yours, Claimed::Held { owner: owner.id }]));
    let mut step = prepared(&owner, world.now_ms()).ending(ClaimEnd::Keep(key.clone()));
    step.from_version = Some(owner.version + 1);
    let batch = world.store.apply(vec![step]).await.expect("apply");
    assert_eq!((batch.moves, batch.released), (vec![Applied::Stale], vec![]));
    assert_eq!(world.store.kept(std::slice::from_ref(&key)).await, Ok(vec![false]));
    let again = world.store.claim(vec![(key, waiter.id)]).await;
    assert_eq!(again, Ok(vec![Claimed::Held { owner: owner.id }]));
    assert_eq!(world.trail(owner.id).await, ["RECEIVED", "QUEUED_REGISTRATION"]);
}

async fn a_stale_move_does_not_spoil_its_batch(world: World) {
    let first = world.accept(world.fresh("a")).await;
    let second = world.accept(world.fresh("b")).await;
    let third = world.accept(world.fresh("c")).await;
    let now_ms = world.now_ms();
    let mut stale = prepared(&second, now_ms);
    stale.from_version = Some(second.version + 9);
    let moves = vec![prepared(&first, now_ms), stale, prepared(&third, now_ms)];
    let batch = world.store.apply(moves).await.expect("apply");
    assert_eq!(batch.moves, [Applied::Applied, Applied::Stale, Applied::Applied]);
    assert_eq!(world.get(second.id).await, second);
    assert_eq!(world.get(third.id).await.version, third.version + 1);
}

async fn a_batch_is_applied_in_order(world: World) {
    let transfer = world.accept(world.fresh("k")).await;
    let first = prepared(&transfer, world.now_ms());
    let after = first.applied_to(&transfer);
    let second = Move::of(&after, world.now_ms()).fire(Event::Refused).expect("legal");
    let batch = world.store.apply(vec![first.clone(), first, second]).await.expect("apply");
    assert_eq!(batch.moves, [Applied::Applied, Applied::Stale, Applied::Applied]);
    assert_eq!(world.get(transfer.id).await.version, transfer.version + 2);
}

async fn a_note_on_a_carried_transfer_leaves_its_attempt(world: World) {
    let held = world.started("lane").await;
    let members = world.accept_ready(&["k"]).await;
    let attempt = world.open(&held, 0, &members).await;
    let carried = world.get(members[0].id).await;
    let step = Move::of(&carried, world.now_ms()).note(Note::Adrift);
    assert_eq!(world.apply(step).await, Applied::Applied);
    let after = world.get(carried.id).await;
    assert_eq!((after.attempt, after.version), (Some(attempt.id), carried.version + 1));
}

async fn a_plain_move_cannot_take_a_transfer_from_its_attempt(world: World) {
    let held = world.started("lane").await;
    let members = world.accept_ready(&["k"]).await;
    world.open(&held, 0, &members).await;
    let carried = world.get(members[0].id).await;
    let step = Move { attempt: None, ..Move::of(&carried, world.now_ms()) };
    let refused = world.store.apply(vec![step]).await;
    assert!(matches!(refused, Err(StoreError::Corrupt(_))), "{refused:?}");
    assert_eq!(world.get(carried.id).await, carried);
}

async fn the_trail_keeps_every_entry_in_order(world: World) {
    let first = world.accept(world.fresh("k")).await;
    let step = prepared(&first, world.now_ms() + 1).with(|entry| {
        entry.tx_hash = Some("hash".into());
    });
    let mut kept = world.store.trail(first.id).await.expect("trail");
    kept.extend(step.trail.clone());
    assert_eq!(world.apply(step).await, Applied::Applied);
    let second = world.get(first.id).await;
    let silent = Move::of(&second, world.now_ms() + 2);
    assert_eq!(world.apply(silent).await, Applied::Applied);
    let third = world.get(first.id).await;
    let noted = Move::of(&third, world.now_ms() + 3).note(Note::Retry).note(Note::SetAside);
    kept.extend(noted.trail.clone());
    assert_eq!(world.apply(noted).await, Applied::Applied);
    assert_eq!(world.store.trail(first.id).await, Ok(kept));
}
