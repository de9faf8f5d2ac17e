//! Stores that earlier releases have left.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;

use flate2::read::GzDecoder;
use landfall_conformance::{ManualClock, World, earlier};
use landfall_servers::witness;
use landfall_store_sqlite::{SqliteOptions, SqliteStore};
use rusqlite::Connection;

/// One of each layout that was released, as `examples/sqlite_fixture.rs` wrote it in its day, and
/// whether it counted signatures.
const LAYOUTS: [(i64, &[u8], bool); 1] = [(2, include_bytes!("schema-2.db.gz"), false)];

/// So many attempts more that migrating takes a while.
const MANY: usize = 100_000;

fn unpacked(packed: &[u8], folder: &Path) -> PathBuf {
    let path = folder.join("landfall.db");
    let mut bytes = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut bytes).expect("a packed store");
    std::fs::write(&path, bytes).expect("written");
    path
}

fn world(path: &Path) -> World {
    let clock = Arc::new(ManualClock::new());
    let store = SqliteStore::open(path, clock.clone(), SqliteOptions::default());
    World { store: Arc::new(store.expect("a store that opens")), time: clock }
}

#[tokio::test]
async fn a_store_of_every_layout_is_opened_and_finished() {
    for (version, packed, counts) in LAYOUTS {
        println!("layout {version}");
        let folder = tempfile::tempdir().expect("a folder");
        earlier::finish(&world(&unpacked(packed, folder.path())), counts).await;
    }
}

/// Opens a store, and so migrates it, if it was started as the witness.
#[tokio::test]
async fn a_witness_migrates() {
    let Some((at, _)) = witness::called() else { return };
    witness::say("opening");
    let _world = world(Path::new(&at));
    witness::say("opened");
    std::future::pending().await
}

/// When a process that migrates is killed.
#[derive(Debug, Clone, Copy)]
enum Moment {
    Begun,
    Writing,
    Done,
}

/// Kills, until each of them has been met.
const ROUNDS: usize = 30;

fn kill_at(moment: Moment, path: &Path) {
    let log = path.with_extension("db-wal");
    let lines = if matches!(moment, Moment::Done) { 2 } else { 1 };
    let terrible = |child: &mut Child| {
        while matches!(moment, Moment::Writing)
            && std::fs::metadata(&log).map_or(0, |log| log.len()) == 0
        {
            std::thread::yield_now();
        }
        child.kill().expect("kill -9");
    };
    witness::hear::<String>("earlier::a_witness_migrates", path, 0, lines, terrible);
}

#[tokio::test]
async fn a_migration_killed_with_9_is_done_whole_by_the_next() {
    let (version, packed, counts) = LAYOUTS[LAYOUTS.len() - 1];
    let mut found = Vec::new();
    let moments = [Moment::Begun, Moment::Writing, Moment::Done].into_iter().cycle();
    for moment in moments.take(ROUNDS) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = unpacked(packed, folder.path());
        let db = Connection::open(&path).expect("open");
        let many = "WITH RECURSIVE n(i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n LIMIT ?1)
            INSERT INTO bodies SELECT i, 'pay', hex(randomblob(32)), '', 0, 0, x'', x'' FROM n";
        db.execute(many, [MANY as i64]).expect("more attempts");
        drop(db);
        kill_at(moment, &path);
        let db = Connection::open(&path).expect("open");
        let left: i64 =
            db.query_row("PRAGMA user_version", [], |row| row.get(0)).expect("a version");
        drop(db);
        earlier::finish(&world(&path), counts).await;
        found.push(left > version);
        if found.len() > 2 && found.contains(&true) && found.contains(&false) {
            return;
        }
    }
    panic!("never killed before it was done, or never after: {found:?}");
}
