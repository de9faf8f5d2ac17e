//! A lane as the rest of the process sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use landfall_core::ledger::{Reach, Waiting};
use landfall_core::{Epoch, Lane, LaneId, Nonce};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use crate::fleet::ActiveLedger;
use crate::keyless::Lease;
use crate::owner::Batch;
use crate::watched::Watched;

/// A lane, whoever drives it.
pub(crate) struct LaneHandle {
    pub id: LaneId,
    /// The ledger it is on.
    pub ledger: Arc<ActiveLedger>,
    /// Whether this process has the key. Without it a lane can only look and rebroadcast.
    pub signing: bool,
    pub halted: Watched<Option<String>>,
    /// What the newest pulse showed.
    pub seen: Watched<Seen>,
    /// The epoch that was last found to be lost.
    pub lost: Watched<Epoch>,
    pub nudge: Arc<Notify>,
    /// Its owner wants it, perhaps more than before.
    pub wanted: Notify,
    inbox: mpsc::Sender<Batch>,
    /// The driver's end of it.
    pub outbox: tokio::sync::Mutex<mpsc::Receiver<Batch>>,
    view: Mutex<View>,
    /// As others have it in the store.
    lease: Mutex<Option<Lease>>,
    /// What keeps the lane from going on and does not pass by itself, by where it was met.
    troubles: Mutex<BTreeMap<TroubleAt, String>>,
}

/// Where a lane can meet trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TroubleAt {
    Clearing,
    Recovery,
    Reconciling,
    Settling(Nonce),
}

/// What the newest pulse showed of a lane.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub included: Shown,
    pub finished: Shown,
}

/// A set of nonces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    up_to: Nonce,
    alone: BTreeSet<Nonce>,
}

impl Seen {
    pub fn add(&mut self, reach: Reach, is_final: bool) {
        self.included.add(reach);
        if is_final {
            self.finished.add(reach);
        }
    }
}

impl Shown {
    fn add(&mut self, reach: Reach) {
        match reach {
            Reach::UpTo(nonce) => self.up_to = self.up_to.max(nonce),
            Reach::Only(nonce) => _ = self.alone.insert(nonce),
        }
    }

    pub fn has(&self, nonce: Nonce) -> bool {
        nonce <= self.up_to || self.alone.contains(&nonce)
    }
}

/// What a driver publishes of its lane.
#[derive(Default, Clone)]
pub(crate) struct View {
    pub held: Option<Epoch>,
    pub free: bool,
    pub open: usize,
    pub adrift: usize,
    /// Open attempts, by nonce.
    pub waiting: Vec<Waiting>,
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

impl LaneHandle {
    pub fn new(
        id: LaneId,
        ledger: Arc<ActiveLedger>,
        signing: bool,
        halted: Option<String>,
    ) -> LaneHandle {
        let (inbox, outbox) = mpsc::channel(1);
        LaneHandle {
            id,
            ledger,
            signing,
            halted: Watched::new(halted),
            seen: Watched::new(Seen::default()),
            lost: Watched::new(Epoch(0)),
            nudge: Arc::new(Notify::new()),
            wanted: Notify::new(),
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

    pub fn held(&self) -> Option<Epoch> {
        self.view.lock().held
    }

    pub fn clear(&self) {
        *self.view.lock() = View::default();
    }

    pub fn is_free(&self) -> bool {
        self.view.lock().free
    }

    pub fn open(&self) -> usize {
        self.view.lock().open
    }

    /// Hands over a batch, unless the lane was taken by another meanwhile.
    pub fn give(&self, batch: Batch) -> Result<(), Batch> {
        let mut view = self.view.lock();
        if !view.free {
            return Err(batch);
        }
        view.free = false;
        self.inbox.try_send(batch).map_err(|refused| refused.into_inner())
    }

    pub fn meet(&self, at: TroubleAt, trouble: String) {
        let known = self.troubles.lock().insert(at, trouble.clone());
        if known.as_ref() != Some(&trouble) {
            tracing::error!(lane = %self.id, trouble, "a lane cannot go on");
        }
    }

    pub fn overcome(&self, at: TroubleAt) {
        self.troubles.lock().remove(&at);
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
        view.waiting.clear();
    }

    /// The lane is another's now, with whatever troubles it has.
    pub fn let_go(&self) {
        self.clear();
        self.troubles.lock().retain(|at, _| *at == TroubleAt::Clearing);
    }

    /// What could not be settled may have been, by others; else it is met again.
    pub fn settle_anew(&self) {
        self.troubles.lock().retain(|at, _| !matches!(at, TroubleAt::Settling(_)));
    }

    /// Publishes; true if the lane has just become free.
    pub fn show(&self, shown: View) -> bool {
        let mut view = self.view.lock();
        // A batch handed over but not yet received still occupies the lane.
        let free = shown.free && self.inbox.capacity() > 0;
        let freed = free && !view.free;
        *view = View { held: view.held, free, ..shown };
        freed
    }

    pub fn waiting(&self) -> Vec<Waiting> {
        self.view.lock().waiting.clone()
    }

    /// What a pulse shows of the lane. The newest word counts: one that was too high must not
    /// silence those after it.
    pub fn pulse(&self, shown: Seen) {
        self.seen.change(|seen| {
            let newer = shown != *seen;
            *seen = shown;
            newer
        });
    }

    pub fn at_a_glance(&self) -> LaneView {
        let view = self.view.lock();
        LaneView {
            id: self.id.clone(),
            held: view.held.is_some(),
            open: view.open,
            adrift: view.adrift,
            halted: self.halted.get(),
            trouble: self.troubles.lock().values().next().cloned(),
        }
    }
}
