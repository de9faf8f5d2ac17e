//! Groups: what a faulty job does to the others, and what the others see.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{GROUP_PATIENT, Job, Keeper, LINE_URGENT, Load, Waiting, Work, Writer, transaction};
use crate::open::tests::NOTES;
use crate::{Done, Fault, Lock, corrupt};

const ONE: Load = Load::Patient(1);

struct Notes(Connection);

impl Keeper for Notes {
    type Tx<'a> = &'a Connection;
    const NAME: &'static str = "notes";

    fn commit(&mut self, group: &mut [Box<dyn Job<Notes>>]) -> Done<()> {
        let mut db = &self.0;
        transaction(db, || group.iter_mut().try_for_each(|job| job.run(&mut db)))
    }
}

fn open() -> (TempDir, PathBuf, Writer<Notes>) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notes.db");
    let lock = Lock::take(&path.with_extension("lock")).expect("free");
    let db = NOTES.writer(&path, Duration::ZERO).expect("a new file");
    let writer = Writer::start(Notes(db), lock).expect("a thread");
    (folder, path, writer)
}

fn room() -> OwnedSemaphorePermit {
    Arc::new(Semaphore::new(1)).try_acquire_owned().expect("room")
}

fn note(db: &Connection, text: &str) -> Done<()> {
    db.execute("INSERT INTO notes VALUES (?1)", [text])?;
    Ok(())
}

fn texts(path: &Path) -> Vec<String> {
    let db = NOTES.reader(path, Duration::ZERO).expect("a reader");
    let mut statement = db.prepare("SELECT text FROM notes ORDER BY text").expect("a statement");
    let texts = statement.query_map([], |row| row.get(0)).expect("rows");
    texts.collect::<rusqlite::Result<_>>().expect("texts")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_fails_halfway_spoils_nobody_elses() {
    let (_folder, path, writer) = open();

    // The first job holds the writer until the others are waiting for the next transaction.
    let (go, wait) = channel::<()>();
    let held = writer.call(ONE, move |_| {
        let _ = wait.recv();
        Ok(())
    });
    let before = writer.call(ONE, |db| note(db, "before"));
    let faulty = writer.call(ONE, |db| {
        note(db, "faulty")?;
        Err::<(), _>(corrupt("as it should"))
    });
    let after = writer.call(ONE, |db| note(db, "after"));
    let all = async { tokio::join!(biased; held, before, faulty, after, async { drop(go) }) };
    let (_, before, faulty, after, ()) = all.await;
    assert_eq!((before, after), (Ok(()), Ok(())));
    assert_eq!(faulty, Err(corrupt("as it should")));

    assert_eq!(texts(&path), ["after", "before"]);
}

/// Whoever asked may be gone; the file is whole, and free for the next writer.
#[test]
fn dropping_the_writer_waits_for_what_was_asked() {
    let (_folder, path, writer) = open();
    let (reply, answer) = tokio::sync::oneshot::channel();
    drop(answer);
    let run = |db: &mut &Connection| note(db, "asked");
    let jobs = writer.jobs.as_ref().expect("open");
    jobs.send((ONE, Box::new(Work { run, answer: None, reply, _room: room() }))).expect("taken");
    drop(writer);
    Lock::take(&path.with_extension("lock")).expect("free again");
    assert_eq!(texts(&path), ["asked"]);
}

/// A job that does nothing.
fn job(load: Load) -> (Load, Box<dyn Job<Notes>>) {
    let (reply, _) = tokio::sync::oneshot::channel();
    (load, Box::new(Work { run: |_: &mut &Connection| Ok(()), answer: None, reply, _room: room() }))
}

#[test]
fn urgent_jobs_go_first_and_a_crowd_of_patient_ones_is_cut_into_groups() {
    let (asking, inbox) = channel();
    for _ in 0..10 {
        asking.send(job(Load::Patient(100))).expect("open");
    }
    asking.send(job(Load::Urgent(1))).expect("open");
    let mut waiting = Waiting::new();
    assert!(waiting.fill(&inbox));
    let patient = GROUP_PATIENT.div_ceil(100);
    assert_eq!(waiting.next_group().len(), 1 + patient);
    asking.send(job(Load::Urgent(1))).expect("open");
    assert!(waiting.fill(&inbox));
    assert_eq!(waiting.next_group().len(), 1 + patient);
    drop(asking);
    let mut rest = 0;
    while waiting.fill(&inbox) {
        rest += waiting.next_group().len();
    }
    assert_eq!(rest, 10 - 2 * patient);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_line_sends_away_who_is_at_the_door_and_keeps_the_patient_waiting() {
    let (_folder, path, writer) = open();
    let (go, wait) = channel::<()>();
    let held = writer.call(ONE, move |_| {
        let _ = wait.recv();
        Ok(())
    });
    let whole_line = writer.call(Load::Urgent(LINE_URGENT), |db| note(db, "in line"));
    let away = async {
        let one_more = writer.call(Load::Urgent(1), |db| note(db, "one more")).await;
        assert!(matches!(one_more, Err(Fault::Unavailable(_))), "{one_more:?}");
        drop(go);
    };
    let (held, in_line, ()) = tokio::join!(held, whole_line, away);
    assert_eq!((held.is_ok(), in_line.is_ok()), (true, true));
    writer.call(Load::Urgent(1), |db| note(db, "later")).await.expect("there is room again");
    assert_eq!(texts(&path), ["in line", "later"]);
}

#[tokio::test]
async fn a_writer_that_has_died_says_so() {
    let (_folder, _path, writer) = open();
    let died = writer.call(ONE, |_| -> Done<()> { panic!("as a mistake of ours would") }).await;
    assert!(matches!(died, Err(Fault::Unavailable(_))), "{died:?}");
    let after = writer.call(ONE, |_| Ok(())).await;
    assert!(matches!(after, Err(Fault::Unavailable(_))), "{after:?}");
}
