//! Killed with -9 in the middle of commits, again and again: first whoever asks, then the server.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use landfall_ledger::conformance::crash::{self, Said};
use landfall_ledger::{Answer, Book, Kind};
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use crate::{contract, deposit, open, server};

/// Kills of each kind. Each leaves the database for the next to go on with.
const ROUNDS: u64 = 6;
/// Set for the child: the server it is to work on, and which run it is.
const SERVER: &str = "LANDFALL_CRASH_SERVER";
const RUN: &str = "LANDFALL_CRASH_RUN";
/// Before every line that the child says; the test harness says others.
const SAYS: &str = "said: ";

/// Works until it is killed if it was started as the child; else there is nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_says_what_was_answered() {
    let (Ok(url), Ok(run)) = (std::env::var(SERVER), std::env::var(RUN)) else { return };
    let say = |said: Said| {
        // One write per line, so that a kill leaves no half of one.
        let line = format!("{SAYS}{said}\n");
        std::io::stdout().lock().write_all(line.as_bytes()).expect("somebody listens");
    };
    let book = Arc::new(open(&url, contract(Kind::Freeze)).await);
    crash::work(book, run.parse().expect("a number"), say).await;
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
        .args(["--exact", "crash::a_child_says_what_was_answered", "--nocapture"])
        .env(SERVER, url)
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

/// Looks at what is left, once it is settled: a commit that a killed child had sent may still be
/// under way, and whoever writes next waits for it.
async fn check(url: &str, run: u64, said: &[Said]) {
    let book = Arc::new(open(url, contract(Kind::Freeze)).await);
    let settled = book.apply(vec![deposit(u128::MAX / 2 - u128::from(run))], 0).await;
    assert_eq!(settled, Ok(vec![Answer::DONE]));
    crash::check(book, said).await;
}

fn lines(run: u64) -> usize {
    1 + (run as usize * 97) % 400
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_kill_9_of_whoever_asked() {
    let server = server();
    let mut said = Vec::new();
    for run in 0..ROUNDS {
        let killed = |child: &mut Child| child.kill().expect("kill -9");
        said.extend(interrupt_after(server.url(), run, lines(run), killed));
        check(server.url(), run, &said).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_kill_9_of_the_server() {
    let server = server();
    let mut said = Vec::new();
    for run in 0..ROUNDS {
        // The child fails by itself as soon as it is told that the server is gone.
        let killed = |_: &mut Child| server.kill().expect("kill -9");
        said.extend(interrupt_after(server.url(), run, lines(run), killed));
        server.restart().expect("the server starts again");
        check(server.url(), run, &said).await;
    }
}

/// Between its lock and its commit, as often as not: others must not wait for it for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_that_is_paused_does_not_stop_the_others() {
    let server = server();
    let mut said = Vec::new();
    for run in 0..ROUNDS {
        let book = open(server.url(), contract(Kind::Freeze)).await;
        let paused = |child: &mut Child| {
            let signal = |name: &str| {
                let sent = Command::new("kill").args([name, &child.id().to_string()]).status();
                assert!(sent.expect("kill runs").success());
            };
            signal("-STOP");
            let asked = book.apply(vec![deposit(u128::MAX - u128::from(run))], 0);
            let told = block_in_place(|| Handle::current().block_on(asked));
            assert_eq!(told, Ok(vec![Answer::DONE]));
            child.kill().expect("kill -9");
        };
        said.extend(interrupt_after(server.url(), run, 50 + lines(run), paused));
        check(server.url(), run, &said).await;
    }
}

/// One book all along: it has to find the server again by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_book_outlives_its_server() {
    let server = server();
    let book = Arc::new(open(server.url(), contract(Kind::Freeze)).await);
    crash::check(book.clone(), &[]).await;
    for _ in 0..3 {
        server.restart().expect("the server starts again");
        // The first call may meet a connection that is gone; the one after it may not.
        let _ = (book.accounts(1).await, book.accounts(1).await);
        crash::check(book.clone(), &[]).await;
    }
}
