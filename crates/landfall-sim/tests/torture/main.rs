//! Torture in small: a few seeds, the same seed twice, and every wound found.

use landfall_core::wound::{self, Wound};
use landfall_sim::torture::enumerate::{Scenario, enumerate};
use landfall_sim::torture::{Failure, Options, run};

/// A wound must be found within this many seeds.
const SEEDS_MAX: u64 = 500;

/// Wounds that the worlds bring to light. The others in [`Wound::ALL`] are made, and no world shows
/// them yet; docs/exactly-once.md names them.
const FOUND: [Wound; 22] = [
    Wound::StoredAfterSent,
    Wound::TimeoutIsFailure,
    Wound::EpochUnchecked,
    Wound::NewBytesWhileAdrift,
    Wound::BlameByPosition,
    Wound::RetryIsNew,
    Wound::HintOverStore,
    Wound::NonceReused,
    Wound::LookedTooEarly,
    Wound::SettledTwice,
    Wound::FingerprintIgnored,
    Wound::CompensatedOnTimeout,
    Wound::DedupeOutsideCommit,
    Wound::CommitForgotten,
    Wound::NotFoundIsFailed,
    Wound::RefusalNotRecorded,
    Wound::OneNodesNonce,
    Wound::QuorumOfOne,
    Wound::HistoryUnchecked,
    Wound::OpenFenceLanded,
    Wound::RecoveryLeftOut,
    Wound::SiblingsPaid,
];

#[test]
fn a_handful_of_seeds_hold() {
    for seed in 0..40 {
        let report = run(seed, Options::default());
        let plan = report.plan.describe();
        assert_eq!(report.failure, None, "seed {seed}: {plan}\n{:#?}", report.story);
    }
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for seed in 0..50 {
        let once = run(seed, Options::default());
        let twice = run(seed, Options::default());
        assert_eq!(once.digest, twice.digest, "seed {seed}");
    }
}

/// Crashed before and after every call, and every effect repeated: no run may differ in the end.
#[test]
fn a_crash_at_every_single_point_changes_nothing() {
    let threads = Scenario::ALL.map(|one| std::thread::spawn(move || enumerate(one)));
    let mut runs = 0;
    for thread in threads {
        let done = thread.join().expect("an enumeration reports");
        println!("{:?}: {} calls, {} runs", done.scenario, done.calls, done.runs);
        assert!(done.failures.is_empty(), "{:?}: {:#?}", done.scenario, done.failures);
        assert!(done.calls > 10, "a scenario that does next to nothing proves nothing");
        runs += done.runs;
    }
    println!("{runs} runs in all");
}

/// How many seeds it takes to find a wound, and what gave it away.
fn seeds_to_find(wound: Wound) -> Option<(u64, String)> {
    wound::inflict(Some(wound));
    let found = (0..SEEDS_MAX).find_map(|seed| {
        let broken = match run(seed, Options::default()).failure? {
            Failure::Safety(broken) => broken.rule.to_owned(),
            Failure::Liveness(_) => "everything comes to rest".to_owned(),
            Failure::Crash(panic) => panic,
        };
        Some((seed + 1, broken))
    });
    wound::inflict(None);
    found
}

#[test]
fn every_wound_is_found() {
    let threads = FOUND.map(|wound| (wound, std::thread::spawn(move || seeds_to_find(wound))));
    let mut missed = Vec::new();
    for (wound, thread) in threads {
        match thread.join().expect("a wounded run is a report, not a panic") {
            Some((seeds, rule)) => println!("{wound:?}: {seeds} seeds, by \u{201c}{rule}\u{201d}"),
            None => missed.push(wound),
        }
    }
    assert!(missed.is_empty(), "not found within {SEEDS_MAX} seeds: {missed:?}");
}
