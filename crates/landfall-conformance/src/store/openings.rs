//! The open rule (`landfall_core::opening`), and many openings in one commit: whatever is asked,
//! every store answers as the rule does.

use std::collections::HashMap;
use std::convert::Infallible;

use landfall_core::attempt::{Attempt, Purpose, VariantKind};
use landfall_core::opening::{Known, Standing, Underway, refusal, stale_members, variant_refusal};
use landfall_core::store::{AddVariant, Added, OpenAttempt, Opened};
use landfall_core::{Event, LaneId, Mark, Nonce, Transfer};

use crate::check::checks;
use crate::world::{Held, LEDGER_NONCE, RAIL, World};

checks!(World:
    nonces_in_a_row_are_opened_in_one_commit,
    after_a_refused_opening_the_next_of_its_lane_is_stale,
    a_member_is_carried_by_the_first_of_a_batch,
    an_empty_batch_of_openings_is_answered_empty,
    every_opening_is_judged_by_the_rule,
    every_variant_is_judged_by_the_rule,
);

async fn nonces_in_a_row_are_opened_in_one_commit(world: World) {
    let (held, other) = (world.started("lane").await, world.started("other").await);
    let members = world.accept_ready(&["a", "b", "c"]).await;
    let batch = vec![
        world.opening(&held, 0, &members[..1]),
        world.opening(&other, 0, &members[1..2]),
        world.opening(&held, 1, &members[2..]),
        world.opening(&held, 5, &[]),
    ];
    let answers = world.store.open(batch).await.expect("open");
    let stored: Vec<Attempt> = answers
        .into_iter()
        .map(|answer| match answer {
            Opened::Stored(attempt) => *attempt,
            other => panic!("not stored: {other:?}"),
        })
        .collect();
    let seqs: Vec<u64> = stored.iter().map(|attempt| attempt.seq).collect();
    assert_eq!(seqs, [1, 1, 2, 3]);
    for attempt in &stored {
        assert_eq!(world.attempt(attempt.id).await, *attempt);
        for member in &attempt.members {
            assert_eq!(world.get(*member).await.attempt, Some(attempt.id));
        }
    }
    let lanes = world.store.lanes().await.expect("lanes");
    let reached: Vec<_> =
        lanes.iter().map(|lane| (lane.next_nonce.map(|next| next.0), lane.seq)).collect();
    let next = |offset: u64| Some(LEDGER_NONCE.0 + 1 + offset);
    assert_eq!(reached, [(next(6), 3), (next(1), 1)]);
}

async fn after_a_refused_opening_the_next_of_its_lane_is_stale(world: World) {
    let (held, other) = (world.started("lane").await, world.started("other").await);
    let members = world.accept_ready(&["a", "b", "c", "d"]).await;
    let mut stale = world.opening(&held, 1, &members[1..2]);
    stale.moves[0].from_version = Some(9);
    let batch = vec![
        world.opening(&held, 0, &members[..1]),
        stale,
        world.opening(&held, 2, &members[2..3]),
        world.opening(&other, 0, &members[3..]),
        world.opening(&held, 1, &members[2..3]),
    ];
    let answers = world.store.open(batch).await.expect("open");
    let [Opened::Stored(_), stale, next, Opened::Stored(_), Opened::Stored(_)] = &answers[..]
    else {
        panic!("{answers:?}")
    };
    assert_eq!(*stale, Opened::StaleMembers(vec![members[1].id]));
    assert_eq!(*next, Opened::StaleNonce);
    assert_eq!(world.get(members[1].id).await, members[1]);
    assert_eq!(world.store.open_attempts_of(RAIL).await.expect("read").len(), 3);
}

async fn a_member_is_carried_by_the_first_of_a_batch(world: World) {
    let (held, other) = (world.started("lane").await, world.started("other").await);
    let members = world.accept_ready(&["a"]).await;
    let batch = vec![world.opening(&held, 0, &members), world.opening(&other, 0, &members)];
    let answers = world.store.open(batch).await.expect("open");
    let [Opened::Stored(first), second] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!(*second, Opened::StaleMembers(vec![members[0].id]));
    assert_eq!(world.get(members[0].id).await.attempt, Some(first.id));
}

async fn an_empty_batch_of_openings_is_answered_empty(world: World) {
    assert_eq!(world.store.open(Vec::new()).await, Ok(Vec::new()));
}

/// Openings that go together in one commit.
const TOGETHER: usize = 24;

/// What an opener knows of lanes, rightly or not.
#[derive(Debug, Clone, Copy)]
enum Marks {
    Right,
    OfItself,
    NonceAhead,
    SeqAhead,
    UnseenLane,
}

/// Who is to be carried.
#[derive(Debug, Clone, Copy)]
enum Members {
    Fit,
    Moved,
    Carried,
    Twice,
}

/// A lane beside, two signatures on; its mark is right for all who open.
const BESIDE: Mark = Mark { nonce: Nonce(LEDGER_NONCE.0 + 2), seq: 2 };

/// The lanes, and how the rule sees them.
struct Ground {
    /// Held, and held no more, of one that works and one that is halted.
    lanes: [(Held, Held); 2],
    beside: Held,
    carried: Transfer,
    model: HashMap<LaneId, Standing>,
}

async fn ground(world: &World) -> Ground {
    let mut lanes = Vec::new();
    for name in ["working", "halted"] {
        let old = world.started(name).await;
        lanes.push((world.lease(&old.lane, "one").await, old));
    }
    let lanes: [(Held, Held); 2] = lanes.try_into().ok().expect("two lanes");
    let beside = world.started("beside").await;
    let members = world.accept_ready(&["carried"]).await;
    world.open(&beside, 0, &members).await;
    world.open(&beside, 1, &[]).await;
    world.store.halt(&lanes[1].0.lane, "because").await.expect("halt");
    let stored = world.store.lanes().await.expect("lanes");
    let model = stored.iter().map(|lane| (lane.id.clone(), Standing::from(lane))).collect();
    Ground { lanes, beside, carried: world.get(members[0].id).await, model }
}

impl Ground {
    fn marks(&self, lane: &LaneId, marks: Marks) -> Vec<(LaneId, Mark)> {
        let own = self.model[lane].reached;
        let next = own.next_nonce.map_or(0, |next| next.0);
        let (lane, mark) = match marks {
            Marks::Right => return vec![(self.beside.lane.clone(), BESIDE)],
            // As those before it in the same commit leave it.
            Marks::OfItself => (lane, Mark { nonce: Nonce(next - 1), seq: own.seq }),
            Marks::NonceAhead => (lane, Mark { nonce: Nonce(next), seq: own.seq }),
            Marks::SeqAhead => (&self.beside.lane, Mark { seq: 3, ..BESIDE }),
            Marks::UnseenLane => (&LaneId::new("unseen"), Mark::from(Nonce(1))),
        };
        vec![(self.beside.lane.clone(), BESIDE), (lane.clone(), mark)]
    }

    fn known<'a>(
        &'a self,
        held: &'a Held,
        reached: &'a dyn Fn(&LaneId) -> Option<landfall_core::opening::Reached>,
    ) -> Known<'a> {
        Known { incarnation: Some(&held.incarnation), lane: self.model.get(&held.lane), reached }
    }

    /// What the rule says of an opening; if it lets it pass, the lane has come further.
    fn judge(&mut self, held: &Held, open: &OpenAttempt) -> Option<Opened> {
        let reached = |lane: &LaneId| self.model.get(lane).map(|lane| lane.reached);
        let current = |step: &landfall_core::Move| Ok(step.from_version == Some(1));
        let known = self.known(held, &reached);
        let moves = open.moves.iter().map(|step| (step, step));
        let Ok::<_, Infallible>(refused) = refusal(open, &known, || stale_members(moves, current));
        if refused.is_none() {
            self.sign(&open.lane, Some(open.nonce.next()));
        }
        refused
    }

    fn judge_variant(&self, held: &Held, add: &AddVariant, attempt: Underway) -> Option<Added> {
        let reached = |lane: &LaneId| self.model.get(lane).map(|lane| lane.reached);
        let known = self.known(held, &reached);
        variant_refusal(add, &known, Some(attempt)).expect("a known attempt")
    }

    fn sign(&mut self, lane: &LaneId, next: Option<Nonce>) {
        let reached = &mut self.model.get_mut(lane).expect("a lane").reached;
        reached.next_nonce = next.or(reached.next_nonce);
        reached.seq += 1;
    }

    async fn check_lanes(&self, world: &World) {
        for lane in world.store.lanes().await.expect("lanes") {
            assert_eq!(Standing::from(&lane), self.model[&lane.id], "{}", lane.id);
        }
    }
}

/// Every combination of what an opening can have right or wrong.
async fn every_opening_is_judged_by_the_rule(world: World) {
    let mut ground = ground(&world).await;
    let keys: Vec<String> = (0..cases().count()).map(|case| format!("k{case}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let transfers = world.accept_ready(&keys).await;
    let cases: Vec<_> = cases().zip(&transfers).collect();
    let mut seen = HashMap::new();
    for together in cases.chunks(TOGETHER) {
        let (mut batch, mut expected) = (Vec::new(), Vec::new());
        for (case, member) in together {
            let open = opening(&world, &ground, *case, member);
            let held = ground.lanes[usize::from(case.halted)].0.clone();
            expected.push((ground.judge(&held, &open), ground.model[&open.lane].reached.seq));
            batch.push(open);
        }
        let answers = world.store.open(batch).await.expect("open");
        for ((answer, (refused, seq)), (case, _)) in answers.iter().zip(expected).zip(together) {
            let name = format!("{answer:?}");
            let name = name.split(['(', ' ']).next().unwrap_or_default();
            *seen.entry(name.to_owned()).or_insert(0) += 1;
            match (answer, refused) {
                (Opened::Stored(attempt), None) => assert_eq!(attempt.seq, seq, "{case:?}"),
                (answer, Some(refused)) => assert_eq!(*answer, refused, "{case:?}"),
                (answer, None) => panic!("{answer:?}, though it is legal: {case:?}"),
            }
        }
        ground.check_lanes(&world).await;
    }
    assert_eq!(seen.len(), 6, "some answer was never given: {seen:?}");
}

#[derive(Debug, Clone, Copy)]
struct Case {
    same_life: bool,
    current: bool,
    halted: bool,
    fence: bool,
    marks: Marks,
    /// Above the lane's next, less one.
    nonce: u64,
    members: Members,
}

fn cases() -> impl Iterator<Item = Case> {
    let yes_or_no = [true, false];
    let marks =
        [Marks::Right, Marks::OfItself, Marks::NonceAhead, Marks::SeqAhead, Marks::UnseenLane];
    let members = [Members::Fit, Members::Moved, Members::Carried, Members::Twice];
    let mut cases = Vec::new();
    for members in members {
        for nonce in [1, 0, 2] {
            for marks in marks {
                for fence in yes_or_no {
                    for halted in yes_or_no {
                        for (same_life, current) in [(true, true), (true, false), (false, true)] {
                            let case =
                                Case { same_life, current, halted, fence, marks, nonce, members };
                            cases.push(case);
                        }
                    }
                }
            }
        }
    }
    cases.into_iter()
}

fn opening(world: &World, ground: &Ground, case: Case, member: &Transfer) -> OpenAttempt {
    let (held, old) = &ground.lanes[usize::from(case.halted)];
    let held = if case.current { held } else { old };
    let next = ground.model[&held.lane].reached.next_nonce.expect("a lane that was started");
    let mut open = world.opening(held, 0, std::slice::from_ref(member));
    match case.members {
        Members::Fit => {}
        Members::Moved => open.moves[0].from_version = Some(2),
        Members::Carried => {
            open.moves[0].id = ground.carried.id;
            open.moves[0].from_state = ground.carried.state;
            open.moves[0].from_version = Some(ground.carried.version);
            open.moves[0].from_attempt = ground.carried.attempt;
        }
        Members::Twice => open.moves.push(open.moves[0].clone()),
    }
    open.purpose = if case.fence { Purpose::Fence } else { Purpose::Pay };
    open.nonce = Nonce(next.0 + case.nonce - 1);
    open.marks = ground.marks(&held.lane, case.marks);
    if !case.same_life {
        open.incarnation = "another life".into();
    }
    open
}

/// Every combination of what a variant can have right or wrong.
async fn every_variant_is_judged_by_the_rule(world: World) {
    let mut ground = ground(&world).await;
    let mut attempts = Vec::new();
    for (held, _) in ground.lanes.clone() {
        let [open, decided] = [0, 1].map(|offset| world.opening(&held, offset, &[]));
        for open in [open, decided] {
            assert_eq!(ground.judge(&held, &open), None);
            let opened = world.store.open_attempt(open).await.expect("open");
            let Opened::Stored(attempt) = opened else { panic!("{opened:?}") };
            attempts.push(*attempt);
        }
        let decided = attempts.last().expect("it was opened");
        world.settle(world.settlement(&held, decided, Event::Sunk).await).await;
    }
    let elsewhere = world.store.open_attempts(&ground.beside.lane).await.expect("read").remove(0);
    let mut variants = [0; 2];
    for case in variant_cases() {
        let (held, old) = ground.lanes[usize::from(case.halted)].clone();
        let of_lane = 2 * usize::from(case.halted);
        let (attempt, count) = match case.attempt {
            Of::Open => (&attempts[of_lane], variants[usize::from(case.halted)]),
            Of::Decided => (&attempts[of_lane + 1], 0),
            Of::AnotherLane => (&elsewhere, 0),
        };
        let by = if case.current { &held } else { &old };
        let add = AddVariant {
            kind: case.kind,
            marks: ground.marks(&held.lane, case.marks),
            incarnation: if case.same_life { held.incarnation.clone() } else { "other".into() },
            ..world.variant(by, attempt, count + case.number)
        };
        let underway = Underway {
            is_of_lane: !matches!(case.attempt, Of::AnotherLane),
            is_decided: matches!(case.attempt, Of::Decided),
            variants: count,
        };
        let expected = ground.judge_variant(&held, &add, underway);
        let answer = world.store.add_variant(add).await.expect("add");
        match (answer, expected) {
            (Added::Stored(variant), None) => {
                ground.sign(&held.lane, None);
                variants[usize::from(case.halted)] += 1;
                assert_eq!(variant.seq, ground.model[&held.lane].reached.seq, "{case:?}");
            }
            (answer, Some(refused)) => assert_eq!(answer, refused, "{case:?}"),
            (answer, None) => panic!("{answer:?}, though it is legal: {case:?}"),
        }
    }
    ground.check_lanes(&world).await;
    for (halted, count) in variants.into_iter().enumerate() {
        let stored = world.attempt(attempts[2 * halted].id).await;
        assert!(count > 0 && stored.variants.len() == count as usize, "{count}");
    }
}

/// Which attempt a variant is for.
#[derive(Debug, Clone, Copy)]
enum Of {
    Open,
    Decided,
    AnotherLane,
}

#[derive(Debug, Clone, Copy)]
struct VariantCase {
    same_life: bool,
    current: bool,
    halted: bool,
    kind: VariantKind,
    marks: Marks,
    attempt: Of,
    /// Above how many there are.
    number: u32,
}

fn variant_cases() -> impl Iterator<Item = VariantCase> {
    let mut cases = Vec::new();
    for halted in [false, true] {
        for kind in [VariantKind::Replaces, VariantKind::Cancels] {
            for marks in [Marks::Right, Marks::OfItself, Marks::NonceAhead, Marks::SeqAhead] {
                for attempt in [Of::Open, Of::Decided, Of::AnotherLane] {
                    for number in [1, 0, 2] {
                        for (same_life, current) in [(true, true), (true, false), (false, true)] {
                            cases.push(VariantCase {
                                same_life,
                                current,
                                halted,
                                kind,
                                marks,
                                attempt,
                                number,
                            });
                        }
                    }
                }
            }
        }
    }
    cases.into_iter()
}
