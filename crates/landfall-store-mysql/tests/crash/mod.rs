//! Killed with -9 in the middle of its commits: the process that writes, and the server itself.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;

use landfall_conformance::crash::{self, Said};
use landfall_conformance::{ManualClock, World};
use landfall_servers::MariaDb;
use landfall_store_mysql::{MysqlOptions, MysqlStore};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::server::{new_database, shared};

/// Kills of the process that writes.
const PROCESS_ROUNDS: u64 = 8;
/// Kills of the server. Each has it recover.
const SERVER_ROUNDS: u64 = 6;
/// Set for the child: the store it is to work on, and which run it is.
const STORE: &str = "LANDFALL_CRASH_MYSQL";
const RUN: &str = "LANDFALL_CRASH_RUN";
/// Before every line that the child says; the test harness says others.
const SAYS: &str = "said: ";

async fn world(url: &str) -> World {
    let clock = Arc::new(ManualClock::new());
    let options = MysqlOptions { clock: Some(clock.clone()), ..MysqlOptions::default() };
    let store = MysqlStore::open(url, options).await.expect("a store that opens");
    World { store: Arc::new(store), time: clock }
}

/// Works until it is killed if it was started as the child; else there is nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_says_what_was_committed() {
    let (Ok(url), Ok(run)) = (std::env::var(STORE), std::env::var(RUN)) else { return };
    let say = |said: Said| {
        // One write per line, so that a kill leaves no half of one.
        let line = format!("{SAYS}{said}\n");
        std::io::stdout().lock().write_all(line.as_bytes()).expect("somebody listens");
    };
    crash::work(world(&url).await, run.parse().expect("a number"), say).await;
}

/// Starts a child, calls `kill` after it said `lines` things, and returns all it said.
fn kill_after(
    url: &str,
    run: u64,
    lines: usize,
    kill: impl Fn(&mut std::process::Child),
) -> Vec<Said> {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "crash::a_child_says_what_was_committed", "--nocapture"])
        .env(STORE, url)
        .env(RUN, run.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a child");
    let mut output = BufReader::new(child.stdout.take().expect("its output"));
    let mut said = Vec::new();
    let mut line = String::new();
    let mut killed = false;
    while output.read_line(&mut line).expect("text") > 0 {
        let whole = line.strip_suffix('\n').and_then(|line| line.split_once(SAYS));
        if let Some((_, text)) = whole {
            said.push(text.parse().expect("a line of ours"));
        }
        if said.len() >= lines && !killed {
            kill(&mut child);
            killed = true;
        }
        line.clear();
    }
    child.wait().expect("its end");
    assert!(killed, "the child ended by itself");
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_kill_9_and_nothing_is_half_done() {
    let url = new_database(shared()).await;
    let mut random = StdRng::seed_from_u64(9);
    let mut said = Vec::new();
    for run in 0..PROCESS_ROUNDS {
        let lines = random.random_range(1..400);
        said.extend(kill_after(&url, run, lines, |child| child.kill().expect("kill -9")));
        crash::check(&world(&url).await, &said).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_kill_9_of_the_server() {
    let server = MariaDb::start().expect("a server");
    let mut random = StdRng::seed_from_u64(10);
    let mut said = Vec::new();
    for run in 0..SERVER_ROUNDS {
        let lines = random.random_range(1..400);
        // The child's workers give up when the store does.
        said.extend(kill_after(server.url(), run, lines, |_| server.kill().expect("kill -9")));
        server.restart().expect("recovered");
        crash::check(&world(server.url()).await, &said).await;
    }
}
