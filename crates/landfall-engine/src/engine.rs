//! The engine itself: its parts, its tasks, and how they start and stop.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures::future::join_all;
use landfall_core::courier::Courier;
use landfall_core::ledger::Ledger;
use landfall_core::queue::Queue;
use landfall_core::rail::Rail;
use landfall_core::store::{Store, StoreError};
use landfall_core::{Clock, Event, LaneId, Payload, Transfer};
use landfall_lanes::{Fleet, FleetParts, HighWater, LedgerParts, supervise};
use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;

use crate::active_rail::ActiveRail;
use crate::call_runner::CallRunner;
use crate::intake::{Intake, Screen};
use crate::journal;
use crate::metrics::Metrics;
use crate::requests::READS_MAX;
use crate::runner::Runner;
use crate::settings::Settings;
use crate::status::{RailStatus, Snapshot, Status};
use crate::sweeper;
use crate::watch::{self, Watch};

/// What a process is for. Any number of each can share a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Takes transfers and works on them.
    Both,
    /// Takes transfers; others work on them.
    Api,
    /// Works on what others took.
    Worker,
}

/// What an engine is made of.
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub queue: Arc<dyn Queue>,
    /// Ledgers that want signed attempts.
    pub rails: Vec<Arc<dyn Rail>>,
    /// Services whose calls may be repeated.
    pub couriers: Vec<Arc<dyn Courier>>,
    pub clock: Arc<dyn Clock>,
    pub high_water: Arc<HighWater>,
    pub role: Role,
    pub settings: Settings,
    /// Seeds the jitter of retries.
    pub seed: u64,
}

/// Numbers that admission looks at.
pub(crate) struct Gauges {
    /// Submissions waiting for their commit.
    pub intake: AtomicUsize,
    /// Unfinished transfers, as last counted.
    pub backlog: AtomicU64,
    /// The newest id this process was given.
    pub newest: AtomicU64,
    /// Of those who read for clients.
    pub turns: Semaphore,
}

impl Default for Gauges {
    fn default() -> Gauges {
        let (intake, backlog, newest) = Default::default();
        Gauges { intake, backlog, newest, turns: Semaphore::new(READS_MAX) }
    }
}

/// What the engine's tasks share.
pub(crate) struct Core {
    pub store: Arc<dyn Store>,
    pub queue: Arc<dyn Queue>,
    pub clock: Arc<dyn Clock>,
    pub settings: Settings,
    pub metrics: Metrics,
    pub watch: Watch,
    pub gauges: Gauges,
    pub rng: Mutex<StdRng>,
    /// All rails, once they are made: what one finds may be another's.
    active: OnceLock<Vec<Weak<dyn ActiveRail>>>,
    /// Tasks that died and were started again.
    pub restarts: AtomicU64,
    stopping: AtomicBool,
    pub stopped: Notify,
}

impl Core {
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Tells those who count, who read the log, and who wait for it.
    pub fn finished(&self, transfer: &Transfer) {
        self.metrics.finished(transfer);
        journal::ended(transfer);
        self.watch.is_final(transfer.id);
    }

    /// Hands transfers to the rails whose they are, as far as those have room; a sweep finds the
    /// rest again. Gives back what is nobody's.
    pub async fn pass_on(&self, mut transfers: Vec<Transfer>) -> Vec<Transfer> {
        if transfers.is_empty() {
            return transfers;
        }
        let all = self.active.get().into_iter().flatten().filter_map(Weak::upgrade);
        for active in all {
            let (mut mine, others): (Vec<Transfer>, _) =
                transfers.into_iter().partition(|one| active.takes(&one.payload));
            transfers = others;
            mine.truncate(active.room());
            if !mine.is_empty() {
                active.offer(mine).await;
            }
        }
        transfers
    }

    pub async fn nap(&self, ms: u64) {
        self.clock.sleep(Duration::from_millis(ms)).await;
    }
}

/// Accepts transfers and lands them.
pub struct Engine {
    core: Arc<Core>,
    /// The rails that land attempts, which operators may decide.
    runners: Vec<Arc<Runner>>,
    /// The lanes of all of them; none in a process without any.
    fleet: Option<Arc<Fleet>>,
    /// All rails.
    active: Vec<Arc<dyn ActiveRail>>,
    tasks: tokio::sync::Mutex<JoinSet<()>>,
}

impl Engine {
    /// Starts everything: lanes, stages, sweeper. Fails only if the store cannot be read.
    pub async fn start(parts: Parts) -> Result<Arc<Engine>, StoreError> {
        let paces = parts.rails.iter().map(|rail| rail.pace().backoff);
        let own = paces.chain(parts.couriers.iter().map(|courier| courier.backoff()));
        let settings = parts.settings.beyond(own);
        let core = Arc::new(Core {
            store: parts.store,
            queue: parts.queue,
            clock: parts.clock,
            settings,
            metrics: Metrics::new(),
            watch: Watch::default(),
            gauges: Gauges::default(),
            rng: Mutex::new(StdRng::seed_from_u64(parts.seed)),
            active: OnceLock::new(),
            restarts: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            stopped: Notify::new(),
        });
        let mut tasks = JoinSet::new();
        employ(&core, &mut tasks, "watch", {
            let core = core.clone();
            move || watch::attend(core.clone())
        });
        if parts.role == Role::Api {
            employ(&core, &mut tasks, "backlog", {
                let core = core.clone();
                move || sweeper::count(core.clone())
            });
            let active = intakes(&core, parts.rails, parts.couriers);
            let tasks = tokio::sync::Mutex::new(tasks);
            return Ok(Arc::new(Engine { core, runners: Vec::new(), fleet: None, active, tasks }));
        }
        let runners = parts.rails.into_iter();
        let runners: Vec<Arc<Runner>> =
            runners.map(|rail| Arc::new(Runner::new(core.clone(), rail))).collect();
        let fleet = launch(&core, &runners, parts.high_water, &mut tasks).await?;
        let mut active: Vec<Arc<dyn ActiveRail>> = Vec::new();
        active.extend(runners.iter().map(|runner| runner.clone() as Arc<dyn ActiveRail>));
        for courier in parts.couriers {
            active.push(Arc::new(CallRunner::new(core.clone(), courier)));
        }
        let known = active.iter().map(Arc::downgrade).collect();
        _ = core.active.set(known);
        for active in &active {
            watch_over(&core, active, &mut tasks);
        }
        let tasks = tokio::sync::Mutex::new(tasks);
        Ok(Arc::new(Engine { core, runners, fleet, active, tasks }))
    }

    /// Stops intake, lets what is being stored be stored, gives the lanes back.
    pub async fn stop(&self, grace: Duration) {
        self.core.stopping.store(true, Ordering::Relaxed);
        self.core.stopped.notify_waiters();
        // All of them share one grace.
        let active = join_all(self.active.iter().map(|active| active.stop(grace)));
        match &self.fleet {
            Some(fleet) => _ = futures::join!(fleet.stop(grace), active),
            None => _ = active.await,
        }
        self.tasks.lock().await.shutdown().await;
    }

    /// Ends everything at once, as a crash would.
    pub async fn abort(&self) {
        self.tasks.lock().await.shutdown().await;
        for active in &self.active {
            active.abort().await;
        }
        if let Some(fleet) = &self.fleet {
            fleet.abort().await;
        }
    }

    /// What operators see.
    pub async fn status(&self) -> Status {
        let store_error = self.core.store.health().await.err().map(|error| error.to_string());
        let rails: Vec<RailStatus> = self.active.iter().map(|active| active.status()).collect();
        let alerts = self.active.iter().flat_map(|active| active.alerts().all()).collect();
        let ready = store_error.is_none() && !self.is_stopping();
        Status { store_error, rails, alerts, ready }
    }

    /// Asks everything that somebody may want to be told.
    pub async fn snapshot(&self) -> Snapshot {
        let status = self.status().await;
        let counts = self.core.store.counts().await.unwrap_or_default();
        let mut depths = Vec::new();
        for stage in landfall_core::Stage::ALL {
            depths.push((stage, self.depth(stage).await));
        }
        let put_aside = self.core.queue.put_aside().await.unwrap_or(0);
        Snapshot { status, counts, depths, put_aside }
    }

    /// Everything counted, in Prometheus' text format. Asks nobody.
    pub fn render_metrics(&self, snapshot: &Snapshot) -> String {
        let of_lanes = self.fleet.as_ref().map_or(0, |fleet| fleet.restarts());
        let restarts = of_lanes + self.core.restarts.load(Ordering::Relaxed);
        self.core.metrics.render(snapshot, restarts)
    }

    /// Has every lane of every rail halted.
    pub(crate) fn suspect(&self, reason: &str) {
        self.active.iter().for_each(|active| active.suspect(reason));
        self.fleet.iter().for_each(|fleet| fleet.suspect(reason));
    }

    /// Whoever works on the lane.
    pub(crate) fn runner(&self, lane: &LaneId) -> Option<&Arc<Runner>> {
        self.runners.iter().find(|runner| runner.rail.owns(lane))
    }

    /// Hands new transfers to their stages.
    pub(crate) async fn take_up(&self, created: Vec<Transfer>) {
        for active in &self.active {
            let rail = active.rail();
            let mine = created.iter().filter(|transfer| active.takes(&transfer.payload));
            let mine: Vec<Transfer> = mine.cloned().collect();
            if !mine.is_empty() {
                self.core.metrics.accepted(rail, mine.len() as u64);
                mine.iter().for_each(journal::received);
                active.clone().offer(mine).await;
            }
        }
    }

    /// None if the rail is not configured.
    pub(crate) fn first_events(&self, payload: &Payload) -> Option<&'static [Event]> {
        self.active(payload).map(|active| active.first_events(payload))
    }

    pub(crate) fn active(&self, payload: &Payload) -> Option<&Arc<dyn ActiveRail>> {
        self.active.iter().find(|active| active.takes(payload))
    }

    pub(crate) fn intake_guard(&self, count: usize) -> IntakeGuard<'_> {
        self.core.gauges.intake.fetch_add(count, Ordering::Relaxed);
        IntakeGuard { gauges: &self.core.gauges, count }
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        self.core.clock.as_ref()
    }

    pub(crate) fn store(&self) -> &dyn Store {
        self.core.store.as_ref()
    }

    pub(crate) fn queue(&self) -> &dyn Queue {
        self.core.queue.as_ref()
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.core.settings
    }

    pub(crate) fn gauges(&self) -> &Gauges {
        &self.core.gauges
    }

    pub(crate) fn watch(&self) -> &Watch {
        &self.core.watch
    }

    pub fn is_stopping(&self) -> bool {
        self.core.is_stopping()
    }

    /// Returns when the engine is told to stop.
    pub(crate) async fn stops(&self) {
        let stopped = self.core.stopped.notified();
        if !self.is_stopping() {
            stopped.await;
        }
    }
}

/// Runs a task, again if it dies.
pub(crate) fn employ<F>(
    core: &Arc<Core>,
    tasks: &mut JoinSet<()>,
    name: &'static str,
    task: impl Fn() -> F + Send + Sync + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let core = core.clone();
    tasks.spawn(async move {
        let died = || _ = core.restarts.fetch_add(1, Ordering::Relaxed);
        supervise(core.clock.as_ref(), name, died, task).await;
    });
}

/// Starts the lanes of all rails, and the rails on them.
async fn launch(
    core: &Arc<Core>,
    runners: &[Arc<Runner>],
    high_water: Arc<HighWater>,
    tasks: &mut JoinSet<()>,
) -> Result<Option<Arc<Fleet>>, StoreError> {
    if runners.is_empty() {
        return Ok(None);
    }
    let parts = |runner: &Arc<Runner>| LedgerParts {
        ledger: runner.rail.clone() as Arc<dyn Ledger>,
        owner: runner.clone(),
    };
    let fleet = Fleet::start(FleetParts {
        store: core.store.clone(),
        ledgers: runners.iter().map(parts).collect(),
        clock: core.clock.clone(),
        high_water,
        settings: core.settings.lanes.clone(),
        instance: core.settings.instance.clone(),
    })
    .await?;
    for (index, runner) in runners.iter().enumerate() {
        runner.launch(fleet.lanes_of(index), tasks);
    }
    Ok(Some(fleet))
}

/// The rails of a process that works on none of them.
fn intakes(
    core: &Arc<Core>,
    rails: Vec<Arc<dyn Rail>>,
    couriers: Vec<Arc<dyn Courier>>,
) -> Vec<Arc<dyn ActiveRail>> {
    let rails = rails.into_iter().map(Screen::Rail);
    let screens = rails.chain(couriers.into_iter().map(Screen::Courier));
    screens
        .map(|screen| Arc::new(Intake::new(core.clone(), screen)) as Arc<dyn ActiveRail>)
        .collect()
}

/// Sweeps a rail's stages and follows their hints.
fn watch_over(core: &Arc<Core>, active: &Arc<dyn ActiveRail>, tasks: &mut JoinSet<()>) {
    let (parts, stages) = ((core.clone(), active.clone()), active.stages());
    let swept = parts.clone();
    employ(core, tasks, "sweeper", move || sweeper::sweep(swept.0.clone(), swept.1.clone()));
    for stage in stages {
        let pulled = parts.clone();
        employ(core, tasks, stage.0, move || {
            sweeper::pull(pulled.0.clone(), pulled.1.clone(), stage)
        });
    }
}

/// Counts submissions that wait for their commit, also when a client goes away.
pub(crate) struct IntakeGuard<'a> {
    gauges: &'a Gauges,
    count: usize,
}

impl Drop for IntakeGuard<'_> {
    fn drop(&mut self) {
        self.gauges.intake.fetch_sub(self.count, Ordering::Relaxed);
    }
}
