//! Torture in small: a few seeds, the same seed twice, and every wound found.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use landfall_core::wound::{self, Wound};
use landfall_torture::enumerate::{Scenario, enumerate};
use landfall_torture::{Failure, Options, run};

/// A wound must be found within this many seeds.
const SEEDS_MAX: u64 = 500;

/// Wounds that worlds show seldom or never, each with the test that falls with it.
const SHOWN_BY_A_TEST: [(Wound, &str); 8] = [
    (
        Wound::BehindIgnored,
        "landfall-engine: a_store_behind_the_marks_that_takes_an_attempt_pays_twice",
    ),
    (
        Wound::MarksNotNoted,
        "landfall-engine: what_is_stored_and_not_noted_outside_the_store_is_paid_twice",
    ),
    (Wound::RefusedTooLate, "landfall-engine: a_refusal_believed_of_bytes_sent_before_pays_twice"),
    (
        Wound::RulesNeverChange,
        "landfall-torture: fooled::a_refusal_for_gas_that_counts_as_certain_pays_twice",
    ),
    (
        Wound::VetoIgnored,
        "landfall-rail-near: a_veto_that_is_ignored_sinks_what_was_seen_in_a_final_block",
    ),
    (Wound::VariantRefusedSinks, "landfall-lanes: a_new_nonce_while_a_variant_may_land_is_noticed"),
    (
        Wound::ContentUnheeded,
        "landfall-lanes: what_is_ours_by_content_and_taken_for_foreign_is_noticed",
    ),
    (Wound::SignedPastUnsure, "landfall-lanes: a_window_signed_past_an_unsure_attempt_is_noticed"),
];

/// Wounds that the worlds must show.
fn is_looked_for(wound: &Wound) -> bool {
    SHOWN_BY_A_TEST.iter().all(|(other, _)| other != wound)
}

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
    let all = Scenario::all().into_iter();
    let threads: Vec<_> = all.map(|one| std::thread::spawn(move || enumerate(one))).collect();
    let mut runs = 0;
    for thread in threads {
        let done = thread.join().expect("an enumeration reports");
        println!("{}: {} calls, {} runs", done.scenario.name, done.calls, done.runs);
        assert!(done.failures.is_empty(), "{}: {:#?}", done.scenario.name, done.failures);
        assert!(done.calls > 10, "a scenario that does next to nothing proves nothing");
        runs += done.runs;
    }
    println!("{runs} runs in all");
}

/// What gave a wounded relay away.
fn given_away_by(failure: Failure) -> String {
    match failure {
        Failure::Safety(broken) => broken.rule.to_owned(),
        Failure::Liveness(_) => "everything comes to rest".to_owned(),
        Failure::Crash(panic) => panic,
    }
}

/// The first seed that finds each wound, and what gave it away.
#[derive(Default)]
struct Search {
    next_seed: AtomicU64,
    found: Mutex<BTreeMap<String, (u64, String)>>,
}

impl Search {
    fn is_found_before(&self, wound: Wound, seed: u64) -> bool {
        let found = self.found.lock().unwrap();
        found.get(&format!("{wound:?}")).is_some_and(|(first, _)| *first < seed)
    }

    fn find(&self, wound: Wound, seed: u64, by: String) {
        if !self.is_found_before(wound, seed) {
            self.found.lock().unwrap().insert(format!("{wound:?}"), (seed, by));
        }
    }

    /// Takes seeds in their order until every wound is found. A world without an occasion for a
    /// mistake is the same with it and without, so it is run with none first, and then only with
    /// those for which it had one.
    fn run(&self) {
        loop {
            let seed = self.next_seed.fetch_add(1, Ordering::Relaxed);
            let found = |wound: &Wound| self.is_found_before(*wound, seed);
            if seed >= SEEDS_MAX || Wound::ALL.iter().filter(|one| is_looked_for(one)).all(found) {
                return;
            }
            wound::take_asked();
            let healthy = run(seed, Options::default());
            assert_eq!(healthy.failure, None, "seed {seed}, without a wound");
            let asked = wound::take_asked().into_iter();
            let worth_trying = asked.filter(|wound| is_looked_for(wound) && !found(wound));
            for wound in worth_trying.collect::<Vec<_>>() {
                wound::inflict(Some(wound));
                let wounded = run(seed, Options::default());
                wound::inflict(None);
                if let Some(failure) = wounded.failure {
                    self.find(wound, seed, given_away_by(failure));
                }
            }
        }
    }
}

#[test]
fn every_wound_is_found() {
    let search = Search::default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        (0..threads).for_each(|_| drop(scope.spawn(|| search.run())));
    });
    let found = search.found.into_inner().unwrap();
    let mut missed = Vec::new();
    for (wound, test) in SHOWN_BY_A_TEST {
        println!("{wound:?}: by {test}");
    }
    for wound in Wound::ALL.into_iter().filter(is_looked_for) {
        match found.get(&format!("{wound:?}")) {
            Some((seed, by)) => println!("{wound:?}: {} seeds, by \u{201c}{by}\u{201d}", seed + 1),
            None => missed.push(wound),
        }
    }
    assert!(missed.is_empty(), "not found within {SEEDS_MAX} seeds: {missed:?}");
}
