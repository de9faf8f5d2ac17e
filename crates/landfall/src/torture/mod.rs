//! `landfall torture`: the simulator that tries to make this very relay pay twice.
//!
//! Each seed is a world of its own on a thread of its own; as many at once as there are cores. The
//! first failure ends the run and is made as small as it will go.
//! Not here: the worlds and what they check (`landfall_torture`).

mod cut;
mod progress;
mod report;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use landfall_core::Clock;
use landfall_core::guard::Guard;
use landfall_torture::{Options, Plan, Report, run_plan};

use crate::cli::TortureArguments;
use crate::show::Show;
use crate::wire;
use cut::Cut;
use progress::Progress;

/// Seeds of a run that names none.
const SEEDS: u64 = 1_000;
/// How often the progress is drawn on a terminal.
const DRAW: Duration = Duration::from_millis(200);

/// What the seeds run so far have done.
#[derive(Debug, Clone, Default)]
pub struct Sum {
    pub seeds: u64,
    pub simulated_ms: u64,
    pub completed: u64,
    pub attempts: u64,
    /// In how many seeds each guard was met, in their order.
    met: Vec<u64>,
}

impl Sum {
    fn add(&mut self, report: &Report) {
        self.seeds += 1;
        self.simulated_ms += report.simulated_ms;
        self.completed += report.completed as u64;
        self.attempts += report.attempts as u64;
        self.met.resize(Guard::ALL.len(), 0);
        for guard in &report.guards {
            self.met[*guard as usize] += 1;
        }
    }

    /// Every guard, and in how many seeds it was met.
    fn guards(&self) -> impl Iterator<Item = (Guard, u64)> {
        let met = self.met.iter().copied().chain(std::iter::repeat(0));
        Guard::ALL.iter().copied().zip(met)
    }

    /// Guards that no seed has met.
    fn never_met(&self) -> Vec<Guard> {
        self.guards().filter(|(_, seeds)| *seeds == 0).map(|(guard, _)| guard).collect()
    }
}

/// Which seeds, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    first: u64,
    /// None: until the time is over.
    seeds: Option<u64>,
    minutes: Option<u64>,
}

impl Span {
    /// `--seed` alone is that one; `--minutes` alone goes on until they are over.
    fn of(arguments: &TortureArguments) -> Span {
        let seeds = match (arguments.seeds, arguments.seed, arguments.minutes) {
            (Some(seeds), _, _) => Some(seeds),
            (None, _, Some(_)) => None,
            (None, Some(_), None) => Some(1),
            (None, None, None) => Some(SEEDS),
        };
        Span { first: arguments.seed.unwrap_or(0), seeds, minutes: arguments.minutes }
    }
}

/// What the threads share.
struct Shared {
    span: Span,
    cut: Cut,
    keep_trace: bool,
    clock: Arc<dyn Clock>,
    begun_ms: u64,
    /// The next seed, counted from the first.
    next: AtomicU64,
    over: AtomicBool,
    sum: Mutex<Sum>,
    failed: Mutex<BTreeMap<u64, Report>>,
}

impl Shared {
    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.clock.monotonic_ms().saturating_sub(self.begun_ms))
    }

    fn take(&self) -> Option<u64> {
        let late = self.span.minutes.is_some_and(|minutes| {
            self.elapsed() >= Duration::from_secs(minutes.saturating_mul(60))
        });
        if late || self.over.load(Ordering::Relaxed) {
            return None;
        }
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        let wanted = self.span.seeds.is_none_or(|seeds| index < seeds);
        wanted.then_some(self.span.first.checked_add(index)?)
    }

    fn work(&self) {
        while let Some(seed) = self.take() {
            let report = run_plan(self.cut.plan(seed), options(self.keep_trace));
            lock(&self.sum).add(&report);
            if self.keep_trace {
                report::write_trace(seed, &report);
            }
            if report.failure.is_some() {
                self.over.store(true, Ordering::Relaxed);
                lock(&self.failed).insert(seed, report);
            }
        }
    }
}

/// A thread that panicked while it held the lock has left nothing half done in it.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn options(keep_trace: bool) -> Options {
    let mut options = Options::default();
    if keep_trace {
        options.keep_trace = true;
    }
    options
}

/// Where a seed's whole history is written.
fn trace_file(seed: u64) -> PathBuf {
    PathBuf::from(format!("torture-{seed}.trace"))
}

pub fn run(arguments: &TortureArguments) -> ExitCode {
    let show = Show::on_stdout(arguments.json);
    let cut = match Cut::of(arguments) {
        Ok(cut) => cut,
        Err(why) => {
            eprintln!("error: {why}");
            return ExitCode::from(2);
        }
    };
    let span = Span::of(arguments);
    let clock = wire::clock();
    let shared = Shared {
        span,
        cut,
        keep_trace: arguments.trace,
        begun_ms: clock.monotonic_ms(),
        clock,
        next: AtomicU64::new(0),
        over: AtomicBool::new(false),
        sum: Mutex::default(),
        failed: Mutex::default(),
    };
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = span.seeds.map_or(cores, |seeds| cores.min(seeds.max(1) as usize));
    let mut progress = Progress::new(span.seeds, span.minutes);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| shared.work())).collect();
        while !workers.iter().all(|worker| worker.is_finished()) {
            std::thread::park_timeout(DRAW);
            progress.at(&lock(&shared.sum).clone(), shared.elapsed());
        }
    });
    progress.end();
    let seconds = shared.elapsed().as_secs_f64();
    let sum = lock(&shared.sum).clone();
    let failed = std::mem::take(&mut *lock(&shared.failed));
    let others: Vec<u64> = failed.keys().skip(1).copied().collect();
    let first = failed.into_iter().next();
    let verdict = first.map(|(seed, report)| report::Found::new(seed, &shared.cut, report, others));
    report::print(&show, &sum, seconds, verdict.as_ref());
    let wanting = arguments.all_guards && !sum.never_met().is_empty();
    report::exit_code(verdict.as_ref(), wanting)
}

/// The plan that a seed stands for.
fn plan_of(seed: u64) -> Plan {
    use rand::SeedableRng as _;
    Plan::draw(seed, &mut rand::rngs::StdRng::seed_from_u64(seed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Arguments, Command};
    use clap::Parser as _;

    fn span(words: &[&str]) -> Span {
        let line = ["landfall", "torture"].iter().chain(words);
        match Arguments::parse_from(line).command {
            Some(Command::Torture(arguments)) => Span::of(&arguments),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_seed_alone_is_that_one_and_none_is_a_thousand() {
        let check = |words: &[&str], first, seeds, minutes| {
            assert_eq!(span(words), Span { first, seeds, minutes }, "{words:?}");
        };
        check(&[], 0, Some(1_000), None);
        check(&["--seed", "42"], 42, Some(1), None);
        check(&["--seed", "42", "--seeds", "1000"], 42, Some(1_000), None);
        check(&["--minutes", "5"], 0, None, Some(5));
        check(&["--seed", "7", "--minutes", "5"], 7, None, Some(5));
        check(&["--seeds", "10", "--minutes", "5"], 0, Some(10), Some(5));
    }
}
