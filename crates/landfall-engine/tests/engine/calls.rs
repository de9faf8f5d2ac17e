//! Calls that may be repeated: driven to the end, retried for ever, by any number of workers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use landfall_core::courier::{Courier, Doubt, Known, Step, Turn};
use landfall_core::internal::{self, Asked, Asset, Order, State as Place, Terms};
use landfall_core::queue::Queue;
use landfall_core::rail::{Backoff, EndpointHealth, RailError};
use landfall_core::store::{Accepted, Store};
use landfall_core::{
    BadField, Certificate, CertificateKind, Clock, Event, Payload, RailName, Stage, State, Transfer,
};
use landfall_engine::operate::{OperateError, rule};
use landfall_engine::{Engine, Parts, Settings, Submission};
use landfall_lanes::{HighWater, TimerClock};
use landfall_queue_ring::RingQueue;
use landfall_queue_store::{Settings as QueueSettings, StoreQueue};
use landfall_store_memory::MemoryStore;
use parking_lot::Mutex;

use crate::slow::SlowStore;

const HOUR_MS: u64 = 3_600_000;

/// What the next turns come to; when nothing is left, the happy path.
#[derive(Default)]
struct Script {
    steps: VecDeque<Step>,
    /// State, whether it was confirmed, and whether the turn was the first, of every turn.
    turns: Vec<(&'static str, bool, bool)>,
    /// Since when the call of each turn may have been made.
    since_ms: Vec<u64>,
    hangs: bool,
    /// Whether an operator's word would hold.
    holds: bool,
}

#[derive(Default)]
struct FakeCourier {
    script: Mutex<Script>,
    backoff: Option<Backoff>,
}

fn happy(transfer: &Transfer) -> Known {
    let State::Internal(place) = transfer.state else { panic!("another rail") };
    match (place, transfer.confirmed) {
        (Place::Init, _) => Known::events(&[Event::SourceCall]),
        (Place::SourcePending, _) => Known::events(&[Event::SourceOk, Event::TargetCall]),
        (Place::TargetPending, false) => Known { confirmed: true, ..Known::default() },
        (Place::TargetPending, true) => Known::events(&[Event::TargetOk]),
        (Place::Compensating, _) => Known::events(&[Event::RollbackOk]),
        other => panic!("{other:?} is nobody's turn"),
    }
}

#[async_trait]
impl Courier for FakeCourier {
    fn name(&self) -> RailName {
        RailName::Internal
    }

    fn stage(&self) -> Stage {
        internal::STAGE
    }

    fn backoff(&self) -> Option<Backoff> {
        self.backoff
    }

    async fn screen(&self, _: &Payload) -> Result<(), BadField> {
        Ok(())
    }

    async fn act(&self, transfer: &Transfer, turn: Turn) -> Step {
        let hangs = self.script.lock().hangs;
        if hangs {
            std::future::pending::<()>().await;
        }
        let mut script = self.script.lock();
        script.turns.push((transfer.state.name(), transfer.confirmed, turn.first));
        script.since_ms.push(turn.since_ms);
        script.steps.pop_front().unwrap_or_else(|| Step::Go(happy(transfer)))
    }

    fn ruled(&self, _: &Transfer, took_effect: bool) -> Result<Known, String> {
        match took_effect {
            true => Ok(Known::events(&[Event::SourceOk])),
            false => Ok(Known::refused(Event::SourceFail, "an operator said so")),
        }
    }

    fn would_hold(&self, _: &Transfer, _: u64) -> bool {
        self.script.lock().holds
    }

    fn endpoints(&self) -> Vec<EndpointHealth> {
        Vec::new()
    }

    async fn check(&self) -> Result<String, RailError> {
        Ok(String::new())
    }
}

struct Town {
    clock: Arc<dyn Clock>,
    store: Arc<MemoryStore>,
    courier: Arc<FakeCourier>,
    settings: Settings,
    engine: Arc<Engine>,
}

impl Town {
    async fn new() -> Town {
        Town::with(Settings::default()).await
    }

    async fn with(settings: Settings) -> Town {
        let clock: Arc<dyn Clock> = Arc::new(TimerClock::starting_at(1_700_000_000_000));
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let courier = Arc::new(FakeCourier::default());
        let engine = start(&clock, store.clone(), &courier, &settings).await;
        Town { clock, store, courier, settings, engine }
    }

    async fn another_engine(&self) -> Arc<Engine> {
        self.engine_on(self.store.clone()).await
    }

    async fn engine_on(&self, store: Arc<dyn Store>) -> Arc<Engine> {
        start(&self.clock, store, &self.courier, &self.settings).await
    }

    fn script(&self, steps: impl IntoIterator<Item = Step>) {
        self.courier.script.lock().steps.extend(steps);
    }

    async fn submit(&self, key: &str) -> Transfer {
        let terms = Terms {
            services: vec!["funding".into(), "trading".into()],
            assets: vec![Asset { id: 1, symbol: "BTC".into(), decimals: 8 }],
        };
        let asked =
            Asked { from: "funding", to: "trading", user_id: 1, asset: "BTC", amount: "1.5" };
        let payload = Payload::Internal(Order::new(&terms, asked).unwrap());
        let submission = Submission { tenant: String::new(), key: key.to_owned(), payload };
        match self.engine.submit(vec![submission]).await.unwrap().pop().unwrap() {
            Accepted::Created(transfer) => transfer,
            other => panic!("{other:?}"),
        }
    }

    async fn find(&self, key: &str) -> Transfer {
        self.store.by_key(RailName::Internal, "", key).await.unwrap().unwrap()
    }

    async fn trail(&self, key: &str) -> Vec<&'static str> {
        let id = self.find(key).await.id;
        self.store.trail(id).await.unwrap().iter().map(|entry| entry.event.name()).collect()
    }

    async fn pass(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    fn turns(&self) -> Vec<(&'static str, bool, bool)> {
        self.courier.script.lock().turns.clone()
    }
}

async fn start(
    clock: &Arc<dyn Clock>,
    store: Arc<dyn Store>,
    courier: &Arc<FakeCourier>,
    settings: &Settings,
) -> Arc<Engine> {
    start_with(Arc::new(RingQueue::new(4)), clock, store, courier, settings).await
}

async fn start_with(
    queue: Arc<dyn Queue>,
    clock: &Arc<dyn Clock>,
    store: Arc<dyn Store>,
    courier: &Arc<FakeCourier>,
    settings: &Settings,
) -> Arc<Engine> {
    let parts = Parts {
        store,
        queue,
        rails: Vec::new(),
        couriers: vec![courier.clone()],
        clock: clock.clone(),
        high_water: Arc::new(HighWater::in_memory()),
        role: landfall_engine::Role::Both,
        settings: settings.clone(),
        seed: 7,
    };
    Engine::start(parts).await.unwrap()
}

fn doubt(kind: &'static str) -> Step {
    Step::Wait(Doubt { event: Some(Event::Retry), kind, message: format!("{kind} happened") })
}

#[tokio::test(start_paused = true)]
async fn the_happy_path_is_walked_at_once_and_stored_before_every_call() {
    let town = Town::new().await;
    let transfer = town.submit("k").await;
    let done = town.engine.wait_final(transfer, Duration::from_millis(500)).await.unwrap();
    assert_eq!(done.state.name(), "committed");
    let trail = town.trail("k").await;
    let expected =
        ["init", "source_pending", "source_done", "target_pending", "CONFIRMED", "committed"];
    assert_eq!(trail, expected);
    let turns = [
        ("init", false, false),
        ("source_pending", false, true),
        ("target_pending", false, true),
        ("target_pending", true, true),
    ];
    assert_eq!(town.turns(), turns);
}

#[tokio::test(start_paused = true)]
async fn a_doubt_is_retried_for_ever_and_the_next_turn_looks_first() {
    let town = Town::new().await;
    let wait = [Step::Go(Known::events(&[Event::SourceCall]))];
    town.script(wait.into_iter().chain((0..30).map(|_| doubt("timeout"))));
    town.submit("k").await;
    town.pass(3_600_000).await;
    let done = town.find("k").await;
    assert_eq!(done.state.name(), "committed");
    assert_eq!((done.retry_count, done.stage_retries, done.error), (30, 0, None));
    let turns = town.turns();
    assert_eq!(turns[1], ("source_pending", false, true));
    assert!(turns[2..31].iter().all(|turn| *turn == ("source_pending", false, false)));
    let retries = town.trail("k").await.iter().filter(|name| **name == "RETRY").count();
    assert!((10..20).contains(&retries), "the trail is kept short: {retries}");
}

/// The store as its own queue claims what the sweeper would claim, no sooner.
#[tokio::test(start_paused = true)]
async fn the_longest_backoff_is_kept_whatever_the_queue() {
    let settings = Settings { backoff_max_ms: HOUR_MS, ..Settings::default() };
    let mut town = Town::with(settings.clone()).await;
    town.engine.abort().await;
    let claims = QueueSettings::beside_sweeper(settings.sweep_push_ms, settings.horizon_ms());
    let (clock, store) = (town.clock.clone(), town.store.clone());
    let queues: [Arc<dyn Queue>; 2] = [
        Arc::new(RingQueue::new(4)),
        Arc::new(StoreQueue::new(store.clone(), clock.clone(), claims)),
    ];
    for (name, queue) in ["ring", "store"].into_iter().zip(queues) {
        town.courier = Arc::default();
        town.engine = start_with(queue, &clock, store.clone(), &town.courier, &town.settings).await;
        town.script([Step::Go(Known::events(&[Event::SourceCall]))]);
        town.script((0..100_000).map(|_| doubt("timeout")));
        town.submit(name).await;
        town.pass(HOUR_MS / 4).await;
        let turns = town.turns().len();
        assert!((10..20).contains(&turns), "{name}: {turns} calls");
        town.engine.abort().await;
    }
}

/// A rail's own backoff, also where the engine's would take such a wait for a clock that jumped.
#[tokio::test(start_paused = true)]
async fn a_rail_of_services_waits_as_long_as_it_says_itself() {
    let mut town = Town::new().await;
    town.engine.abort().await;
    let backoff = Some(Backoff { first_ms: HOUR_MS / 4, max_ms: HOUR_MS });
    town.courier = Arc::new(FakeCourier { backoff, ..FakeCourier::default() });
    town.engine = town.another_engine().await;
    town.script([Step::Go(Known::events(&[Event::SourceCall]))]);
    town.script((0..100_000).map(|_| doubt("timeout")));
    town.submit("k").await;
    town.pass(HOUR_MS).await;
    let turns = town.turns().len();
    assert!((3..=5).contains(&turns), "{turns} calls");
}

#[tokio::test(start_paused = true)]
async fn what_is_retried_for_too_long_raises_an_alert_that_ends_with_it() {
    let town = Town::new().await;
    town.script([Step::Go(Known::events(&[Event::SourceCall]))]);
    town.script((0..13).map(|_| doubt("timeout")));
    town.submit("k").await;
    town.pass(300_000).await;
    let status = town.engine.status().await;
    assert_eq!(status.rails[0].stuck, 1, "{:?}", status.alerts);
    assert!(status.alerts.iter().any(|alert| {
        alert.kind == "transfer_stuck" && alert.message.contains("timeout happened")
    }));
    town.pass(600_000).await;
    let status = town.engine.status().await;
    assert_eq!(town.find("k").await.state.name(), "committed");
    assert_eq!((status.rails[0].stuck, status.alerts.len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_refused_deposit_is_rolled_back_and_the_refusal_is_what_the_client_reads() {
    let town = Town::new().await;
    town.script([
        Step::Go(Known::events(&[Event::SourceCall])),
        Step::Go(Known::events(&[Event::SourceOk, Event::TargetCall])),
        Step::Go(Known::refused(Event::TargetFail, "account frozen")),
        Step::Wait(Doubt {
            event: Some(Event::RollbackFail),
            kind: "rollback_refused",
            message: "not now".into(),
        }),
    ]);
    town.submit("k").await;
    town.pass(10_000).await;
    let done = town.find("k").await;
    assert_eq!(done.state.name(), "rolled_back");
    assert_eq!(done.error.unwrap().message, "account frozen");
    let trail = town.trail("k").await;
    assert_eq!(trail[4..], ["compensating", "RETRY", "rolled_back"]);
}

#[tokio::test(start_paused = true)]
async fn many_workers_on_one_transfer_are_harmless() {
    let town = Town::new().await;
    let mut others = Vec::new();
    for _ in 0..4 {
        others.push(town.another_engine().await);
    }
    for n in 0..50 {
        town.submit(&format!("k{n}")).await;
        if n % 10 == 0 {
            town.script([doubt("timeout")]);
        }
    }
    town.pass(60_000).await;
    for n in 0..50 {
        let trail = town.trail(&format!("k{n}")).await;
        assert_eq!(trail.last(), Some(&"committed"));
        assert_eq!(trail.iter().filter(|name| **name == "CONFIRMED").count(), 1);
    }
}

/// A paused process, say: it wakes when services have long forgotten what others did meanwhile.
#[tokio::test(start_paused = true)]
async fn whoever_was_held_up_between_announcement_and_call_looks_before_it_calls() {
    for others_finish_it in [true, false] {
        let mut town = Town::new().await;
        let slow = Arc::new(SlowStore::on(town.store.clone()));
        let held_up = town.engine_on(slow.clone()).await;
        let other = std::mem::replace(&mut town.engine, held_up);
        if !others_finish_it {
            other.abort().await;
        }
        slow.apply_ms.store(HOUR_MS, Ordering::Relaxed);
        town.submit("k").await;
        town.pass(HOUR_MS / 2).await;
        let before = town.turns();
        assert_eq!(town.find("k").await.state.is_final(), others_finish_it);
        town.pass(HOUR_MS).await;
        let turns = town.turns().split_off(before.len());
        match others_finish_it {
            true => assert_eq!(turns, [], "nothing is left to be called"),
            false => assert_eq!(turns[0], ("source_pending", false, false), "as any later turn"),
        }
        assert_eq!(town.find("k").await.state.name(), "committed");
    }
}

/// The window is that of the call in question, not of what others have called since.
#[tokio::test(start_paused = true)]
async fn the_age_of_a_call_is_that_of_the_state_which_was_read() {
    let mut town = Town::new().await;
    town.script([Step::Go(Known::events(&[Event::SourceCall])), doubt("timeout")]);
    let slow = Arc::new(SlowStore::on(town.store.clone()));
    let held_up = town.engine_on(slow.clone()).await;
    std::mem::replace(&mut town.engine, held_up).abort().await;
    let submitted = town.submit("k").await;
    town.pass(100).await;
    slow.trail_ms.store(HOUR_MS, Ordering::Relaxed);
    town.pass(HOUR_MS / 4).await;
    let other = town.another_engine().await;
    town.pass(HOUR_MS / 4).await;
    assert_eq!(town.find("k").await.state.name(), "committed");
    let before = town.turns().len();
    town.pass(HOUR_MS).await;
    assert_eq!(town.turns()[before..], [("source_pending", false, false)]);
    let since_ms = town.courier.script.lock().since_ms[before];
    assert!(since_ms < submitted.created_ms + 1_000, "{since_ms}");
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn a_crash_in_the_middle_of_a_call_is_found_by_the_sweeper() {
    let mut town = Town::new().await;
    town.courier.script.lock().hangs = true;
    town.submit("k").await;
    town.pass(100).await;
    town.engine.abort().await;
    town.courier.script.lock().hangs = false;
    town.engine = town.another_engine().await;
    town.pass(10_000).await;
    assert_eq!(town.find("k").await.state.name(), "committed");
}

#[tokio::test(start_paused = true)]
async fn more_than_there_is_room_for_waits_in_the_queue_or_the_store() {
    let town = Town::with(Settings { calls_max: 2, ..Settings::default() }).await;
    for n in 0..40 {
        town.submit(&format!("k{n}")).await;
    }
    town.pass(60_000).await;
    for n in 0..40 {
        assert_eq!(town.find(&format!("k{n}")).await.state.name(), "committed", "{n}");
    }
}

fn word() -> Certificate {
    Certificate {
        kind: CertificateKind::Operator,
        summary: "the bank's statement shows no debit".into(),
        evidence: serde_json::json!({}),
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_tried_for_long_is_decided_only_if_no_late_call_can_make_the_word_untrue() {
    let town = Town::new().await;
    town.script([Step::Go(Known::events(&[Event::SourceCall]))]);
    town.script((0..1_000).map(|_| doubt("timeout")));
    town.submit("k").await;
    town.pass(1_000).await;
    let rule = async |holds| {
        town.courier.script.lock().holds = holds;
        let (transfer, now_ms) = (town.find("k").await, town.clock.now_ms());
        let (store, courier) = (town.store.as_ref(), town.courier.as_ref());
        rule(store, courier, &transfer, false, &word(), now_ms).await
    };
    let not_adrift = Err(OperateError::NotAdrift("k".into()));
    assert_eq!(rule(true).await, not_adrift, "hardly tried");
    town.pass(HOUR_MS).await;
    town.engine.abort().await;
    assert!(town.find("k").await.stage_retries > 10);
    assert_eq!(rule(false).await, not_adrift, "it may still be called");
    assert_eq!(rule(true).await.unwrap().state.name(), "failed");
}

#[tokio::test(start_paused = true)]
async fn what_a_service_has_forgotten_waits_for_an_operators_word() {
    let town = Town::new().await;
    town.script([
        Step::Go(Known::events(&[Event::SourceCall])),
        Step::Adrift("funding no longer knows the request".into()),
    ]);
    town.submit("k").await;
    town.pass(1_000).await;
    let adrift = town.find("k").await;
    assert_eq!(adrift.state.name(), "source_pending");
    let status = town.engine.status().await;
    assert_eq!(status.rails[0].adrift, 1);
    assert!(status.alerts.iter().any(|alert| alert.kind == "adrift"), "{:?}", status.alerts);

    let word = word();
    let now_ms = town.clock.now_ms();
    let (store, courier) = (town.store.as_ref(), town.courier.as_ref());
    // Set aside before the window is over: a call that is late may be made yet.
    town.courier.script.lock().holds = false;
    let early = rule(store, courier, &adrift, false, &word, now_ms).await;
    assert_eq!(early, Err(OperateError::TooEarly("k".into())));
    town.courier.script.lock().holds = true;
    let ruled = rule(store, courier, &adrift, false, &word, now_ms).await.unwrap();
    assert_eq!(ruled.state.name(), "failed");
    let trail = town.store.trail(adrift.id).await.unwrap();
    assert_eq!(trail.last().unwrap().certificate, Some(word.clone()));
    let again = rule(store, courier, &ruled, true, &word, now_ms).await;
    assert_eq!(again, Err(OperateError::NotAdrift("k".into())));

    // It was decided by another process, and is over here, too.
    town.pass(30_000).await;
    let status = town.engine.status().await;
    assert_eq!((status.rails[0].adrift, status.alerts), (0, vec![]));
}

#[tokio::test(start_paused = true)]
async fn what_was_stuck_here_and_is_finished_elsewhere_is_no_alert_here() {
    let town = Town::new().await;
    town.script([Step::Go(Known::events(&[Event::SourceCall]))]);
    town.script((0..100).map(|_| doubt("timeout")));
    town.submit("k").await;
    town.pass(300_000).await;
    assert_eq!(town.engine.status().await.rails[0].stuck, 1);
    town.courier.script.lock().holds = true;
    let (stuck, now_ms) = (town.find("k").await, town.clock.now_ms());
    let (store, courier) = (town.store.as_ref(), town.courier.as_ref());
    rule(store, courier, &stuck, false, &word(), now_ms).await.unwrap();
    town.pass(30_000).await;
    let status = town.engine.status().await;
    assert_eq!((status.rails[0].stuck, status.alerts), (0, vec![]));
}

/// A mistake of a courier's, told until the transfer has moved on, whoever moved it.
#[tokio::test(start_paused = true)]
async fn a_step_that_a_state_does_not_allow_is_an_alert_that_ends_with_it() {
    let illegal = || Step::Go(Known::events(&[Event::TargetOk]));
    let stands = async |town: &Town| {
        let alerts = town.engine.status().await.alerts;
        alerts.iter().any(|alert| alert.kind == "illegal_step" && alert.message.contains("k: "))
    };
    let town = Town::new().await;
    town.script([illegal()]);
    town.submit("k").await;
    town.pass(100).await;
    assert!(stands(&town).await);
    town.pass(60_000).await;
    assert_eq!(town.find("k").await.state.name(), "committed");
    assert_eq!(town.engine.status().await.alerts, []);

    let town = Town::new().await;
    town.script([Step::Go(Known::events(&[Event::SourceCall]))]);
    town.script((0..100).map(|_| illegal()));
    town.submit("k").await;
    town.pass(60_000).await;
    assert!(stands(&town).await, "for as long as it lasts");
    let better = Arc::new(FakeCourier::default());
    let _other = start(&town.clock, town.store.clone(), &better, &town.settings).await;
    town.pass(60_000).await;
    assert_eq!(town.find("k").await.state.name(), "committed");
    assert_eq!(town.engine.status().await.alerts, []);
}

#[tokio::test(start_paused = true)]
async fn a_stop_gives_the_grace_to_all_rails_together() {
    let town = Town::new().await;
    town.engine.abort().await;
    town.courier.script.lock().hangs = true;
    let both = Parts {
        couriers: vec![town.courier.clone(), town.courier.clone()],
        store: town.store.clone(),
        queue: Arc::new(RingQueue::new(4)),
        rails: Vec::new(),
        clock: town.clock.clone(),
        high_water: Arc::new(HighWater::in_memory()),
        role: landfall_engine::Role::Both,
        settings: town.settings.clone(),
        seed: 7,
    };
    let town = Town { engine: Engine::start(both).await.unwrap(), ..town };
    town.submit("k").await;
    town.pass(1_000).await;
    let began_ms = town.clock.monotonic_ms();
    town.engine.stop(Duration::from_secs(5)).await;
    assert_eq!(town.clock.monotonic_ms() - began_ms, 5_000);
}

#[tokio::test(start_paused = true)]
async fn a_polite_end_lets_no_call_be_half_recorded() {
    let town = Town::new().await;
    for n in 0..20 {
        town.submit(&format!("k{n}")).await;
    }
    town.engine.stop(Duration::from_secs(5)).await;
    let next = town.another_engine().await;
    town.pass(60_000).await;
    for n in 0..20 {
        assert_eq!(town.find(&format!("k{n}")).await.state.name(), "committed", "{n}");
    }
    drop(next);
}
