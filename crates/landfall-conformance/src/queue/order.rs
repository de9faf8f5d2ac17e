//! Handing out: in order, by stage, to whoever waits, each hint to one.

use std::collections::BTreeSet;
use std::sync::Arc;

use landfall_core::{TransferId, near};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::check::checks;
use crate::queue::{End, PATIENCE, ROOM_MIN, World, hints, ids};

checks!(World:
    hints_come_out_oldest_first,
    a_pull_takes_no_more_than_it_asked_for,
    a_pull_takes_only_its_stage,
    a_pull_waits_for_a_hint,
    every_waiting_pull_is_served,
    a_pull_given_up_loses_no_hint,
    depth_counts_what_waits,
    pushing_nothing_and_deleting_nothing_are_harmless,
    a_full_queue_drops_the_newest_and_says_how_many,
    of_many_pulls_each_hint_goes_to_one,
    two_ends_share_the_work,
);

async fn hints_come_out_oldest_first(world: World) {
    let end = End::of(&world).await;
    let mut pushed = end.push(near::TRANSFER, 2).await;
    pushed.extend(end.push(near::TRANSFER, 1).await);
    let pulled = ids(&end.pull_all(near::TRANSFER, &pushed).await);
    if world.abilities().ordered {
        assert_eq!(pulled, pushed);
    }
}

async fn a_pull_takes_no_more_than_it_asked_for(world: World) {
    let end = End::of(&world).await;
    let pushed = end.push(near::TRANSFER, 5).await;
    let mut pulled = Vec::new();
    while pulled.len() < pushed.len() {
        // Checked for each pull.
        pulled.extend(ids(&end.pull(near::TRANSFER, 2).await));
    }
    pulled.sort();
    assert_eq!(pulled, pushed);
}

async fn a_pull_takes_only_its_stage(world: World) {
    let end = End::of(&world).await;
    let transfer = end.push(near::TRANSFER, 1).await;
    let registration = end.push(near::REGISTRATION, 1).await;
    assert_eq!(ids(&end.pull_all(near::REGISTRATION, &registration).await), registration);
    assert_eq!(ids(&end.pull_all(near::TRANSFER, &transfer).await), transfer);
}

async fn a_pull_waits_for_a_hint(world: World) {
    let end = End::of(&world).await;
    let mut waiting = end.queue.pull(near::TRANSFER, 10);
    assert!(futures::poll!(&mut waiting).is_pending());
    end.push(near::REGISTRATION, 1).await;
    let pushed = end.push(near::TRANSFER, 1).await;
    let pulled = tokio::time::timeout(PATIENCE, waiting).await.expect("in time");
    assert_eq!(ids(&pulled.expect("pull")), pushed);
}

async fn every_waiting_pull_is_served(world: World) {
    let end = End::of(&world).await;
    let mut first = end.queue.pull(near::TRANSFER, 1);
    let mut second = end.queue.pull(near::TRANSFER, 1);
    assert!(futures::poll!(&mut first).is_pending());
    assert!(futures::poll!(&mut second).is_pending());
    let pushed = end.push(near::TRANSFER, 2).await;
    let both = async { futures::join!(first, second) };
    let (first, second) = tokio::time::timeout(PATIENCE, both).await.expect("in time");
    let mut served = ids(&first.expect("pull"));
    served.extend(ids(&second.expect("pull")));
    served.sort();
    assert_eq!(served, pushed);
}

async fn a_pull_given_up_loses_no_hint(world: World) {
    let end = End::of(&world).await;
    let mut given_up = end.queue.pull(near::TRANSFER, 1);
    assert!(futures::poll!(&mut given_up).is_pending());
    drop(given_up);
    let mut waiting = end.queue.pull(near::TRANSFER, 1);
    assert!(futures::poll!(&mut waiting).is_pending());
    let pushed = end.push(near::TRANSFER, 1).await;
    let pulled = tokio::time::timeout(PATIENCE, waiting).await.expect("in time");
    assert_eq!(ids(&pulled.expect("pull")), pushed);
}

async fn depth_counts_what_waits(world: World) {
    let end = End::of(&world).await;
    let pushed = end.push(near::TRANSFER, 3).await;
    assert_eq!(end.queue.depth(near::TRANSFER).await.expect("depth"), 3);
    let pulled = end.pull_all(near::TRANSFER, &pushed).await;
    end.finish(&pulled).await;
    assert_eq!(end.queue.depth(near::TRANSFER).await.expect("depth"), 0);
}

async fn pushing_nothing_and_deleting_nothing_are_harmless(world: World) {
    let end = End::of(&world).await;
    assert_eq!(end.queue.push(&[]).await.expect("push"), 0);
    end.queue.ack(&[]).await.expect("ack");
    assert_eq!(end.queue.pull(near::TRANSFER, 0).await.expect("pull"), []);
}

async fn a_full_queue_drops_the_newest_and_says_how_many(world: World) {
    let Some(room) = world.abilities().room else { return };
    let end = End::of(&world).await;
    let mut offered = world.transfers(near::TRANSFER, room + 5, 0).await;
    let dropped = end.queue.push(&hints(near::TRANSFER, &offered)).await.expect("push");
    assert_eq!(dropped, 5);
    // Another stage has room of its own.
    end.push(near::REGISTRATION, 1).await;
    offered.truncate(room);
    let pulled = end.pull_all(near::TRANSFER, &offered).await;
    end.finish(&pulled).await;
    end.push(near::TRANSFER, 5).await;
}

/// Pulls at all ends at once until all hints have come; returns what each end got.
async fn pull_at_once(ends: Vec<End>, wanted: usize) -> Vec<Vec<TransferId>> {
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let (done, _) = watch::channel(false);
    let pull = |end: End| {
        let (seen, done) = (seen.clone(), done.clone());
        tokio::spawn(async move {
            let (mut mine, mut ended) = (Vec::new(), done.subscribe());
            loop {
                let pulled = tokio::select! {
                    biased;
                    _ = ended.wait_for(|done| *done) => return mine,
                    pulled = end.queue.pull(near::TRANSFER, 7) => pulled.expect("pull"),
                };
                end.finish(&pulled).await;
                mine.extend(ids(&pulled));
                let mut seen = seen.lock();
                seen.extend(ids(&pulled));
                if seen.len() >= wanted {
                    done.send_replace(true);
                }
            }
        })
    };
    let tasks: Vec<_> = ends.into_iter().map(pull).collect();
    let all = futures::future::try_join_all(tasks);
    tokio::time::timeout(PATIENCE, all).await.expect("in time").expect("no panic")
}

async fn of_many_pulls_each_hint_goes_to_one(world: World) {
    let end = End::of(&world).await;
    let ids = world.transfers(near::TRANSFER, ROOM_MIN, 0).await;
    let ends = (0..16).map(|_| End { world: world.clone(), queue: end.queue.clone() });
    let pushing = async {
        for id in &ids {
            let dropped = end.queue.push(&hints(near::TRANSFER, &[*id])).await.expect("push");
            assert_eq!(dropped, 0);
        }
    };
    let (mine, ()) = futures::join!(pull_at_once(ends.collect(), ids.len()), pushing);
    let mut pulled = mine.concat();
    pulled.sort();
    assert_eq!(pulled, ids);
}

async fn two_ends_share_the_work(world: World) {
    if !world.abilities().shared {
        return;
    }
    let (one, other) = (End::of(&world).await, End::of(&world).await);
    let pushed = one.push(near::TRANSFER, 300).await;
    let mut pulled = Vec::new();
    for end in [&one, &other] {
        let mine = end.pull(near::TRANSFER, 7).await;
        end.finish(&mine).await;
        pulled.extend(ids(&mine));
    }
    let rest = pushed.len() - pulled.len();
    pulled.extend(pull_at_once(vec![one, other], rest).await.concat());
    pulled.sort();
    assert_eq!(pulled, pushed);
}
