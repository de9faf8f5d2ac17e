//! Clients that wait for a transfer to become final, many at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::join_all;

use crate::slow::SlowStore;
use crate::world::World;

const WAITERS: usize = 5_000;

#[tokio::test(start_paused = true)]
async fn however_many_wait_one_reads_for_all_of_them() {
    let mut world = World::new(1).await;
    let store = Arc::new(SlowStore::on(world.store.clone()));
    world.crash_and_reach(store.clone()).await;
    *world.rail.down.lock() = true;
    let transfer = world.submit("k", "alice", 1).await;
    world.sleep(1_000).await;
    let before = store.reads.load(Ordering::Relaxed);
    let wait = || world.engine.wait_final(transfer.clone(), Duration::from_secs(10));
    let answers = join_all((0..WAITERS).map(|_| wait())).await;
    assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|now| !now.state.is_final())));
    let reads = store.reads.load(Ordering::Relaxed) - before;
    assert!(reads <= 30, "{reads} reads for {WAITERS} who waited for ten seconds");
}

#[tokio::test(start_paused = true)]
async fn all_who_wait_hear_of_the_end_whoever_brought_it_about() {
    let world = World::new(1).await;
    let transfer = world.submit("k", "alice", 1).await;
    let wait = |world: &World| {
        let engine = world.engine.clone();
        let transfer = transfer.clone();
        async move { engine.wait_final(transfer, Duration::from_secs(60)).await.unwrap() }
    };
    let other = world.another("standby", &world.rail).await;
    let (here, there) = tokio::join!(
        join_all((0..100).map(|_| wait(&world))),
        join_all((0..100).map(|_| wait(&other)))
    );
    assert!(here.iter().chain(&there).all(|now| now.state.is_completed()));
}

#[tokio::test(start_paused = true)]
async fn one_too_many_is_answered_at_once_and_so_is_everybody_at_a_stop() {
    let world = World::with(1, |settings| settings.waits_max = 2).await;
    *world.rail.down.lock() = true;
    let transfer = world.submit("k", "alice", 1).await;
    let began_ms = world.clock.monotonic_ms();
    let wait = || world.engine.wait_final(transfer.clone(), Duration::from_secs(600));
    let late = async {
        world.sleep(1_000).await;
        wait().await.unwrap();
        assert_eq!(world.clock.monotonic_ms() - began_ms, 1_000, "no room to wait");
        world.engine.stop(Duration::ZERO).await;
    };
    let _ = tokio::join!(wait(), wait(), late);
    assert!(world.clock.monotonic_ms() - began_ms < 10_000, "the stop ends all waits");
}
