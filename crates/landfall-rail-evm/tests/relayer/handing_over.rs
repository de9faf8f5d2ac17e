//! One handover is one POST, whatever the relayer does about it.

use landfall_rail_evm::relayer::{Found, Handover, Routes, Status, Taken, Told, adopt};

use crate::world::{World, handover, now_ms, until};

fn taken(taken: Taken) -> Told {
    match taken {
        Taken::Yes(told) => *told,
        other => panic!("not taken: {other:?}"),
    }
}

/// Hands over, and searches if it must; gives the id.
async fn pursue(world: &World, handover: &Handover) -> Option<String> {
    let opened_ms = now_ms();
    match world.first().submit(handover).await {
        Taken::Yes(told) => return Some(told.id),
        Taken::No { reason, .. } => panic!("refused: {reason}"),
        Taken::Unsure(_) => {}
    }
    search(world, handover, opened_ms).await
}

async fn search(world: &World, handover: &Handover, opened_ms: u64) -> Option<String> {
    let listing = until(async || {
        let listed = world.first().list(adopt::since_ms(opened_ms)).await;
        listed.ok().filter(|listing| listing.whole)
    });
    match adopt::ours(handover, opened_ms, listing.await) {
        Found::Ours(told) => Some(told.id),
        Found::Not(_) => None,
    }
}

#[tokio::test]
async fn what_is_handed_over_is_known_by_its_id_until_it_is_in_a_block() {
    let world = World::new(1).await;
    let told = taken(world.first().submit(&handover(1)).await);
    assert_eq!((told.status, told.gas_limit), (Status::Open, Some(handover(1).gas)));
    let landed = until(async || {
        let told = world.first().transaction(&told.id).await.unwrap()?;
        (told.status == Status::InBlock).then_some(told)
    });
    let landed = landed.await;
    assert!(landed.hash.is_some() && landed.nonce == Some(0));
    assert_eq!(landed.from, Some(world.sim.addresses()[0]));
    assert_eq!(world.first().transaction("nobody").await, Ok(None));
}

#[tokio::test]
async fn an_answer_that_never_comes_is_unsure_and_the_search_adopts_what_was_taken() {
    let world = World::new(1).await;
    world.sim.set_faults(|faults| faults.own.hang = 1.0);
    let id = pursue(&world, &handover(1)).await.expect("adopted");
    assert!(world.first().transaction(&id).await.unwrap().is_some());
    assert_eq!((world.sim.posts(), world.sim.taken()), (1, 1));
}

#[tokio::test]
async fn the_same_call_many_times_is_told_apart_by_its_mark() {
    let world = World::new(1).await;
    world.sim.set_faults(|faults| faults.lose_answer = 0.5);
    let mut ids = std::collections::HashSet::new();
    for number in 1..=40 {
        ids.insert(pursue(&world, &handover(number)).await.expect("adopted"));
    }
    assert_eq!(ids.len(), 40);
    assert_eq!((world.sim.posts(), world.sim.taken()), (40, 40));
}

#[tokio::test]
async fn what_never_arrived_is_not_adopted_and_not_posted_again() {
    let world = World::new(1).await;
    taken(world.first().submit(&handover(1)).await);
    world.sim.set_faults(|faults| faults.lose_request = 1.0);
    let opened_ms = now_ms();
    assert!(matches!(world.first().submit(&handover(2)).await, Taken::Unsure(_)));
    world.sim.set_faults(|faults| faults.lose_request = 0.0);
    assert_eq!(search(&world, &handover(2), opened_ms).await, None);
    assert_eq!((world.sim.posts(), world.sim.taken()), (2, 1));
}

#[tokio::test]
async fn what_was_taken_twice_is_not_adopted() {
    let world = World::new(1).await;
    world.sim.set_faults(|faults| {
        faults.own.duplicate = 1.0;
        faults.own.hang = 1.0;
    });
    assert_eq!(pursue(&world, &handover(1)).await, None);
    assert_eq!((world.sim.posts(), world.sim.taken()), (1, 2));
}

#[tokio::test]
async fn an_error_of_the_relayer_s_own_is_unsure_whether_it_took_or_not() {
    let world = World::new(1).await;
    world.sim.set_faults(|faults| faults.server_error = 1.0);
    for number in 1..=8 {
        assert!(matches!(world.first().submit(&handover(number)).await, Taken::Unsure(_)));
    }
    let taken = world.sim.taken();
    assert!((1..8).contains(&taken), "of such errors some come before it took, {taken} after");
    world.sim.set_faults(|faults| {
        faults.server_error = 0.0;
        faults.garbage = 1.0;
    });
    assert!(matches!(world.first().submit(&handover(9)).await, Taken::Unsure(_)));
}

#[tokio::test]
async fn a_refusal_at_the_door_is_certain() {
    let world = World::new(1).await;
    let low = Handover { gas: 1, ..handover(1) };
    let refused = world.first().submit(&low).await;
    assert!(matches!(refused, Taken::No { relays_fault: false, .. }), "{refused:?}");
    world.sim.set_faults(|faults| faults.own.paused = true);
    let refused = world.first().submit(&handover(1)).await;
    assert!(matches!(refused, Taken::No { relays_fault: true, .. }), "{refused:?}");
    world.sim.set_faults(|faults| faults.rate_limited = 1.0);
    let refused = world.first().submit(&handover(1)).await;
    assert!(matches!(refused, Taken::No { relays_fault: true, .. }), "{refused:?}");
    assert_eq!((world.sim.posts(), world.sim.taken()), (3, 0));
}

#[tokio::test]
async fn nobody_there_means_that_nothing_was_sent() {
    let world = World::new(1).await;
    world.sim.shutdown().await;
    let relayer = world.relayers.get("relayer-1").unwrap();
    let refused = relayer.submit(&handover(1)).await;
    assert!(matches!(refused, Taken::No { relays_fault: true, .. }), "{refused:?}");
    assert!(!relayer.health().up);
}

#[tokio::test]
async fn the_search_reads_all_pages_that_may_hold_ours() {
    let world = World::new(1).await;
    let opened_ms = now_ms();
    for number in 1..=230 {
        taken(world.first().submit(&handover(number)).await);
    }
    let listing = world.first().list(opened_ms).await.unwrap();
    assert!(listing.whole);
    assert_eq!(listing.told.len(), 230);
    assert!(search(&world, &handover(1), opened_ms).await.is_some(), "it is on the last page");
    assert_eq!(search(&world, &handover(231), opened_ms).await, None);
    // Everything is older than what is searched for: the first page tells.
    let listing = world.first().list(now_ms() + 1_000).await.unwrap();
    assert_eq!((listing.told.len(), listing.whole), (100, true));
}

#[tokio::test]
async fn a_relayer_that_lists_nothing_gives_nothing_to_adopt() {
    let world = World::with(1, |_| Routes::bare()).await;
    let told = taken(world.first().submit(&handover(1)).await);
    let again = world.first().transaction(&told.id).await.unwrap().expect("it is known");
    assert_eq!(again.id, told.id);
    world.sim.set_faults(|faults| faults.own.hang = 1.0);
    let opened_ms = now_ms();
    assert!(matches!(world.first().submit(&handover(2)).await, Taken::Unsure(_)));
    let listing = world.first().list(adopt::since_ms(opened_ms)).await.unwrap();
    assert!(matches!(adopt::ours(&handover(2), opened_ms, listing), Found::Not(_)));
    assert_eq!(world.sim.posts(), 2);
}

#[tokio::test]
async fn calls_go_to_the_named_relayer_while_it_is_well_and_to_another_while_it_is_not() {
    let world = World::new(2).await;
    let chosen = |named: &str| world.relayers.choose(named).map(|relayer| relayer.name());
    assert_eq!((chosen("relayer-1"), chosen("relayer-2")), (Some("relayer-1"), Some("relayer-2")));
    world.sim.set_faults_of(0, |faults| faults.down = true);
    world.relayers.check().await;
    assert_eq!((chosen("relayer-1"), chosen("relayer-2")), (Some("relayer-2"), Some("relayer-2")));
    world.sim.set_faults(|faults| faults.down = false);
    world.relayers.check().await;
    assert_eq!(chosen("relayer-1"), Some("relayer-1"));
}

#[tokio::test]
async fn nothing_is_handed_to_relayers_that_fail_and_fail() {
    let world = World::new(2).await;
    world.sim.set_faults(|faults| faults.down = true);
    world.relayers.check().await;
    assert!(world.relayers.choose("relayer-1").is_some(), "one failure is no outage");
    for _ in 0..10 {
        world.relayers.check().await;
    }
    assert!(world.relayers.choose("relayer-1").is_none());
    let posts = world.sim.posts();
    let refused = world.first().submit(&handover(1)).await;
    assert!(matches!(refused, Taken::No { relays_fault: true, .. } | Taken::Unsure(_)));
    assert!(world.sim.posts() <= posts + 1, "a probe at most");
}
