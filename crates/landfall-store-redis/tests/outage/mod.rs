//! The server gone, stalled or forgetful: calls end, say so, and go on by themselves.

use std::time::Duration;

use landfall_core::RailName;
use landfall_core::store::{Accepted, Opened, StoreError};
use landfall_store_redis::RedisOptions;

use crate::{operator, run, server, world};

/// A call's own time in these tests.
const CALL: Duration = Duration::from_millis(500);
/// Longer than any call may take, on a busy machine too.
const BOUND: Duration = Duration::from_secs(20);

fn impatient(url: &str) -> RedisOptions {
    RedisOptions { call_timeout: CALL, ..RedisOptions::new(url) }
}

fn is_unavailable<T: std::fmt::Debug>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::Unavailable(_)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_died_is_unavailable_and_used_again_when_it_is_back() {
    let server = server();
    let world = world(RedisOptions::new(server.url())).await;
    let kept = world.accept(world.fresh("kept")).await;
    server.kill().expect("kill -9");
    for _ in 0..3 {
        let read = tokio::time::timeout(BOUND, world.store.transfers(&[kept.id])).await;
        assert!(is_unavailable(&read.expect("no hang")));
        let write = world.store.accept(vec![world.fresh("lost")]);
        assert!(is_unavailable(&tokio::time::timeout(BOUND, write).await.expect("no hang")));
    }
    server.restart().expect("it is back");
    assert_eq!(world.store.transfers(&[kept.id]).await, Ok(vec![kept]));
    world.accept(world.fresh("lost")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stalls_hangs_nobody_and_takes_nothing_twice() {
    let server = server();
    let world = world(impatient(server.url())).await;
    let before = world.accept(world.fresh("before")).await;
    server.pause().expect("SIGSTOP");
    let callers = (0..300).map(|number| {
        let world = world.clone();
        tokio::spawn(async move {
            let read = world.store.transfers(&[before.id]).await;
            (read, world.store.accept(vec![world.fresh(&format!("k{}", number % 50))]).await)
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        let answers = tokio::time::timeout(BOUND, caller).await.expect("no hang");
        let (read, write) = answers.expect("no panic");
        assert!(is_unavailable(&read), "{read:?}");
        assert!(is_unavailable(&write), "{write:?}");
    }
    server.resume().expect("SIGCONT");
    // What was sent before the stall ended may have been taken or not; repeating it is safe.
    let patient = crate::world(RedisOptions::new(server.url())).await;
    for number in 0..50 {
        let key = format!("k{number}");
        let new = patient.fresh(&key);
        let again = patient.store.accept(vec![new]).await.expect("accept").remove(0);
        let (Accepted::Created(transfer) | Accepted::Already(transfer)) = again else {
            panic!("{again:?}");
        };
        let found = patient.store.by_key(RailName::Near, &transfer.tenant, &key).await;
        assert_eq!(found, Ok(Some(transfer)));
    }
    let counted: u64 =
        patient.store.counts().await.expect("counts").iter().map(|(_, count)| count).sum();
    assert_eq!(counted, 51);
    world.accept(world.fresh("after")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_forgot_the_scripts_is_told_them_again() {
    let server = server();
    let world = world(RedisOptions::new(server.url())).await;
    run(&mut operator(&server).await, "SCRIPT FLUSH").await;
    world.accept(world.fresh("k")).await;
}

/// A write into an emptied store would start its ids anew and pay again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_emptied_under_a_running_relay_takes_nothing_more() {
    let server = server();
    let world = world(RedisOptions::new(server.url())).await;
    let identity = world.store.identity().await.expect("identity").id;
    world.accept(world.fresh("k")).await;
    run(&mut operator(&server).await, "FLUSHALL").await;
    let refused = world.store.accept(vec![world.fresh("l")]).await;
    assert!(matches!(refused, Err(StoreError::Corrupt(_))), "{refused:?}");
    assert_ne!(world.store.identity().await.expect("identity").id, identity);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_came_back_less_safe_is_not_used_until_it_is_mended() {
    let server = server();
    let world = world(RedisOptions::new(server.url())).await;
    let mut operator = operator(&server).await;
    run(&mut operator, "CONFIG SET appendfsync everysec").await;
    run(&mut operator, "CLIENT KILL TYPE normal SKIPME yes").await;
    // The first call finds its connection gone; those after it find the server changed.
    let mut refused = world.store.lanes().await;
    for _ in 0..2 {
        refused = world.store.lanes().await;
    }
    let Err(StoreError::Unavailable(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains("CONFIG SET appendfsync always"), "{why}");
    run(&mut operator, "CONFIG SET appendfsync always").await;
    world.accept(world.fresh("k")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_refuses_whole_commits() {
    let server = server();
    let world = world(RedisOptions::new(server.url())).await;
    let first = world.accept(world.fresh("first")).await;
    let mut operator = operator(&server).await;
    run(&mut operator, "CONFIG SET maxmemory-policy noeviction").await;
    run(&mut operator, "CONFIG SET maxmemory 1mb").await;
    let batch = vec![world.fresh("a"), world.fresh("b")];
    assert!(is_unavailable(&world.store.accept(batch).await));
    run(&mut operator, "CONFIG SET maxmemory 0").await;
    assert_eq!(world.store.counts().await, Ok(vec![(first.state, 1)]));
    world.accept_ready(&["a", "b"]).await;
}

/// A server that lived on in another process, or as a replica, may have forgotten what others
/// stored: an attempt that was prepared before is not opened after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_prepared_before_a_restart_or_a_promotion_is_not_opened() {
    let server = server();
    let world = world(RedisOptions::new(server.url())).await;
    let mut held = world.started("lane").await;
    let before = world.opening(&held, 0, &[]);
    server.restart().expect("restarted");
    // The first call finds its connection gone.
    let _ = world.store.lanes().await;
    let refused = world.store.open_attempt(before).await;
    assert_eq!(refused, Ok(Opened::Restarted));

    held.incarnation = world.store.identity().await.expect("identity").incarnation;
    let before = world.opening(&held, 0, &[]);
    let mut operator = operator(&server).await;
    run(&mut operator, "REPLICAOF 127.0.0.1 1").await;
    run(&mut operator, "REPLICAOF NO ONE").await;
    assert_eq!(world.store.open_attempt(before).await, Ok(Opened::Restarted));
    held.incarnation = world.store.identity().await.expect("identity").incarnation;
    world.open(&held, 0, &[]).await;
}
