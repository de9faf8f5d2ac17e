//! Several instances on one database: what SQLite's one writer gives for free, by locks.

use std::collections::HashSet;
use std::sync::Arc;

use landfall_conformance::{ManualClock, World};
use landfall_core::store::{Accepted, Applied, Opened};
use landfall_core::{ClaimEnd, ClaimKey, Claimed, Event, Move, TransferId};
use landfall_store_mysql::{MysqlOptions, MysqlStore};
use tokio::task::JoinSet;

use crate::server::{new_database, shared};

/// Instances at once.
const INSTANCES: usize = 3;
/// Callers of each.
const CALLERS: usize = 16;

async fn instances() -> Vec<World> {
    let url = new_database(shared()).await;
    let clock = Arc::new(ManualClock::new());
    let mut worlds = Vec::new();
    for _ in 0..INSTANCES {
        let options = MysqlOptions { clock: Some(clock.clone()), ..MysqlOptions::default() };
        let store = MysqlStore::open(&url, options).await.expect("a store");
        worlds.push(World { store: Arc::new(store), time: clock.clone() });
    }
    worlds
}

/// Runs `work` for every caller of every instance at once.
async fn at_once<T, F>(worlds: &[World], work: impl Fn(World, usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        for (number, world) in worlds.iter().enumerate() {
            callers.spawn(work(world.clone(), caller * INSTANCES + number));
        }
    }
    callers.join_all().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_key_is_taken_once_whichever_instance_it_is_sent_to() {
    let worlds = instances().await;
    let answers = at_once(&worlds, |world, caller| async move {
        let mut batch: Vec<_> = (0..10).map(|key| world.fresh(&format!("k{key}"))).collect();
        // Batches that meet in other orders are where deadlocks are.
        batch.rotate_left(caller % 10);
        world.store.accept(batch).await.expect("accept")
    })
    .await;
    let (mut created, mut ids) = (0, HashSet::new());
    for answer in answers.iter().flatten() {
        let (Accepted::Created(transfer) | Accepted::Already(transfer)) = answer else {
            panic!("{answer:?}")
        };
        created += usize::from(matches!(answer, Accepted::Created(_)));
        ids.insert(transfer.id);
    }
    assert_eq!((created, ids.len()), (10, 10));
}

/// The engine takes an id at or below one it was given before it asked for a store that went back.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_id_is_above_every_id_answered_before_it_was_asked_for() {
    use std::sync::atomic::{AtomicU64, Ordering};
    let worlds = instances().await;
    let newest = Arc::new(AtomicU64::new(0));
    let checked = at_once(&worlds, |world, caller| {
        let newest = newest.clone();
        async move {
            for round in 0..20 {
                let seen = newest.load(Ordering::SeqCst);
                let transfer = world.accept(world.fresh(&format!("{caller}-{round}"))).await;
                assert!(transfer.id.0 > seen, "{} was given after {seen}", transfer.id);
                newest.fetch_max(transfer.id.0, Ordering::SeqCst);
            }
        }
    });
    assert_eq!(checked.await.len(), INSTANCES * CALLERS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_moves_by_several_instances_one_is_applied_and_the_counts_agree() {
    let worlds = instances().await;
    let transfers = worlds[0].accept_ready(&["a", "b", "c", "d"]).await;
    let answers = at_once(&worlds, |world, caller| {
        let mut moves: Vec<Move> = transfers
            .iter()
            .map(|transfer| Move::of(transfer, 1).fire(Event::Refused).expect("legal"))
            .collect();
        moves.rotate_left(caller % 4);
        async move { world.store.apply(moves).await.expect("apply").moves }
    })
    .await;
    let applied = answers.iter().flatten().filter(|answer| **answer == Applied::Applied);
    assert_eq!(applied.count(), transfers.len());
    let counts = worlds[1].store.counts().await.expect("counts");
    assert_eq!(counts.iter().map(|(_, transfers)| transfers).sum::<u64>(), 4);
    assert!(counts.iter().all(|(state, _)| state.is_failed()), "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lane_taken_over_opens_nothing_for_the_instance_that_lost_it() {
    let worlds = instances().await;
    let lost = worlds[0].started("lane").await;
    let members = worlds[0].accept_ready(&["a"]).await;
    let opening = worlds[0].opening(&lost, 0, &members);
    let held = worlds[1].lease(&lost.lane, "one").await;
    let refused = worlds[0].store.open_attempt(opening).await;
    assert!(matches!(refused, Ok(Opened::Fenced(_))), "{refused:?}");
    worlds[1].open(&held, 0, &members).await;
}

/// Claims are asked for and ended by all at once: whoever was told to wait is woken.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_waiter_of_a_claim_is_forgotten_between_instances() {
    let worlds = instances().await;
    let done = at_once(&worlds, |world, caller| async move {
        let id = world.accept(world.fresh(&caller.to_string())).await.id;
        let key = ClaimKey { space: "s".into(), key: "k".into() };
        let claimed = world.store.claim(vec![(key.clone(), id)]).await.expect("claim").remove(0);
        if claimed != Claimed::Yours {
            return (id, claimed, Vec::new());
        }
        let step = Move::of(&world.get(id).await, world.now_ms()).ending(ClaimEnd::Release(key));
        let batch = world.store.apply(vec![step]).await.expect("apply");
        assert_eq!(batch.moves, [Applied::Applied]);
        (id, claimed, batch.released)
    })
    .await;
    let released: HashSet<TransferId> =
        done.iter().flat_map(|(_, _, released)| released.iter().copied()).collect();
    for (id, claimed, _) in &done {
        let waits = matches!(claimed, Claimed::Held { .. });
        assert_eq!(waits, released.contains(id), "{id}: {claimed:?}");
    }
}
