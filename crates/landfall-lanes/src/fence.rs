//! Fences on a lane that no fleet holds, landed by the same steps as any attempt.
//!
//! For whoever lets a halted lane go on: what was signed on it and then forgotten may still land. A
//! fence carries nobody, and takes the room in which it would. Signing, storing, sending, looking
//! and settling are the lane's own ([`Driver::open`], `resolve`).
//! **Rule:** a lane is called fenced when all its fences are final, never before.
//! Not here: when a lane at work needs one (`gate`), whether it may go on (an operator).

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use landfall_core::attempt::{Shortage, Signed, VariantKind};
use landfall_core::ledger::{Ledger, Look, Manner, Order, RailError};
use landfall_core::store::{LaneStore, Leased, StoreError};
use landfall_core::{
    Attempt, CertificateKind, Clock, Epoch, Fate, Lane, LaneId, Move, Nonce, Purpose, Transfer,
    TransferId,
};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::driver::Driver;
use crate::fleet::{FleetParts, LedgerParts, Shared};
use crate::handle::LaneHandle;
use crate::held::{HeldLane, Report, Signal};
use crate::high_water::HighWater;
use crate::owner::{Batch, Owner};
use crate::resolve::Ended;
use crate::settings::LaneSettings;

/// How far above all that is known a fence goes where nonces may be left out: over all that any
/// instance can have in flight on a lane.
const JUMP: u64 = 1_000;
/// How often the ledger is asked, the lease renewed and better terms sought while fences are waited
/// for.
const TICK_MS: u64 = 1_000;

/// How far a lane is known to have come, each by whoever knows of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Known {
    /// The last nonce that the ledger has used.
    pub used: Nonce,
    /// That of the newest stored attempt.
    pub stored: Nonce,
    /// That of the newest attempt that somebody remembers outside the store.
    pub remembered: Nonce,
}

/// The nonces of the fences after which nothing can land that was signed on the lane before and
/// that the store has forgotten, whoever signed it. None where the ledger keeps no nonces: nothing
/// can be put in the way of what was signed there.
pub fn fences(manner: &Manner, known: Known) -> Vec<Nonce> {
    let seen = known.used.max(known.stored);
    let newest = seen.max(known.remembered);
    match manner.order {
        Order::Overtakes => vec![Nonce(newest.0 + JUMP)],
        // Nothing lands before its predecessor, so nobody can have signed further than a window.
        Order::Queues => (seen.0 + 1..=newest.0 + manner.window as u64).map(Nonce).collect(),
        Order::Free => Vec::new(),
    }
}

/// Whoever has the key.
#[async_trait]
pub trait FenceSigner: Send + Sync + 'static {
    /// Builds and signs what carries nobody and does nothing. Nothing has left the process on
    /// return.
    async fn sign_fence(&self, lane: &LaneId, nonce: Nonce) -> Result<Signed, RailError>;

    /// Other bytes under the fence's nonce, on better terms; none if there are none to be had.
    async fn sign_anew(
        &self,
        _fence: &Attempt,
        _kind: VariantKind,
    ) -> Result<Option<Signed>, RailError> {
        Ok(None)
    }
}

/// Why a lane is not fenced, cut by what to do next. Fences that were stored stay open, and whoever
/// holds the lane next pursues them; to land others above them is safe.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfenced {
    /// Have its holder stopped, or wait.
    #[error("the lane is held by {holder:?}")]
    Held { holder: String, until_ms: u64 },
    /// The key is not here, or not as it should be. Repeating it does not help.
    #[error("{0}")]
    Unsignable(String),
    /// The ledger's own coin is lacking: give the account some.
    #[error("{0}")]
    Unpaid(String),
    /// Nothing was sent. Try again.
    #[error("not stored: {0}")]
    NotStored(String),
    /// Not final in time. Try again.
    #[error("not final yet: {0}")]
    Adrift(String),
    /// It can never land. Try again.
    #[error("sunk: {0}")]
    Sunk(String),
    /// Something that nobody knows of has landed in its place: look into that first.
    #[error("displaced: {0}")]
    Displaced(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What it takes to land fences without a fleet.
pub struct Fencing {
    pub store: Arc<dyn LaneStore>,
    pub ledger: Arc<dyn Ledger>,
    pub signer: Arc<dyn FenceSigner>,
    pub clock: Arc<dyn Clock>,
    /// Under whose name the lane is held meanwhile. No fleet of that name may be at work.
    pub instance: String,
}

impl Fencing {
    /// Lands fences with these nonces, in order, on a lane that may be halted, and stays so.
    /// Returns when all of them are final, or after `patience`.
    pub async fn land(
        &self,
        lane: &LaneId,
        nonces: &[Nonce],
        patience: Duration,
    ) -> Result<(), Unfenced> {
        let Some(first) = nonces.first() else { return Ok(()) };
        let lease_ms = LaneSettings::default().lease_ms;
        let leased = self.store.lease(lane, self.ledger.name(), &self.instance, lease_ms).await?;
        let held = match leased {
            Leased::Yours(held) => held,
            Leased::Busy { holder, until_ms } => return Err(Unfenced::Held { holder, until_ms }),
        };
        let epoch = held.epoch;
        if held.next_nonce.is_none() {
            self.store.start_lane(lane, epoch, Nonce(first.0.saturating_sub(1))).await?;
        }
        let landed = self.land_held(held, nonces, patience).await;
        // A lease that cannot be given back runs out by itself.
        let _ = self.store.release(&[(lane.clone(), epoch)]).await;
        landed
    }

    async fn land_held(
        &self,
        lane: Lane,
        nonces: &[Nonce],
        patience: Duration,
    ) -> Result<(), Unfenced> {
        let (tell, mut told) = mpsc::unbounded_channel();
        let stored = Arc::new(Mutex::new(Vec::new()));
        let owner = Nobody { signer: self.signer.clone(), stored: stored.clone(), tell };
        let driver = self.driver(&lane.id, Arc::new(owner)).await?;
        let mut held = HeldLane::new(lane, &driver.shared, &driver.handle);
        for (before, nonce) in nonces.iter().enumerate() {
            held.next = Some(*nonce);
            let fence = Batch { purpose: Purpose::Fence, members: Vec::new() };
            driver.open(&mut held, fence).await;
            if let Ok(unfenced) = told.try_recv() {
                return Err(unfenced);
            }
            if stored.lock().len() == before {
                return Err(Unfenced::NotStored("not known whether it was stored".into()));
            }
        }
        // What does nothing is its own cancel, which alone is signed anew on a halted lane.
        held.in_flight.values_mut().for_each(|fence| fence.cancelled = true);
        let stored = stored.lock().clone();
        self.until_settled(&driver, &mut held, &mut told, &stored, patience).await?;
        for fence in stored {
            let settled = self.store.attempt(fence.id).await?;
            match settled.and_then(|settled| settled.fate) {
                Some(Fate::Landed(_)) => {}
                // What does nothing in its place fences as well as itself.
                Some(Fate::Sunk(by)) if by.kind == CertificateKind::Cancelled => {}
                Some(Fate::Sunk(certificate)) => return Err(Unfenced::Sunk(certificate.summary)),
                None => return Err(Unfenced::Adrift("the store has forgotten it".into())),
            }
        }
        Ok(())
    }

    /// One that drives this lane alone, and may sign on it although it is halted, as long as what
    /// it signs is a fence. Its marks are its own: the store is known to be behind others, perhaps.
    async fn driver(&self, lane: &LaneId, owner: Arc<dyn Owner>) -> Result<Driver, StoreError> {
        let identity = self.store.identity().await?;
        let parts = FleetParts {
            store: self.store.clone(),
            ledgers: vec![LedgerParts { ledger: self.ledger.clone(), owner }],
            clock: self.clock.clone(),
            high_water: Arc::new(HighWater::in_memory()),
            settings: LaneSettings::default(),
            instance: self.instance.clone(),
        };
        let shared = Shared::new(parts, Weak::new());
        let ledger = shared.ledgers[0].clone();
        shared.clear(&ledger, &identity.incarnation);
        let handle = Arc::new(LaneHandle::new(lane.clone(), ledger, true, None));
        Ok(Driver { shared, handle })
    }

    /// Holds the lane until every fence is decided.
    async fn until_settled(
        &self,
        driver: &Driver,
        held: &mut HeldLane,
        told: &mut mpsc::UnboundedReceiver<Unfenced>,
        stored: &[Attempt],
        patience: Duration,
    ) -> Result<(), Unfenced> {
        // Nobody hands anything over.
        let (_inbox, mut outbox) = mpsc::channel(1);
        let until_ms = self.clock.monotonic_ms() + patience.as_millis() as u64;
        while !held.in_flight.is_empty() {
            let left_ms = until_ms.saturating_sub(self.clock.monotonic_ms());
            if left_ms == 0 {
                return Err(Unfenced::Adrift(self.why_not(stored).await));
            }
            let tick = self.clock.sleep(Duration::from_millis(left_ms.min(TICK_MS)));
            let signal = tokio::select! {
                biased;
                Some(unfenced) = told.recv() => return Err(unfenced),
                signal = held.signal(&mut outbox, tick) => signal,
            };
            match signal {
                Signal::Report(report) => held.unload(settled(report)?),
                Signal::Progress(nonce, standing) => held.mark(nonce, standing),
                Signal::Pulse => {
                    let seen = held.seen.see();
                    held.saw(&seen);
                }
                Signal::Tick => {
                    let (handle, waiting) = (&driver.handle, held.waiting());
                    handle.ledger.pulse(std::slice::from_ref(handle), &waiting).await;
                    self.renew(&held.lane.id, held.epoch()).await?;
                    if driver.vary(held).await.is_some() {
                        return Err(lost());
                    }
                }
                // There is no fleet to send any of these.
                _ => {}
            }
        }
        Ok(())
    }

    async fn renew(&self, lane: &LaneId, epoch: Epoch) -> Result<(), Unfenced> {
        let lease_ms = LaneSettings::default().lease_ms;
        match self.store.renew(&[(lane.clone(), epoch)], lease_ms).await.as_deref() {
            Ok([false]) => Err(lost()),
            // A store that cannot be reached decides nothing.
            _ => Ok(()),
        }
    }

    /// What the ledger says of the first that is not final.
    async fn why_not(&self, stored: &[Attempt]) -> String {
        for fence in stored {
            match self.ledger.look(fence, false).await {
                Ok(Look::Landed(_)) => {}
                Ok(Look::Adrift { why, .. }) => return why,
                Ok(Look::Foreign(foreign)) => return foreign.reason,
                Ok(Look::Sunk(certificate)) => return certificate.summary,
                Err(error) => return error.to_string(),
            }
        }
        "it has only just landed".to_owned()
    }
}

fn lost() -> Unfenced {
    Unfenced::Adrift("somebody else has taken the lane".into())
}

/// The nonce of a fence that is decided.
fn settled(report: Result<Report, tokio::task::JoinError>) -> Result<Nonce, Unfenced> {
    match report {
        Ok(Report::Resolved(Ended::Settled { nonce, .. })) => Ok(nonce),
        Ok(Report::Resolved(Ended::Foreign(why))) => Err(Unfenced::Displaced(why)),
        Ok(Report::Resolved(Ended::Fenced)) => Err(lost()),
        // Nobody reconciles here.
        Ok(Report::Reconciled(_)) => Err(lost()),
        Err(error) => Err(Unfenced::Adrift(error.to_string())),
    }
}

/// The owner of what carries nobody.
struct Nobody {
    signer: Arc<dyn FenceSigner>,
    stored: Arc<Mutex<Vec<Attempt>>>,
    tell: mpsc::UnboundedSender<Unfenced>,
}

impl Nobody {
    fn tell(&self, unfenced: Unfenced) {
        // Whoever waited has left.
        let _ = self.tell.send(unfenced);
    }
}

#[async_trait]
impl Owner for Nobody {
    async fn sign(&self, _: &Batch, lane: &LaneId, nonce: Nonce) -> Result<Signed, RailError> {
        self.signer.sign_fence(lane, nonce).await
    }

    async fn sign_variant(
        &self,
        fence: &Attempt,
        _: &[Transfer],
        kind: VariantKind,
    ) -> Result<Option<Signed>, RailError> {
        self.signer.sign_anew(fence, kind).await
    }

    fn opening(&self, _: &Batch, _: &str, _: u64) -> Vec<Move> {
        Vec::new()
    }

    fn sighted(&self, _: &Attempt, _: &[Transfer], _: bool, _: u64) -> Vec<Move> {
        Vec::new()
    }

    fn settling(&self, _: &Attempt, _: &[Transfer], _: &Fate, _: u64) -> Vec<Move> {
        Vec::new()
    }

    fn opened(&self, attempt: &Attempt) {
        self.stored.lock().push(attempt.clone());
    }

    async fn settled(
        &self,
        _: &Attempt,
        _: &[Transfer],
        _: &Fate,
        _: Vec<Move>,
        _: Vec<TransferId>,
        _: Vec<TransferId>,
    ) {
    }

    fn returned(&self, _: Batch, why: &str) {
        self.tell(Unfenced::NotStored(why.to_owned()));
    }

    fn unsignable(&self, _: Batch, why: &str) {
        self.tell(Unfenced::Unsignable(why.to_owned()));
    }

    fn hopeless(&self, _: Batch, why: &str) {
        self.tell(Unfenced::Unsignable(why.to_owned()));
    }

    fn forgotten(&self, _: &[TransferId]) {}

    fn shortage(&self, _: &LaneId, shortage: Shortage, message: &str) {
        if shortage == Shortage::Native {
            self.tell(Unfenced::Unpaid(message.to_owned()));
        }
    }

    fn halted(&self, _: &LaneId, _: &str) {}

    fn alert(&self, kind: &str, message: String) {
        tracing::warn!(kind, message, "alert");
    }

    fn calm(&self, _: &str) {}

    fn freed(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manner(order: Order, window: usize) -> Manner {
        Manner { order, window, ..Manner::OVERTAKES }
    }

    fn known(used: u64, stored: u64, remembered: u64) -> Known {
        Known { used: Nonce(used), stored: Nonce(stored), remembered: Nonce(remembered) }
    }

    /// Another instance may have stored what the store has forgotten.
    #[test]
    fn one_fence_goes_far_above_all_that_is_known_where_nonces_may_be_left_out() {
        for known in [known(3, 7, 0), known(7, 4, 4), known(6, 4, 7)] {
            let fences = fences(&manner(Order::Overtakes, 3), known);
            assert_eq!(fences, [Nonce(7 + JUMP)], "{known:?}");
        }
    }

    #[test]
    fn where_attempts_queue_every_nonce_is_taken_that_anybody_can_have_signed() {
        let fences = |known| fences(&manner(Order::Queues, 3), known);
        assert_eq!(fences(known(7, 7, 7)), [8, 9, 10].map(Nonce));
        assert_eq!(fences(known(4, 6, 8)), [7, 8, 9, 10, 11].map(Nonce), "stored ones are known");
        assert_eq!(fences(known(9, 6, 8)), [10, 11, 12].map(Nonce), "used by somebody else");
    }

    #[test]
    fn nothing_can_be_put_in_the_way_where_there_are_no_nonces() {
        assert_eq!(fences(&manner(Order::Free, 3), known(0, 6, 8)), []);
    }
}
