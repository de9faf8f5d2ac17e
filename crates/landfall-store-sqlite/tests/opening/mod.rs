//! Opening: what is found in the file, and who else is there.

use std::path::Path;
use std::sync::Arc;

use landfall_conformance::{ManualClock, World};
use landfall_core::store::{LaneStore, Store, StoreError};
use landfall_store_sqlite::{OpenError, SqliteOptions, SqliteStore};
use rusqlite::Connection;

fn open(path: &Path) -> Result<SqliteStore, OpenError> {
    SqliteStore::open(path, Arc::new(ManualClock::new()), SqliteOptions::default())
}

fn refusal(path: &Path) -> String {
    match open(path) {
        Ok(_) => panic!("opened {}", path.display()),
        Err(error) => error.to_string(),
    }
}

fn world(store: SqliteStore) -> World {
    World { store: Arc::new(store), time: Arc::new(ManualClock::new()) }
}

#[tokio::test]
async fn a_reopened_store_is_the_same_and_gives_new_ids() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("landfall.db");
    let before = world(open(&path).expect("a new store"));
    let identity = before.store.identity().await;
    let first = before.accept(before.fresh("first")).await;
    drop(before);
    let after = world(open(&path).expect("reopened"));
    assert_eq!(after.store.identity().await, identity);
    assert_eq!(after.get(first.id).await, first);
    let second = after.accept(after.fresh("second")).await;
    assert!(second.id > first.id);
    assert_eq!(after.store.counts().await, Ok(vec![(first.state, 2)]));
}

#[tokio::test]
async fn an_empty_store_has_another_identity() {
    let folder = tempfile::tempdir().expect("a folder");
    let one = open(&folder.path().join("one/landfall.db")).expect("a new store");
    let two = open(&folder.path().join("two/landfall.db")).expect("a new store");
    assert_ne!(one.identity().await, two.identity().await);
}

#[test]
fn a_second_writer_is_refused_until_the_first_is_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("landfall.db");
    let first = open(&path).expect("a new store");
    assert!(refusal(&path).contains("in use by another Landfall process; stop that one first"));
    drop(first);
    open(&path).expect("free again");
}

#[tokio::test]
async fn an_audit_reads_beside_the_writer_and_writes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("landfall.db");
    let writing = world(open(&path).expect("a new store"));
    let audit = SqliteStore::open_read_only(&path, SqliteOptions::default()).expect("an audit");
    let transfer = writing.accept(writing.fresh("k")).await;
    assert_eq!(audit.transfers(&[transfer.id]).await, Ok(vec![transfer]));
    let refused = audit.accept(vec![writing.fresh("l")]).await;
    assert!(
        matches!(&refused, Err(StoreError::Unavailable(why)) if why.contains("read only")),
        "{refused:?}"
    );
}

#[test]
fn an_audit_of_nothing_is_refused_and_makes_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("landfall.db");
    assert!(SqliteStore::open_read_only(&path, SqliteOptions::default()).is_err());
    assert!(!path.exists());
}

#[test]
fn a_newer_schema_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("landfall.db");
    drop(open(&path).expect("a new store"));
    let db = Connection::open(&path).expect("open");
    db.pragma_update(None, "user_version", 99).expect("set the version");
    drop(db);
    let message = refusal(&path);
    assert!(message.contains("written by a newer Landfall (schema 99"), "{message}");
    assert!(message.contains("run the newer version, or restore a backup"), "{message}");
    let audit = SqliteStore::open_read_only(&path, SqliteOptions::default());
    assert!(matches!(audit, Err(OpenError::Newer { found: 99, .. })));
}

#[test]
fn another_programs_database_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("other.db");
    let db = Connection::open(&path).expect("open");
    db.execute_batch("CREATE TABLE theirs (id INTEGER)").expect("create");
    drop(db);
    let before = std::fs::read(&path).expect("read");
    assert!(refusal(&path).contains("is not a Landfall store but another program's database"));
    assert_eq!(std::fs::read(&path).expect("read"), before);
}

#[test]
fn a_file_that_is_no_database_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notes.txt");
    let text = "not a database at all\n".repeat(400);
    std::fs::write(&path, &text).expect("write");
    assert!(refusal(&path).contains("is not a Landfall store but some other file"));
    assert_eq!(std::fs::read_to_string(&path).expect("read"), text);
}

#[tokio::test]
async fn a_damaged_file_is_named_corrupt_not_guessed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("landfall.db");
    let before = world(open(&path).expect("a new store"));
    let keys: Vec<String> = (0..500).map(|number| format!("k{number}")).collect();
    before.store.accept(keys.iter().map(|key| before.fresh(key)).collect()).await.expect("accept");
    drop(before);
    let mut bytes = std::fs::read(&path).expect("read");
    let first_page = 4096;
    bytes[first_page..].fill(0xA5);
    std::fs::write(&path, bytes).expect("write");
    match open(&path) {
        Err(OpenError::Damaged { .. }) => {}
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("opened a damaged store"),
    }
}
