//! All lanes of this process, on whatever ledgers: their drivers, their leases, and the watch over
//! them.
//!
//! **Invariant:** no lane signs before every lane of its ledger was found explained: a store that
//! forgot an attempt of one lane would pay its transfers again on another. Suspicion is one for
//! all ledgers, since a store that forgot an attempt on one has forgotten those on others: one
//! unexplained lane halts all.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use landfall_core::ledger::{Ledger, Manner, Waiting};
use landfall_core::store::{LaneStore, StoreError, StoreIdentity};
use landfall_core::{AttemptId, Clock, Lane, LaneId};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::driver::Driver;
use crate::handle::{LaneHandle, LaneView, Seen};
use crate::high_water::HighWater;
use crate::owner::{Batch, Owner};
use crate::patience::Patience;
use crate::settings::LaneSettings;
use crate::supervise::supervise;
use crate::watched::Watched;
use crate::watchman::{check_high_water, learn, watch_over};

/// A ledger, and whoever owns what travels on its lanes.
pub struct LedgerParts {
    pub ledger: Arc<dyn Ledger>,
    pub owner: Arc<dyn Owner>,
}

/// What a fleet is made of.
pub struct FleetParts {
    pub store: Arc<dyn LaneStore>,
    pub ledgers: Vec<LedgerParts>,
    pub clock: Arc<dyn Clock>,
    pub high_water: Arc<HighWater>,
    pub settings: LaneSettings,
    pub instance: String,
}

/// A ledger at work in this process.
pub(crate) struct ActiveLedger {
    pub ledger: Arc<dyn Ledger>,
    pub owner: Arc<dyn Owner>,
    pub manner: Manner,
    /// True once every lane of the ledger is explained.
    pub cleared: Watched<bool>,
    /// The store's incarnation under which its lanes were looked over.
    incarnation: Mutex<String>,
    /// Landed attempts of whose members nobody tells what became, with what to say of each.
    pub silent: Mutex<BTreeMap<AttemptId, String>>,
}

impl ActiveLedger {
    fn new(parts: LedgerParts) -> ActiveLedger {
        ActiveLedger {
            manner: parts.ledger.manner(),
            ledger: parts.ledger,
            owner: parts.owner,
            cleared: Watched::new(false),
            incarnation: Mutex::default(),
            silent: Mutex::default(),
        }
    }

    pub fn incarnation(&self) -> String {
        self.incarnation.lock().clone()
    }

    /// Asks about everything that is waited for at once, and tells these lanes what is shown.
    pub async fn pulse(&self, lanes: &[Arc<LaneHandle>], waiting: &[Waiting]) {
        let Ok(progress) = self.ledger.pulse(waiting).await else { return };
        let mut shown: BTreeMap<LaneId, Seen> = BTreeMap::new();
        for one in progress {
            shown.entry(one.lane).or_default().add(one.reach, one.is_final);
        }
        for (id, seen) in shown {
            if let Some(lane) = lanes.iter().find(|lane| lane.id == id) {
                lane.pulse(seen);
            }
        }
    }
}

/// What all drivers share.
pub(crate) struct Shared {
    pub store: Arc<dyn LaneStore>,
    pub ledgers: Vec<Arc<ActiveLedger>>,
    pub clock: Arc<dyn Clock>,
    pub high_water: Arc<HighWater>,
    pub settings: LaneSettings,
    pub instance: String,
    pub stop: Watched<bool>,
    /// Every lane of these ledgers that is known; only ever added to.
    lanes: Mutex<Vec<Arc<LaneHandle>>>,
    /// The fleet's own: a lane that appears later is driven like the others.
    tasks: Weak<Mutex<JoinSet<()>>>,
    /// Why all lanes must halt; the watchman carries it out.
    pub suspicion: Mutex<Option<String>>,
    pub suspected: Notify,
    restarts: AtomicU64,
    /// An incarnation of the store that was not looked over yet, with the end of the wait for
    /// others' objections, on the process's own clock.
    new_life: Mutex<Option<(String, u64)>>,
}

impl Shared {
    pub fn new(parts: FleetParts, tasks: Weak<Mutex<JoinSet<()>>>) -> Arc<Shared> {
        let ledgers = parts.ledgers.into_iter();
        Arc::new(Shared {
            store: parts.store,
            ledgers: ledgers.map(|parts| Arc::new(ActiveLedger::new(parts))).collect(),
            clock: parts.clock,
            high_water: parts.high_water,
            settings: parts.settings,
            instance: parts.instance,
            stop: Watched::new(false),
            lanes: Mutex::default(),
            tasks,
            suspicion: Mutex::default(),
            suspected: Notify::new(),
            restarts: AtomicU64::new(0),
            new_life: Mutex::default(),
        })
    }

    pub fn lanes(&self) -> Vec<Arc<LaneHandle>> {
        self.lanes.lock().clone()
    }

    pub fn lanes_of(&self, ledger: &Arc<ActiveLedger>) -> Vec<Arc<LaneHandle>> {
        let lanes = self.lanes.lock();
        lanes.iter().filter(|lane| Arc::ptr_eq(&lane.ledger, ledger)).cloned().collect()
    }

    /// Takes up the lanes of the configured keys and those that are stored, now or since another
    /// worker began: their keys are not here, but what is open on them must be resolved.
    pub fn enlist(self: &Arc<Shared>, stored: &[Lane]) {
        for active in &self.ledgers {
            let ledger = &active.ledger;
            let mine = ledger.lanes().into_iter().map(|id| (id, true));
            let others = stored.iter().filter(|lane| lane.rail == ledger.name());
            let others = others.filter(|lane| ledger.owns(&lane.id));
            for (id, signing) in mine.chain(others.map(|lane| (lane.id.clone(), false))) {
                self.take_up(id, active, signing, stored);
            }
        }
    }

    fn take_up(
        self: &Arc<Shared>,
        id: LaneId,
        active: &Arc<ActiveLedger>,
        signing: bool,
        stored: &[Lane],
    ) {
        let mut lanes = self.lanes.lock();
        if lanes.iter().any(|known| known.id == id) {
            return;
        }
        let lane = stored.iter().find(|lane| lane.id == id);
        let halted = lane.and_then(|lane| lane.halted.clone()).map(|halt| halt.reason);
        halted.iter().for_each(|reason| active.owner.halted(&id, reason));
        let handle = Arc::new(LaneHandle::new(id, active.clone(), signing, halted));
        lanes.push(handle.clone());
        if let Some(tasks) = self.tasks.upgrade() {
            tasks.lock().spawn(drive(self.clone(), handle));
        }
    }

    /// Stops all signing at once and has every lane halted in the store.
    pub fn suspect(&self, reason: &str) {
        let mut suspicion = self.suspicion.lock();
        self.unclear();
        suspicion.get_or_insert_with(|| reason.to_owned());
        drop(suspicion);
        self.suspected.notify_one();
    }

    /// Stops all signing until the lanes are looked over again.
    pub fn unclear(&self) {
        self.ledgers.iter().for_each(|ledger| ledger.cleared.set(false));
    }

    /// Lets the lanes of a ledger sign, unless any lane was suspected meanwhile.
    pub fn clear(&self, ledger: &ActiveLedger, incarnation: &str) {
        let suspicion = self.suspicion.lock();
        if suspicion.is_none() {
            // Only a help: without it the next start waits for others' objections once more.
            if let Err(error) = self.high_water.lived(incarnation) {
                tracing::warn!(%error, "the high-water mark cannot be written");
            }
            *self.new_life.lock() = None;
            *ledger.incarnation.lock() = incarnation.to_owned();
            ledger.cleared.set(true);
        }
    }

    /// The store has another incarnation: nothing is signed before all lanes are looked over again.
    pub fn restarted(&self) {
        self.unclear();
        self.suspected.notify_one();
    }

    /// How long others still have to say what a store has forgotten that is not the process it was
    /// when this instance last looked it over, or that it has never looked over: whoever holds a
    /// lane looks within a lease. How long that process has been up tells nothing: a replica is
    /// promoted when it is old.
    pub fn grace_left_ms(&self, identity: &StoreIdentity) -> u64 {
        if !identity.shared || self.high_water.has_lived(&identity.incarnation) {
            return 0;
        }
        let (now_ms, lease_ms) = (self.clock.monotonic_ms(), self.settings.lease_ms);
        let mut new_life = self.new_life.lock();
        let until_ms = match &*new_life {
            Some((incarnation, until_ms)) if *incarnation == identity.incarnation => *until_ms,
            _ => {
                // An instance that ends again and again has waited before.
                let noticed = self.high_water.notice(&identity.incarnation, self.clock.now_ms());
                let until_ms = now_ms + lease_ms.saturating_sub(noticed);
                *new_life = Some((identity.incarnation.clone(), until_ms));
                until_ms
            }
        };
        until_ms.saturating_sub(now_ms)
    }

    pub fn count_restart(&self) {
        self.restarts.fetch_add(1, Ordering::Relaxed);
    }

    /// The waits of somebody whose question was not answered.
    pub fn patience(&self) -> Patience {
        Patience::up_to(self.settings.retry_ms)
    }

    async fn nap(&self, ms: u64) {
        self.clock.sleep(Duration::from_millis(ms)).await;
    }
}

/// The lanes of this process.
pub struct Fleet {
    shared: Arc<Shared>,
    tasks: Arc<Mutex<JoinSet<()>>>,
}

impl Fleet {
    /// Starts to hold lanes. Fails only if the store cannot be read.
    pub async fn start(parts: FleetParts) -> Result<Arc<Fleet>, StoreError> {
        let tasks = Arc::new(Mutex::new(JoinSet::new()));
        let shared = Shared::new(parts, Arc::downgrade(&tasks));
        let before = shared.high_water.remembered();
        let stored = shared.store.lanes().await?;
        let identity = shared.store.identity().await?;
        if let Err(reason) = check_high_water(&shared, &before, &identity, &stored) {
            shared.suspect(&reason);
        }
        shared.enlist(&stored);
        let fleet = Arc::new(Fleet { shared, tasks });
        fleet.watch("watchman", watch_over);
        fleet.watch("renewal", renew);
        for ledger in fleet.shared.ledgers.clone() {
            fleet.watch("pulse", move |shared| pulse(shared, ledger.clone()));
        }
        Ok(fleet)
    }

    /// Runs one of the fleet's own tasks, again if it dies.
    fn watch<F>(&self, name: &'static str, task: impl Fn(Arc<Shared>) -> F + Send + Sync + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let shared = self.shared.clone();
        let again = {
            let shared = shared.clone();
            move || task(shared.clone())
        };
        self.tasks.lock().spawn(async move {
            supervise(shared.clock.as_ref(), name, || shared.count_restart(), again).await;
        });
    }

    /// The lanes of the ledger that was given as number `index`.
    ///
    /// # Panics
    /// If there is no such ledger.
    pub fn lanes_of(&self, index: usize) -> LedgerLanes {
        LedgerLanes { shared: self.shared.clone(), ledger: self.shared.ledgers[index].clone() }
    }

    /// Tasks that died and were started again.
    pub fn restarts(&self) -> u64 {
        self.shared.restarts.load(Ordering::Relaxed)
    }

    /// Stops all signing at once and halts every lane until an operator adopts them.
    pub fn suspect(&self, reason: &str) {
        self.shared.suspect(reason);
    }

    /// Ends everything at once, as a crash would. Nothing is given back.
    pub async fn abort(&self) {
        loop {
            let mut tasks = std::mem::take(&mut *self.tasks.lock());
            if tasks.is_empty() {
                return;
            }
            tasks.shutdown().await;
        }
    }

    /// Lets what is being stored be stored, gives the lanes back and leaves.
    pub async fn stop(&self, grace: Duration) {
        self.shared.stop.set(true);
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        let all_gone = async { while tasks.join_next().await.is_some() {} };
        tokio::select! {
            biased;
            _ = all_gone => {}
            _ = self.shared.clock.sleep(grace) => {}
        }
    }
}

/// The lanes of one ledger, for whoever owns what travels on them.
pub struct LedgerLanes {
    shared: Arc<Shared>,
    ledger: Arc<ActiveLedger>,
}

impl LedgerLanes {
    fn all(&self) -> Vec<Arc<LaneHandle>> {
        self.shared.lanes_of(&self.ledger)
    }

    /// Hands the batch to the least loaded free lane, or gives it back.
    pub fn give(&self, batch: Batch) -> Result<(), Batch> {
        self.give_unless(batch, |_| false)
    }

    /// The same, with some lanes left out.
    pub fn give_unless(
        &self,
        batch: Batch,
        is_left_out: impl Fn(&LaneId) -> bool,
    ) -> Result<(), Batch> {
        let lanes = self.all();
        let free = lanes.iter().filter(|lane| lane.is_free() && !is_left_out(&lane.id));
        match free.min_by_key(|lane| lane.open()) {
            Some(lane) => lane.give(batch),
            None => Err(batch),
        }
    }

    /// Whether it holds a lane that it can sign on.
    pub fn holds_any(&self) -> bool {
        self.all().iter().any(|lane| lane.signing && lane.held().is_some())
    }

    /// Whether any lane is free that is not left out.
    pub fn has_free_unless(&self, is_left_out: impl Fn(&LaneId) -> bool) -> bool {
        self.all().iter().any(|lane| lane.is_free() && !is_left_out(&lane.id))
    }

    pub fn views(&self) -> Vec<LaneView> {
        self.all().iter().map(|lane| lane.at_a_glance()).collect()
    }

    /// Has every waiting attempt tried again now: what blocked them may be gone.
    pub fn nudge(&self) {
        self.all().iter().for_each(|lane| lane.nudge.notify_waiters());
    }

    /// Its owner wants the lane, perhaps more than before.
    pub fn want(&self, id: &LaneId) {
        let lane = self.all().into_iter().find(|lane| lane.id == *id);
        lane.inspect(|lane| lane.wanted.notify_one());
    }

    /// Has every waiting attempt of one lane tried again now.
    pub fn nudge_lane(&self, id: &LaneId) {
        let lane = self.all().into_iter().find(|lane| lane.id == *id);
        lane.inspect(|lane| lane.nudge.notify_waiters());
    }
}

/// Runs a lane's driver, again if it dies.
async fn drive(shared: Arc<Shared>, handle: Arc<LaneHandle>) {
    let died = || {
        shared.count_restart();
        handle.clear();
    };
    let again = || Driver { shared: shared.clone(), handle: handle.clone() }.run();
    supervise(shared.clock.as_ref(), handle.id.as_str(), died, again).await;
}

/// Renews all leases in one call, and learns what others have done meanwhile.
async fn renew(shared: Arc<Shared>) {
    let mut stop = shared.stop.watch();
    loop {
        tokio::select! {
            biased;
            _ = stop.until(|stop| *stop) => return,
            _ = shared.nap(shared.settings.renew_ms) => {}
        }
        let lanes = shared.lanes();
        let held: Vec<_> =
            lanes.iter().filter_map(|lane| Some((lane.id.clone(), lane.held()?))).collect();
        // Also without a lane: others may be gone when the store forgets what they have sent.
        learn(&shared).await;
        if held.is_empty() {
            continue;
        }
        // A store that cannot be reached decides nothing: an old epoch is refused there anyway.
        let Ok(current) = shared.store.renew(&held, shared.settings.lease_ms).await else {
            continue;
        };
        for ((id, epoch), current) in held.iter().zip(current) {
            let lane = lanes.iter().find(|lane| lane.id == *id);
            if let (false, Some(lane)) = (current, lane) {
                lane.lost.set(*epoch);
            }
        }
    }
}

/// Asks about all lanes of a ledger at once while any attempt waits to be included.
async fn pulse(shared: Arc<Shared>, active: Arc<ActiveLedger>) {
    let mut stop = shared.stop.watch();
    loop {
        tokio::select! {
            biased;
            _ = stop.until(|stop| *stop) => return,
            _ = shared.nap(active.manner.pulse_ms) => {}
        }
        let lanes = shared.lanes_of(&active);
        let waiting: Vec<_> = lanes.iter().flat_map(|lane| lane.waiting()).collect();
        let tells_finality = active.manner.pulse_tells_finality;
        if waiting.iter().all(|attempt| attempt.included && !tells_finality) {
            continue;
        }
        active.pulse(&lanes, &waiting).await;
    }
}
