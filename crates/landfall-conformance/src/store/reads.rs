//! Sweeps, lists, counts and identity.

use landfall_core::store::{Accepted, Applied, ListFilter, Opened};
use landfall_core::{Event, Move, NewTransfer, RailName, State, Transfer, TransferId, near};

use crate::check::checks;
use crate::world::{HORIZON_MS, RAIL, TENANT, World, state};

/// How far a sweep pushes; short enough to be waited for on a clock that cannot be moved.
const PUSH_MS: u64 = 300;

checks!(World:
    the_identity_stays_the_same,
    a_sweep_takes_what_is_due_oldest_first,
    a_sweep_takes_no_more_than_its_limit,
    a_sweep_pushes_what_it_took,
    a_sweep_does_not_change_the_version,
    a_sweep_takes_only_its_stage,
    a_due_time_beyond_the_horizon_counts_as_due,
    a_carried_transfer_is_not_swept,
    transfers_are_read_in_the_order_asked,
    an_unknown_transfer_has_no_trail,
    lists_are_newest_first_and_go_on_below_a_cursor,
    lists_filter_by_each_field,
    lists_filter_by_the_time_of_creation,
    lists_show_what_has_been_adrift,
    counts_follow_every_move,
);

async fn the_identity_stays_the_same(world: World) {
    let first = world.store.identity().await.expect("identity");
    world.accept(world.fresh("k")).await;
    let second = world.store.identity().await.expect("identity");
    assert_eq!((&second.id, &second.incarnation), (&first.id, &first.incarnation));
    assert!(!first.id.is_empty());
}

async fn due_at(world: &World, key: &str, due_ms: Option<u64>) -> Transfer {
    world.accept(NewTransfer { due_ms, ..world.fresh(key) }).await
}

async fn sweep(world: &World, limit: usize) -> Vec<TransferId> {
    let stage = near::REGISTRATION;
    world.store.sweep(stage, limit, PUSH_MS, HORIZON_MS).await.expect("sweep")
}

async fn a_sweep_takes_what_is_due_oldest_first(world: World) {
    let now_ms = world.now_ms();
    let newest = due_at(&world, "newest", Some(now_ms)).await;
    let oldest = due_at(&world, "oldest", Some(now_ms - 2000)).await;
    let middle = due_at(&world, "middle", Some(now_ms - 1000)).await;
    due_at(&world, "later", Some(now_ms + HORIZON_MS / 2)).await;
    due_at(&world, "never", None).await;
    assert_eq!(sweep(&world, 10).await, [oldest.id, middle.id, newest.id]);
}

async fn a_sweep_takes_no_more_than_its_limit(world: World) {
    let now_ms = world.now_ms();
    let mut ids = Vec::new();
    for age in (1..=5).rev() {
        ids.push(due_at(&world, &format!("k{age}"), Some(now_ms - age * 1000)).await.id);
    }
    assert_eq!(sweep(&world, 2).await, ids[..2]);
    assert_eq!(sweep(&world, 2).await, ids[2..4]);
    assert_eq!(sweep(&world, 2).await, ids[4..]);
    assert_eq!(sweep(&world, 0).await, []);
}

async fn a_sweep_pushes_what_it_took(world: World) {
    let transfer = due_at(&world, "k", Some(world.now_ms())).await;
    assert_eq!(sweep(&world, 10).await, [transfer.id]);
    assert!(world.get(transfer.id).await.due_ms > transfer.due_ms);
    assert_eq!(sweep(&world, 10).await, []);
    world.time.advance(PUSH_MS).await;
    assert_eq!(sweep(&world, 10).await, [transfer.id]);
}

async fn a_sweep_does_not_change_the_version(world: World) {
    let transfer = due_at(&world, "k", Some(world.now_ms())).await;
    sweep(&world, 10).await;
    let step = Move::of(&transfer, world.now_ms()).fire(Event::Prepared).expect("legal");
    assert_eq!(world.apply(step).await, Applied::Applied);
}

async fn a_sweep_takes_only_its_stage(world: World) {
    let fresh = world.accept(world.fresh("fresh")).await;
    let ready = world.accept(world.ready("ready")).await;
    let at = async |stage| world.store.sweep(stage, 10, PUSH_MS, HORIZON_MS).await;
    assert_eq!(at(near::TRANSFER).await, Ok(vec![ready.id]));
    assert_eq!(at(near::VERIFICATION).await, Ok(vec![]));
    assert_eq!(at(near::REGISTRATION).await, Ok(vec![fresh.id]));
}

async fn a_due_time_beyond_the_horizon_counts_as_due(world: World) {
    let now_ms = world.now_ms();
    let within = due_at(&world, "within", Some(now_ms + HORIZON_MS - 60_000)).await;
    let beyond = due_at(&world, "beyond", Some(now_ms + HORIZON_MS + 60_000)).await;
    assert_eq!(sweep(&world, 10).await, [beyond.id]);
    assert_eq!(world.get(within.id).await.due_ms, within.due_ms);
    assert!(world.get(beyond.id).await.due_ms < within.due_ms);
}

async fn a_carried_transfer_is_not_swept(world: World) {
    let held = world.started("lane").await;
    let members = world.accept_ready(&["k"]).await;
    world.open(&held, 0, &members).await;
    world.time.advance(PUSH_MS).await;
    for stage in landfall_core::Stage::ALL {
        let swept = world.store.sweep(stage, 10, PUSH_MS, HORIZON_MS).await;
        assert_eq!(swept, Ok(vec![]), "{stage}");
    }
}

async fn transfers_are_read_in_the_order_asked(world: World) {
    let one = world.accept(world.fresh("one")).await;
    let two = world.accept(world.fresh("two")).await;
    let unknown = TransferId(two.id.0 + 100);
    let read = world.store.transfers(&[two.id, unknown, one.id]).await;
    assert_eq!(read, Ok(vec![two, one]));
    assert_eq!(world.store.transfers(&[]).await, Ok(vec![]));
}

async fn an_unknown_transfer_has_no_trail(world: World) {
    assert_eq!(world.store.trail(TransferId(7)).await, Ok(vec![]));
    assert_eq!(world.store.by_key(RAIL, TENANT, "none").await, Ok(None));
}

async fn list(world: &World, filter: ListFilter) -> Vec<String> {
    let page = world.store.list(filter).await.expect("list");
    page.into_iter().map(|transfer| transfer.key).collect()
}

fn all() -> ListFilter {
    ListFilter { limit: 100, ..ListFilter::default() }
}

async fn lists_are_newest_first_and_go_on_below_a_cursor(world: World) {
    for number in 0..5 {
        world.accept(world.fresh(&format!("k{number}"))).await;
    }
    let first = world.store.list(ListFilter { limit: 2, ..all() }).await.expect("list");
    assert_eq!(first.iter().map(|t| t.key.as_str()).collect::<Vec<_>>(), ["k4", "k3"]);
    let before = Some(first[1].id);
    assert_eq!(list(&world, ListFilter { before, limit: 2, ..all() }).await, ["k2", "k1"]);
    assert_eq!(list(&world, ListFilter { before, ..all() }).await, ["k2", "k1", "k0"]);
    assert_eq!(list(&world, ListFilter { limit: 0, ..all() }).await, [""; 0]);
    assert_eq!(world.get(first[0].id).await, first[0]);
}

async fn lists_filter_by_each_field(world: World) {
    world.accept(world.fresh("fresh")).await;
    world.accept(world.fresh_to("bob", "bob.near")).await;
    let other = NewTransfer { tenant: "other".into(), ..world.ready("other") };
    world.accept(other).await;
    let failed = world.accept(world.fresh_to("failed", "bob.near")).await;
    let step = Move::of(&failed, world.now_ms()).fire(Event::Refused).expect("legal");
    world.apply(step).await;

    let rail = ListFilter { rail: Some(RailName::Near), ..all() };
    assert_eq!(list(&world, rail).await, ["failed", "other", "bob", "fresh"]);
    let tenant = ListFilter { tenant: Some("other".into()), ..all() };
    assert_eq!(list(&world, tenant).await, ["other"]);
    let to_bob = ListFilter { receiver: Some("bob.near".into()), ..all() };
    assert_eq!(list(&world, to_bob.clone()).await, ["failed", "bob"]);
    let in_state = |wanted| ListFilter { state: Some(state(wanted)), ..all() };
    assert_eq!(list(&world, in_state(near::State::Failed)).await, ["failed"]);
    assert_eq!(list(&world, in_state(near::State::QueuedTransfer)).await, ["other"]);
    assert_eq!(list(&world, in_state(near::State::Completed)).await, [""; 0]);
    let both = ListFilter { state: Some(state(near::State::QueuedRegistration)), ..to_bob };
    assert_eq!(list(&world, both).await, ["bob"]);
}

async fn lists_filter_by_the_time_of_creation(world: World) {
    let now_ms = world.now_ms();
    for (key, created_ms) in [("old", now_ms - 10), ("mid", now_ms), ("new", now_ms + 10)] {
        world.accept(NewTransfer { created_ms, ..world.fresh(key) }).await;
    }
    let from = ListFilter { created_from_ms: Some(now_ms), ..all() };
    assert_eq!(list(&world, from.clone()).await, ["new", "mid"]);
    let until = ListFilter { created_until_ms: Some(now_ms), ..all() };
    assert_eq!(list(&world, until).await, ["old"]);
    let between = ListFilter { created_until_ms: Some(now_ms + 10), ..from };
    assert_eq!(list(&world, between).await, ["mid"]);
}

async fn lists_show_what_has_been_adrift(world: World) {
    let held = world.started("lane").await;
    let attempt = world.open(&held, 0, &world.accept_ready(&["a", "b"]).await).await;
    let done = world.open(&held, 1, &world.accept_ready(&["done"]).await).await;
    world.settle(world.settlement(&held, &done, Event::Landed).await).await;
    world.accept(world.fresh("fresh")).await;
    let adrift = |before_ms| ListFilter { adrift_before_ms: Some(before_ms), ..all() };
    assert_eq!(list(&world, adrift(attempt.opened_ms)).await, [""; 0]);
    assert_eq!(list(&world, adrift(attempt.opened_ms + 1)).await, ["b", "a"]);
}

async fn counts_follow_every_move(world: World) {
    let held = world.started("lane").await;
    assert_eq!(world.store.counts().await, Ok(vec![]));
    let batch = vec![world.fresh("a"), world.fresh("b"), world.fresh("a"), world.ready("c")];
    let answers = world.store.accept(batch).await.expect("accept");
    let Accepted::Created(first) = &answers[0] else { panic!("{answers:?}") };
    let queued = state(near::State::QueuedRegistration);
    let ready = state(near::State::QueuedTransfer);
    assert_eq!(counts(&world).await, [(queued, 2), (ready, 1)]);

    let failing = Move::of(first, world.now_ms()).fire(Event::Refused).expect("legal");
    world.store.apply(vec![failing.clone(), failing]).await.expect("apply");
    let Accepted::Created(third) = &answers[3] else { panic!("{answers:?}") };
    let attempt = world.open(&held, 0, std::slice::from_ref(third)).await;
    let failed = state(near::State::Failed);
    let sent = state(near::State::QueuedVerification);
    assert_eq!(counts(&world).await, [(queued, 1), (sent, 1), (failed, 1)]);

    // Refused because of its second member: the first must not be counted as moved.
    let fourth = world.accept_ready(&["d"]).await.remove(0);
    let stale = world.opening(&held, 1, &[fourth, third.clone()]);
    let refused = world.store.open_attempt(stale).await.expect("open");
    assert_eq!(refused, Opened::StaleMembers(vec![third.id]));
    assert_eq!(counts(&world).await, [(queued, 1), (ready, 1), (sent, 1), (failed, 1)]);
    world.settle(world.settlement(&held, &attempt, Event::Landed).await).await;
    let completed = state(near::State::Completed);
    assert_eq!(counts(&world).await, [(queued, 1), (ready, 1), (completed, 1), (failed, 1)]);
}

/// States that have transfers, in the order of a life.
async fn counts(world: &World) -> Vec<(State, u64)> {
    let mut counts = world.store.counts().await.expect("counts");
    counts.retain(|(_, transfers)| *transfers > 0);
    counts.sort_by_key(|(state, _)| State::all(RAIL).iter().position(|known| known == state));
    counts
}
