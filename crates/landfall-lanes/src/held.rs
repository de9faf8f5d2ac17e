//! What lives as long as one lease of a lane: what is in flight, what was learnt, what wakes it.
//!
//! Not here: what is done about it (`driver`).

use std::collections::BTreeMap;

use landfall_core::attempt::{Variant, VariantKind};
use landfall_core::ledger::{Manner, Waiting};
use landfall_core::wound::{self, Wound};
use landfall_core::{Attempt, AttemptId, Epoch, Lane, Nonce};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::fleet::Shared;
use crate::gate::{self, InFlight, Standing};
use crate::handle::{LaneHandle, Seen};
use crate::owner::Batch;
use crate::reconcile::Verdict;
use crate::resolve::Ended;
use crate::watched::{Watched, Watcher};

/// What a task of the lane reports.
pub(crate) enum Report {
    Resolved(Ended),
    Reconciled(Verdict),
}

/// What wakes a lane.
pub(crate) enum Signal {
    Stop,
    Lost,
    Halted,
    Report(Result<Report, tokio::task::JoinError>),
    Progress(Nonce, Standing),
    Pulse,
    Cleared,
    Batch(Batch),
    Tick,
}

/// The way to the task that pursues an attempt in flight.
struct Pursuit {
    id: AttemptId,
    /// Its own, then those of its variants.
    hashes: Vec<String>,
    /// True once a node has it, or nobody need wait for it any more.
    departed: Watched<bool>,
    /// Other bytes for it, once they are stored.
    variants: mpsc::UnboundedSender<Variant>,
}

/// A lane as long as one lease lasts.
pub(crate) struct HeldLane {
    pub lane: Lane,
    /// When the lease began, on the process's own clock.
    pub since_ms: u64,
    /// None until reconciled.
    pub next: Option<Nonce>,
    /// What this process has opened itself is never asked for again.
    pub floor: Nonce,
    /// The ledger or the store contradicts us here: begin again once the lanes are cleared.
    pub suspected: bool,
    pub in_flight: BTreeMap<Nonce, InFlight>,
    pursuits: BTreeMap<Nonce, Pursuit>,
    pub tasks: JoinSet<Report>,
    pub progress_in: mpsc::UnboundedSender<(Nonce, Standing)>,
    progress: mpsc::UnboundedReceiver<(Nonce, Standing)>,
    pub next_tick_ms: u64,
    stop: Watcher<bool>,
    lost: Watcher<Epoch>,
    pub halted: Watcher<Option<String>>,
    pub was_halted: bool,
    pub seen: Watcher<Seen>,
    pub cleared: Watcher<bool>,
}

impl HeldLane {
    pub fn new(lane: Lane, shared: &Shared, handle: &LaneHandle) -> HeldLane {
        let (progress_in, progress) = mpsc::unbounded_channel();
        let mut halted = handle.halted.watch();
        let was_halted = halted.see().is_some();
        HeldLane {
            lane,
            since_ms: shared.clock.monotonic_ms(),
            next: None,
            floor: Nonce(0),
            suspected: false,
            in_flight: BTreeMap::new(),
            pursuits: BTreeMap::new(),
            tasks: JoinSet::new(),
            progress_in,
            progress,
            next_tick_ms: 0,
            stop: shared.stop.watch(),
            lost: handle.lost.watch(),
            halted,
            was_halted,
            seen: handle.seen.watch(),
            cleared: handle.ledger.cleared.watch(),
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
            Some((nonce, standing)) = self.progress.recv() => Signal::Progress(nonce, standing),
            _ = self.seen.changed() => Signal::Pulse,
            _ = self.cleared.changed() => Signal::Cleared,
            Some(batch) = inbox.recv() => Signal::Batch(batch),
            _ = tick => Signal::Tick,
        }
    }

    pub fn epoch(&self) -> Epoch {
        self.lane.epoch
    }

    /// How many more attempts may be signed.
    pub fn room(&self, manner: &Manner) -> usize {
        let standings = self.in_flight.values().map(|attempt| match attempt.standing {
            Standing::Unsure if wound::is(Wound::SignedPastUnsure) => Standing::Sent,
            standing => standing,
        });
        gate::room(manner, standings)
    }

    /// Takes up an attempt; what comes back tells of other bytes for it.
    pub fn board(
        &mut self,
        attempt: &Attempt,
        in_flight: InFlight,
    ) -> mpsc::UnboundedReceiver<Variant> {
        let (variants, stored) = mpsc::unbounded_channel();
        let (id, hashes) = (attempt.id, attempt.hashes().map(str::to_owned).collect());
        let pursuit = Pursuit { id, hashes, departed: Watched::new(false), variants };
        self.pursuits.insert(attempt.nonce, pursuit);
        self.in_flight.insert(attempt.nonce, in_flight);
        stored
    }

    /// The attempt in flight under the nonce, by id and hash.
    pub fn attempt_at(&self, nonce: Nonce) -> Option<(AttemptId, &str)> {
        self.pursuits.get(&nonce).map(|pursuit| (pursuit.id, pursuit.hashes[0].as_str()))
    }

    /// Other bytes for an attempt were sought at this time, and these were stored, if any.
    pub fn vary(&mut self, nonce: Nonce, variant: Option<Variant>, now_ms: u64) {
        let (Some(attempt), Some(pursuit)) =
            (self.in_flight.get_mut(&nonce), self.pursuits.get_mut(&nonce))
        else {
            return;
        };
        attempt.varied_ms = now_ms;
        if let Some(variant) = variant {
            attempt.cancelled |= variant.kind == VariantKind::Cancels;
            pursuit.hashes.push(variant.signed.hash.clone());
            // Whoever pursues it may have ended; then it is decided.
            let _ = pursuit.variants.send(variant);
        }
    }

    /// What tells that the attempt before this one has left, if it has not yet.
    pub fn predecessor(&self, nonce: Nonce) -> Option<Watcher<bool>> {
        let (_, before) = self.pursuits.range(..nonce).next_back()?;
        (!before.departed.get()).then(|| before.departed.watch())
    }

    pub fn unload(&mut self, nonce: Nonce) {
        self.in_flight.remove(&nonce);
        if let Some(pursuit) = self.pursuits.remove(&nonce) {
            pursuit.departed.set(true);
        }
    }

    /// Everything whose fate is waited for.
    pub fn waiting(&self) -> Vec<Waiting> {
        let in_flight = self.in_flight.iter().zip(self.pursuits.values());
        let waiting = in_flight.map(|((nonce, attempt), pursuit)| Waiting {
            lane: self.lane.id.clone(),
            nonce: *nonce,
            hashes: pursuit.hashes.clone(),
            included: attempt.standing == Standing::Included,
        });
        waiting.collect()
    }

    /// What the pulse shows is in a block, or passed.
    pub fn saw(&mut self, seen: &Seen) {
        let shown = |nonce: &Nonce| seen.included.has(*nonce);
        let nonces: Vec<Nonce> = self.in_flight.keys().copied().filter(shown).collect();
        nonces.into_iter().for_each(|nonce| self.mark(nonce, Standing::Included));
    }

    pub fn mark(&mut self, nonce: Nonce, standing: Standing) {
        if let Some(attempt) = self.in_flight.get_mut(&nonce) {
            attempt.standing = standing;
        }
        if let (Standing::Sent | Standing::Included, Some(pursuit)) =
            (standing, self.pursuits.get(&nonce))
        {
            pursuit.departed.set(true);
        }
    }
}
