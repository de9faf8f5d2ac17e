//! Keys whose hashes meet.

use std::sync::Arc;

use landfall_conformance::{ManualClock, World};
use landfall_core::store::{Accepted, Store};
use landfall_core::{NewTransfer, RailName};
use landfall_sqlite::Load;

use super::key_hash;
use crate::{SqliteOptions, SqliteStore};

#[tokio::test]
async fn keys_that_share_a_hash_are_still_two() {
    check_apart(("acme", "first"), ("acme", "second")).await;
    check_apart(("acme", "same"), ("other", "same")).await;
}

/// Gives the first (tenant, key) the hash of the second, and wants two transfers all the same.
async fn check_apart(first: (&str, &str), second: (&str, &str)) {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Arc::new(ManualClock::new());
    let path = folder.path().join("landfall.db");
    let store = SqliteStore::open(path, clock.clone(), SqliteOptions::default());
    let store = Arc::new(store.expect("a new store"));
    let world = World { store: store.clone(), time: clock };
    let new =
        |(tenant, key): (&str, &str)| NewTransfer { tenant: tenant.to_owned(), ..world.fresh(key) };

    let one = world.accept(new(first)).await;
    let shared = key_hash(RailName::Near, second.0, second.1);
    let meet = store.write(Load::Patient(1), move |tx| {
        Ok(tx.db.execute("UPDATE key_hashes SET hash = ?1", [shared])?)
    });
    assert_eq!(meet.await, Ok(1));

    let two = world.accept(new(second)).await;
    assert_ne!(two.id, one.id);
    let again = store.accept(vec![new(second)]).await;
    assert_eq!(again, Ok(vec![Accepted::Already(two.clone())]));
    assert_eq!(store.by_key(RailName::Near, second.0, second.1).await, Ok(Some(two)));
}
