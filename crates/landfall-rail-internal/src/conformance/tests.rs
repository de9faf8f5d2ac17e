//! The suite itself: it lets a correct service pass and finds each broken one.

use super::*;
use crate::double::{Broken, Double};

/// The names of the checks that fail.
async fn failed(double: Double) -> Vec<&'static str> {
    let breaches = exercise_service(&double).await.err().unwrap_or_default();
    breaches.into_iter().map(|breach| breach.check).collect()
}

#[tokio::test]
async fn a_service_that_keeps_the_contract_passes() {
    assert_eq!(exercise_service(&Double::new(None)).await, Ok(()));
}

#[tokio::test]
async fn lost_and_late_calls_are_no_breach() {
    for seed in 0..50 {
        assert_eq!(exercise_service(&Double::in_a_storm(seed)).await, Ok(()), "seed {seed}");
    }
}

#[tokio::test]
async fn a_service_that_acts_twice_is_found() {
    let failed = failed(Double::new(Some(Broken::NoDedupe))).await;
    for check in [
        "a_withdrawal_takes_the_amount_once",
        "a_deposit_adds_the_amount_once",
        "a_rollback_gives_back_once",
        "a_withdrawal_that_comes_again_late_takes_nothing",
        "of_many_calls_at_once_one_acts",
    ] {
        assert!(failed.contains(&check), "{check} is not among {failed:?}");
    }
}

#[tokio::test]
async fn a_service_that_forgets_its_refusals_is_found() {
    let failed = failed(Double::new(Some(Broken::RefusalNotRecorded))).await;
    for check in [
        "a_refused_withdrawal_takes_nothing_and_stays_refused",
        "a_refused_deposit_adds_nothing_and_stays_refused",
    ] {
        assert!(failed.contains(&check), "{check} is not among {failed:?}");
    }
}

#[tokio::test]
async fn a_service_that_calls_the_unknown_refused_is_found() {
    let failed = failed(Double::new(Some(Broken::QuerySaysRefusedForUnknown))).await;
    let expected = ["what_was_never_asked_for_is_unknown", "operations_of_one_id_are_told_apart"];
    assert_eq!(failed, expected);
}

#[tokio::test]
async fn a_service_that_rolls_back_what_it_committed_is_found() {
    let failed = failed(Double::new(Some(Broken::RollbackAfterCommit))).await;
    assert_eq!(failed, ["a_committed_withdrawal_is_not_rolled_back"]);
}
