//! Who is paid while there is not enough for all.

use landfall_core::near::{self, Payout};
use landfall_core::{NewTransfer, Payload, State};

use super::*;

fn settings() -> Settings {
    Settings { pause_ms: 2, pause_max_ms: 8, ..Settings::default() }
}

fn payout(id: u64, amount: u128) -> Transfer {
    let terms = near::Terms { network: "n".into(), token: "t".into(), sender: "s".into() };
    let payout = Payout::new(&terms, "a.near", &amount.to_string(), None).unwrap();
    let fingerprint = payout.fingerprint();
    let (scope, first) = ((String::new(), format!("k{id}")), State::Near(near::State::Received));
    let new = NewTransfer::begin(scope, fingerprint, Payload::Near(payout), first, &[], 1);
    new.unwrap().accepted_as(TransferId(id))
}

fn budget(balance: u128, available: u128) -> Budget {
    Budget { balance, available }
}

fn ids(members: &[Transfer]) -> Vec<u64> {
    members.iter().map(|member| member.id.0).collect()
}

#[test]
fn batches_fill_up_to_what_open_attempts_leave() {
    let candidates = vec![payout(1, 40), payout(2, 101), payout(3, 30), payout(4, 20)];
    let sorted = budget(100, 60).sort(candidates);
    assert_eq!(ids(&sorted.taken), [1, 4]);
    assert_eq!(ids(&sorted.waiting), [3]);
    assert_eq!(ids(&sorted.too_large), [2]);
}

#[test]
fn looks_in_vain_grow_rarer_but_not_for_one_who_wants_less() {
    let mut shortfall = Shortfall::default();
    let large = || vec![payout(1, 50)];
    let mut now_ms = 0;
    for pause_ms in [2, 4, 8, 8] {
        assert_eq!(shortfall.known(&large(), now_ms), None);
        let sorted = budget(10, 10).sort(large());
        shortfall.look(budget(10, 10), &sorted, now_ms, &settings());
        assert_eq!(shortfall.wait_ms(now_ms), pause_ms);
        assert_eq!(shortfall.known(&large(), now_ms), Some(budget(10, 10)));
        assert_eq!(shortfall.known(&[payout(2, 10)], now_ms), None, "it may be paid");
        now_ms += pause_ms;
    }
    assert!(!shortfall.is_over());
}

#[test]
fn whoever_is_no_longer_too_large_is_tried_at_once_and_the_growth_begins_anew() {
    let mut shortfall = Shortfall::default();
    let large = || vec![payout(1, 50), payout(2, 60), payout(3, 600)];
    let sorted = budget(10, 10).sort(large());
    shortfall.look(budget(10, 10), &sorted, 0, &settings());
    let sorted = budget(100, 100).sort(vec![payout(1, 50)]);
    let back = shortfall.look(budget(100, 100), &sorted, 2, &settings());
    assert_eq!(back, [TransferId(1), TransferId(2)]);
    assert!(!shortfall.is_over());
    let sorted = budget(600, 600).sort(vec![payout(3, 600)]);
    assert_eq!(shortfall.look(budget(600, 600), &sorted, 2, &settings()), [TransferId(3)]);
    assert!(shortfall.is_over());
    let sorted = budget(10, 10).sort(large());
    shortfall.look(budget(10, 10), &sorted, 3, &settings());
    assert_eq!(shortfall.wait_ms(3), 2);
}

#[test]
fn nobody_is_asked_while_enough_is_left_of_what_was_seen() {
    let mut shortfall = Shortfall::default();
    assert!(shortfall.covers(&[payout(1, 1_000)]), "nothing was ever short");
    let candidates = vec![payout(1, 500), payout(2, 30)];
    let sorted = budget(100, 100).sort(candidates);
    shortfall.look(budget(100, 100), &sorted, 0, &settings());
    assert!(shortfall.covers(&[payout(3, 60)]));
    assert!(!shortfall.covers(&[payout(4, 11)]), "10 are left");
    assert!(shortfall.covers(&[payout(4, 10)]));
    shortfall.suspect();
    assert!(!shortfall.covers(&[payout(5, 1)]));
}

#[test]
fn a_decided_attempt_is_a_reason_to_look_again() {
    let mut shortfall = Shortfall::default();
    let waiting = || vec![payout(1, 50)];
    let sorted = budget(60, 10).sort(waiting());
    shortfall.look(budget(60, 10), &sorted, 0, &settings());
    assert_eq!(shortfall.known(&waiting(), 1), Some(budget(60, 10)));
    shortfall.outdate();
    assert_eq!(shortfall.known(&waiting(), 1), None);
}

#[test]
fn what_lanes_were_given_is_spoken_for_until_it_is_stored() {
    let mut shortfall = Shortfall::default();
    shortfall.hand(&[payout(1, 40), payout(2, 2)], 0);
    assert_eq!(shortfall.in_hand(1), 42);
    shortfall.handed_on([TransferId(1)]);
    assert_eq!(shortfall.in_hand(1), 2);
    assert_eq!(shortfall.in_hand(OUT_MAX_MS), 0, "whoever had it has died");
}
