//! Killed with -9 in the middle of its commits, again and again, on one file.

use std::path::Path;
use std::sync::Arc;

use landfall_ledger::conformance::crash;
use landfall_ledger::{Book, Kind};
use landfall_servers::witness;

/// Kills. Each leaves the file for the next to recover.
const ROUNDS: u64 = 12;

fn open(path: &Path) -> Arc<dyn Book> {
    Arc::new(super::open(path, Kind::Freeze))
}

/// Works until it is killed if it was started as the witness; else there is nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_witness_says_what_was_answered() {
    let Some((at, run)) = witness::called() else { return };
    crash::work(open(Path::new(&at)), run, witness::say).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_kill_9_and_is_not_done_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("funding.db");
    let test = "crash::a_witness_says_what_was_answered";
    let kill = |run, lines| witness::kill_after(test, &path, run, lines);
    crash::survive(ROUNDS, kill, async || open(&path)).await;
}
