//! Recovery, scenario by scenario, by their names: the real engine, the real rail and real books,
//! on paused time.
//!
//! Whatever is cut off, crashes or is late, each ends with the funds at one place, once.

use std::sync::Arc;
use std::time::Duration;

use landfall_core::internal::{Asked, Asset, Order, Terms};
use landfall_core::store::{Accepted, Store};
use landfall_core::{Clock, Payload, RailName};
use landfall_engine::{Engine, Parts, Role, Settings, Submission};
use landfall_lanes::{HighWater, TimerClock};
use landfall_ledger::{AccountId, Book, Kind, audit};
use landfall_queue_ring::RingQueue;
use landfall_rail_internal::{InternalRail, ServiceAdapter};
use landfall_store_memory::MemoryStore;

use crate::branch::{Branch, Way};

const ACCOUNT: AccountId = AccountId { user_id: 4001, asset_id: 1 };
const REQ_ID: &str = "6f1c3f0e-8a51-4d0b-9d8e-0f6a1c2b3d4e";
/// What the user holds at each service, and what is moved from funding to trading.
const HELD: u64 = 100;
const MOVED: u64 = 30;

struct Town {
    clock: Arc<dyn Clock>,
    store: Arc<MemoryStore>,
    source: Arc<Branch>,
    target: Arc<Branch>,
    worker: Arc<Engine>,
}

impl Town {
    async fn new() -> Town {
        let clock: Arc<dyn Clock> = Arc::new(TimerClock::starting_at(1_700_000_000_000));
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let source = Branch::new("funding", Kind::Freeze, clock.clone());
        let target = Branch::new("trading", Kind::Direct, clock.clone());
        for branch in [&source, &target] {
            branch.fund(ACCOUNT, HELD).await;
        }
        let worker = worker(&clock, &store, [&source, &target]).await;
        Town { clock, store, source, target, worker }
    }

    /// kill -9, and a new worker on the same store.
    async fn crash_the_worker(&mut self) {
        self.worker.abort().await;
        self.worker = worker(&self.clock, &self.store, [&self.source, &self.target]).await;
    }

    async fn submit(&self) {
        let terms = Terms {
            services: vec!["funding".into(), "trading".into()],
            assets: vec![Asset { id: 1, symbol: "PTS".into(), decimals: 0 }],
        };
        let amount = MOVED.to_string();
        let (from, to) = ("funding", "trading");
        let asked = Asked { from, to, user_id: 4001, asset: "PTS", amount: &amount };
        let payload = Payload::Internal(Order::new(&terms, asked).expect("an order"));
        let (tenant, key) = (String::new(), REQ_ID.to_owned());
        let taken = self.worker.submit(vec![Submission { tenant, key, payload }]).await;
        let taken = taken.expect("taken").pop();
        assert!(matches!(taken, Some(Accepted::Created(_))), "{taken:?}");
    }

    async fn pass(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    async fn state(&self) -> &'static str {
        let found = self.store.by_key(RailName::Internal, "", REQ_ID).await;
        found.expect("the store").expect("the transfer").state.name()
    }

    async fn trail(&self) -> Vec<&'static str> {
        let found = self.store.by_key(RailName::Internal, "", REQ_ID).await.expect("the store");
        let trail = self.store.trail(found.expect("the transfer").id).await.expect("the store");
        trail.iter().map(|entry| entry.event.name()).collect()
    }

    /// State, and what the user has at either service: available and frozen.
    async fn check(&self, state: &str, source: (u64, u64), target: (u64, u64)) {
        let held = (self.source.held(ACCOUNT).await, self.target.held(ACCOUNT).await);
        assert_eq!((self.state().await, held), (state, (source, target)));
    }

    /// The funds have arrived, each step was done once, and both statements add up.
    async fn check_committed(&self) {
        self.check("committed", (HELD - MOVED, 0), (HELD + MOVED, 0)).await;
        self.check_books().await;
    }

    async fn check_books(&self) {
        for branch in [&self.source, &self.target] {
            let book: &dyn Book = &branch.book;
            let tally = audit::check(book).await.expect("the statement adds up");
            assert!(tally.open().is_empty(), "{:?}", tally.open());
        }
    }
}

async fn worker(
    clock: &Arc<dyn Clock>,
    store: &Arc<MemoryStore>,
    branches: [&Arc<Branch>; 2],
) -> Arc<Engine> {
    let services = branches.map(|branch| branch.clone() as Arc<dyn ServiceAdapter>).to_vec();
    let rail = InternalRail::new(services, clock.clone()).expect("two services");
    let parts = Parts {
        store: store.clone(),
        queue: Arc::new(RingQueue::new(16)),
        rails: Vec::new(),
        couriers: vec![Arc::new(rail)],
        clock: clock.clone(),
        high_water: Arc::new(HighWater::in_memory()),
        role: Role::Both,
        settings: Settings::default(),
        seed: 7,
    };
    Engine::start(parts).await.expect("an engine")
}

/// 8.1. The withdrawal is done, its answer is lost with the worker that waited for it.
#[tokio::test(start_paused = true)]
async fn worker_crash_after_source_withdraw() {
    let mut town = Town::new().await;
    town.source.set(Way::Silent);
    town.submit().await;
    town.pass(1).await;
    town.check("source_pending", (HELD - MOVED, MOVED), (HELD, 0)).await;
    town.source.set(Way::Open);
    town.crash_the_worker().await;
    town.pass(60).await;
    town.check_committed().await;
    assert!(town.source.called("withdraw?") >= 1, "the new worker asks first");
    assert_eq!(town.source.called("withdraw"), 2, "and hears for which amount it was done");
}

/// 8.2. The source says that it works on it; then the worker crashes.
#[tokio::test(start_paused = true)]
async fn source_returns_pending_then_crashes() {
    let mut town = Town::new().await;
    town.source.set(Way::PutsOff);
    town.submit().await;
    town.pass(1).await;
    town.check("source_pending", (HELD, 0), (HELD, 0)).await;
    town.crash_the_worker().await;
    town.pass(60).await;
    town.check("source_pending", (HELD, 0), (HELD, 0)).await;
    assert!(town.source.called("withdraw?") >= 2, "the scanner found it and asks");
    town.source.catch_up().await;
    town.pass(120).await;
    town.check_committed().await;
    assert_eq!(town.source.called("withdraw"), 2);
}

/// 8.2, where the source itself crashes too and has lost what it was working on.
#[tokio::test(start_paused = true)]
async fn source_returns_pending_then_crashes_and_has_lost_the_request() {
    let mut town = Town::new().await;
    town.source.set(Way::PutsOff);
    town.submit().await;
    town.pass(1).await;
    town.source.crash();
    town.crash_the_worker().await;
    town.pass(60).await;
    town.check("source_pending", (HELD, 0), (HELD, 0)).await;
    town.source.set(Way::Open);
    town.pass(120).await;
    town.check_committed().await;
    assert_eq!(town.source.called("withdraw"), 2, "unknown means: again, under the same id");
}

/// 8.3. The target refuses; the source gives back what it had set aside.
#[tokio::test(start_paused = true)]
async fn target_deposit_fails() {
    let town = Town::new().await;
    assert_eq!(town.target.book.block(ACCOUNT, true).await, Ok(true));
    town.submit().await;
    town.pass(60).await;
    town.check("rolled_back", (HELD, 0), (HELD, 0)).await;
    town.check_books().await;
    assert_eq!(town.trail().await[3..], ["target_pending", "compensating", "rolled_back"]);
    assert_eq!((town.source.called("rollback"), town.source.called("commit")), (1, 0));
}

/// 8.3, where the source cannot be reached just when it is to give back.
#[tokio::test(start_paused = true)]
async fn target_deposit_fails_and_the_rollback_is_asked_for_until_it_is_done() {
    let town = Town::new().await;
    assert_eq!(town.target.book.block(ACCOUNT, true).await, Ok(true));
    town.target.set(Way::Cut);
    town.submit().await;
    town.pass(1).await;
    town.source.set(Way::Cut);
    town.target.set(Way::Open);
    town.pass(600).await;
    town.check("compensating", (HELD - MOVED, MOVED), (HELD, 0)).await;
    town.source.set(Way::Open);
    town.pass(120).await;
    town.check("rolled_back", (HELD, 0), (HELD, 0)).await;
    town.check_books().await;
}

/// 8.4. Stays where it is, and is tried again; nothing is failed for want of an answer.
#[tokio::test(start_paused = true)]
async fn network_partition_cannot_reach_source() {
    let town = Town::new().await;
    town.source.set(Way::Cut);
    town.submit().await;
    for _ in 0..6 {
        town.pass(3_600).await;
        town.check("source_pending", (HELD, 0), (HELD, 0)).await;
    }
    assert_eq!(town.target.called("deposit"), 0);
    town.source.set(Way::Open);
    town.pass(120).await;
    town.check_committed().await;
}

/// 8.4. The funds stay set aside, for hours: never refunded, as the target may have them.
#[tokio::test(start_paused = true)]
async fn network_partition_cannot_reach_target() {
    let town = Town::new().await;
    town.target.set(Way::Cut);
    town.submit().await;
    for _ in 0..6 {
        town.pass(3_600).await;
        town.check("target_pending", (HELD - MOVED, MOVED), (HELD, 0)).await;
    }
    assert_eq!(town.source.called("rollback"), 0);
    town.target.set(Way::Open);
    town.pass(120).await;
    town.check_committed().await;
}

/// 8.4, where the deposit was done and only its answer is cut off: a refund would be money created.
#[tokio::test(start_paused = true)]
async fn network_partition_cannot_reach_target_though_it_has_the_deposit() {
    let mut town = Town::new().await;
    town.target.set(Way::Silent);
    town.submit().await;
    town.pass(1).await;
    town.target.set(Way::Cut);
    town.crash_the_worker().await;
    town.pass(3_600).await;
    town.check("target_pending", (HELD - MOVED, MOVED), (HELD + MOVED, 0)).await;
    town.target.set(Way::Open);
    town.pass(120).await;
    town.check_committed().await;
    // Once to do it, once to hear that it was done for this amount.
    assert_eq!((town.target.called("deposit"), town.source.called("rollback")), (2, 0));
}

/// 8.4. Asked ever more seldom, up to a limit, for as long as it takes.
#[tokio::test(start_paused = true)]
async fn network_partition_query_returns_pending() {
    let town = Town::new().await;
    town.target.set(Way::PutsOff);
    town.submit().await;
    town.pass(3_600).await;
    town.check("target_pending", (HELD - MOVED, MOVED), (HELD, 0)).await;
    let times = town.target.times("deposit?");
    let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.len() >= 30 && gaps.len() <= 200, "{gaps:?}");
    // Doubling with jitter: each few gaps are longer than those before, up to the longest.
    let early: u64 = gaps[..3].iter().sum();
    let later: u64 = gaps[3..6].iter().sum();
    assert!(early * 2 < later, "{gaps:?}");
    assert!(gaps.iter().all(|gap| *gap <= 2 * Settings::default().backoff_max_ms), "{gaps:?}");
    town.target.catch_up().await;
    town.pass(120).await;
    town.check_committed().await;
    assert_eq!(town.target.called("deposit"), 2);
}

/// Two workers. The first one's deposit is held back on its way until the second one's, made
/// meanwhile, is done; the no to a repetition reaches the first before the yes reaches the second.
#[tokio::test(start_paused = true)]
async fn a_deposit_that_is_overtaken_by_another_workers_is_not_taken_for_refused() {
    let town = Town::new().await;
    town.target.set(Way::RefusesRepeats);
    town.target.hold_back([(300, 0), (0, 600)]);
    town.submit().await;
    town.pass(1).await;
    let other = worker(&town.clock, &town.store, [&town.source, &town.target]).await;
    town.pass(3_600).await;
    assert_eq!(town.target.called("deposit"), 2, "one of each worker");
    town.check_committed().await;
    assert_eq!(town.source.called("rollback"), 0);
    drop(other);
}
