//! Whose fault it is, step by step.

use landfall_core::near::{self, Payout};
use landfall_core::{Event, Fault, NewTransfer, Payload, State};

use super::*;

fn settings() -> Settings {
    Settings { pause_ms: 2, pause_max_ms: 8, aside_ms: 10, aside_max_ms: 40, ..Settings::default() }
}

fn payout(id: u64, receiver: &str) -> Transfer {
    let terms = near::Terms { network: "n".into(), token: "t".into(), sender: "s".into() };
    let payout = Payout::new(&terms, receiver, "5", None).unwrap();
    let fingerprint = payout.fingerprint();
    let (scope, first) = ((String::new(), format!("k{id}")), State::Near(near::State::Received));
    let events = [Event::Enqueued];
    let new = NewTransfer::begin(scope, fingerprint, Payload::Near(payout), first, &events, 1);
    new.unwrap().accepted_as(TransferId(id))
}

fn named<'a>(member: &'a Transfer, height: u64) -> Named<'a> {
    Named {
        member,
        shortage: Shortage::Contract,
        message: "paused",
        height,
        alone: false,
        refused: false,
        tries: 0,
        until_ms: 0,
    }
}

/// A stage in which so many receivers were named at block 5, at time 0.
fn after_naming(count: u64) -> Troubles {
    let mut troubles = Troubles::default();
    for id in 1..=count {
        let member = payout(id, &format!("r{id}.near"));
        troubles.of(Purpose::Pay).name(named(&member, 5), 0, &settings());
    }
    troubles
}

#[test]
fn one_receiver_however_often_it_fails_is_not_everybody() {
    let mut troubles = Troubles::default();
    for id in 1..50 {
        let member = payout(id, "bad.near");
        let again = Named { alone: true, tries: 1, ..named(&member, id) };
        troubles.of(Purpose::Pay).name(again, 0, &settings());
    }
    assert_eq!(troubles.gate(Purpose::Pay, 0), Gate::Open);
    assert!(troubles.aside().unwrap().contains("k49 to bad.near"));
}

#[test]
fn three_receivers_with_nobody_served_in_between_are_everybody() {
    assert_eq!(after_naming(2).gate(Purpose::Pay, 0), Gate::Open);
    let mut troubles = after_naming(3);
    assert_eq!(troubles.gate(Purpose::Pay, 0), Gate::Closed(2));
    assert!(troubles.paused().unwrap().contains("paused"));
    assert_eq!(troubles.gate(Purpose::Prepare, 0), Gate::Open, "that is another stage");
    let mut troubles = after_naming(2);
    troubles.serve(Purpose::Pay, &[payout(8, "r8.near")], 6, 0);
    let third = payout(3, "r3.near");
    troubles.of(Purpose::Pay).name(named(&third, 7), 0, &settings());
    assert_eq!(troubles.gate(Purpose::Pay, 0), Gate::Open);
}

/// Its members may fail, each by its own fault, and there may be no others.
#[test]
fn a_pause_for_refusals_ends_with_whatever_lands_and_no_other_pause_does() {
    let mut troubles = Troubles::default();
    let (mut trouble, bad) = (Trouble::default(), payout(1, "bad.near"));
    for (shortage, ends) in [(Shortage::Refused, true), (Shortage::Contract, false)] {
        troubles.of(Purpose::Prepare).pause(shortage, "no", 0, &settings());
        assert!(troubles.of(Purpose::Prepare).is_everybodys(&bad, false));
        assert_eq!(troubles.of(Purpose::Prepare).landed(0), []);
        assert_eq!(troubles.of(Purpose::Prepare).is_everybodys(&bad, false), !ends);
    }
    assert_eq!(trouble.landed(0), [], "there is none to end");
}

#[test]
fn a_member_that_failed_before_tells_nothing_of_others() {
    let mut troubles = after_naming(2);
    let mut marked = payout(3, "r3.near");
    marked.error = Some(Fault {
        error_type: "relay".into(),
        message: "m".into(),
        retry_count: 4,
        will_retry: true,
    });
    let again = Named { alone: true, ..named(&marked, 6) };
    troubles.of(Purpose::Pay).name(again, 0, &settings());
    assert_eq!(troubles.gate(Purpose::Pay, 0), Gate::Open);
    assert_eq!(troubles.of(Purpose::Pay).tries(&marked), 4, "the store remembers them");
}

#[test]
fn too_few_funds_for_a_batch_are_no_evidence_but_for_one_they_are() {
    for shortage in [Shortage::Tokens, Shortage::Native] {
        let mut troubles = after_naming(2);
        let third = payout(3, "r3.near");
        let company = Named { shortage, ..named(&third, 6) };
        troubles.of(Purpose::Pay).name(company, 0, &settings());
        assert_eq!(troubles.gate(Purpose::Pay, 0), Gate::Open);
        let fourth = payout(4, "r4.near");
        let alone = Named { shortage, alone: true, ..named(&fourth, 6) };
        troubles.of(Purpose::Pay).name(alone, 0, &settings());
        assert_eq!(troubles.gate(Purpose::Pay, 0), Gate::Closed(2));
    }
}

#[test]
fn pauses_grow_to_the_cap_with_one_probe_after_each() {
    let mut troubles = after_naming(3);
    let mut now_ms = 0;
    for (id, pause_ms) in [(10, 2), (11, 4), (12, 8), (13, 8)] {
        assert_eq!(troubles.gate(Purpose::Pay, now_ms), Gate::Closed(pause_ms));
        now_ms += pause_ms;
        assert_eq!(troubles.gate(Purpose::Pay, now_ms), Gate::Probe);
        let probe = payout(id, &format!("r{id}.near"));
        let stage = troubles.of(Purpose::Pay);
        stage.sent_alone(&probe, now_ms, &settings());
        assert_eq!(stage.gate(now_ms), Gate::Closed(8), "one at a time");
        stage.name(Named { alone: true, ..named(&probe, 6) }, now_ms, &settings());
    }
}

#[test]
fn once_somebody_is_served_everything_flows_and_the_growth_begins_anew() {
    let mut troubles = after_naming(3);
    let probe = payout(10, "r10.near");
    let stage = troubles.of(Purpose::Pay);
    stage.sent_alone(&probe, 2, &settings());
    stage.name(Named { alone: true, ..named(&probe, 6) }, 2, &settings());
    let next = payout(11, "r11.near");
    let back = troubles.serve(Purpose::Pay, &[next], 7, 6);
    assert_eq!(back, [1, 10, 2, 3].map(TransferId), "all who failed are tried again, by receiver");
    assert_eq!((troubles.gate(Purpose::Pay, 6), troubles.paused()), (Gate::Open, None));
    for id in 21..24 {
        let member = payout(id, &format!("r{id}.near"));
        troubles.of(Purpose::Pay).name(named(&member, 8), 6, &settings());
    }
    assert_eq!(troubles.gate(Purpose::Pay, 6), Gate::Closed(2));
}

#[test]
fn what_landed_before_the_fault_does_not_end_it() {
    for height in [4, 5] {
        let mut troubles = after_naming(3);
        troubles.serve(Purpose::Pay, &[payout(9, "r9.near")], height, 1);
        assert_eq!(troubles.gate(Purpose::Pay, 0), Gate::Closed(2));
    }
}

#[test]
fn a_probe_that_comes_back_or_is_lost_is_followed_by_another() {
    let probe = payout(10, "r10.near");
    let sent = || {
        let mut troubles = after_naming(3);
        troubles.of(Purpose::Pay).sent_alone(&probe, 2, &settings());
        assert_eq!(troubles.gate(Purpose::Pay, 9), Gate::Closed(1));
        troubles
    };
    assert_eq!(sent().gate(Purpose::Pay, 10), Gate::Probe, "lost");
    let mut troubles = sent();
    troubles.of(Purpose::Pay).came_back(std::slice::from_ref(&probe));
    assert_eq!(troubles.gate(Purpose::Pay, 3), Gate::Probe);
    let mut troubles = sent();
    troubles.of(Purpose::Pay).forgot(&[probe.id]);
    assert_eq!(troubles.gate(Purpose::Pay, 3), Gate::Probe);
}

#[test]
fn payouts_to_one_who_failed_go_alone_and_one_at_a_time() {
    let (first, second) = (payout(1, "bad.near"), payout(2, "bad.near"));
    let mut troubles = Troubles::default();
    let stage = troubles.of(Purpose::Pay);
    assert_eq!(stage.stance(&second, 0), Stance::Together);
    stage.name(named(&first, 5), 0, &settings());
    assert_eq!(stage.stance(&second, 0), Stance::Alone);
    stage.sent_alone(&first, 0, &settings());
    assert_eq!(stage.stance(&second, 1), Stance::Later(9));
    stage.waits(&second, 1);
    let alone = Named { alone: true, tries: 1, until_ms: 22, ..named(&first, 6) };
    stage.name(alone, 2, &settings());
    assert_eq!(stage.stance(&second, 2), Stance::Later(20));
    assert_eq!(stage.stance(&second, 22), Stance::Alone);
    assert_eq!(stage.tries(&second), 1, "the receiver's");
    let back = troubles.serve(Purpose::Pay, std::slice::from_ref(&first), 7, 22);
    assert_eq!(back, [second.id]);
    assert_eq!(troubles.of(Purpose::Pay).stance(&second, 22), Stance::Together);
    assert_eq!(troubles.aside(), None);
}

#[test]
fn others_are_spared_if_somebody_was_served_after_the_last_failure() {
    let bad = payout(1, "bad.near");
    let mut troubles = Troubles::default();
    assert!(!troubles.of(Purpose::Pay).spared_others(&bad));
    troubles.of(Purpose::Pay).name(named(&bad, 5), 0, &settings());
    troubles.serve(Purpose::Pay, &[payout(2, "r2.near")], 5, 0);
    assert!(!troubles.of(Purpose::Pay).spared_others(&bad));
    troubles.serve(Purpose::Pay, &[payout(2, "r2.near")], 6, 0);
    assert!(troubles.of(Purpose::Pay).spared_others(&bad));
}

/// A wrong key refuses everybody; one whom alone the ledger refuses is told from that by a probe.
#[test]
fn a_refusal_is_everybodys_until_the_same_member_is_refused_again() {
    let bad = payout(1, "bad.near");
    let mut troubles = Troubles::default();
    let stage = troubles.of(Purpose::Pay);
    assert!(stage.is_everybodys(&bad, true) && !stage.is_everybodys(&bad, false));
    let refused = || Named { alone: true, refused: true, ..named(&bad, 0) };
    stage.name(refused(), 0, &settings());
    assert_eq!(stage.gate(0), Gate::Closed(2));
    assert!(stage.is_everybodys(&bad, true));
    troubles.serve(Purpose::Pay, &[payout(2, "r2.near")], 6, 2);
    let stage = troubles.of(Purpose::Pay);
    assert!(!stage.is_everybodys(&bad, true));
    stage.name(refused(), 3, &settings());
    assert_eq!(stage.gate(3), Gate::Open);
}

#[test]
fn funds_in_doubt_are_looked_at_first_and_then_ever_more_rarely() {
    let mut troubles = Troubles::default();
    troubles.doubt_funds("NotEnoughBalance", 0);
    for purpose in [Purpose::Prepare, Purpose::Pay] {
        assert_eq!(troubles.gate(purpose, 0), Gate::Funds);
    }
    let mut now_ms = 0;
    for pause_ms in [2, 4, 8, 8] {
        troubles.funded(false, now_ms, &settings());
        troubles.doubt_funds("said again", now_ms);
        assert_eq!(troubles.gate(Purpose::Pay, now_ms), Gate::Closed(pause_ms));
        now_ms += pause_ms;
        assert_eq!(troubles.gate(Purpose::Pay, now_ms), Gate::Funds);
    }
    assert!(troubles.paused().is_some());
    assert!(troubles.funded(true, now_ms, &settings()), "they are back");
    assert_eq!((troubles.gate(Purpose::Pay, now_ms), troubles.paused()), (Gate::Open, None));
}

/// Else whoever says so is asked again at once, and says so again.
#[test]
fn funds_that_were_never_missed_are_not_back() {
    let mut troubles = Troubles::default();
    troubles.doubt_funds("NotEnoughBalance", 0);
    assert!(!troubles.funded(true, 0, &settings()));
    assert_eq!(troubles.gate(Purpose::Pay, 0), Gate::Open);
}

#[test]
fn receivers_that_nobody_tries_any_more_are_forgotten() {
    let mut troubles = after_naming(1);
    let stage = troubles.of(Purpose::Pay);
    let first = payout(9, "r1.near");
    stage.tidy(79, &settings());
    assert_eq!(stage.stance(&first, 79), Stance::Alone);
    stage.tidy(80, &settings());
    assert_eq!(stage.stance(&first, 80), Stance::Together);
}
