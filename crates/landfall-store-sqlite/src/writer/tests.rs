//! What is left of a transaction that was rolled back.

use std::sync::Arc;

use landfall_conformance::{ManualClock, World};
use landfall_core::store::{Store, StoreError};
use landfall_sqlite::Load;

use crate::fault::{Done, corrupt};
use crate::{SqliteOptions, SqliteStore};

#[tokio::test]
async fn what_was_rolled_back_is_not_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Arc::new(ManualClock::new());
    let path = folder.path().join("landfall.db");
    let store = SqliteStore::open(path, clock.clone(), SqliteOptions::default());
    let store = Arc::new(store.expect("a new store"));
    let world = World { store: store.clone(), time: clock };
    let state = world.accept(world.fresh("before")).await.state;
    let faulty = store.write(Load::Patient(1), move |tx| {
        tx.count(tx.codes.code(state)?, 1);
        tx.write_counts()?;
        Err::<(), _>(corrupt("as it should"))
    });
    assert_eq!(faulty.await, Err(StoreError::Corrupt("as it should".into())));
    world.accept(world.fresh("after")).await;
    assert_eq!(store.counts().await, Ok(vec![(state, 2)]));
}

#[tokio::test]
async fn a_store_whose_writer_has_died_is_not_healthy() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("landfall.db");
    let clock = Arc::new(ManualClock::new());
    let store = SqliteStore::open(path, clock, SqliteOptions::default()).expect("a new store");
    assert_eq!(store.health().await, Ok(()));
    let _ = store.write(Load::Patient(1), |_| -> Done<()> { panic!("a mistake of ours") }).await;
    assert!(matches!(store.health().await, Err(StoreError::Unavailable(_))));
}
