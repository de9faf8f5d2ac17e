//! The server goes away and comes back; the store goes on by itself.

use std::sync::Arc;
use std::time::Duration;

use landfall_conformance::{ManualClock, World};
use landfall_core::store::{Opened, StoreError};
use landfall_servers::MariaDb;
use landfall_store_mysql::{MysqlOptions, MysqlStore};

/// Short, so that what must not hang is seen not to.
const TIMEOUT: Duration = Duration::from_millis(1_500);

async fn world(url: &str) -> World {
    let clock = Arc::new(ManualClock::new());
    let options = MysqlOptions {
        clock: Some(clock.clone()),
        timeout: TIMEOUT,
        lock_wait: Duration::from_secs(1),
        ..MysqlOptions::default()
    };
    let store = MysqlStore::open(url, options).await.expect("a store");
    World { store: Arc::new(store), time: clock }
}

async fn check_unavailable(world: &World) {
    let accepted = world.store.accept(vec![world.fresh("while away")]).await;
    assert!(matches!(accepted, Err(StoreError::Unavailable(_))), "{accepted:?}");
    let read = world.store.lanes().await;
    assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_is_unavailable_and_a_restarted_one_is_used_again() {
    let server = MariaDb::start().expect("a server");
    let world = world(server.url()).await;
    let held = world.started("lane").await;
    let identity = world.store.identity().await.expect("identity");
    let members = world.accept_ready(&["a"]).await;
    server.kill().expect("kill -9");
    check_unavailable(&world).await;
    server.restart().expect("recovered");
    // Connections that died may have one more call each to be noticed by.
    while world.store.lanes().await.is_err() {}
    let next = world.accept(world.fresh("next")).await;
    assert!(next.id > members[0].id);
    assert_eq!(world.get(members[0].id).await, members[0]);
    // What was cleared under the life before must be looked over again.
    let opened = world.store.open_attempt(world.opening(&held, 0, &members)).await;
    assert_eq!(opened, Ok(Opened::Restarted));
    let after = world.store.identity().await.expect("identity");
    assert_eq!(after.id, identity.id);
    assert_ne!(after.incarnation, identity.incarnation);
    let held = world.lease(&held.lane, "one").await;
    world.open(&held, 0, &members).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stalls_is_unavailable_in_time_and_nobody_hangs() {
    let server = MariaDb::start().expect("a server");
    let world = world(server.url()).await;
    world.started("lane").await;
    server.pause().expect("paused");
    // Its threads stop one by one.
    while world.store.lanes().await.is_ok() {}
    let patience = 4 * TIMEOUT;
    let asked = tokio::time::timeout(patience, check_unavailable(&world)).await;
    assert!(asked.is_ok(), "a call took longer than {patience:?}");
    server.resume().expect("resumed");
    while world.store.lanes().await.is_err() {}
    world.accept(world.fresh("next")).await;
}
