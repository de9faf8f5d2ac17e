//! One test per thing that a fate may mean for a member.

use landfall_core::attempt::{BaseBlock, Certificate, Shortage};
use landfall_core::guard;
use landfall_core::near::{self, Payout};
use landfall_core::{
    AttemptId, CertificateKind, Epoch, LaneId, NewTransfer, Nonce, Payload, RailName, State,
};
use landfall_core::{TrailEvent, TransferId};

use super::*;

const NOW_MS: u64 = 1_000_000;
const READY_MS: u64 = NOW_MS + 2_000;
const ASIDE_MS: u64 = 5_000;
const BACKOFF_MS: u64 = 500;

fn terms() -> Terms<'static> {
    Terms {
        now_ms: NOW_MS,
        retries: 3,
        backoff_ms: &|_| BACKOFF_MS,
        claim: Some(ClaimKey { space: "registered".into(), key: "a.near".into() }),
        ready_due_ms: READY_MS,
        everybody: false,
        others_spared: false,
        tries: 0,
        aside_ms: ASIDE_MS,
    }
}

/// A payout that waits for `purpose`.
fn waiting(purpose: Purpose) -> Transfer {
    let terms = near::Terms { network: "n".into(), token: "t".into(), sender: "s".into() };
    let payout = Payout::new(&terms, "a.near", "5", None).unwrap();
    let fingerprint = payout.fingerprint();
    let events: &[Event] = match purpose {
        Purpose::Prepare => &[Event::Enqueued],
        _ => &[Event::Enqueued, Event::Prepared, Event::Enqueued],
    };
    let (scope, first) = ((String::new(), "k".to_owned()), State::Near(near::State::Received));
    let new =
        NewTransfer::begin(scope, fingerprint, Payload::Near(payout), first, events, 1).unwrap();
    new.accepted_as(TransferId(1))
}

/// The same, carried by an attempt.
fn carried(purpose: Purpose) -> Transfer {
    let waiting = waiting(purpose);
    let mut step = Move::of(&waiting, NOW_MS).due(None);
    if purpose == Purpose::Pay {
        step = step.fire(Event::AttemptStored).unwrap().fire(Event::Enqueued).unwrap();
    }
    step.attempt = Some(AttemptId(1));
    step.applied_to(&waiting)
}

fn attempt(purpose: Purpose, members: u64) -> Attempt {
    Attempt {
        id: AttemptId(1),
        rail: RailName::Near,
        lane: LaneId::new("l"),
        epoch: Epoch(1),
        nonce: Nonce(1),
        purpose,
        hash: "h".into(),
        bytes: Vec::new(),
        seq: 1,
        base: Some(BaseBlock { hash: "b".into(), height: 1 }),
        expires_height: Some(2),
        variants: Vec::new(),
        members: (1..=members).map(TransferId).collect(),
        opened_ms: 0,
        sightings: Vec::new(),
        fate: None,
        decided_ms: None,
    }
}

/// The first of two members, of whom the second is a sibling.
fn in_company(purpose: Purpose, outcome: Outcome, terms: &Terms<'_>) -> Transfer {
    settled(purpose, vec![outcome, Outcome::Sibling], terms)
}

fn alone(purpose: Purpose, outcome: Outcome, terms: &Terms<'_>) -> Transfer {
    settled(purpose, vec![outcome], terms)
}

fn settled(purpose: Purpose, outcomes: Vec<Outcome>, terms: &Terms<'_>) -> Transfer {
    let before = carried(purpose);
    let attempt = attempt(purpose, outcomes.len() as u64);
    let landing = Landing { hash: None, block_height: 7, block_hash: "b7".into(), outcomes };
    member(&attempt, &before, &Fate::Landed(landing), 0, terms).applied_to(&before)
}

fn relays_fault() -> Outcome {
    Outcome::RelayFault { shortage: Shortage::Gas, message: "gas".into() }
}

fn unexplained() -> Outcome {
    Outcome::Unexplained { message: "?".into() }
}

/// State, charged failures, due time.
fn gist(after: &Transfer) -> (&'static str, u32, Option<u64>) {
    assert_eq!(after.attempt, None, "nothing carries it any more");
    (after.state.name(), after.retry_count, after.due_ms)
}

#[test]
fn what_landed_is_completed_and_its_mark_is_gone() {
    let mut before = carried(Purpose::Pay);
    before.error = in_company(Purpose::Pay, relays_fault(), &terms()).error;
    assert!(is_marked(&before));
    let landing = Landing {
        hash: None,
        block_height: 7,
        block_hash: "b".into(),
        outcomes: vec![Outcome::Done],
    };
    let step = member(&attempt(Purpose::Pay, 1), &before, &Fate::Landed(landing), 0, &terms());
    let after = step.applied_to(&before);
    assert_eq!(gist(&after), ("COMPLETED", 0, None));
    assert!(!is_marked(&after) && after.error.is_none());
}

#[test]
fn whoever_is_named_in_company_goes_on_alone_at_once_and_uncharged() {
    for (outcome, kind) in [(relays_fault(), "relay"), (unexplained(), "unexplained")] {
        guard::take();
        // Even if others were spared: it may still have been the company.
        let terms = Terms { others_spared: true, ..terms() };
        let after = in_company(Purpose::Pay, outcome, &terms);
        assert_eq!(gist(&after), ("QUEUED_TRANSFER", 0, Some(READY_MS)));
        assert!(is_marked(&after) && after.aside.is_none());
        assert_eq!(after.error.as_ref().unwrap().error_type, kind);
        assert_eq!(tries(&after), 0);
        assert_eq!(guard::take().contains(&Guard::RelayFault), kind == "relay");
    }
}

#[test]
fn whoever_fails_alone_by_the_relays_fault_waits_aside_ever_longer() {
    let terms = Terms { tries: 3, others_spared: true, ..terms() };
    let after = alone(Purpose::Pay, relays_fault(), &terms);
    assert_eq!(gist(&after), ("QUEUED_TRANSFER", 0, Some(NOW_MS + ASIDE_MS)));
    assert!(is_marked(&after) && after.aside.is_some());
    assert_eq!(tries(&after), 4);
    assert!(after.error.unwrap().will_retry);
}

#[test]
fn while_everybody_fails_nobody_waits_aside_or_is_charged() {
    for outcome in [relays_fault(), unexplained()] {
        let terms = Terms { tries: 3, everybody: true, others_spared: true, ..terms() };
        let after = alone(Purpose::Pay, outcome, &terms);
        assert_eq!(gist(&after), ("QUEUED_TRANSFER", 0, Some(READY_MS)));
        assert!(is_marked(&after) && after.aside.is_none());
        assert_eq!(tries(&after), 3);
    }
}

/// Nobody else is there to be spared: it must not wait for ever.
#[test]
fn what_nobody_explains_and_follows_a_member_for_long_is_charged_to_it() {
    let terms = Terms { tries: TRIES_ALONE, ..terms() };
    for (purpose, state) in
        [(Purpose::Pay, "QUEUED_TRANSFER"), (Purpose::Prepare, "QUEUED_REGISTRATION")]
    {
        let after = alone(purpose, unexplained(), &terms);
        assert_eq!(gist(&after), (state, 1, Some(NOW_MS + ASIDE_MS)));
        assert_eq!(tries(&after), TRIES_ALONE + 1, "it is not news again");
    }
}

#[test]
fn what_nobody_explains_is_charged_only_once_others_were_spared() {
    let after = alone(Purpose::Pay, unexplained(), &terms());
    assert_eq!(gist(&after), ("QUEUED_TRANSFER", 0, Some(NOW_MS + ASIDE_MS)));
    let terms = Terms { others_spared: true, ..terms() };
    let after = alone(Purpose::Pay, unexplained(), &terms);
    assert_eq!(gist(&after), ("QUEUED_TRANSFER", 1, Some(NOW_MS + BACKOFF_MS)));
    assert!(is_marked(&after), "it goes on alone");
}

#[test]
fn retries_that_are_used_up_are_the_end_and_are_noted() {
    guard::take();
    let mut before = carried(Purpose::Pay);
    before.stage_retries = 2;
    let outcomes = vec![unexplained()];
    let fate =
        Fate::Landed(Landing { hash: None, block_height: 7, block_hash: "b".into(), outcomes });
    let terms = Terms { others_spared: true, ..terms() };
    let after = member(&attempt(Purpose::Pay, 1), &before, &fate, 0, &terms).applied_to(&before);
    assert_eq!(gist(&after), ("FAILED", 1, None));
    assert!(guard::take().contains(&Guard::RetriesUsedUp));
}

#[test]
fn siblings_go_back_at_once_and_unmarked() {
    guard::take();
    let after = settled(Purpose::Pay, vec![Outcome::Sibling, relays_fault()], &terms());
    assert_eq!(gist(&after), ("QUEUED_TRANSFER", 0, Some(READY_MS)));
    assert!(!is_marked(&after));
    assert_eq!(guard::take(), [Guard::SiblingOfOffender]);
}

#[test]
fn a_failure_that_names_everybody_marks_nobody() {
    let after = settled(Purpose::Pay, vec![relays_fault(), relays_fault()], &terms());
    assert_eq!(gist(&after), ("QUEUED_TRANSFER", 0, Some(READY_MS)));
    assert!(!is_marked(&after));
}

#[test]
fn a_members_own_fault_fails_it_whoever_travels_with_it() {
    guard::take();
    let after = in_company(Purpose::Pay, Outcome::OwnFault { message: "m".into() }, &terms());
    assert_eq!(gist(&after), ("FAILED", 0, None));
    assert_eq!(guard::take(), [Guard::OwnFault]);
}

#[test]
fn not_registered_any_more_goes_back_to_be_registered() {
    guard::take();
    let unprepared = Outcome::Unprepared { message: "m".into() };
    let after = in_company(Purpose::Pay, unprepared, &terms());
    assert_eq!(gist(&after), ("QUEUED_REGISTRATION", 1, Some(NOW_MS + BACKOFF_MS)));
    assert!(!is_marked(&after));
    assert_eq!(guard::take(), [Guard::UnpreparedAgain]);
}

#[test]
fn a_preparation_is_judged_like_a_payment() {
    let named = in_company(Purpose::Prepare, relays_fault(), &terms());
    assert_eq!(gist(&named), ("QUEUED_REGISTRATION", 0, Some(READY_MS)));
    assert!(is_marked(&named) && named.aside.is_none());
    let after = alone(Purpose::Prepare, relays_fault(), &terms());
    assert_eq!(gist(&after), ("QUEUED_REGISTRATION", 0, Some(NOW_MS + ASIDE_MS)));
    assert!(is_marked(&after) && after.aside.is_some());
    let after = alone(Purpose::Prepare, unexplained(), &terms());
    assert_eq!(gist(&after), ("QUEUED_REGISTRATION", 0, Some(NOW_MS + ASIDE_MS)));
    let terms = Terms { others_spared: true, ..terms() };
    let after = alone(Purpose::Prepare, unexplained(), &terms);
    assert_eq!(gist(&after), ("QUEUED_REGISTRATION", 1, Some(NOW_MS + BACKOFF_MS)));
}

/// One that is set aside keeps the claim: whoever waits for it would fail like it.
#[test]
fn the_claim_of_a_preparation_ends_kept_or_charged_and_not_before() {
    let before = carried(Purpose::Prepare);
    let claims = |outcome, terms: &Terms<'_>| {
        let landing = Landing {
            hash: None,
            block_height: 7,
            block_hash: "b".into(),
            outcomes: vec![outcome],
        };
        member(&attempt(Purpose::Prepare, 1), &before, &Fate::Landed(landing), 0, terms).claims
    };
    let claim = terms().claim.unwrap();
    assert_eq!(claims(Outcome::Done, &terms()), [ClaimEnd::Keep(claim.clone())]);
    assert_eq!(claims(relays_fault(), &terms()), []);
    assert_eq!(claims(unexplained(), &terms()), []);
    let spared = Terms { others_spared: true, ..terms() };
    assert_eq!(claims(unexplained(), &spared), [ClaimEnd::Release(claim.clone())]);
    let own = Outcome::OwnFault { message: "m".into() };
    assert_eq!(claims(own, &terms()), [ClaimEnd::Release(claim)]);
}

#[test]
fn what_was_prepared_in_the_end_travels_in_company_again() {
    let mut before = carried(Purpose::Prepare);
    before.error = alone(Purpose::Prepare, relays_fault(), &terms()).error;
    assert!(is_marked(&before));
    let landing = Landing {
        hash: None,
        block_height: 7,
        block_hash: "b".into(),
        outcomes: vec![Outcome::Done],
    };
    let step = member(&attempt(Purpose::Prepare, 1), &before, &Fate::Landed(landing), 0, &terms());
    let after = step.applied_to(&before);
    assert_eq!(gist(&after), ("QUEUED_TRANSFER", 0, Some(READY_MS)));
    assert!(!is_marked(&after));
}

#[test]
fn a_sunk_attempt_is_charged_to_nobody_and_leaves_its_certificate() {
    let certificate = Certificate {
        kind: CertificateKind::NoncePassed,
        summary: "passed".into(),
        evidence: serde_json::Value::Null,
    };
    let before = carried(Purpose::Pay);
    let fate = Fate::Sunk(certificate.clone());
    let step = member(&attempt(Purpose::Pay, 1), &before, &fate, 0, &terms());
    assert_eq!(step.trail[0].event, TrailEvent::Noted(Note::Sunk));
    assert_eq!(step.trail[0].certificate, Some(certificate));
    let after = step.applied_to(&before);
    assert_eq!(gist(&after), ("QUEUED_TRANSFER", 0, Some(READY_MS)));
    assert!(!is_marked(&after));
}

#[test]
fn a_refusal_marks_one_that_was_alone_and_charges_one_whose_fault_it_is() {
    let refused = |members: u64, relays_fault: bool| {
        let fate = Fate::Sunk(Certificate {
            kind: CertificateKind::Refused,
            summary: "refused".into(),
            evidence: serde_json::json!({"relays_fault": relays_fault}),
        });
        let before = carried(Purpose::Pay);
        member(&attempt(Purpose::Pay, members), &before, &fate, 0, &terms()).applied_to(&before)
    };
    let after = refused(2, true);
    assert_eq!(gist(&after), ("QUEUED_TRANSFER", 0, Some(READY_MS)));
    assert!(!is_marked(&after));
    let after = refused(1, true);
    assert_eq!(gist(&after), ("QUEUED_TRANSFER", 0, Some(NOW_MS + ASIDE_MS)));
    assert!(is_marked(&after) && after.aside.is_some());
    let after = refused(2, false);
    assert_eq!(gist(&after), ("QUEUED_TRANSFER", 1, Some(NOW_MS + BACKOFF_MS)));
}

/// Whoever unregisters again and again harvests deposits, however often it was paid in between.
#[test]
fn being_unregistered_is_counted_over_the_whole_life() {
    let unprepared = || Outcome::Unprepared { message: "not registered".into() };
    let landed = |outcome| {
        let (block_height, block_hash) = (7, "b7".into());
        Fate::Landed(Landing { hash: None, block_height, block_hash, outcomes: vec![outcome] })
    };
    let settle = |before: &Transfer, outcome| {
        let attempt = attempt(Purpose::Pay, 1);
        member(&attempt, before, &landed(outcome), 0, &terms()).applied_to(before)
    };
    let mut before = carried(Purpose::Pay);
    let first = settle(&before, unprepared());
    assert_eq!((first.retry_count, first.stage_retries), (1, 1));
    (before.retry_count, before.stage_retries) = (2, 0);
    assert_eq!(settle(&before, unprepared()).state.name(), "FAILED");
    // Another failure counts what this stage has met.
    let others = Terms { others_spared: true, ..terms() };
    let fate = landed(unexplained());
    let step = member(&attempt(Purpose::Pay, 1), &before, &fate, 0, &others);
    let after = step.applied_to(&before);
    assert_eq!((after.state.name(), after.stage_retries), ("QUEUED_TRANSFER", 1));
}

#[test]
fn a_registration_that_is_given_up_releases_its_claim_once() {
    let given_up = |purpose| {
        let terms = Terms { retries: 1, others_spared: true, ..terms() };
        let before = carried(purpose);
        let landing = Landing {
            hash: None,
            block_height: 7,
            block_hash: "b7".into(),
            outcomes: vec![unexplained()],
        };
        member(&attempt(purpose, 1), &before, &Fate::Landed(landing), 0, &terms).claims
    };
    let claim = terms().claim.unwrap();
    assert_eq!(given_up(Purpose::Prepare), [ClaimEnd::Release(claim.clone())]);
    assert_eq!(given_up(Purpose::Pay), []);
    // A refusal that was never named as the relay's ends the registration's claim as well.
    let evidence = serde_json::json!({"relays_fault": false});
    let summary = "refused".to_owned();
    let certificate = Certificate { kind: CertificateKind::Refused, summary, evidence };
    let refused = |purpose| {
        let terms = Terms { retries: 1, ..terms() };
        let fate = Fate::Sunk(certificate.clone());
        member(&attempt(purpose, 1), &carried(purpose), &fate, 0, &terms).claims
    };
    assert_eq!(refused(Purpose::Prepare), [ClaimEnd::Release(claim)]);
    assert_eq!(refused(Purpose::Pay), []);
}
