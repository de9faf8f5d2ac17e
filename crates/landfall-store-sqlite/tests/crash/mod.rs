//! Killed with -9 in the middle of its commits, again and again, on one file.

use std::path::Path;
use std::sync::Arc;

use landfall_conformance::crash::{self, Said};
use landfall_conformance::{ManualClock, World};
use landfall_servers::witness;
use landfall_store_sqlite::{SqliteOptions, SqliteStore};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Kills. Each leaves the file for the next to recover.
const ROUNDS: u64 = 20;

fn world(path: &Path) -> World {
    let clock = Arc::new(ManualClock::new());
    let store = SqliteStore::open(path, clock.clone(), SqliteOptions::default());
    World { store: Arc::new(store.expect("a store that opens")), time: clock }
}

/// Works until it is killed if it was started as the witness; else there is nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_witness_says_what_was_committed() {
    let Some((at, run)) = witness::called() else { return };
    crash::work(world(Path::new(&at)), run, witness::say).await;
}

fn kill_after(path: &Path, run: u64, lines: usize) -> Vec<Said> {
    witness::kill_after("crash::a_witness_says_what_was_committed", path, run, lines)
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
