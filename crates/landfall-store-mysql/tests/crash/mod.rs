//! Killed with -9 in the middle of its commits: the process that writes, and the server itself.

use std::process::Child;
use std::sync::Arc;

use landfall_conformance::crash::{self, Said};
use landfall_conformance::{ManualClock, World};
use landfall_servers::{MariaDb, witness};
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
/// The test that works as the witness.
const WITNESS: &str = "crash::a_witness_says_what_was_committed";

async fn world(url: &str) -> World {
    let clock = Arc::new(ManualClock::new());
    let options = MysqlOptions { clock: Some(clock.clone()), ..MysqlOptions::default() };
    let store = MysqlStore::open(url, options).await.expect("a store that opens");
    World { store: Arc::new(store), time: clock }
}

/// Works until it is killed if it was started as the witness; else there is nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_witness_says_what_was_committed() {
    let Some((at, run)) = witness::called() else { return };
    crash::work(world(&at).await, run, witness::say).await;
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
        said.extend(witness::kill_after::<Said>(WITNESS, &url, run, lines));
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
        // The witness's workers give up when the store does.
        let kill = |_: &mut Child| server.kill().expect("kill -9");
        said.extend(witness::hear::<Said>(WITNESS, server.url(), run, lines, kill));
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
        let overtake = |child: &mut Child| {
            witness::pause(child);
            let overtaking = async { crash::take_lanes(&world(&url).await).await };
            block_in_place(|| Handle::current().block_on(overtaking));
            witness::resume(child);
        };
        said.extend(witness::hear::<Said>(WITNESS, &url, run, 100, overtake));
        check(&url, &said).await;
    }
}
