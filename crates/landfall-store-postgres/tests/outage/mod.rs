//! The server goes away, comes back, stands still, or keeps a row for itself.

use std::time::{Duration, Instant};

use landfall_conformance::World;
use landfall_core::store::StoreError;
use landfall_core::{LaneId, RailName};
use landfall_servers::Postgres;
use landfall_store_postgres::{PostgresOptions, PostgresStore};
use tokio_postgres::NoTls;

use crate::{open, world};

/// Short, so that the tests are.
const TIMEOUT: Duration = Duration::from_secs(1);
/// A call that gets no answer ends in this time: the timeout, what it is exceeded by, and a busy
/// machine.
const SOON: Duration = Duration::from_secs(8);

async fn impatient(server: &Postgres) -> World {
    let options = PostgresOptions { timeout: TIMEOUT, ..PostgresOptions::default() };
    world(PostgresStore::open(server.url(), options).await.expect("a store"))
}

/// Every kind of call is told that the store is not there, soon.
async fn check_unavailable(world: &World) {
    let begin = Instant::now();
    let lane = LaneId::new("lane");
    let answers = [
        world.store.accept(vec![world.fresh("meanwhile")]).await.err(),
        world.store.lanes().await.err(),
        world.store.identity().await.err(),
        world.store.lease(&lane, RailName::Near, "one", 1_000).await.err(),
    ];
    for answer in answers {
        assert!(matches!(answer, Some(StoreError::Unavailable(_))), "{answer:?}");
    }
    assert!(begin.elapsed() < 4 * SOON, "{:?}", begin.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_killed_is_unavailable_and_then_there_again() {
    let server = Postgres::start().expect("PostgreSQL starts");
    let world = world(open(&server).await);
    let transfer = world.accept(world.fresh("before")).await;
    for round in 0..2 {
        server.kill().expect("killed");
        check_unavailable(&world).await;
        server.restart().expect("it starts again");
        // Nobody restarts us: the next call connects anew.
        assert_eq!(world.get(transfer.id).await, transfer);
        let next = world.accept(world.fresh(&format!("after {round}"))).await;
        assert!(next.id > transfer.id);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_stands_still_hangs_nobody() {
    let server = Postgres::start().expect("PostgreSQL starts");
    let world = impatient(&server).await;
    let transfer = world.accept(world.fresh("before")).await;
    server.pause().expect("paused");
    check_unavailable(&world).await;
    server.resume().expect("resumed");
    assert_eq!(world.get(transfer.id).await, transfer);
    world.accept(world.fresh("after")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_somebody_keeps_hangs_nobody() {
    let server = Postgres::start().expect("PostgreSQL starts");
    let world = impatient(&server).await;
    let lane = LaneId::new("lane");
    world.lease(&lane, "one").await;
    let (client, driver) = tokio_postgres::connect(server.url(), NoTls).await.expect("a session");
    let driver = tokio::spawn(driver);
    client.batch_execute("BEGIN; SELECT FROM landfall.lanes FOR UPDATE").await.expect("locked");
    let begin = Instant::now();
    let renewed = world.store.lease(&lane, RailName::Near, "one", 1_000).await;
    assert!(matches!(renewed, Err(StoreError::Unavailable(_))), "{renewed:?}");
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    drop(client);
    driver.await.expect("no panic").expect("it ends well");
    world.lease(&lane, "one").await;
}
