//! Groups: what a faulty job does to the others, and what the others see.

use std::sync::Arc;
use std::sync::mpsc::channel;

use landfall_conformance::ManualClock;

use crate::fault::corrupt;
use crate::{SqliteOptions, SqliteStore};

use super::{GROUP_MOVED, Load, Waiting, Work};

const ONE: Load = Load::Moves(1);

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
    let writer = store.writer.as_ref().expect("writable");

    // The first job holds the writer until the others are waiting for the next transaction.
    let (go, wait) = channel::<()>();
    let held = writer.call(ONE, move |_| {
        let _ = wait.recv();
        Ok(())
    });
    let before = writer.call(ONE, |tx| note(tx, "before"));
    let faulty = writer.call(ONE, |tx| {
        note(tx, "faulty")?;
        Err::<(), _>(corrupt("as it should"))
    });
    let after = writer.call(ONE, |tx| note(tx, "after"));
    let all = async { tokio::join!(biased; held, before, faulty, after, async { drop(go) }) };
    let (_, before, faulty, after, ()) = all.await;
    assert_eq!((before, after), (Ok(()), Ok(())));
    assert_eq!(faulty, Err(corrupt("as it should")));

    let read = store.readers.call(|reader| {
        let mut statement = reader.db.prepare("SELECT name FROM meta ORDER BY name")?;
        let names = statement.query_map([], |row| row.get::<_, String>(0))?;
        Ok(names.collect::<rusqlite::Result<Vec<_>>>()?)
    });
    assert_eq!(read.await, Ok(vec!["after".into(), "before".into(), "identity".into()]));
}

/// Names the jobs of groups by running them.
fn job(load: Load) -> (Load, Box<dyn super::Job>) {
    let (reply, _) = tokio::sync::oneshot::channel();
    (load, Box::new(Work { run: |_: &mut super::Tx<'_>| Ok(()), answer: None, reply }))
}

#[test]
fn acceptances_go_first_and_a_crowd_of_settlements_is_cut_into_groups() {
    let (asking, inbox) = channel();
    for _ in 0..10 {
        asking.send(job(Load::Moves(100))).expect("open");
    }
    asking.send(job(Load::Accepts(1))).expect("open");
    let mut waiting = Waiting::default();
    assert!(waiting.fill(&inbox));
    let settlements = GROUP_MOVED.div_ceil(100);
    assert_eq!(waiting.next_group().len(), 1 + settlements);
    asking.send(job(Load::Accepts(1))).expect("open");
    assert!(waiting.fill(&inbox));
    assert_eq!(waiting.next_group().len(), 1 + settlements);
    drop(asking);
    let mut rest = 0;
    while waiting.fill(&inbox) {
        rest += waiting.next_group().len();
    }
    assert_eq!(rest, 10 - 2 * settlements);
}
