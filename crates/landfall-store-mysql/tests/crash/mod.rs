//! Killed with -9 in the middle of its commits: the process that writes, and the server itself.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use landfall_conformance::crash::{self, Said};
use landfall_conformance::{ManualClock, World};
use landfall_core::LaneId;
use landfall_servers::MariaDb;
use landfall_store_mysql::{MysqlOptions, MysqlStore};
use mysql_async::prelude::Queryable;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use crate::server::{connect, new_database, shared};

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
fn kill_after(url: &str, run: u64, lines: usize, kill: impl Fn(&mut Child)) -> Vec<Said> {
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

/// Looks at what is left once it is settled: the server may still be at the last commit of somebody
/// who is no more.
async fn check(url: &str, said: &[Said]) {
    let mut conn = connect(url).await;
    let others = "SELECT count(*) FROM information_schema.processlist
        WHERE db = DATABASE() AND id <> CONNECTION_ID()";
    while conn.query_first::<u64, _>(others).await.expect("counted") > Some(0) {
        tokio::task::yield_now().await;
    }
    conn.disconnect().await.expect("goodbye");
    crash::check(&world(url).await, said).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_kill_9_and_nothing_is_half_done() {
    let url = new_database(shared()).await;
    let mut random = StdRng::seed_from_u64(9);
    let mut said = Vec::new();
    for run in 0..PROCESS_ROUNDS {
        let lines = random.random_range(1..400);
        said.extend(kill_after(&url, run, lines, |child| child.kill().expect("kill -9")));
        check(&url, &said).await;
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
        check(server.url(), &said).await;
    }
}

/// Whoever stands still in the middle of a transaction keeps rows locked, until the server ends its
/// session; then others take its lanes, and it has lost them when it goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_stands_still_keeps_no_lane_and_stores_nothing_afterwards() {
    let url = new_database(shared()).await;
    let mut said = Vec::new();
    for run in 0..3 {
        let signal = |child: &Child, name: &str| {
            let sent = Command::new("kill").args([name, &child.id().to_string()]).status();
            assert!(sent.expect("kill runs").success());
        };
        let overtake = |child: &mut Child| {
            signal(child, "-STOP");
            block_in_place(|| Handle::current().block_on(take_lanes(&url)));
            signal(child, "-CONT");
        };
        said.extend(kill_after(&url, run, 100, overtake));
        check(&url, &said).await;
    }
}

/// Takes every lane of the child, which goes by the same name.
async fn take_lanes(url: &str) {
    let world = world(url).await;
    for lane in world.store.lanes().await.expect("lanes") {
        let holder = lane.holder.expect("the child holds it");
        world.lease(&LaneId::new(lane.id.as_str()), &holder).await;
    }
}
