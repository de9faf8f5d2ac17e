//! Killed with -9 in the middle of its commits, again and again, on one file.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use landfall_ledger::Kind;
use landfall_ledger::conformance::crash::{self, Said};

/// Kills. Each leaves the file for the next to recover.
const ROUNDS: u64 = 12;
/// Set for the child: the book it is to work on, and which run it is.
const BOOK: &str = "LANDFALL_CRASH_BOOK";
const RUN: &str = "LANDFALL_CRASH_RUN";
/// Before every line that the child says; the test harness says others.
const SAYS: &str = "said: ";

/// Works until it is killed if it was started as the child; else there is nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_says_what_was_answered() {
    let (Ok(path), Ok(run)) = (std::env::var(BOOK), std::env::var(RUN)) else { return };
    let say = |said: Said| {
        // One write per line, so that a kill leaves no half of one.
        let line = format!("{SAYS}{said}\n");
        std::io::stdout().lock().write_all(line.as_bytes()).expect("somebody listens");
    };
    let book = Arc::new(super::open(Path::new(&path), Kind::Freeze));
    crash::work(book, run.parse().expect("a number"), say).await;
}

/// Starts a child, kills it after it said `lines` things, and returns all it said.
fn kill_after(path: &Path, run: u64, lines: usize) -> Vec<Said> {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "crash::a_child_says_what_was_answered", "--nocapture"])
        .env(BOOK, path)
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
async fn what_was_answered_survives_kill_9_and_is_not_done_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("funding.db");
    let mut said = Vec::new();
    for run in 0..ROUNDS {
        let lines = 1 + (run as usize * 37) % 400;
        said.extend(kill_after(&path, run, lines));
        crash::check(Arc::new(super::open(&path, Kind::Freeze)), &said).await;
    }
}
