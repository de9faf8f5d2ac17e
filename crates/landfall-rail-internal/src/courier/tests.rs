//! The rail over services that say what they are told to, and over services in a storm.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use landfall_core::courier::{Courier, Doubt, Known, Step, Turn};
use landfall_core::internal::{Order, State};
use landfall_core::rail::{EndpointHealth, RailError};
use landfall_core::{Event, NewTransfer, Payload, Transfer, TransferId, internal, machine};
use parking_lot::Mutex;

use super::*;
use crate::adapter::Standing;

mod storm;

const KEY: &str = "6f1c3f0e-8a51-4d0b-9d8e-0f6a1c2b3d4e";
const WINDOW_MS: u64 = 3_600_000;
const NOW_MS: u64 = 1_700_000_000_000;

fn transfer(key: &str, state: State, confirmed: bool) -> Transfer {
    let order = Order {
        source: "funding".to_owned(),
        target: "trading".to_owned(),
        user_id: 4001,
        asset_id: 1,
        asset: "BTC".to_owned(),
        decimals: 8,
        amount: 30,
        client_key: None,
    };
    let new = NewTransfer {
        tenant: String::new(),
        key: key.to_owned(),
        fingerprint: order.fingerprint(),
        payload: Payload::Internal(order),
        state: machine::State::Internal(state),
        due_ms: None,
        created_ms: 0,
        trail: Vec::new(),
        claims: Vec::new(),
    };
    Transfer { confirmed, ..new.accepted_as(TransferId(1)) }
}

/// Says what it is told to, and writes down what it was asked.
struct Script {
    name: &'static str,
    freezes: bool,
    answer: Answer,
    standings: Mutex<Vec<Standing>>,
    knows: Option<bool>,
    trace: Arc<Mutex<Vec<String>>>,
    clock: Arc<Hands>,
    /// How long a query takes.
    query_ms: u64,
}

impl Script {
    fn new(name: &'static str, trace: &Arc<Mutex<Vec<String>>>) -> Script {
        Script {
            name,
            freezes: true,
            answer: Answer::Done,
            standings: Mutex::default(),
            knows: None,
            trace: trace.clone(),
            clock: Arc::new(Hands(AtomicU64::new(NOW_MS))),
            query_ms: 0,
        }
    }

    fn called(&self, operation: Operation) -> Answer {
        let word = match &self.answer {
            Answer::Done => "done",
            Answer::Refused(_) => "refused",
            Answer::Pending { .. } => "pending",
        };
        self.trace.lock().push(format!("{} {operation}={word}", self.name));
        self.answer.clone()
    }
}

#[async_trait]
impl ServiceAdapter for Script {
    fn name(&self) -> &str {
        self.name
    }
    fn freezes(&self) -> bool {
        self.freezes
    }

    fn commits(&self) -> bool {
        self.freezes
    }
    fn dedupe_window_ms(&self) -> Option<u64> {
        Some(WINDOW_MS)
    }
    async fn withdraw(&self, leg: Leg<'_>) -> Answer {
        assert_eq!(leg, Leg { req_id: KEY, user_id: 4001, asset_id: 1, amount: 30 });
        self.called(Operation::Withdraw)
    }
    async fn deposit(&self, leg: Leg<'_>) -> Answer {
        assert_eq!(leg, Leg { req_id: KEY, user_id: 4001, asset_id: 1, amount: 30 });
        self.called(Operation::Deposit)
    }
    async fn commit(&self, req_id: &str) -> Answer {
        assert_eq!(req_id, KEY);
        self.called(Operation::Commit)
    }
    async fn rollback(&self, req_id: &str) -> Answer {
        assert_eq!(req_id, KEY);
        self.called(Operation::Rollback)
    }
    async fn query(&self, req_id: &str, operation: Operation) -> Standing {
        assert_eq!(req_id, KEY);
        self.clock.0.fetch_add(self.query_ms, Ordering::Relaxed);
        let standing = self.standings.lock().remove(0);
        let word = match &standing {
            Standing::Done => "done",
            Standing::Refused(_) => "refused",
            Standing::InProgress => "working",
            Standing::Unknown => "unknown",
            Standing::NoAnswer { .. } => "silent",
        };
        self.trace.lock().push(format!("{} ?{operation}={word}", self.name));
        standing
    }
    async fn knows_user(&self, user_id: u64) -> Option<bool> {
        self.trace.lock().push(format!("{} user {user_id}", self.name));
        self.knows
    }
    fn health(&self) -> EndpointHealth {
        EndpointHealth {
            name: self.name.to_string(),
            endpoint: format!("http://{}", self.name),
            up: true,
            detail: "ok".to_owned(),
            calls: 0,
            errors: 0,
            breaker_open: false,
            mean_latency_ms: 0.0,
            caught: None,
        }
    }
    async fn check(&self) -> Result<String, RailError> {
        Ok(format!("{}: ok", self.name))
    }
}

/// A rail of two scripts, of which `set` makes what it wants.
struct World {
    rail: InternalRail,
    trace: Arc<Mutex<Vec<String>>>,
}

/// A clock that is set by hand.
struct Hands(AtomicU64);

#[async_trait]
impl Clock for Hands {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    async fn sleep(&self, _: Duration) {
        panic!("nobody waits here");
    }
}

fn rail(services: Vec<Arc<dyn ServiceAdapter>>) -> Result<InternalRail, BadServices> {
    InternalRail::new(services, Arc::new(Hands(AtomicU64::new(NOW_MS))))
}

fn world(set: impl Fn(&mut Script)) -> World {
    let trace = Arc::default();
    let clock = Arc::new(Hands(AtomicU64::new(NOW_MS)));
    let services = ["funding", "trading"].map(|name| {
        let mut script = Script { clock: clock.clone(), ..Script::new(name, &trace) };
        set(&mut script);
        Arc::new(script) as Arc<dyn ServiceAdapter>
    });
    let rail = InternalRail::new(services.into(), clock).expect("two services");
    World { rail, trace }
}

impl World {
    fn trace(&self) -> String {
        self.trace.lock().join(" ")
    }
}

/// A step in a few words.
fn told(step: &Step) -> String {
    match step {
        Step::Go(Known { confirmed, events, refusal }) => {
            let mut words = vec!["go".to_owned()];
            words.extend(confirmed.then(|| "confirmed".to_owned()));
            words.extend(events.iter().map(|event| format!("{event:?}")));
            words.extend(refusal.iter().map(|why| format!("({why})")));
            words.join(" ")
        }
        Step::Wait(Doubt { event, kind, .. }) => {
            let event = event.map_or("-".to_owned(), |event| format!("{event:?}"));
            format!("wait {event} {kind}")
        }
        Step::Adrift(_) => "adrift".to_owned(),
    }
}

/// What was seen in a turn, and what it comes to for a withdraw, a deposit, a commit and a
/// rollback. `*`: the same however old the call is. A dash: never seen.
#[rustfmt::skip]
const TABLE: &[(&str, [&str; 4])] = &[
    ("first !=done", ["go SourceOk TargetCall", "go confirmed", "go TargetOk", "go RollbackOk"]),
    // Somebody else's call may have come first.
    ("first !=refused ?=done",
        ["go SourceOk TargetCall", "go confirmed", "go TargetOk", "go RollbackOk"]),
    ("first !=refused ?=refused", ["go SourceFail (recorded)", "go TargetFail (recorded)",
        "wait Retry commit_refused", "wait RollbackFail rollback_refused"]),
    ("first !=refused ?=working", ["wait Retry in_progress", "wait Retry in_progress",
        "wait Retry in_progress", "wait - in_progress"]),
    ("first !=refused ?=silent",
        ["wait Retry mute", "wait Retry mute", "wait Retry mute", "wait - mute"]),
    ("first !=refused ?=unknown", ["go SourceFail (no)", "go TargetFail (no)",
        "wait Retry commit_refused", "wait RollbackFail rollback_refused"]),
    ("first !=pending", ["wait Retry lost", "wait Retry lost", "wait Retry lost", "wait - lost"]),

    // The amount is the call's, not the query's; commit and rollback have none.
    ("young ?=done", ["-", "-", "go TargetOk", "go RollbackOk"]),
    ("young ?=done !=done", ["go SourceOk TargetCall", "go confirmed", "-", "-"]),
    ("young ?=done !=refused", ["go SourceOk TargetCall", "go confirmed", "-", "-"]),
    ("young ?=done !=pending", ["wait Retry lost", "wait Retry lost", "-", "-"]),
    ("old ?=done", ["go SourceOk TargetCall", "go confirmed", "go TargetOk", "go RollbackOk"]),
    ("* ?=working", ["wait Retry in_progress", "wait Retry in_progress",
        "wait Retry in_progress", "wait - in_progress"]),
    ("* ?=silent", ["wait Retry mute", "wait Retry mute", "wait Retry mute", "wait - mute"]),

    ("old ?=unknown", ["adrift", "adrift", "adrift", "adrift"]),
    ("young ?=unknown !=done",
        ["go SourceOk TargetCall", "go confirmed", "go TargetOk", "go RollbackOk"]),
    ("young ?=unknown !=pending",
        ["wait Retry lost", "wait Retry lost", "wait Retry lost", "wait - lost"]),
    ("young ?=unknown !=refused ?=done",
        ["go SourceOk TargetCall", "go confirmed", "go TargetOk", "go RollbackOk"]),
    ("young ?=unknown !=refused ?=refused", ["go SourceFail (recorded)", "go TargetFail (recorded)",
        "wait Retry commit_refused", "wait RollbackFail rollback_refused"]),
    ("young ?=unknown !=refused ?=working", ["wait Retry in_progress", "wait Retry in_progress",
        "wait Retry in_progress", "wait - in_progress"]),
    ("young ?=unknown !=refused ?=silent",
        ["wait Retry mute", "wait Retry mute", "wait Retry mute", "wait - mute"]),
    ("young ?=unknown !=refused ?=unknown",
        ["wait Retry refusal_unconfirmed", "wait Retry refusal_unconfirmed",
        "wait Retry refusal_unconfirmed", "wait - refusal_unconfirmed"]),

    // Withdraw and deposit may end refused; commit and rollback are tried again.
    ("young ?=refused", ["go SourceFail (recorded)", "go TargetFail (recorded)", "-", "-"]),
    ("old ?=refused", ["go SourceFail (recorded)", "go TargetFail (recorded)",
        "wait Retry commit_refused", "wait RollbackFail rollback_refused"]),
    ("young ?=refused !=done", ["-", "-", "go TargetOk", "go RollbackOk"]),
    ("young ?=refused !=pending", ["-", "-", "wait Retry lost", "wait - lost"]),
    ("young ?=refused !=refused ?=done", ["-", "-", "go TargetOk", "go RollbackOk"]),
    ("young ?=refused !=refused ?=refused", ["-", "-",
        "wait Retry commit_refused", "wait RollbackFail rollback_refused"]),
    ("young ?=refused !=refused ?=working", ["-", "-",
        "wait Retry in_progress", "wait - in_progress"]),
    ("young ?=refused !=refused ?=silent", ["-", "-", "wait Retry mute", "wait - mute"]),
    ("young ?=refused !=refused ?=unknown", ["-", "-",
        "wait Retry refusal_unconfirmed", "wait - refusal_unconfirmed"]),
];

const CALLS: [(Operation, State, bool, &str); 4] = [
    (Operation::Withdraw, State::SourcePending, false, "funding"),
    (Operation::Deposit, State::TargetPending, false, "trading"),
    (Operation::Commit, State::TargetPending, true, "funding"),
    (Operation::Rollback, State::Compensating, false, "funding"),
];

fn standings() -> [Standing; 5] {
    [
        Standing::Done,
        Standing::Refused("recorded".to_owned()),
        Standing::InProgress,
        Standing::Unknown,
        Standing::NoAnswer { kind: "mute", message: String::new() },
    ]
}

fn answers() -> [Answer; 3] {
    [
        Answer::Done,
        Answer::Refused("no".to_owned()),
        Answer::Pending { kind: "lost", message: String::new() },
    ]
}

/// A step is one that the machine takes.
fn is_legal(state: State, confirmed: bool, step: &Step) -> bool {
    let fire = |confirmed: bool, events: &[Event]| {
        let mut state = Some(state);
        for event in events {
            state = state.and_then(|state| internal::next(state, confirmed, *event));
        }
        state
    };
    match step {
        Step::Go(known) => {
            let may_confirm = !known.confirmed || state.may_be_confirmed();
            may_confirm && fire(confirmed || known.confirmed, &known.events).is_some()
        }
        Step::Wait(doubt) => fire(confirmed, doubt.event.as_slice()) == Some(state),
        Step::Adrift(_) => true,
    }
}

#[tokio::test]
async fn every_answer_comes_to_what_the_table_says() {
    let mut seen = std::collections::BTreeSet::new();
    for (column, (operation, state, confirmed, who)) in CALLS.into_iter().enumerate() {
        for age in ["first", "young", "old"] {
            for (standing, second) in
                standings().into_iter().flat_map(|one| standings().map(|two| (one.clone(), two)))
            {
                for answer in answers() {
                    let world = world(|script| {
                        script.answer = answer.clone();
                        script.standings = Mutex::new(vec![standing.clone(), second.clone()]);
                    });
                    let since_ms = if age == "old" { NOW_MS - WINDOW_MS } else { NOW_MS - 1_000 };
                    let turn = Turn { first: age == "first", since_ms };
                    let step = world.rail.act(&transfer(KEY, state, confirmed), turn).await;
                    let trace = world.trace();
                    let effects = trace.matches(&format!("{who} {operation}=")).count();
                    assert!(effects <= 1, "more than one effect: {trace}");
                    assert!(is_legal(state, confirmed, &step), "{trace}: {step:?}");
                    let short = trace
                        .replace(&format!("{who} ?{operation}"), "?")
                        .replace(&format!("{who} {operation}"), "!");
                    let row = TABLE.iter().position(|(row, _)| {
                        *row == format!("{age} {short}") || *row == format!("* {short}")
                    });
                    let row =
                        row.unwrap_or_else(|| panic!("{operation}: no row for {age} {short}"));
                    assert_eq!(told(&step), TABLE[row].1[column], "{operation}: {age} {short}");
                    seen.insert((row, column));
                }
            }
        }
    }
    for (row, (name, cells)) in TABLE.iter().enumerate() {
        for (column, cell) in cells.iter().enumerate() {
            assert_eq!(seen.contains(&(row, column)), *cell != "-", "{name}, column {column}");
        }
    }
}

/// The process is paused, or the answer held back, until the service has forgotten.
#[tokio::test]
async fn a_query_that_outlasts_the_dedupe_window_is_followed_by_no_call() {
    for (standing, expected) in
        [(Standing::Unknown, "adrift"), (Standing::Done, "go SourceOk TargetCall")]
    {
        let world = world(|script| {
            script.query_ms = WINDOW_MS;
            script.standings = Mutex::new(vec![standing.clone()]);
        });
        let turn = Turn { first: false, since_ms: NOW_MS - 1_000 };
        let step = world.rail.act(&transfer(KEY, State::SourcePending, false), turn).await;
        assert_eq!(told(&step), expected);
        assert!(!world.trace().contains(" withdraw="), "{}", world.trace());
    }
}

/// What another worker did before the refusal may be forgotten by then.
#[tokio::test]
async fn a_refusal_off_the_record_counts_only_within_the_dedupe_window() {
    for (query_ms, expected) in
        [(1_000, "go SourceFail (no)"), (WINDOW_MS, "wait Retry refusal_unconfirmed")]
    {
        let world = world(|script| {
            script.query_ms = query_ms;
            script.answer = Answer::Refused("no".to_owned());
            script.standings = Mutex::new(vec![Standing::Unknown]);
        });
        let step = world.rail.act(&transfer(KEY, State::SourcePending, false), turn()).await;
        assert_eq!(told(&step), expected);
    }
}

fn turn() -> Turn {
    Turn { first: true, since_ms: NOW_MS }
}

#[tokio::test]
async fn a_call_is_announced_before_it_is_made() {
    for (state, expected) in [(State::Init, "go SourceCall"), (State::SourceDone, "go TargetCall")]
    {
        for first in [true, false] {
            let world = world(|_| ());
            let turn = Turn { first, ..turn() };
            let step = world.rail.act(&transfer(KEY, state, false), turn).await;
            assert_eq!((told(&step).as_str(), world.trace().as_str()), (expected, ""));
        }
    }
}

#[tokio::test]
async fn a_source_that_does_not_freeze_needs_no_commit() {
    let world = world(|script| script.freezes = script.name == "trading");
    let step = world.rail.act(&transfer(KEY, State::TargetPending, false), turn()).await;
    assert_eq!(told(&step), "go confirmed TargetOk");
    assert!(is_legal(State::TargetPending, false, &step));
}

#[tokio::test]
async fn a_service_that_is_gone_is_waited_for_and_nothing_is_called() {
    let trace = Arc::default();
    for (kept, states) in [
        ("funding", &[(State::Init, false), (State::TargetPending, false)][..]),
        (
            "trading",
            &[
                (State::Init, false),
                (State::SourcePending, false),
                (State::TargetPending, false),
                (State::TargetPending, true),
                (State::Compensating, false),
            ][..],
        ),
    ] {
        let rail = rail(vec![Arc::new(Script::new(kept, &trace))]).expect("a rail");
        for (state, confirmed) in states {
            let step = rail.act(&transfer(KEY, *state, *confirmed), turn()).await;
            assert_eq!(told(&step), "wait - misconfigured", "{state:?} without one");
            assert!(trace.lock().is_empty(), "{state:?}");
        }
    }
}

#[tokio::test]
async fn an_id_that_is_no_uuid_is_never_put_into_a_path() {
    for key in ["", "7", "../../admin", "6f1c3f0e-8a51-4d0b-9d8e-0f6a1c2b3d4/", "6f1c3f0e8a514d0b"]
    {
        let world = world(|_| ());
        let step = world.rail.act(&transfer(key, State::SourcePending, false), turn()).await;
        assert_eq!((told(&step).as_str(), world.trace().as_str()), ("wait - misconfigured", ""));
    }
}

#[tokio::test]
async fn a_final_transfer_makes_no_call() {
    for state in [State::Committed, State::RolledBack, State::Failed] {
        let world = world(|_| ());
        let step = world.rail.act(&transfer(KEY, state, false), turn()).await;
        assert_eq!((told(&step).as_str(), world.trace().as_str()), ("wait - misconfigured", ""));
    }
}

#[test]
fn an_operators_word_stands_for_the_answer_that_is_missing() {
    let check = |state, confirmed, took_effect, expected: &str| {
        let ruled = world(|_| ()).rail.ruled(&transfer(KEY, state, confirmed), took_effect);
        let said = match ruled {
            Ok(known) => {
                let step = Step::Go(known);
                assert!(is_legal(state, confirmed, &step), "{step:?}");
                told(&step)
            }
            Err(_) => "refused".to_owned(),
        };
        assert!(said.starts_with(expected), "{state:?} {confirmed} {took_effect}: {said}");
    };
    check(State::SourcePending, false, true, "go SourceOk TargetCall");
    check(State::SourcePending, false, false, "go SourceFail (an operator");
    check(State::TargetPending, false, true, "go confirmed");
    check(State::TargetPending, false, false, "go TargetFail (an operator");
    check(State::TargetPending, true, true, "go TargetOk");
    check(State::TargetPending, true, false, "refused");
    check(State::Compensating, false, true, "go RollbackOk");
    check(State::Compensating, false, false, "refused");
    for state in [State::Init, State::SourceDone, State::Committed, State::RolledBack] {
        check(state, false, true, "refused");
        check(state, false, false, "refused");
    }
}

/// Said of a withdrawal or deposit too early, "it never took effect" is untrue once a call that is
/// under way arrives.
#[test]
fn a_word_about_what_may_still_be_called_would_not_hold() {
    let world = world(|_| ());
    let check = |state, confirmed, age_ms, expected| {
        let holds = world.rail.would_hold(&transfer(KEY, state, confirmed), NOW_MS - age_ms);
        assert_eq!(holds, expected, "{state:?} {confirmed} {age_ms}");
    };
    for state in [State::SourcePending, State::TargetPending] {
        check(state, false, WINDOW_MS - 1, false);
        check(state, false, WINDOW_MS, true);
    }
    check(State::TargetPending, true, 0, true);
    check(State::Compensating, false, 0, true);

    let trading = Arc::new(Script::new("trading", &Arc::default()));
    let alone = rail(vec![trading]).expect("a rail");
    let source_is_gone = transfer(KEY, State::SourcePending, false);
    assert!(!alone.would_hold(&source_is_gone, NOW_MS - LATE_CALL_MS + 1));
    assert!(alone.would_hold(&source_is_gone, NOW_MS - LATE_CALL_MS));
}

#[test]
fn a_source_that_is_gone_is_still_to_commit_after_an_operators_word() {
    let trading = Arc::new(Script::new("trading", &Arc::default()));
    let rail = rail(vec![trading]).expect("a rail");
    let known = rail.ruled(&transfer(KEY, State::TargetPending, false), true);
    assert_eq!(known, Ok(Known { confirmed: true, ..Known::default() }));
}

#[tokio::test]
async fn only_a_user_whom_the_source_denies_is_turned_away() {
    let payload = transfer(KEY, State::Init, false).payload;
    for (knows, expected) in [(Some(true), None), (None, None), (Some(false), Some("user_id"))] {
        let world = world(|script| {
            script.knows = if script.name == "funding" { knows } else { Some(false) };
        });
        for _ in 0..2 {
            let turned_away = world.rail.screen(&payload).await.err();
            assert_eq!(turned_away.map(|bad| bad.field), expected);
        }
        let asked = world.trace().matches("funding user 4001").count();
        assert_eq!(asked, if knows == Some(true) { 1 } else { 2 }, "who is known stays known");
        assert!(!world.trace().contains("trading"));
    }
}

#[tokio::test]
async fn services_are_told_apart_listed_and_checked() {
    let trace = Arc::default();
    let script = || Arc::new(Script::new("funding", &trace)) as Arc<dyn ServiceAdapter>;
    let twice = rail(vec![script(), script()]).err();
    assert_eq!(twice, Some(BadServices("funding".to_owned())));
    let alone = rail(vec![script()]).expect("a rail");
    assert!(matches!(alone.check().await, Err(RailError::Misconfigured(_))));
    let world = world(|_| ());
    assert_eq!(world.rail.services(), ["funding", "trading"]);
    assert_eq!(world.rail.check().await, Ok("funding: ok; trading: ok".to_owned()));
    let endpoints: Vec<String> =
        world.rail.endpoints().into_iter().map(|health| health.endpoint).collect();
    assert_eq!(endpoints, ["http://funding", "http://trading"]);
}
