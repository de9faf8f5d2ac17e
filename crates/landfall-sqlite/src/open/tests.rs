//! Files, old and new, and what their writer promises.

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;

use super::{Layout, Lock, Unopened};

const BUSY: Duration = Duration::from_secs(5);

/// A small file to try things on.
pub(crate) const NOTES: Layout = Layout {
    application_id: 7,
    steps: &["CREATE TABLE notes (text TEXT)"],
    page_cache_kib: 1024,
    statements_kept: 8,
};

/// The same, one version later.
const SIGNED_NOTES: Layout = Layout {
    steps: &[NOTES.steps[0], "ALTER TABLE notes ADD COLUMN author TEXT DEFAULT 'nobody';"],
    ..NOTES
};

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notes.db");
    (folder, path)
}

fn number(db: &Connection, sql: &str) -> i64 {
    db.query_row(sql, [], |row| row.get(0)).expect(sql)
}

#[test]
fn a_commit_is_on_the_disk_before_it_is_answered() {
    let (_folder, path) = place();
    let db = NOTES.writer(&path, BUSY).expect("a new file");
    let mode: String = db.query_row("PRAGMA journal_mode", [], |row| row.get(0)).expect("a mode");
    assert_eq!(mode, "wal");
    let full = 2;
    assert_eq!(number(&db, "PRAGMA synchronous"), full);
}

#[test]
fn an_older_file_takes_the_steps_it_lacks_and_keeps_its_rows() {
    let (_folder, path) = place();
    let db = NOTES.writer(&path, BUSY).expect("a new file");
    db.execute("INSERT INTO notes VALUES ('kept')", []).expect("written");
    drop(db);
    let db = SIGNED_NOTES.writer(&path, BUSY).expect("brought up to date");
    assert_eq!(SIGNED_NOTES.version(&db), Ok(2));
    let rows = "SELECT count(*) FROM notes WHERE text = 'kept' AND author = 'nobody'";
    assert_eq!(number(&db, rows), 1);
}

#[test]
fn a_newer_or_foreign_file_is_refused_and_left_as_it_is() {
    let (_folder, path) = place();
    drop(SIGNED_NOTES.writer(&path, BUSY).expect("a new file"));
    let before = std::fs::read(&path).expect("read");
    let newer = NOTES.writer(&path, BUSY).err();
    assert_eq!(newer, Some(Unopened::Newer { found: 2, known: 1 }));
    let foreign = Layout { application_id: 8, ..SIGNED_NOTES }.writer(&path, BUSY).err();
    assert_eq!(foreign, Some(Unopened::Foreign("another program's database")));
    assert_eq!(std::fs::read(&path).expect("read"), before);
}

#[test]
fn a_reader_makes_no_file_and_writes_to_none() {
    let (_folder, path) = place();
    assert!(matches!(NOTES.reader(&path, BUSY), Err(Unopened::Unavailable(_))));
    assert!(!path.exists());
    drop(NOTES.writer(&path, BUSY).expect("a new file"));
    let db = NOTES.reader(&path, BUSY).expect("a reader");
    assert!(db.execute("INSERT INTO notes VALUES ('sneaked in')", []).is_err());
    assert_eq!(number(&db, "SELECT count(*) FROM notes"), 0);
}

#[test]
fn a_lock_is_held_by_one_until_it_is_dropped() {
    let (folder, _) = place();
    let path = folder.path().join("deep/notes.lock");
    let first = Lock::take(&path).expect("free");
    assert_eq!(Lock::take(&path).err(), Some(Unopened::InUse));
    drop(first);
    Lock::take(&path).expect("free again");
}
