//! Keys whose hashes meet.

use std::sync::Arc;

use landfall_conformance::{ManualClock, World};
use landfall_core::RailName;
use landfall_core::store::{Accepted, Store};

use super::key_hash;
use crate::{SqliteOptions, SqliteStore};

#[tokio::test]
async fn keys_that_share_a_hash_are_still_two() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Arc::new(ManualClock::new());
    let path = folder.path().join("landfall.db");
    let store = SqliteStore::open(path, clock.clone(), SqliteOptions::default());
    let store = Arc::new(store.expect("a new store"));
    let world = World { store: store.clone(), time: clock };

    let first = world.accept(world.fresh("first")).await;
    let shared = key_hash(RailName::Near, &first.tenant, "second");
    let writer = store.writer().expect("writable");
    let meet =
        writer.call(move |tx| Ok(tx.db.execute("UPDATE key_hashes SET hash = ?1", [shared])?));
    assert_eq!(meet.await, Ok(1));

    let second = world.accept(world.fresh("second")).await;
    assert_ne!(second.id, first.id);
    let again = store.accept(vec![world.fresh("second")]).await;
    assert_eq!(again, Ok(vec![Accepted::Already(second.clone())]));
    let found = store.by_key(RailName::Near, &second.tenant, "second").await;
    assert_eq!(found, Ok(Some(second)));
}
