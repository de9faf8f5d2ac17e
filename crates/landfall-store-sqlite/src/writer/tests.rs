//! Groups: what a faulty job does to the others, and what the others see.

use std::sync::Arc;
use std::sync::mpsc::channel;

use landfall_conformance::ManualClock;
use landfall_core::store::StoreError;

use crate::fault::corrupt;
use crate::{SqliteOptions, SqliteStore};

fn note(tx: &mut super::Tx<'_>, name: &str) -> crate::fault::Done<()> {
    tx.db.execute("INSERT INTO meta VALUES (?1, 'there')", [name])?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_fails_halfway_spoils_nobody_elses() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("landfall.db");
    let store = SqliteStore::open(&path, Arc::new(ManualClock::new()), SqliteOptions::default());
    let store = store.expect("a new store");
    let writer = store.writer().expect("writable");

    // The first job holds the writer until the others are waiting for the next transaction.
    let (go, wait) = channel::<()>();
    let held = writer.call(move |_| {
        let _ = wait.recv();
        Ok(())
    });
    let before = writer.call(|tx| note(tx, "before"));
    let faulty = writer.call(|tx| {
        note(tx, "faulty")?;
        Err::<(), _>(corrupt("as it should"))
    });
    let after = writer.call(|tx| note(tx, "after"));
    let all = async { tokio::join!(biased; held, before, faulty, after, async { drop(go) }) };
    let (_, before, faulty, after, ()) = all.await;
    assert_eq!((before, after), (Ok(()), Ok(())));
    assert_eq!(faulty, Err(StoreError::Corrupt("as it should".into())));

    let read = store.readers.call(|reader| {
        let mut statement = reader.db.prepare("SELECT name FROM meta ORDER BY name")?;
        let names = statement.query_map([], |row| row.get::<_, String>(0))?;
        Ok(names.collect::<rusqlite::Result<Vec<_>>>()?)
    });
    assert_eq!(read.await, Ok(vec!["after".into(), "before".into(), "identity".into()]));
}
