//! Killed with -9 in the middle of commits, again and again: first whoever asks, then the server.

use std::process::Child;
use std::time::{Duration, Instant};

use landfall_conformance::World;
use landfall_conformance::crash::{self, Said};
use landfall_servers::{Postgres, witness};
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
/// The test that works as the witness.
const WITNESS: &str = "crash::a_witness_says_what_was_committed";

async fn at_store(url: &str) -> World {
    world(PostgresStore::open(url, PostgresOptions::default()).await.expect("a store that opens"))
}

/// Works until it is killed if it was started as the witness; else there is nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_witness_says_what_was_committed() {
    let Some((at, run)) = witness::called() else { return };
    crash::work(at_store(&at).await, run, witness::say).await;
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
    crash::check(&at_store(server.url()).await, said).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_kill_9_of_whoever_asked() {
    let server = Postgres::start().expect("PostgreSQL starts");
    let mut random = StdRng::seed_from_u64(9);
    let mut said = Vec::new();
    for run in 0..ROUNDS {
        let lines = random.random_range(1..COMMITS_MOST);
        said.extend(witness::kill_after::<Said>(WITNESS, server.url(), run, lines));
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
        said.extend(witness::hear::<Said>(WITNESS, server.url(), run, lines, kill));
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
        let overtake = |child: &mut Child| {
            witness::pause(child);
            let begin = Instant::now();
            let overtaking = async { crash::take_lanes(&at_store(server.url()).await).await };
            block_in_place(|| Handle::current().block_on(overtaking));
            assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
            witness::resume(child);
        };
        said.extend(witness::hear::<Said>(WITNESS, server.url(), run, 100, overtake));
        check(&server, &said).await;
    }
}
