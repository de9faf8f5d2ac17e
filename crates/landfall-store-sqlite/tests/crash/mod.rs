//! Killed with -9 in the middle of its commits, again and again, on one file.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use landfall_conformance::crash::{self, Said};
use landfall_conformance::{ManualClock, World};
use landfall_store_sqlite::{SqliteOptions, SqliteStore};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Kills. Each leaves the file for the next to recover.
const ROUNDS: u64 = 20;
/// Set for the child: the store it is to work on, and which run it is.
const STORE: &str = "LANDFALL_CRASH_STORE";
const RUN: &str = "LANDFALL_CRASH_RUN";
/// Before every line that the child says; the test harness says others.
const SAYS: &str = "said: ";

fn world(path: &Path) -> World {
    let clock = Arc::new(ManualClock::new());
    let store = SqliteStore::open(path, clock.clone(), SqliteOptions::default());
    World { store: Arc::new(store.expect("a store that opens")), time: clock }
}

/// Works until it is killed if it was started as the child; else there is nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_says_what_was_committed() {
    let (Ok(path), Ok(run)) = (std::env::var(STORE), std::env::var(RUN)) else { return };
    let say = |said: Said| {
        // One write per line, so that a kill leaves no half of one.
        let line = format!("{SAYS}{said}\n");
        std::io::stdout().lock().write_all(line.as_bytes()).expect("somebody listens");
    };
    crash::work(world(Path::new(&path)), run.parse().expect("a number"), say).await;
}

/// Starts a child, kills it after it said `lines` things, and returns all it said.
fn kill_after(path: &Path, run: u64, lines: usize) -> Vec<Said> {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "crash::a_child_says_what_was_committed", "--nocapture"])
        .env(STORE, path)
        .env(RUN, run.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child");
    let mut output = BufReader::new(child.stdout.take().expect("its output"));
    let mut said = Vec::new();
    let mut line = String::new();
    while output.read_line(&mut line).expect("text") > 0 {
        let whole = line.strip_suffix('\n').and_then(|line| line.split_once(SAYS));
        if let Some((_, text)) = whole {
            said.push(text.parse().expect("a line of ours"));
        }
        if said.len() == lines {
            child.kill().expect("kill -9");
        }
        line.clear();
    }
    let status = child.wait().expect("its end");
    assert_eq!(status.code(), None, "the child ended by itself");
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_kill_9_and_nothing_is_half_done() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("landfall.db");
    let mut random = StdRng::seed_from_u64(9);
    let mut said = Vec::new();
    for run in 0..ROUNDS {
        let lines = random.random_range(1..600);
        said.extend(kill_after(&path, run, lines));
        crash::check(&world(&path), &said).await;
    }
}
