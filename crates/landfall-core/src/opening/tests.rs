//! The rule as a table: what is right, with one thing wrong at a time.

use std::convert::Infallible;

use super::*;
use crate::attempt::Signed;
use crate::ids::AttemptId;
use crate::machine::RailName;

const EPOCH: Epoch = Epoch(3);
const NEXT: Nonce = Nonce(10);
const SEQ: u64 = 20;

fn lane() -> LaneId {
    LaneId::new("lane")
}

fn signed() -> Signed {
    Signed { bytes: vec![1], hash: "hash".into(), base: None, expires_height: None }
}

fn standing() -> Standing {
    let reached = Reached { next_nonce: Some(NEXT), seq: SEQ };
    Standing { held: Some(EPOCH), halted: None, reached }
}

fn halted() -> Standing {
    Standing { halted: Some("why".into()), ..standing() }
}

fn open() -> OpenAttempt {
    OpenAttempt {
        rail: RailName::Near,
        lane: lane(),
        epoch: EPOCH,
        nonce: NEXT,
        purpose: Purpose::Pay,
        signed: signed(),
        moves: Vec::new(),
        marks: vec![(lane(), Mark { nonce: Nonce(9), seq: SEQ })],
        incarnation: "life".into(),
        now_ms: 0,
    }
}

fn fence(nonce: u64) -> OpenAttempt {
    OpenAttempt { purpose: Purpose::Fence, nonce: Nonce(nonce), ..open() }
}

fn marked(lane: &str, nonce: u64, seq: u64) -> Vec<(LaneId, Mark)> {
    vec![(LaneId::new(lane), Mark { nonce: Nonce(nonce), seq })]
}

fn known<'a>(
    standing: Option<&'a Standing>,
    reached: &'a dyn Fn(&LaneId) -> Option<Reached>,
) -> Known<'a> {
    Known { incarnation: Some("life"), lane: standing, reached }
}

fn name(answer: impl std::fmt::Debug) -> String {
    let text = format!("{answer:?}");
    text.split(['(', ' ']).next().unwrap_or_default().to_owned()
}

/// `expected` is the answer's name; none if it is legal.
fn check(standing: Standing, open: OpenAttempt, stale: &[u64], expected: Option<&str>) {
    let reached = |id: &LaneId| (*id == lane()).then_some(standing.reached);
    let stale = || Ok(stale.iter().map(|id| TransferId(*id)).collect());
    let Ok::<_, Infallible>(refused) = refusal(&open, &known(Some(&standing), &reached), stale);
    assert_eq!(refused.map(name).as_deref(), expected, "{open:?} on {standing:?}");
}

#[test]
fn an_opening_is_refused_for_whatever_is_wrong_with_it() {
    let not_started = Standing { reached: Reached { next_nonce: None, seq: 0 }, ..standing() };
    check(standing(), open(), &[], None);
    check(standing(), OpenAttempt { incarnation: "x".into(), ..open() }, &[], Some("Restarted"));
    check(standing(), OpenAttempt { epoch: Epoch(2), ..open() }, &[], Some("Fenced"));
    check(standing(), OpenAttempt { epoch: Epoch(4), ..open() }, &[], Some("Fenced"));
    check(Standing { held: None, ..standing() }, open(), &[], Some("Fenced"));
    check(halted(), open(), &[], Some("Fenced"));
    check(halted(), fence(10), &[], None);
    check(standing(), OpenAttempt { nonce: Nonce(9), ..open() }, &[], Some("StaleNonce"));
    check(standing(), OpenAttempt { nonce: Nonce(11), ..open() }, &[], Some("StaleNonce"));
    check(standing(), fence(9), &[], Some("StaleNonce"));
    check(standing(), fence(11), &[], None);
    check(not_started, OpenAttempt { marks: Vec::new(), ..open() }, &[], Some("StaleNonce"));
    check(standing(), open(), &[7], Some("StaleMembers"));
}

#[test]
fn a_store_without_what_a_mark_tells_of_is_behind() {
    for (marks, expected) in [
        (marked("lane", 9, 20), None),
        (marked("lane", 10, 20), Some("Behind")),
        (marked("lane", 9, 21), Some("Behind")),
        (marked("lane", 0, 0), None),
        (marked("unseen", 0, 0), Some("Behind")),
    ] {
        check(standing(), OpenAttempt { marks, ..open() }, &[], expected);
    }
}

#[test]
fn no_life_is_nobodys_and_no_lane_is_held() {
    let (standing, reached) = (standing(), |_: &LaneId| Some(standing().reached));
    let nameless = Known { incarnation: None, ..known(Some(&standing), &reached) };
    let open = OpenAttempt { incarnation: String::new(), ..open() };
    let none = || Ok::<_, Infallible>(Vec::new());
    assert_eq!(refusal(&open, &nameless, none), Ok(Some(Opened::Restarted)));
    let open = OpenAttempt { incarnation: "life".into(), ..open };
    let Ok(refused) = refusal(&open, &known(None, &reached), none);
    assert_eq!(refused.map(name).as_deref(), Some("Fenced"));
}

#[test]
fn the_members_are_asked_about_only_if_all_else_is_legal() {
    let (standing, reached) = (halted(), |_: &LaneId| Some(standing().reached));
    let asked = || -> std::result::Result<Vec<TransferId>, Infallible> { panic!("asked") };
    let refused = refusal(&open(), &known(Some(&standing), &reached), asked);
    assert!(matches!(refused, Ok(Some(Opened::Fenced(_)))));
}

fn add(number: u32, kind: VariantKind) -> AddVariant {
    AddVariant {
        attempt: AttemptId(1),
        lane: lane(),
        epoch: EPOCH,
        number,
        kind,
        signed: signed(),
        marks: marked("lane", 9, SEQ),
        incarnation: "life".into(),
        now_ms: 0,
    }
}

fn check_variant(
    standing: Standing,
    add: AddVariant,
    attempt: Option<Underway>,
    expected: Option<&str>,
) {
    let reached = |id: &LaneId| (*id == lane()).then_some(standing.reached);
    let refused = match variant_refusal(&add, &known(Some(&standing), &reached), attempt) {
        Ok(refused) => refused.map(name),
        Err(contradiction) => Some(name(contradiction)),
    };
    assert_eq!(refused.as_deref(), expected, "{add:?} of {attempt:?} on {standing:?}");
}

#[test]
fn a_variant_is_refused_for_whatever_is_wrong_with_it() {
    use VariantKind::{Cancels, Replaces};
    let of = Some(Underway { is_of_lane: true, is_decided: false, variants: 2 });
    let with = |change: fn(&mut AddVariant)| {
        let mut add = add(3, Replaces);
        change(&mut add);
        add
    };
    check_variant(standing(), add(3, Replaces), of, None);
    check_variant(standing(), with(|add| add.incarnation.clear()), of, Some("Restarted"));
    check_variant(standing(), with(|add| add.epoch = Epoch(2)), of, Some("Fenced"));
    check_variant(halted(), add(3, Replaces), of, Some("Fenced"));
    check_variant(halted(), add(3, Cancels), of, None);
    check_variant(standing(), with(|add| add.marks[0].1.seq += 1), of, Some("Behind"));
    for number in [0, 1, 2, 4] {
        check_variant(standing(), add(number, Replaces), of, Some("StaleNumber"));
    }
    let other = of.map(|of| Underway { is_of_lane: false, ..of });
    check_variant(standing(), add(3, Replaces), other, Some("Fenced"));
    let decided = of.map(|of| Underway { is_decided: true, ..of });
    check_variant(standing(), add(3, Replaces), decided, Some("Decided"));
    check_variant(standing(), add(3, Replaces), None, Some("Corrupt"));
    // What is missing may have been forgotten: that is told first.
    check_variant(standing(), with(|add| add.marks[0].1.seq += 1), None, Some("Behind"));
}
