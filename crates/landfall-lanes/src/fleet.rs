//! All lanes of one rail in this process: their drivers, their leases, and the watch over them.
//!
//! **Invariant:** no lane signs before every lane was found explained: a store that forgot an
//! attempt of one lane would pay its transfers again on another. One unexplained lane halts all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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
    view: Mutex<View>,
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

    /// The lane is another's now, with whatever troubles it has.
    pub fn let_go(&self) {
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
    faces: Vec<Arc<Face>>,
    tasks: tokio::sync::Mutex<JoinSet<()>>,
}

impl Fleet {
    /// Starts to hold lanes. Fails only if the store cannot be read.
    pub async fn start(parts: FleetParts) -> Result<Arc<Fleet>, StoreError> {
        let shared = Arc::new(Shared {
            store: parts.store,
            rail: parts.rail,
            clock: parts.clock,
            owner: parts.owner,
            high_water: parts.high_water,
            settings: parts.settings,
            instance: parts.instance,
            stop: Beacon::new(false),
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
        let mut tasks = JoinSet::new();
        let mut faces = Vec::new();
        for (id, signing) in lanes_to_hold(&shared, &stored) {
            let halted =
                stored.iter().find(|lane| lane.id == id).and_then(|lane| lane.halted.clone());
            let (inbox, outbox) = mpsc::channel(1);
            let face = Arc::new(Face {
                id,
                signing,
                halted: Beacon::new(halted.map(|halt| halt.reason)),
                pulse: Beacon::new(Nonce(0)),
                lost: Beacon::new(Epoch(0)),
                nudge: Arc::new(Notify::new()),
                inbox,
                view: Mutex::default(),
                troubles: Mutex::default(),
            });
            faces.push(face.clone());
            let outbox = Arc::new(tokio::sync::Mutex::new(outbox));
            tasks.spawn(drive(shared.clone(), face, outbox));
        }
        let fleet =
            Arc::new(Fleet { shared, faces, tasks: tokio::sync::Mutex::new(JoinSet::new()) });
        fleet.watch(&mut tasks, "watchman", watch_over);
        fleet.watch(&mut tasks, "renewal", renew);
        fleet.watch(&mut tasks, "pulse", pulse);
        *fleet.tasks.lock().await = tasks;
        Ok(fleet)
    }

    /// Runs one of the fleet's own tasks, again if it dies.
    fn watch<F>(
        &self,
        tasks: &mut JoinSet<()>,
        name: &'static str,
        task: fn(Arc<Shared>, Vec<Arc<Face>>) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let (shared, faces) = (self.shared.clone(), self.faces.clone());
        let again = {
            let shared = shared.clone();
            move || task(shared.clone(), faces.clone())
        };
        tasks.spawn(async move {
            supervise(shared.clock.as_ref(), name, || shared.count_restart(), again).await;
        });
    }

    /// Hands the batch to the least loaded free lane, or gives it back.
    pub fn give(&self, batch: Batch) -> Result<(), Batch> {
        let free = self.faces.iter().filter(|face| face.view.lock().free);
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

    pub fn holds_any(&self) -> bool {
        self.faces.iter().any(|face| face.view.lock().held.is_some())
    }

    pub fn has_free(&self) -> bool {
        self.faces.iter().any(|face| face.view.lock().free)
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
        self.faces.iter().map(view).collect()
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
        self.faces.iter().for_each(|face| face.nudge.notify_waiters());
    }

    /// Ends everything at once, as a crash would. Nothing is given back.
    pub async fn abort(&self) {
        self.tasks.lock().await.shutdown().await;
    }

    /// Lets what is being stored be stored, gives the lanes back and leaves.
    pub async fn stop(&self, grace: Duration) {
        self.shared.stop.set(true);
        let mut tasks = std::mem::take(&mut *self.tasks.lock().await);
        let all_gone = async { while tasks.join_next().await.is_some() {} };
        tokio::select! {
            biased;
            _ = all_gone => {}
            _ = self.shared.clock.sleep(grace) => {}
        }
    }
}

/// Configured lanes, and lanes of the rail whose keys are no longer here but must be resolved.
fn lanes_to_hold(shared: &Shared, stored: &[Lane]) -> Vec<(LaneId, bool)> {
    let mut lanes: Vec<_> = shared.rail.lanes().into_iter().map(|id| (id, true)).collect();
    for lane in stored.iter().filter(|lane| lane.rail == shared.rail.name()) {
        if !lanes.iter().any(|(id, _)| *id == lane.id) {
            lanes.push((lane.id.clone(), false));
        }
    }
    lanes
}

/// Runs a lane's driver, again if it dies.
async fn drive(
    shared: Arc<Shared>,
    face: Arc<Face>,
    inbox: Arc<tokio::sync::Mutex<mpsc::Receiver<Batch>>>,
) {
    let died = || {
        shared.count_restart();
        face.clear();
    };
    let again = || {
        let driver = Driver { shared: shared.clone(), face: face.clone(), inbox: inbox.clone() };
        driver.run()
    };
    supervise(shared.clock.as_ref(), face.id.as_str(), died, again).await;
}

/// Renews all leases in one call.
async fn renew(shared: Arc<Shared>, faces: Vec<Arc<Face>>) {
    let mut stop = shared.stop.watch();
    loop {
        tokio::select! {
            biased;
            _ = stop.until(|stop| *stop) => return,
            _ = shared.nap(shared.settings.renew_ms) => {}
        }
        let held: Vec<_> = faces
            .iter()
            .filter_map(|face| face.view.lock().held.map(|epoch| (face.id.clone(), epoch)))
            .collect();
        if held.is_empty() {
            continue;
        }
        learn(&shared, &faces).await;
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
async fn pulse(shared: Arc<Shared>, faces: Vec<Arc<Face>>) {
    let mut stop = shared.stop.watch();
    loop {
        tokio::select! {
            biased;
            _ = stop.until(|stop| *stop) => return,
            _ = shared.nap(shared.settings.pulse_ms) => {}
        }
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
