//! The dedupe window, and what each stored state asks for. The whole table is in `courier`'s tests.

use landfall_core::internal;

use super::*;

const HOUR_MS: u64 = 3_600_000;

#[test]
fn nothing_is_repeated_near_the_end_of_a_dedupe_window_or_after_it() {
    let check = |window_ms: Option<u64>, age_ms: u64, expected: bool| {
        let now_ms = 1_700_000_000_000;
        assert_eq!(remembered(window_ms, now_ms - age_ms, now_ms), expected, "{age_ms} ms old");
        // The same for a clock that was turned back meanwhile.
        assert_eq!(remembered(window_ms, now_ms, now_ms - age_ms), expected, "{age_ms} ms ahead");
    };
    check(None, 0, true);
    check(None, 1_000 * HOUR_MS, true);
    // A tenth of the window is left alone.
    check(Some(10 * HOUR_MS), 0, true);
    check(Some(10 * HOUR_MS), 9 * HOUR_MS - 1, true);
    check(Some(10 * HOUR_MS), 9 * HOUR_MS, false);
    check(Some(10 * HOUR_MS), 10 * HOUR_MS, false);
    check(Some(10 * HOUR_MS), 11 * HOUR_MS, false);
    // And at least half a minute of it.
    check(Some(60_000), 29_999, true);
    check(Some(60_000), 30_000, false);
    check(Some(30_000), 0, false);
    check(Some(0), 0, false);
    check(Some(u64::MAX), HOUR_MS, true);
}

#[test]
fn a_window_is_over_when_all_of_it_has_passed() {
    let now_ms = 1_700_000_000_000;
    let check = |window_ms: u64, since_ms: u64, expected: bool| {
        assert_eq!(is_over(window_ms, since_ms, now_ms), expected, "{window_ms} {since_ms}");
    };
    check(HOUR_MS, now_ms - HOUR_MS, true);
    check(HOUR_MS, now_ms - HOUR_MS + 1, false);
    // Nothing is over by a clock that was turned back.
    check(HOUR_MS, now_ms + 2 * HOUR_MS, false);
}

#[test]
fn every_state_that_is_not_final_asks_for_something() {
    for state in State::ALL {
        for confirmed in [false, true] {
            let asks = due(state, confirmed);
            assert_eq!(asks == Due::Nothing, state.stage().is_none(), "{state:?}");
            if let Due::Announce(event) = asks {
                assert!(internal::next(state, confirmed, event).is_some(), "{state:?} {event:?}");
            }
        }
    }
}

#[test]
fn once_the_target_has_the_funds_only_the_commit_is_asked_for() {
    assert_eq!(due(State::TargetPending, true), Due::Call(Operation::Commit));
    assert_eq!(due(State::TargetPending, false), Due::Call(Operation::Deposit));
}
