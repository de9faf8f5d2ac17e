//! Killed with -9 in the middle of commits, again and again: first whoever asks, then the server.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use landfall_conformance::World;
use landfall_conformance::crash::{self, Said};
use landfall_core::LaneId;
use landfall_servers::Postgres;
use landfall_store_postgres::{PostgresOptions, PostgresStore};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::runtime::Handle;
use tokio::task::block_in_place;
use tokio_postgres::NoTls;

use crate::world;

/// Kills of each kind. Each leaves the database for the next to go on with.
const ROUNDS: u64 = 6;
/// Most commits before a kill.
const COMMITS_MOST: usize = 500;
/// Set for the child: the store it is to work on, and which run it is.
const STORE: &str = "LANDFALL_CRASH_STORE";
const RUN: &str = "LANDFALL_CRASH_RUN";
/// Before every line that the child says; the test harness says others.
const SAYS: &str = "said: ";

async fn at(url: &str) -> World {
    world(PostgresStore::open(url, PostgresOptions::default()).await.expect("a store that opens"))
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
    crash::work(at(&url).await, run.parse().expect("a number"), say).await;
}

/// Starts a child, does something terrible once it has said `lines` things, and returns all it
/// said.
fn interrupt_after(
    url: &str,
    run: u64,
    lines: usize,
    terrible: impl FnOnce(&mut Child),
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
    let mut terrible = Some(terrible);
    while output.read_line(&mut line).expect("text") > 0 {
        let whole = line.strip_suffix('\n').and_then(|line| line.split_once(SAYS));
        if let Some((_, text)) = whole {
            said.push(text.parse().expect("a line of ours"));
        }
        if said.len() == lines
            && let Some(terrible) = terrible.take()
        {
            terrible(&mut child);
        }
        line.clear();
    }
    let status = child.wait().expect("its end");
    assert!(!status.success() && terrible.is_none(), "the child ended by itself: {status}");
    said
}

/// Looks at what is left once it is settled: the server may still be at the last commit of somebody
/// who is no more.
async fn check(server: &Postgres, said: &[Said]) {
    let (client, driver) = tokio_postgres::connect(server.url(), NoTls).await.expect("a session");
    tokio::spawn(driver);
    let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
    while client.query_one(others, &[]).await.expect("counted").get::<_, i64>(0) > 0 {
        tokio::task::yield_now().await;
    }
    crash::check(&at(server.url()).await, said).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_kill_9_of_whoever_asked() {
    let server = Postgres::start().expect("PostgreSQL starts");
    let mut random = StdRng::seed_from_u64(9);
    let mut said = Vec::new();
    for run in 0..ROUNDS {
        let lines = random.random_range(1..COMMITS_MOST);
        let kill = |child: &mut Child| child.kill().expect("kill -9");
        said.extend(interrupt_after(server.url(), run, lines, kill));
        check(&server, &said).await;
    }
}

/// Its workers give up on the first failure: what they were told before must be there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_kill_9_of_the_server() {
    let server = Postgres::start().expect("PostgreSQL starts");
    let mut random = StdRng::seed_from_u64(10);
    let mut said = Vec::new();
    for run in 0..ROUNDS {
        let lines = random.random_range(1..COMMITS_MOST);
        let kill = |_: &mut Child| server.kill().expect("kill -9");
        said.extend(interrupt_after(server.url(), run, lines, kill));
        server.restart().expect("it starts again");
        check(&server, &said).await;
    }
}

/// Whoever stands still in the middle of a transaction keeps rows locked, until the server ends its
/// session; then others take its lanes, and it has lost them when it goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_stands_still_keeps_no_lane_and_stores_nothing_afterwards() {
    let server = Postgres::start().expect("PostgreSQL starts");
    let mut said = Vec::new();
    for run in 0..3 {
        let signal = |child: &Child, name: &str| {
            let sent = Command::new("kill").args([name, &child.id().to_string()]).status();
            assert!(sent.expect("kill runs").success());
        };
        let overtake = |child: &mut Child| {
            signal(child, "-STOP");
            let begin = Instant::now();
            block_in_place(|| Handle::current().block_on(take_lanes(&server)));
            assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
            signal(child, "-CONT");
        };
        said.extend(interrupt_after(server.url(), run, 100, overtake));
        check(&server, &said).await;
    }
}

/// Takes every lane of the child, which goes by the same name.
async fn take_lanes(server: &Postgres) {
    let world = at(server.url()).await;
    for lane in world.store.lanes().await.expect("lanes") {
        let holder = lane.holder.expect("the child holds it");
        world.lease(&LaneId::new(lane.id.as_str()), &holder).await;
    }
}
