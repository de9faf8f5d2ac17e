//! Killed with -9 in the middle of commits, again and again: first whoever asks, then the server.

use std::process::Child;
use std::sync::Arc;

use landfall_ledger::conformance::crash::{self, Said};
use landfall_ledger::conformance::new_book;
use landfall_ledger::{Book, Contract, Kind};
use landfall_servers::witness;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use crate::{Database, open};

/// Kills of each kind. Each leaves the database for the next to go on with.
const KILLS: u64 = 6;
/// Pauses. Most last until the server has ended a session that stands still.
const PAUSES: u64 = 3;

/// The test that works as the witness.
const WITNESS: &str = "crash::a_witness_says_what_was_answered";

async fn funding(url: &str) -> Arc<dyn Book> {
    open(url, Contract::new("funding", Kind::Freeze)).await.expect("a book that opens")
}

/// Works until it is killed if it was started as the witness; else there is nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_witness_says_what_was_answered() {
    let Some((url, run)) = witness::called() else { return };
    crash::work(funding(&url).await, run, witness::say).await;
}

impl Database {
    fn hear(&self, run: u64, lines: usize, terrible: impl FnOnce(&mut Child)) -> Vec<Said> {
        witness::hear(WITNESS, self.0.url(), run, lines, terrible)
    }

    async fn survives(&self, rounds: u64, interrupt: impl Fn(u64, usize) -> Vec<Said>) {
        crash::survive(rounds, interrupt, async || funding(self.0.url()).await).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_kill_9_of_whoever_asked() {
    let database = Database::new();
    let url = database.0.url();
    database.survives(KILLS, |run, lines| witness::kill_after(WITNESS, url, run, lines)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_kill_9_of_the_server() {
    let database = Database::new();
    // The witness fails by itself as soon as it is told that the server is gone.
    let kill = |_: &mut Child| database.0.kill().expect("kill -9");
    let interrupt = |run, lines| {
        let said = database.hear(run, lines, kill);
        database.0.restart().expect("the server starts again");
        said
    };
    database.survives(KILLS, interrupt).await;
}

/// Between its lock and its commit, as often as not: others must not wait for it for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_is_paused_does_not_stop_the_others() {
    let database = Database::new();
    let interrupt = |run, lines| {
        let book = wait(funding(database.0.url()));
        let overtake = |child: &mut Child| {
            witness::pause(child);
            wait(crash::write(book.as_ref()));
            child.kill().expect("kill -9");
        };
        database.hear(run, 50 + lines, overtake)
    };
    database.survives(PAUSES, interrupt).await;
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    block_in_place(|| Handle::current().block_on(future))
}

/// One book all along: it has to find the server again by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_book_outlives_its_server() {
    let database = Database::new();
    let book = new_book(&database, Kind::Freeze).await;
    crash::check(book.clone(), &[]).await;
    for _ in 0..3 {
        database.0.restart().expect("the server starts again");
        // The first call may meet a connection that is gone; the one after it may not.
        let _ = (book.accounts(1).await, book.accounts(1).await);
        crash::check(book.clone(), &[]).await;
    }
}
