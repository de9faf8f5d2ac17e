//! How fast a store is: the same lives on every one, of many callers at once, every answer timed.
//!
//! [`payouts`] accepts, carries in attempts of 100 and settles; [`moves`] takes transfers between
//! services through their five moves; [`executions`] are the transaction manager's. Each store has
//! an example that runs the first two where it lives, and `landfall-lanes-http` one for the third.
//! **Rule:** an answer that a relay could not work with ends the run.

mod executions;
mod moves;
mod payouts;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use landfall_core::store::{Accepted, Store};
use landfall_core::{NewTransfer, Transfer};

pub use executions::{Executions, Space, executions};
pub use moves::moves;
pub use payouts::{Payouts, payouts};

/// When everything here happens: leases last, and nothing falls due.
const NOW_MS: u64 = 1_700_000_000_000;

/// What is asked of a store.
#[derive(Debug, Clone)]
pub struct Load {
    /// Tells its transfers and its lanes from those of another load on the same store.
    pub name: String,
    pub callers: usize,
    pub transfers: usize,
    pub lanes: usize,
}

/// How fast one kind of call was.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    pub transfers_per_s: f64,
    pub p50: Duration,
    pub p99: Duration,
}

impl Pace {
    fn new(mut answers: Vec<Duration>, transfers: usize, took: Duration) -> Pace {
        answers.sort_unstable();
        let at = |share: f64| answers[((answers.len() - 1) as f64 * share) as usize];
        let (p50, p99) = (at(0.5), at(0.99));
        Pace { transfers_per_s: transfers as f64 / took.as_secs_f64(), p50, p99 }
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pace { transfers_per_s, p50, p99 } = self;
        write!(f, "{transfers_per_s:>10.0}/s   p50 {p50:>9.3?}   p99 {p99:>9.3?}")
    }
}

/// Says a measure by its name.
pub fn print(what: impl fmt::Display, measured: impl fmt::Display) {
    println!("{:<14}{measured}", what.to_string());
}

/// What one caller after the other came back with, and how long it took all of them.
async fn together<T: Send + 'static>(
    callers: impl Iterator<Item = impl Future<Output = T> + Send + 'static>,
) -> (Vec<T>, Duration) {
    let begun = Instant::now();
    let tasks: Vec<_> = callers.map(tokio::spawn).collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.expect("no caller gives up"));
    }
    (results, begun.elapsed())
}

/// Hands out the numbers below the end, each once.
#[derive(Clone)]
struct Numbers {
    next: Arc<AtomicUsize>,
    end: usize,
}

impl Numbers {
    fn below(end: usize) -> Numbers {
        Numbers { next: Arc::new(AtomicUsize::new(0)), end }
    }
}

impl Iterator for Numbers {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.end).then_some(number)
    }
}

async fn accept(store: &dyn Store, new: NewTransfer) -> Transfer {
    let new = NewTransfer { due_ms: Some(NOW_MS + 1_000), ..new };
    match store.accept(vec![new]).await.expect("accept").remove(0) {
        Accepted::Created(transfer) => transfer,
        other => panic!("not new: {other:?}"),
    }
}
