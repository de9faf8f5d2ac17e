//! One run: a world from a seed, its storm, its calm, and the verdict.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use landfall_core::Clock;
use landfall_core::guard::{self, Guard};
use landfall_core::store::{LaneStore, Store};
use landfall_lanes::TimerClock;
use landfall_store_memory::MemoryStore;
use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::chaos::Chaos;
use super::checkers::{self, Broken, Evidence, Promises};
use super::clients::{Town, Wish, client};
use super::enumerate::Scenario;
use super::instance::Instance;
use super::operator;
use super::part::{Ground, KINDS, Part};
use super::past::Past;
use super::plan::Plan;
use super::seat::{Dice, Seat, Strike, Trace};
use super::story;

/// When every world begins: a round moment.
pub(super) const START_MS: u64 = 1_700_000_000_000;
/// The director's step. Everything that strikes strikes on a tick, or at a call.
const TICK_MS: u64 = 250;
/// Safety is checked every so many ticks: about a block.
const CHECK_TICKS: u64 = 4;
/// How long the calm may take to bring everything to rest: the longest backoffs, fences and late
/// requests fit many times.
const CALM_MAX_MS: u64 = 3_600_000;
const OPERATOR_TICKS: u64 = 120;
/// Adrift requests are decided in haste: whatever is under way then must not matter.
const DECIDE_TICKS: u64 = 8;
const OPERATOR_PATIENCE: Duration = Duration::from_secs(10);

/// How to run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Keep the whole history, not only its digest.
    pub keep_trace: bool,
}

/// How a run failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    Safety(Broken),
    Liveness(String),
    /// A panic, anywhere in the relay.
    Crash(String),
}

/// What a run did.
#[derive(Debug, Clone)]
pub struct Report {
    pub seed: u64,
    pub plan: Plan,
    pub digest: String,
    pub trace: Vec<String>,
    pub simulated_ms: u64,
    pub completed: usize,
    pub attempts: usize,
    pub failure: Option<Failure>,
    /// The trail of the transfer concerned, for people.
    pub story: Vec<String>,
    /// What was noticed and held off.
    pub guards: Vec<Guard>,
}

thread_local! {
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Has panics of this thread's tasks noted instead of printed.
fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let noted = NOTING.with(|noting| *noting.borrow());
            match noted {
                true => PANICS.with(|panics| panics.borrow_mut().push(info.to_string())),
                false => before(info),
            }
        }));
    });
}

thread_local! {
    static NOTING: RefCell<bool> = const { RefCell::new(false) };
}

/// Runs one seed on this thread.
pub fn run(seed: u64, options: Options) -> Report {
    run_plan(Plan::draw(seed, &mut StdRng::seed_from_u64(seed)), options)
}

/// Runs a plan as it is.
pub fn run_plan(plan: Plan, options: Options) -> Report {
    note_panics();
    NOTING.with(|noting| *noting.borrow_mut() = true);
    PANICS.with(|panics| panics.borrow_mut().clear());
    guard::take();
    let ran = panic::catch_unwind(AssertUnwindSafe(|| {
        alone(async {
            let mut world = World::new(plan.clone(), options).await;
            let failure = world.live().await.err();
            let report = world.report(failure).await;
            world.end().await;
            report
        })
    }));
    NOTING.with(|noting| *noting.borrow_mut() = false);
    let panics = PANICS.with(|panics| std::mem::take(&mut *panics.borrow_mut()));
    let mut report = ran.unwrap_or_else(|_| Report {
        seed: plan.seed,
        plan,
        digest: String::new(),
        trace: Vec::new(),
        simulated_ms: 0,
        completed: 0,
        attempts: 0,
        failure: None,
        story: Vec::new(),
        guards: Vec::new(),
    });
    report.guards = guard::take();
    if let Some(first) = panics.into_iter().next() {
        report.failure.get_or_insert(Failure::Crash(first));
    }
    report
}

/// Runs a world on a runtime of its own, with time that moves only when everybody waits.
pub(super) fn alone<T>(world: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O can always be made");
    runtime.block_on(world)
}

pub(super) struct World {
    /// What is enumerated, if this is no torture.
    pub scenario: Option<Scenario>,
    plan: Arc<Plan>,
    dice: Arc<Dice>,
    trace: Arc<Trace>,
    base: Arc<dyn Clock>,
    store: Arc<MemoryStore>,
    parts: Vec<Box<dyn Part>>,
    instances: Vec<Instance>,
    chaos: Chaos,
    town: Arc<Town>,
    clients: tokio::task::JoinSet<()>,
    /// What the operator has noted of adrift attempts.
    noted: operator::adrift::Noted,
    tick: u64,
}

impl World {
    pub async fn new(plan: Plan, options: Options) -> World {
        let plan = Arc::new(plan);
        let dice = Arc::new(Dice::new(plan.seed));
        let trace = Arc::new(Trace::new(options.keep_trace));
        let base: Arc<dyn Clock> = Arc::new(TimerClock::starting_at(START_MS));
        let ground = Ground { plan: plan.clone(), dice: dice.clone(), clock: base.clone() };
        let parts = KINDS.iter().map(|kind| (kind.build)(&ground)).collect();
        let store = Arc::new(MemoryStore::new(base.clone()).shared());
        let promises: Arc<Mutex<Promises>> = Arc::default();
        let past = Arc::new(Past {
            store: store.clone(),
            plan: plan.clone(),
            dice: dice.clone(),
            trace: trace.clone(),
            promises: promises.clone(),
            backup: Mutex::default(),
            lacks_an_attempt: AtomicBool::new(false),
            forgets_at_once: AtomicBool::new(false),
        });
        let seat = |index: usize| {
            let name = format!("relay-{index}");
            let seat = Seat::new(name, plan.clone(), dice.clone(), trace.clone(), base.clone());
            Instance::new(Arc::new(seat), past.clone())
        };
        let instances: Vec<Instance> = (0..plan.instances).map(seat).collect();
        let town = Arc::new(Town {
            plan: plan.clone(),
            base: base.clone(),
            dice: dice.clone(),
            trace: trace.clone(),
            engines: Mutex::new(vec![None; plan.instances]),
            promises,
        });
        let chaos = Chaos::new(plan.clone(), dice.clone(), past);
        World {
            scenario: None,
            plan,
            dice,
            trace,
            base,
            store,
            parts,
            instances,
            chaos,
            town,
            clients: tokio::task::JoinSet::new(),
            noted: Default::default(),
            tick: 0,
        }
    }

    /// What enumeration does to the first instance.
    pub fn strike_first(&self, strike: Option<Strike>) {
        *self.instances[0].seat.strike.lock() = strike;
    }

    pub fn calls_of_first(&self) -> u64 {
        self.instances[0].seat.calls()
    }

    /// The one thing that happens in a scenario.
    async fn play(&mut self, scenario: Scenario) {
        if scenario.crash_at == Some(self.tick) {
            self.instances[0].crash().await;
        }
        if scenario.stop_at == Some(self.tick) {
            self.instances[0].stop().await;
        }
        for part in &mut self.parts {
            part.play(scenario.name, self.tick).await;
        }
    }

    /// Storm, then calm.
    pub async fn live(&mut self) -> Result<(), Failure> {
        self.invite();
        while self.tick * TICK_MS < self.plan.storm_ms {
            self.chaos.tick(self.tick, &mut self.instances, &mut self.parts).await;
            if let Some(scenario) = self.scenario {
                self.play(scenario).await;
            }
            self.step().await?;
        }
        self.dice.stormy.store(false, Ordering::Relaxed);
        self.trace.line(format!("{} calm", self.base.now_ms()));
        self.chaos.calm(&mut self.instances, &mut self.parts).await;
        let until_tick = self.tick + CALM_MAX_MS / TICK_MS;
        while self.tick < until_tick {
            self.revive_the_dead().await;
            self.step().await?;
            if self.is_at_rest().await {
                return self.final_check().await;
            }
        }
        Err(Failure::Liveness(self.what_is_stuck().await))
    }

    /// Clients come, all of them within the first three quarters of the storm.
    fn invite(&mut self) {
        for (index, kind) in KINDS.iter().enumerate() {
            let wishes = (kind.wishes)(&self.plan);
            if wishes > 0 {
                self.parts[index].prepare();
            }
            for number in 0..wishes {
                self.expect(self.parts[index].wish(number));
            }
        }
    }

    fn expect(&mut self, wish: Wish) {
        let when_ms = self.dice.between(0, self.plan.storm_ms * 3 / 4);
        let when_ms = when_ms - when_ms.checked_rem(self.plan.bursts_ms).unwrap_or(0);
        let (town, base) = (self.town.clone(), self.base.clone());
        self.clients.spawn(async move {
            base.sleep(Duration::from_millis(when_ms)).await;
            client(town, wish).await;
        });
    }

    async fn step(&mut self) -> Result<(), Failure> {
        let engines = self.instances.iter().map(Instance::engine).collect();
        *self.town.engines.lock() = engines;
        self.base.sleep(Duration::from_millis(TICK_MS)).await;
        self.tick += 1;
        if self.tick.is_multiple_of(OPERATOR_TICKS) {
            self.attend().await;
        }
        if self.tick.is_multiple_of(DECIDE_TICKS) {
            self.decide().await;
        }
        if let Some(broken) = self.dice.broken.lock().first() {
            return Err(Failure::Safety(broken.clone()));
        }
        if self.tick.is_multiple_of(CHECK_TICKS) {
            let evidence = self.evidence().await;
            checkers::safe(&evidence, &self.parts).await.map_err(Failure::Safety)?;
        }
        Ok(())
    }

    /// The operator looks after halted lanes, but not after a store that went back: what it has
    /// forgotten must be brought back first.
    async fn attend(&mut self) {
        if self.town.promises.lock().store_went_back {
            return;
        }
        let running = self.instances.iter().find_map(Instance::engine);
        if let Some(engine) = running {
            let store: &dyn Store = self.store.as_ref();
            // The instance asked may be frozen or dying: the operator tries again later.
            let patience = self.base.sleep(OPERATOR_PATIENCE);
            let (parts, noted, now_ms) = (&self.parts, &mut self.noted, self.base.now_ms());
            let work = async {
                let acted = operator::attend(store, parts, &engine).await;
                (acted, noted.decide(store, parts, &engine, now_ms).await)
            };
            let (acted, decided) = tokio::select! {
                biased;
                done = work => done,
                _ = patience => (false, Vec::new()),
            };
            if acted {
                self.trace.line(format!("{} operator adopts the lanes", self.base.now_ms()));
            }
            for what in decided {
                self.trace.line(format!("{} operator: {what}", self.base.now_ms()));
            }
        }
    }

    /// The operator decides what is set aside.
    async fn decide(&mut self) {
        let (seat, now_ms) = (&self.instances[0].seat, self.base.now_ms());
        for part in &self.parts {
            for key in part.decide(self.store.as_ref(), seat, now_ms).await {
                self.trace.line(format!("{now_ms} operator decides {key}"));
                self.town.promises.lock().decided.insert(key);
            }
        }
    }

    async fn revive_the_dead(&mut self) {
        for instance in &mut self.instances {
            if instance.seat.is_doomed() {
                instance.crash().await;
            }
            instance.start(&self.parts).await;
        }
    }

    async fn is_at_rest(&self) -> bool {
        let promises = self.town.promises.lock().clone();
        if promises.store_went_back {
            // Nothing may be paid before the store is whole again; the storm has shown that.
            return self.tick * TICK_MS > self.plan.storm_ms + 120_000;
        }
        let on_their_way: usize = self.parts.iter().map(|part| part.on_their_way()).sum();
        if promises.acknowledged.len() < self.expected() || on_their_way > 0 {
            return false;
        }
        let counts = self.store.counts().await.unwrap_or_default();
        let mut open = 0;
        for part in &self.parts {
            open += self.store.open_attempts_of(part.rail()).await.unwrap_or_default().len();
        }
        counts.iter().all(|(state, count)| *count == 0 || state.is_final()) && open == 0
    }

    /// How many wishes there are to be acknowledged.
    fn expected(&self) -> usize {
        KINDS.iter().map(|kind| (kind.wishes)(&self.plan)).sum()
    }

    async fn final_check(&self) -> Result<(), Failure> {
        let evidence = self.evidence().await;
        let checked = checkers::at_rest(&evidence, &self.parts, self.store.as_ref()).await;
        checked.map_err(Failure::Safety)
    }

    async fn what_is_stuck(&self) -> String {
        let (evidence, lanes) = (self.evidence().await, self.store.lanes().await);
        story::stuck(&evidence, &lanes.unwrap_or_default(), self.expected())
    }

    async fn evidence(&self) -> Evidence {
        let promises = self.town.promises.lock().clone();
        Evidence::gather(self.store.as_ref(), &self.parts, &promises, self.accused()).await
    }

    /// Honest nodes that an instance calls liars.
    fn accused(&self) -> Vec<String> {
        let caught = self.instances.iter().flat_map(Instance::caught);
        let lies = |endpoint: &str| self.parts.iter().any(|part| part.lies_at(endpoint));
        let honest = caught.filter(|(endpoint, _)| !lies(endpoint));
        honest.map(|(endpoint, caught)| format!("{endpoint}: {caught:?}")).collect()
    }

    /// Engines hold on to their world until they are told to end.
    pub async fn end(&mut self) {
        for instance in &mut self.instances {
            instance.crash().await;
        }
    }

    async fn report(&self, failure: Option<Failure>) -> Report {
        let evidence = self.evidence().await;
        for transfer in &evidence.transfers {
            self.trace.line(format!("{} ends {}", transfer.key, transfer.state));
        }
        let completed = evidence.transfers.iter().filter(|one| one.state.is_completed()).count();
        let key = match &failure {
            Some(Failure::Safety(broken)) => broken.key.clone(),
            _ => None,
        };
        let mut story = Vec::new();
        let concerned = evidence.transfers.iter().find(|one| Some(&one.key) == key.as_ref());
        if let Some(transfer) = concerned {
            story = story::tell(transfer, &evidence, &self.parts, self.store.as_ref()).await;
        }
        Report {
            seed: self.plan.seed,
            plan: (*self.plan).clone(),
            digest: self.trace.digest(),
            trace: self.trace.lines(),
            simulated_ms: self.base.now_ms() - START_MS,
            completed,
            attempts: evidence.attempts.len(),
            failure,
            story,
            guards: Vec::new(),
        }
    }
}
