//! Torture in small: a few seeds, and the same seed twice.

use landfall_sim::torture::{Options, run};

#[test]
fn a_handful_of_seeds_hold() {
    for seed in 0..20 {
        let report = run(seed, Options::default());
        assert_eq!(
            report.failure,
            None,
            "seed {seed}: {}\n{:#?}",
            report.plan.describe(),
            report.story
        );
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
