//! All lanes of one rail in this process: their drivers, their leases, and the watch over them.
//!
//! **Invariant:** no lane signs before every lane was found explained: a store that forgot an
//! attempt of one lane would pay its transfers again on another. One unexplained lane halts all.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use landfall_core::rail::Rail;
use landfall_core::store::{Store, StoreError, StoreIdentity};
use landfall_core::{Clock, Epoch, Lane, LaneId, Nonce};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use crate::beacon::Beacon;
use crate::driver::Driver;
use crate::high_water::HighWater;
use crate::keyless::Lease;
use crate::owner::{Batch, Owner};
use crate::patience::Patience;
use crate::settings::LaneSettings;
use crate::supervise::supervise;
use crate::watchman::{check_high_water, learn, watch_over};

/// What a fleet is made of.
pub struct FleetParts {
    pub store: Arc<dyn Store>,
    pub rail: Arc<dyn Rail>,
    pub clock: Arc<dyn Clock>,
    pub owner: Arc<dyn Owner>,
    pub high_water: Arc<HighWater>,
    pub settings: LaneSettings,
    pub instance: String,
}

/// What all drivers share.
pub(crate) struct Shared {
    pub store: Arc<dyn Store>,
    pub rail: Arc<dyn Rail>,
    pub clock: Arc<dyn Clock>,
    pub owner: Arc<dyn Owner>,
    pub high_water: Arc<HighWater>,
    pub settings: LaneSettings,
    pub instance: String,
    pub stop: Beacon<bool>,
    /// Every lane of the rail that is known; only ever added to.
    faces: Mutex<Vec<Arc<Face>>>,
    /// The fleet's own: a lane that appears later is driven like the others.
    tasks: Weak<Mutex<JoinSet<()>>>,
    /// True once every lane is explained.
    pub cleared: Beacon<bool>,
    /// Why all lanes must halt; the watchman carries it out.
    pub suspicion: Mutex<Option<String>>,
    pub suspected: Notify,
    restarts: AtomicU64,
    life: Mutex<Life>,
}

/// The store's incarnation under which the lanes were looked over, and a new one that is waited
/// for.
#[derive(Default)]
struct Life {
    incarnation: String,
    /// With the end of the wait, on the process's own clock.
    new: Option<(String, u64)>,
}

impl Shared {
    pub fn faces(&self) -> Vec<Arc<Face>> {
        self.faces.lock().clone()
    }

    /// Takes up the lanes of the configured keys and those that are stored, now or since another
    /// worker began: their keys are not here, but what is open on them must be resolved.
    pub fn enlist(self: &Arc<Shared>, stored: &[Lane]) {
        let mine = self.rail.lanes().into_iter().map(|id| (id, true));
        let others = stored.iter().filter(|lane| lane.rail == self.rail.name());
        for (id, signing) in mine.chain(others.map(|lane| (lane.id.clone(), false))) {
            let mut faces = self.faces.lock();
            if faces.iter().any(|face| face.id == id) {
                continue;
            }
            let lane = stored.iter().find(|lane| lane.id == id);
            let halted = lane.and_then(|lane| lane.halted.clone()).map(|halt| halt.reason);
            halted.iter().for_each(|reason| self.owner.halted(&id, reason));
            let face = Arc::new(Face::new(id, signing, halted));
            faces.push(face.clone());
            if let Some(tasks) = self.tasks.upgrade() {
                tasks.lock().spawn(drive(self.clone(), face));
            }
        }
    }

    /// Stops all signing at once and has every lane halted in the store.
    pub fn suspect(&self, reason: &str) {
        let mut suspicion = self.suspicion.lock();
        self.cleared.set(false);
        suspicion.get_or_insert_with(|| reason.to_owned());
        drop(suspicion);
        self.suspected.notify_one();
    }

    /// Lets the lanes sign, unless one was suspected meanwhile.
    pub fn clear(&self, incarnation: String) {
        let suspicion = self.suspicion.lock();
        if suspicion.is_none() {
            // Only a help: without it the next start waits for others' objections once more.
            if let Err(error) = self.high_water.lived(&incarnation) {
                tracing::warn!(%error, "the high-water mark cannot be written");
            }
            *self.life.lock() = Life { incarnation, new: None };
            self.cleared.set(true);
        }
    }

    pub fn incarnation(&self) -> String {
        self.life.lock().incarnation.clone()
    }

    /// The store has another incarnation: nothing is signed before all lanes are looked over again.
    pub fn restarted(&self) {
        self.cleared.set(false);
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
        let mut life = self.life.lock();
        let until_ms = match &life.new {
            Some((incarnation, until_ms)) if *incarnation == identity.incarnation => *until_ms,
            _ => {
                // An instance that ends again and again has waited before.
                let noticed = self.high_water.notice(&identity.incarnation, self.clock.now_ms());
                let until_ms = now_ms + lease_ms.saturating_sub(noticed);
                life.new = Some((identity.incarnation.clone(), until_ms));
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

/// A lane as the rest of the process sees it.
pub(crate) struct Face {
    pub id: LaneId,
    /// Whether this process has the key. Without it a lane can only look and rebroadcast.
    pub signing: bool,
    pub halted: Beacon<Option<String>>,
    pub pulse: Beacon<Nonce>,
    /// The epoch that was last found to be lost.
    pub lost: Beacon<Epoch>,
    pub nudge: Arc<Notify>,
    inbox: mpsc::Sender<Batch>,
    /// The driver's end of it.
    pub outbox: tokio::sync::Mutex<mpsc::Receiver<Batch>>,
    view: Mutex<View>,
    /// As others have it in the store.
    lease: Mutex<Option<Lease>>,
    /// What keeps the lane from going on and does not pass by itself, by where it was met.
    troubles: Mutex<BTreeMap<Place, String>>,
}

/// Where a lane can meet trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Clearing,
    Recovery,
    Reconciling,
    Settling(Nonce),
}

#[derive(Default, Clone, Copy)]
struct View {
    held: Option<Epoch>,
    free: bool,
    open: usize,
    waiting: usize,
    adrift: usize,
}

impl Face {
    fn new(id: LaneId, signing: bool, halted: Option<String>) -> Face {
        let (inbox, outbox) = mpsc::channel(1);
        Face {
            id,
            signing,
            halted: Beacon::new(halted),
            pulse: Beacon::new(Nonce(0)),
            lost: Beacon::new(Epoch(0)),
            nudge: Arc::new(Notify::new()),
            inbox,
            outbox: tokio::sync::Mutex::new(outbox),
            view: Mutex::default(),
            lease: Mutex::default(),
            troubles: Mutex::default(),
        }
    }

    pub fn hold(&self, epoch: Epoch) {
        *self.view.lock() = View { held: Some(epoch), ..View::default() };
    }

    pub fn clear(&self) {
        *self.view.lock() = View::default();
    }

    pub fn meet(&self, place: Place, trouble: String) {
        let known = self.troubles.lock().insert(place, trouble.clone());
        if known.as_ref() != Some(&trouble) {
            tracing::error!(lane = %self.id, trouble, "a lane cannot go on");
        }
    }

    pub fn overcome(&self, place: Place) {
        self.troubles.lock().remove(&place);
    }

    /// The store has the lane so now.
    pub fn read(&self, lane: &Lane, now_ms: u64) {
        let mut lease = self.lease.lock();
        *lease = Some(Lease::read(*lease, lane, now_ms));
    }

    pub fn lease(&self) -> Option<Lease> {
        *self.lease.lock()
    }

    /// The lane is nobody's for a while. What is adrift on it stays in sight.
    pub fn rest(&self) {
        let mut view = self.view.lock();
        (view.held, view.free) = (None, false);
    }

    /// The lane is another's now, with whatever troubles it has.
    pub fn let_go(&self) {
        self.clear();
        self.troubles.lock().retain(|place, _| *place == Place::Clearing);
    }

    /// What could not be settled may have been, by others; else it is met again.
    pub fn settle_anew(&self) {
        self.troubles.lock().retain(|place, _| !matches!(place, Place::Settling(_)));
    }

    /// Publishes; true if the lane has just become free.
    pub fn show(&self, open: usize, waiting: usize, adrift: usize, free: bool) -> bool {
        let mut view = self.view.lock();
        // A batch handed over but not yet received still occupies the lane.
        let free = free && self.inbox.capacity() > 0;
        let freed = free && !view.free;
        *view = View { held: view.held, free, open, waiting, adrift };
        freed
    }
}

/// A lane at a glance.
#[derive(Debug, Clone)]
pub struct LaneView {
    pub id: LaneId,
    pub held: bool,
    pub open: usize,
    pub adrift: usize,
    pub halted: Option<String>,
    /// What keeps it from going on until somebody mends it.
    pub trouble: Option<String>,
}

/// The lanes of one rail.
pub struct Fleet {
    shared: Arc<Shared>,
    tasks: Arc<Mutex<JoinSet<()>>>,
}

impl Fleet {
    /// Starts to hold lanes. Fails only if the store cannot be read.
    pub async fn start(parts: FleetParts) -> Result<Arc<Fleet>, StoreError> {
        let tasks = Arc::new(Mutex::new(JoinSet::new()));
        let shared = Arc::new(Shared {
            store: parts.store,
            rail: parts.rail,
            clock: parts.clock,
            owner: parts.owner,
            high_water: parts.high_water,
            settings: parts.settings,
            instance: parts.instance,
            stop: Beacon::new(false),
            faces: Mutex::default(),
            tasks: Arc::downgrade(&tasks),
            cleared: Beacon::new(false),
            suspicion: Mutex::default(),
            suspected: Notify::new(),
            restarts: AtomicU64::new(0),
            life: Mutex::default(),
        });
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
        fleet.watch("pulse", pulse);
        Ok(fleet)
    }

    /// Runs one of the fleet's own tasks, again if it dies.
    fn watch<F>(&self, name: &'static str, task: fn(Arc<Shared>) -> F)
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

    /// Hands the batch to the least loaded free lane, or gives it back.
    pub fn give(&self, batch: Batch) -> Result<(), Batch> {
        let faces = self.shared.faces();
        let free = faces.iter().filter(|face| face.view.lock().free);
        let Some(face) = free.min_by_key(|face| face.view.lock().open) else {
            return Err(batch);
        };
        let mut view = face.view.lock();
        if !view.free {
            return Err(batch);
        }
        view.free = false;
        face.inbox.try_send(batch).map_err(|refused| refused.into_inner())
    }

    /// Whether it holds a lane that it can sign on.
    pub fn holds_any(&self) -> bool {
        self.shared.faces().iter().any(|face| face.signing && face.view.lock().held.is_some())
    }

    pub fn has_free(&self) -> bool {
        self.shared.faces().iter().any(|face| face.view.lock().free)
    }

    pub fn views(&self) -> Vec<LaneView> {
        let view = |face: &Arc<Face>| {
            let view = *face.view.lock();
            LaneView {
                id: face.id.clone(),
                held: view.held.is_some(),
                open: view.open,
                adrift: view.adrift,
                halted: face.halted.get(),
                trouble: face.troubles.lock().values().next().cloned(),
            }
        };
        self.shared.faces().iter().map(view).collect()
    }

    /// Tasks that died and were started again.
    pub fn restarts(&self) -> u64 {
        self.shared.restarts.load(Ordering::Relaxed)
    }

    /// Stops all signing at once and halts every lane until an operator adopts them.
    pub fn suspect(&self, reason: &str) {
        self.shared.suspect(reason);
    }

    /// Has every waiting attempt tried again now: what blocked them may be gone.
    pub fn nudge(&self) {
        self.shared.faces().iter().for_each(|face| face.nudge.notify_waiters());
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

/// Runs a lane's driver, again if it dies.
async fn drive(shared: Arc<Shared>, face: Arc<Face>) {
    let died = || {
        shared.count_restart();
        face.clear();
    };
    let again = || Driver { shared: shared.clone(), face: face.clone() }.run();
    supervise(shared.clock.as_ref(), face.id.as_str(), died, again).await;
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
        let faces = shared.faces();
        let held: Vec<_> = faces
            .iter()
            .filter_map(|face| face.view.lock().held.map(|epoch| (face.id.clone(), epoch)))
            .collect();
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
            let face = faces.iter().find(|face| face.id == *id);
            if let (false, Some(face)) = (current, face) {
                face.lost.set(*epoch);
            }
        }
    }
}

/// Reads all lanes' newest nonces at once while any attempt waits to be included.
async fn pulse(shared: Arc<Shared>) {
    let mut stop = shared.stop.watch();
    loop {
        tokio::select! {
            biased;
            _ = stop.until(|stop| *stop) => return,
            _ = shared.nap(shared.settings.pulse_ms) => {}
        }
        let faces = shared.faces();
        if !faces.iter().any(|face| face.view.lock().waiting > 0) {
            continue;
        }
        let Ok(nonces) = shared.rail.pulse().await else { continue };
        for (id, nonce) in nonces {
            if let Some(face) = faces.iter().find(|face| face.id == id) {
                face.pulse.change(|seen| {
                    let newer = nonce > *seen;
                    *seen = (*seen).max(nonce);
                    newer
                });
            }
        }
    }
}
