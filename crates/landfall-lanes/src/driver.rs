//! One lane's task: hold it, recover it, then take batches as long as the lease lasts.
//!
//! A lane signs when it is reconciled, no lane is under suspicion, and its gate (`gate`) has room.
//! Only a fence passes a closed gate.

use std::sync::Arc;
use std::time::Duration;

use landfall_core::attempt::Signed;
use landfall_core::guard::{self, Guard};
use landfall_core::ledger::{Order, RailError};
use landfall_core::store::{OpenAttempt, Opened, StoreError};
use landfall_core::wound::{self, Wound};
use landfall_core::{Attempt, AttemptId, Epoch, Lane, Nonce, Purpose, Transfer};
use tokio::sync::mpsc;

use crate::fleet::Shared;
use crate::gate::{self, InFlight, Standing};
use crate::handle::{LaneHandle, TroubleAt, View};
use crate::held::{HeldLane, Report, Signal};
use crate::keyless::Rest;
use crate::owner::{Batch, Owner};
use crate::reconcile::{self, Verdict};
use crate::resolve::{Carried, Ended, Resolve};

/// Why a driver stopped serving its lane.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    Stop,
    /// The lease went to somebody else, or what was stored is not known: start over.
    Again,
    /// A task of the lane died: start over, but not at once.
    Died,
    /// There is nothing more to do on it for now.
    Rest(Rest),
    /// Others may want it, too.
    Turn,
}

/// Drives one lane.
pub(crate) struct Driver {
    pub shared: Arc<Shared>,
    pub handle: Arc<LaneHandle>,
}

impl Driver {
    pub async fn run(self) {
        let handle = self.handle.clone();
        let mut inbox = handle.outbox.lock().await;
        while let Some(lane) = self.lease().await {
            let epoch = lane.epoch;
            let leave = self.serve(lane, &mut inbox).await;
            match leave {
                Leave::Rest(_) => self.handle.rest(),
                _ => self.handle.clear(),
            }
            while let Ok(batch) = inbox.try_recv() {
                self.owner().returned(batch, "the lane was given up");
            }
            self.owner().let_go(&self.handle.id);
            match leave {
                Leave::Again => {}
                Leave::Died => self.nap().await,
                Leave::Stop => return self.give_back(epoch).await,
                Leave::Rest(rest) => {
                    self.give_back(epoch).await;
                    self.rest(rest).await;
                }
                Leave::Turn => {
                    self.give_back(epoch).await;
                    self.pass_turn().await;
                }
            }
        }
    }

    async fn nap(&self) {
        self.shared.clock.sleep(Duration::from_millis(self.shared.settings.retry_ms)).await;
    }

    /// Whether anything may be signed on this lane now. Asked again right before it is stored.
    pub fn may_sign(&self) -> bool {
        self.handle.signing
            && self.handle.halted.get().is_none()
            && self.handle.ledger.cleared.get()
    }

    async fn serve(&self, lane: Lane, inbox: &mut mpsc::Receiver<Batch>) -> Leave {
        if let Some(halt) = &lane.halted {
            // Halted before this process began, or by another one: nobody was told here yet.
            self.handle.halted.set(Some(halt.reason.clone()));
            self.owner().halted(&self.handle.id, &halt.reason);
        }
        let mut held = HeldLane::new(lane, &self.shared, &self.handle);
        self.handle.hold(held.epoch());
        if let Err(error) = self.recover(&mut held).await {
            tracing::warn!(lane = %self.handle.id, %error, "open attempts cannot be read yet");
            if matches!(error, StoreError::Corrupt(_)) {
                self.handle.meet(
                    TroubleAt::Recovery,
                    format!("its open attempts cannot be read: {error}"),
                );
            }
            self.nap().await;
            return Leave::Again;
        }
        self.handle.overcome(TroubleAt::Recovery);
        self.handle.settle_anew();
        self.start_reconciling(&mut held);
        loop {
            self.show(&held);
            if let Some(leave) = self.may_rest(&held) {
                return leave;
            }
            match self.turn(&mut held, inbox).await {
                Some(leave) => return leave,
                None => continue,
            }
        }
    }

    /// One event of the lane's life.
    async fn turn(&self, held: &mut HeldLane, inbox: &mut mpsc::Receiver<Batch>) -> Option<Leave> {
        let now_ms = self.shared.clock.monotonic_ms();
        let tick = Duration::from_millis(held.next_tick_ms.saturating_sub(now_ms).min(1_000));
        match held.signal(inbox, self.shared.clock.sleep(tick)).await {
            Signal::Stop => Some(Leave::Stop),
            Signal::Lost => Some(Leave::Again),
            Signal::Halted => {
                // No longer halted: an operator adopted the lane. Begin again from the ledger.
                let was_halted = held.was_halted;
                held.was_halted = held.halted.see().is_some();
                (was_halted && !held.was_halted).then_some(Leave::Again)
            }
            Signal::Report(report) => self.reported(held, report),
            Signal::Progress(nonce, standing) => {
                held.mark(nonce, standing);
                None
            }
            Signal::Pulse => {
                let seen = held.seen.see();
                held.saw(&seen);
                if held.next.is_some_and(|next| seen.included.has(next)) {
                    self.start_reconciling(held);
                }
                None
            }
            Signal::Cleared => {
                let cleared = held.cleared.see();
                (cleared && held.suspected).then_some(Leave::Again)
            }
            Signal::Batch(batch) => self.open(held, batch).await,
            Signal::Tick => self.tick(held).await,
        }
    }

    pub fn owner(&self) -> &dyn Owner {
        self.handle.ledger.owner.as_ref()
    }

    fn show(&self, held: &HeldLane) {
        let now_ms = self.shared.clock.monotonic_ms();
        let manner = &self.handle.ledger.manner;
        let adrift = held.in_flight.values();
        let adrift = adrift.filter(|attempt| gate::is_adrift(manner, attempt, now_ms)).count();
        let freed = self.handle.show(View {
            held: None,
            free: self.may_sign()
                && held.next.is_some()
                && held.room(manner) > 0
                && !self.turn_is_over(held),
            open: held.in_flight.len(),
            adrift,
            waiting: held.waiting(),
        });
        if freed {
            self.owner().freed();
        }
    }

    /// Loads what was left open and pursues it. The only recovery there is.
    async fn recover(&self, held: &mut HeldLane) -> Result<(), StoreError> {
        let open = self.shared.store.open_attempts(&self.handle.id).await?;
        if !open.is_empty() {
            self.owner().took_over(&self.handle.id, open.len());
        }
        for attempt in open {
            if wound::is(Wound::RecoveryLeftOut) {
                continue;
            }
            // Whoever has just stored it believes a refusal of its first broadcast: that must not
            // have been made by one who slept.
            if attempt.epoch > held.epoch() {
                let why = format!("attempt {} is of a later holder", attempt.id);
                return Err(StoreError::Unavailable(why));
            }
            let members = self.shared.store.transfers(&attempt.members).await?;
            // Blame goes by position, so a hole in the list must never be papered over.
            if !members.iter().map(|member| member.id).eq(attempt.members.iter().copied()) {
                let why = format!("attempt {} has lost members", attempt.id);
                return Err(StoreError::Corrupt(why));
            }
            // Between the two reads the store may have gone back, or an operator have decided.
            if members.iter().any(|member| member.attempt != Some(attempt.id)) {
                let why = format!("attempt {} and its members were read apart", attempt.id);
                return Err(StoreError::Unavailable(why));
            }
            self.mark(held.epoch(), &attempt).map_err(StoreError::Unavailable)?;
            self.launch(held, Carried { attempt, members }, false);
        }
        Ok(())
    }

    fn launch(&self, held: &mut HeldLane, carried: Carried, fresh: bool) {
        let attempt = &carried.attempt;
        let (now_ms, monotonic_ms) = (self.shared.clock.now_ms(), self.shared.clock.monotonic_ms());
        let here_ms = |at_ms: u64| monotonic_ms.saturating_sub(now_ms.saturating_sub(at_ms));
        let varied_ms =
            attempt.variants.last().map_or(attempt.opened_ms, |newest| newest.opened_ms);
        let (nonce, purpose) = (attempt.nonce, attempt.purpose);
        let in_flight = InFlight {
            since_ms: here_ms(attempt.opened_ms),
            purpose,
            standing: if fresh { Standing::Leaving } else { Standing::Unsure },
            varied_ms: here_ms(varied_ms),
            cancelled: attempt.is_cancelled(),
        };
        let variants = held.board(attempt, in_flight);
        let after = held.predecessor(nonce);
        // A fence is sent to overtake; where attempts queue, the ledger keeps them in order.
        let overtakes = self.handle.ledger.manner.order == Order::Overtakes;
        let in_order = fresh && purpose != Purpose::Fence && overtakes;
        let resolve = Resolve {
            shared: self.shared.clone(),
            handle: self.handle.clone(),
            epoch: held.epoch(),
            base: held.lane.base_nonce,
            carried,
            fresh,
            after: after.filter(|_| in_order),
            variants,
            left_out: 0,
            refusals: 0,
            refused: None,
            members_known: true,
            progress: held.progress_in.clone(),
            silence: None,
        };
        held.tasks.spawn(async move { Report::Resolved(resolve.run().await) });
    }

    fn start_reconciling(&self, held: &mut HeldLane) {
        held.next = None;
        let (shared, handle) = (self.shared.clone(), self.handle.clone());
        let lane = held.lane.clone();
        held.tasks.spawn(async move {
            Report::Reconciled(reconcile::reconcile(&shared, &handle, &lane).await)
        });
    }

    fn reported(
        &self,
        held: &mut HeldLane,
        report: Result<Report, tokio::task::JoinError>,
    ) -> Option<Leave> {
        match report {
            Ok(Report::Resolved(Ended::Settled { nonce, sunk })) => {
                held.unload(nonce);
                if sunk {
                    self.start_reconciling(held);
                }
                None
            }
            Ok(Report::Resolved(Ended::Fenced)) => Some(Leave::Again),
            Ok(Report::Resolved(Ended::Foreign(reason)))
            | Ok(Report::Reconciled(Verdict::Halt(reason))) => {
                held.suspected = true;
                self.shared.suspect(&reason);
                None
            }
            Ok(Report::Reconciled(Verdict::Next(next))) => {
                held.next = Some(next.max(held.floor));
                None
            }
            Ok(Report::Reconciled(Verdict::New)) => Some(Leave::Again),
            Err(error) => {
                let lane = &self.handle.id;
                tracing::error!(%lane, %error, "a lane's task died; starting over");
                self.shared.count_restart();
                Some(Leave::Died)
            }
        }
    }

    /// Opens a fence when an attempt has been adrift for too long, or seeks other bytes for it.
    async fn tick(&self, held: &mut HeldLane) -> Option<Leave> {
        let now_ms = self.shared.clock.monotonic_ms();
        let manner = &self.handle.ledger.manner;
        let patience_ms = manner.fence_after_ms.min(manner.replace_after_ms);
        held.next_tick_ms = now_ms + patience_ms.clamp(20, 1_000) / 4;
        let in_flight: Vec<&InFlight> = held.in_flight.values().collect();
        let may_sign = self.may_sign() && held.next.is_some();
        if may_sign && gate::needs_fence(manner, &in_flight, now_ms) {
            guard::met(Guard::FenceOpened);
            let fence = Batch { purpose: Purpose::Fence, members: Vec::new() };
            return self.open(held, fence).await;
        }
        self.vary(held).await
    }

    /// What becomes of a batch that the rail has not signed.
    fn not_signed(&self, batch: Batch, error: RailError) {
        match error {
            RailError::Misconfigured(why) => self.owner().unsignable(batch, &why),
            RailError::Hopeless(why) => self.owner().hopeless(batch, &why),
            RailError::Beforehand(found) => self.owner().beforehand(batch, found),
            RailError::Lacking { shortage, why } => {
                self.owner().shortage(&self.handle.id, shortage, &why);
                self.owner().returned(batch, &why);
            }
            RailError::Unavailable(why) => self.owner().returned(batch, &why),
        }
    }

    /// Steps 2 to 4: sign, store, and only then let it go.
    pub async fn open(&self, held: &mut HeldLane, mut batch: Batch) -> Option<Leave> {
        loop {
            let has_room = held.room(&self.handle.ledger.manner) > 0;
            let passes = has_room || batch.purpose == Purpose::Fence;
            let Some(nonce) = held.next.filter(|_| passes && self.may_sign()) else {
                self.owner().returned(batch, "the lane may not sign now");
                return None;
            };
            let signed = match self.owner().sign(&batch, &self.handle.id, nonce).await {
                Ok(signed) if self.may_sign() => signed,
                Ok(_) => continue,
                Err(error) => {
                    self.not_signed(batch, error);
                    return None;
                }
            };
            let open = self.opening(held.epoch(), nonce, &batch, signed);
            let moves = open.moves.clone();
            if wound::is(Wound::StoredAfterSent) {
                self.send_too_early(&open).await;
            }
            match self.shared.store.open_attempt(open).await {
                Ok(Opened::Stored(attempt)) => {
                    let members = carried_members(&batch.members, &moves, &attempt);
                    return self.let_go(held, Carried { attempt: *attempt, members });
                }
                Ok(Opened::StaleMembers(stale)) => {
                    guard::met(Guard::StaleMembers);
                    self.owner().forgotten(&stale);
                    batch.members.retain(|member| !stale.contains(&member.id));
                    if batch.members.is_empty() {
                        return None;
                    }
                }
                Ok(Opened::Behind(why)) => {
                    self.owner().returned(batch, "the store is behind");
                    return Some(self.behind(&why));
                }
                Ok(Opened::Restarted) => {
                    self.owner().returned(batch, "the store has lived on in another process");
                    return Some(self.restarted());
                }
                Ok(Opened::Fenced(why)) => {
                    guard::met(Guard::OpenedFenced);
                    self.owner().returned(batch, "the lane has another holder");
                    return Some(self.outdated(&why));
                }
                Ok(Opened::StaleNonce) => {
                    self.owner().returned(batch, "the lane has another holder");
                    return Some(self.outdated("its nonce is not the lane's next"));
                }
                Err(error) => {
                    // It may have been stored: recovery will find it, or the sweeper its members.
                    let lane = &self.handle.id;
                    tracing::warn!(%lane, %error, "not known whether it was stored");
                    let ids: Vec<_> = batch.members.iter().map(|member| member.id).collect();
                    self.owner().forgotten(&ids);
                    return Some(Leave::Again);
                }
            }
        }
    }

    /// The store has forgotten what this process knows.
    pub fn behind(&self, why: &str) -> Leave {
        guard::met(Guard::OpenedBehind);
        self.shared.suspect(&format!("the store has forgotten something: {why}"));
        Leave::Again
    }

    /// The store lives on in another process.
    pub fn restarted(&self) -> Leave {
        guard::met(Guard::OpenedRestarted);
        self.shared.restarted();
        Leave::Again
    }

    /// What this driver knows of the lane is old.
    pub fn outdated(&self, why: &str) -> Leave {
        tracing::info!(lane = %self.handle.id, why, "the store refuses what was signed");
        Leave::Again
    }

    /// What is to be stored before the batch may be sent.
    fn opening(&self, epoch: Epoch, nonce: Nonce, batch: &Batch, signed: Signed) -> OpenAttempt {
        let now_ms = self.shared.clock.now_ms();
        OpenAttempt {
            rail: self.handle.ledger.ledger.name(),
            lane: self.handle.id.clone(),
            epoch,
            nonce,
            purpose: batch.purpose,
            moves: self.owner().opening(batch, &signed.hash, now_ms),
            signed,
            marks: self.shared.high_water.marks(),
            incarnation: self.handle.ledger.incarnation(),
            now_ms,
        }
    }

    /// The mistake of a wounded build.
    async fn send_too_early(&self, open: &OpenAttempt) {
        let attempt = open.opened_as(AttemptId(0), 0);
        self.handle.ledger.ledger.broadcast(&attempt, 0).await;
    }

    /// Remembers the attempt outside the store; nothing is sent before that is done.
    pub fn mark(&self, epoch: Epoch, attempt: &Attempt) -> Result<(), String> {
        let written = self.shared.high_water.record(&attempt.lane, epoch, attempt.mark());
        if written.is_ok() {
            self.owner().calm("high_water");
        }
        written.map_err(|error| {
            let message =
                format!("the high-water mark cannot be written: {error}; nothing is sent");
            self.owner().alert("high_water", message.clone());
            message
        })
    }

    fn let_go(&self, held: &mut HeldLane, carried: Carried) -> Option<Leave> {
        let attempt = &carried.attempt;
        held.floor = attempt.nonce.next();
        held.next = Some(held.floor);
        self.owner().opened(attempt);
        if self.mark(held.epoch(), attempt).is_err() {
            return Some(Leave::Died);
        }
        self.launch(held, carried, true);
        None
    }
}

/// The members as the opening left them.
fn carried_members(
    before: &[Transfer],
    moves: &[landfall_core::Move],
    attempt: &Attempt,
) -> Vec<Transfer> {
    before
        .iter()
        .zip(moves)
        .map(|(member, moved)| {
            let mut after = moved.applied_to(member);
            after.attempt = Some(attempt.id);
            after
        })
        .collect()
}
