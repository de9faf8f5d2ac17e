//! What lives as long as one lease of a lane: what is aboard, what was learnt, and what wakes it.
//!
//! Not here: what is done about it (`driver`).

use std::collections::BTreeMap;

use landfall_core::{Epoch, Lane, Nonce, Purpose};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::beacon::Watcher;
use crate::fleet::{Face, Shared};
use crate::owner::Batch;
use crate::reconcile::Verdict;
use crate::resolve::Ended;

/// What a task of the lane reports.
pub(crate) enum Report {
    Resolved(Ended),
    Reconciled(Verdict),
}

/// An open attempt as the gate sees it.
pub(crate) struct Aboard {
    /// On the process's own clock, so that a jump of the wall clock delays no fence.
    pub since_ms: u64,
    pub purpose: Purpose,
    pub included: bool,
}

/// What wakes a lane.
pub(crate) enum Signal {
    Stop,
    Lost,
    Halted,
    Report(Result<Report, tokio::task::JoinError>),
    Progress(Nonce, bool),
    Pulse,
    Cleared,
    Batch(Batch),
    Tick,
}

/// Everything that lives as long as one lease.
pub(crate) struct Deck {
    pub lane: Lane,
    /// When the lease began, on the process's own clock.
    pub since_ms: u64,
    /// None until reconciled.
    pub next: Option<Nonce>,
    /// What this process has opened itself is never asked for again.
    pub floor: Nonce,
    /// The ledger or the store contradicts us here: begin again once the lanes are cleared.
    pub suspected: bool,
    pub aboard: BTreeMap<Nonce, Aboard>,
    pub tasks: JoinSet<Report>,
    pub progress_in: mpsc::UnboundedSender<(Nonce, bool)>,
    progress: mpsc::UnboundedReceiver<(Nonce, bool)>,
    pub next_tick_ms: u64,
    stop: Watcher<bool>,
    lost: Watcher<Epoch>,
    pub halted: Watcher<Option<String>>,
    pub was_halted: bool,
    pub pulse: Watcher<Nonce>,
    pub cleared: Watcher<bool>,
}

impl Deck {
    pub fn new(lane: Lane, shared: &Shared, face: &Face) -> Deck {
        let (progress_in, progress) = mpsc::unbounded_channel();
        let mut halted = face.halted.watch();
        let was_halted = halted.see().is_some();
        Deck {
            lane,
            since_ms: shared.clock.monotonic_ms(),
            next: None,
            floor: Nonce(0),
            suspected: false,
            aboard: BTreeMap::new(),
            tasks: JoinSet::new(),
            progress_in,
            progress,
            next_tick_ms: 0,
            stop: shared.stop.watch(),
            lost: face.lost.watch(),
            halted,
            was_halted,
            pulse: face.pulse.watch(),
            cleared: shared.cleared.watch(),
        }
    }

    /// The next thing that happens, the gravest first.
    pub async fn signal(
        &mut self,
        inbox: &mut mpsc::Receiver<Batch>,
        tick: impl Future<Output = ()>,
    ) -> Signal {
        let epoch = self.epoch();
        tokio::select! {
            biased;
            _ = self.stop.until(|stop| *stop) => Signal::Stop,
            // No other: a store that went back gives lower epochs than were lost before.
            _ = self.lost.until(|lost| *lost == epoch) => Signal::Lost,
            _ = self.halted.changed() => Signal::Halted,
            Some(report) = self.tasks.join_next() => Signal::Report(report),
            Some((nonce, included)) = self.progress.recv() => Signal::Progress(nonce, included),
            _ = self.pulse.changed() => Signal::Pulse,
            _ = self.cleared.changed() => Signal::Cleared,
            Some(batch) = inbox.recv() => Signal::Batch(batch),
            _ = tick => Signal::Tick,
        }
    }

    pub fn epoch(&self) -> Epoch {
        self.lane.epoch
    }

    pub fn all_included(&self) -> bool {
        self.aboard.values().all(|aboard| aboard.included)
    }

    /// Every nonce up to `seen` is used: those attempts are in a block, or passed.
    pub fn saw(&mut self, seen: Nonce) {
        for (_, aboard) in self.aboard.range_mut(..=seen) {
            aboard.included = true;
        }
    }

    pub fn mark(&mut self, nonce: Nonce, included: bool) {
        if let Some(aboard) = self.aboard.get_mut(&nonce) {
            aboard.included = included;
        }
    }
}
