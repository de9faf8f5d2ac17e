//! Accepting: one key, one transfer, for ever.

use landfall_core::Event;
use landfall_core::store::Accepted;

use crate::check::checks;
use crate::world::{RAIL, TENANT, World};

checks!(World:
    an_accepted_transfer_reads_back_as_it_was_given,
    the_same_key_again_gives_the_stored_transfer,
    the_same_key_with_other_parameters_conflicts_and_changes_nothing,
    the_same_key_twice_in_one_batch_is_decided_in_order,
    a_key_is_scoped_to_its_tenant,
    keys_that_run_together_are_still_two,
    a_key_still_answers_when_its_transfer_is_final,
    an_empty_batch_is_answered_empty,
    a_large_batch_is_answered_in_order,
);

async fn an_accepted_transfer_reads_back_as_it_was_given(world: World) {
    let new = world.fresh("k");
    let transfer = world.accept(new.clone()).await;
    assert_eq!(transfer.tenant, new.tenant);
    assert_eq!(transfer.key, new.key);
    assert_eq!(transfer.fingerprint, new.fingerprint);
    assert_eq!(transfer.payload, new.payload);
    assert_eq!(transfer.state, new.state);
    assert_eq!(transfer.due_ms, new.due_ms);
    assert_eq!((transfer.created_ms, transfer.updated_ms), (new.created_ms, new.created_ms));
    assert_eq!(
        (transfer.attempt, transfer.completed_ms, transfer.error.clone()),
        (None, None, None)
    );
    assert_eq!(world.get(transfer.id).await, transfer);
    assert_eq!(world.store.by_key(RAIL, TENANT, "k").await, Ok(Some(transfer.clone())));
    assert_eq!(world.store.trail(transfer.id).await, Ok(new.trail));
}

async fn the_same_key_again_gives_the_stored_transfer(world: World) {
    let first = world.accept(world.fresh("k")).await;
    let again = world.store.accept(vec![world.fresh("k")]).await;
    assert_eq!(again, Ok(vec![Accepted::Already(first.clone())]));
    assert_eq!(world.trail(first.id).await, ["RECEIVED", "QUEUED_REGISTRATION"]);
}

async fn the_same_key_with_other_parameters_conflicts_and_changes_nothing(world: World) {
    let first = world.accept(world.fresh("k")).await;
    let other = world.store.accept(vec![world.fresh_to("k", "bob.near")]).await;
    assert_eq!(other, Ok(vec![Accepted::Conflict(first.clone())]));
    assert_eq!(world.get(first.id).await, first);
    assert_eq!(world.store.list(listing()).await.expect("list").len(), 1);
}

async fn the_same_key_twice_in_one_batch_is_decided_in_order(world: World) {
    let batch = vec![
        world.fresh("k"),
        world.fresh("k"),
        world.fresh_to("k", "bob.near"),
        world.fresh("other"),
    ];
    let answers = world.store.accept(batch).await.expect("accept");
    let [Accepted::Created(first), second, third, Accepted::Created(fourth)] = &answers[..] else {
        panic!("{answers:?}");
    };
    assert_eq!(second, &Accepted::Already(first.clone()));
    assert_eq!(third, &Accepted::Conflict(first.clone()));
    assert_ne!(first.id, fourth.id);
}

async fn a_key_is_scoped_to_its_tenant(world: World) {
    let ours = world.accept(world.fresh("k")).await;
    let mut theirs = world.fresh_to("k", "bob.near");
    theirs.tenant = String::new();
    let theirs = world.accept(theirs).await;
    assert_ne!(ours.id, theirs.id);
    assert_eq!(world.store.by_key(RAIL, "", "k").await, Ok(Some(theirs)));
    assert_eq!(world.store.by_key(RAIL, "nobody", "k").await, Ok(None));
}

async fn keys_that_run_together_are_still_two(world: World) {
    let scoped = |tenant: &str, key: &str| {
        let mut new = world.fresh(key);
        new.tenant = tenant.into();
        new
    };
    let one = world.accept(scoped("ab", "c")).await;
    let two = world.accept(scoped("a", "bc")).await;
    let three = world.accept(scoped("a", "BC")).await;
    assert!(one.id != two.id && two.id != three.id && one.id != three.id);
}

async fn a_key_still_answers_when_its_transfer_is_final(world: World) {
    let held = world.started("lane").await;
    let members = world.accept_ready(&["k"]).await;
    let attempt = world.open(&held, 0, &members).await;
    world.settle(world.settlement(&held, &attempt, Event::Landed).await).await;
    let again = world.store.accept(vec![world.ready("k")]).await.expect("accept");
    assert!(
        matches!(&again[..], [Accepted::Already(t)] if t.id == members[0].id && t.state.is_final()),
        "{again:?}"
    );
}

async fn an_empty_batch_is_answered_empty(world: World) {
    assert_eq!(world.store.accept(Vec::new()).await, Ok(Vec::new()));
}

async fn a_large_batch_is_answered_in_order(world: World) {
    let keys: Vec<String> = (0..1000).map(|number| format!("key-{number}")).collect();
    let batch = keys.iter().map(|key| world.fresh(key)).collect();
    let answers = world.store.accept(batch).await.expect("accept");
    let answered: Vec<&str> = answers
        .iter()
        .map(|answer| match answer {
            Accepted::Created(transfer) => transfer.key.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(answered, keys);
}

fn listing() -> landfall_core::store::ListFilter {
    landfall_core::store::ListFilter { limit: 10, ..Default::default() }
}
