//! One lane's task: hold it, recover it, then take batches as long as the lease lasts.
//!
//! The gate: a lane signs when it is reconciled, no lane is under suspicion, and each of its open
//! attempts is known to be in a block. Only a fence passes a closed gate.

use std::sync::Arc;
use std::time::Duration;

use landfall_core::attempt::Signed;
use landfall_core::guard::{self, Guard};
use landfall_core::rail::RailError;
use landfall_core::store::{OpenAttempt, Opened, StoreError};
use landfall_core::wound::{self, Wound};
use landfall_core::{Attempt, AttemptId, Epoch, Lane, LaneId, Mark, Nonce, Purpose, Transfer};
use tokio::sync::mpsc;

use crate::deck::{Aboard, Deck, Report, Signal};
use crate::fleet::{Face, Place, Shared};
use crate::keyless::Rest;
use crate::owner::Batch;
use crate::reconcile::{self, Verdict};
use crate::resolve::{Carried, Ended, Resolve};

/// How long an attempt may be in no block before operators are shown it: many blocks, so that a
/// slow node alone alarms nobody.
const ADRIFT_AFTER_MS: u64 = 10_000;

/// Why a driver stopped serving its lane.
#[derive(Debug, PartialEq, Eq)]
enum Leave {
    Stop,
    /// The lease went to somebody else, or what was stored is not known: start over.
    Again,
    /// A task of the lane died: start over, but not at once.
    Died,
    /// Its key is not here, and there is nothing more to do for now.
    Rest(Rest),
}

/// Drives one lane.
pub(crate) struct Driver {
    pub shared: Arc<Shared>,
    pub face: Arc<Face>,
}

impl Driver {
    pub async fn run(self) {
        let face = self.face.clone();
        let mut inbox = face.outbox.lock().await;
        while let Some(lane) = self.lease().await {
            let epoch = lane.epoch;
            let leave = self.serve(lane, &mut inbox).await;
            match leave {
                Leave::Rest(_) => self.face.rest(),
                _ => self.face.clear(),
            }
            while let Ok(batch) = inbox.try_recv() {
                self.shared.owner.returned(batch, "the lane was given up");
            }
            match leave {
                Leave::Again => {}
                Leave::Died => self.nap().await,
                Leave::Stop => return self.give_back(epoch).await,
                Leave::Rest(rest) => {
                    self.give_back(epoch).await;
                    self.rest(rest).await;
                }
            }
        }
    }

    async fn nap(&self) {
        self.shared.clock.sleep(Duration::from_millis(self.shared.settings.retry_ms)).await;
    }

    /// Whether anything may be signed on this lane now. Asked again right before it is stored.
    fn may_sign(&self) -> bool {
        self.face.signing && self.face.halted.get().is_none() && self.shared.cleared.get()
    }

    async fn serve(&self, lane: Lane, inbox: &mut mpsc::Receiver<Batch>) -> Leave {
        if let Some(halt) = &lane.halted {
            // Halted before this process began, or by another one: nobody was told here yet.
            self.face.halted.set(Some(halt.reason.clone()));
            self.shared.owner.halted(&self.face.id, &halt.reason);
        }
        let mut deck = Deck::new(lane, &self.shared, &self.face);
        self.face.hold(deck.epoch());
        if let Err(error) = self.recover(&mut deck).await {
            tracing::warn!(lane = %self.face.id, %error, "open attempts cannot be read yet");
            if matches!(error, StoreError::Corrupt(_)) {
                self.face
                    .meet(Place::Recovery, format!("its open attempts cannot be read: {error}"));
            }
            self.nap().await;
            return Leave::Again;
        }
        self.face.overcome(Place::Recovery);
        self.face.settle_anew();
        self.start_reconciling(&mut deck);
        loop {
            self.show(&deck);
            if let Some(rest) = self.may_rest(&deck) {
                return Leave::Rest(rest);
            }
            match self.turn(&mut deck, inbox).await {
                Some(leave) => return leave,
                None => continue,
            }
        }
    }

    /// One event of the lane's life.
    async fn turn(&self, deck: &mut Deck, inbox: &mut mpsc::Receiver<Batch>) -> Option<Leave> {
        let now_ms = self.shared.clock.monotonic_ms();
        let tick = Duration::from_millis(deck.next_tick_ms.saturating_sub(now_ms).min(1_000));
        match deck.signal(inbox, self.shared.clock.sleep(tick)).await {
            Signal::Stop => Some(Leave::Stop),
            Signal::Lost => Some(Leave::Again),
            Signal::Halted => {
                // No longer halted: an operator adopted the lane. Begin again from the ledger.
                let was_halted = deck.was_halted;
                deck.was_halted = deck.halted.see().is_some();
                (was_halted && !deck.was_halted).then_some(Leave::Again)
            }
            Signal::Report(report) => self.reported(deck, report),
            Signal::Progress(nonce, included) => {
                deck.mark(nonce, included);
                None
            }
            Signal::Pulse => {
                let seen = deck.pulse.see();
                deck.saw(seen);
                if deck.next.is_some_and(|next| seen >= next) {
                    self.start_reconciling(deck);
                }
                None
            }
            Signal::Cleared => {
                let cleared = deck.cleared.see();
                (cleared && deck.suspected).then_some(Leave::Again)
            }
            Signal::Batch(batch) => self.open(deck, batch).await,
            Signal::Tick => self.tick(deck).await,
        }
    }

    fn show(&self, deck: &Deck) {
        let now_ms = self.shared.clock.monotonic_ms();
        let free = self.may_sign() && deck.next.is_some() && deck.all_included();
        let fence_after_ms = self.shared.settings.fence_after_ms;
        let waiting = deck.aboard.values().filter(|aboard| !aboard.included).count();
        let adrift = deck.aboard.values().filter(|aboard| {
            // In a block is no fate: what should be final by then is of unknown fate, too.
            let patience_ms = if aboard.included { fence_after_ms } else { ADRIFT_AFTER_MS };
            aboard.since_ms + patience_ms.min(fence_after_ms) < now_ms
        });
        if self.face.show(deck.aboard.len(), waiting, adrift.count(), free) {
            self.shared.owner.freed();
        }
    }

    /// Loads what was left open and pursues it. The only recovery there is.
    async fn recover(&self, deck: &mut Deck) -> Result<(), StoreError> {
        let open = self.shared.store.open_attempts(&self.face.id).await?;
        for attempt in open {
            if wound::is(Wound::RecoveryLeftOut) {
                continue;
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
            self.mark(deck.epoch(), &attempt).map_err(StoreError::Unavailable)?;
            self.launch(deck, Carried { attempt, members }, false);
        }
        Ok(())
    }

    fn launch(&self, deck: &mut Deck, carried: Carried, fresh: bool) {
        let attempt = &carried.attempt;
        let age_ms = self.shared.clock.now_ms().saturating_sub(attempt.opened_ms);
        let since_ms = self.shared.clock.monotonic_ms().saturating_sub(age_ms);
        let aboard = Aboard { since_ms, purpose: attempt.purpose, included: false };
        deck.aboard.insert(attempt.nonce, aboard);
        let resolve = Resolve {
            shared: self.shared.clone(),
            epoch: deck.epoch(),
            base: deck.lane.base_nonce,
            carried,
            fresh,
            progress: deck.progress_in.clone(),
            face: self.face.clone(),
        };
        deck.tasks.spawn(async move { Report::Resolved(resolve.run().await) });
    }

    fn start_reconciling(&self, deck: &mut Deck) {
        deck.next = None;
        let (shared, face, lane) = (self.shared.clone(), self.face.clone(), deck.lane.clone());
        deck.tasks.spawn(async move {
            Report::Reconciled(reconcile::reconcile(&shared, &face, &lane).await)
        });
    }

    fn reported(
        &self,
        deck: &mut Deck,
        report: Result<Report, tokio::task::JoinError>,
    ) -> Option<Leave> {
        match report {
            Ok(Report::Resolved(Ended::Settled { nonce, sunk })) => {
                deck.aboard.remove(&nonce);
                if sunk {
                    self.start_reconciling(deck);
                }
                None
            }
            Ok(Report::Resolved(Ended::Fenced)) => Some(Leave::Again),
            Ok(Report::Resolved(Ended::Foreign(reason)))
            | Ok(Report::Reconciled(Verdict::Halt(reason))) => {
                deck.suspected = true;
                self.shared.suspect(&reason);
                None
            }
            Ok(Report::Reconciled(Verdict::Next(next))) => {
                deck.next = Some(next.max(deck.floor));
                None
            }
            Ok(Report::Reconciled(Verdict::New)) => Some(Leave::Again),
            Err(error) => {
                tracing::error!(lane = %self.face.id, %error, "a lane's task died; starting over");
                self.shared.count_restart();
                Some(Leave::Died)
            }
        }
    }

    /// Opens a fence when an attempt has been adrift for too long.
    async fn tick(&self, deck: &mut Deck) -> Option<Leave> {
        let now_ms = self.shared.clock.monotonic_ms();
        let fence_after_ms = self.shared.settings.fence_after_ms;
        deck.next_tick_ms = now_ms + fence_after_ms.clamp(20, 1_000) / 4;
        let may_sign = self.may_sign() && deck.next.is_some();
        let overdue = |aboard: &Aboard| aboard.since_ms + fence_after_ms <= now_ms;
        let adrift = deck.aboard.values().any(|aboard| !aboard.included && overdue(aboard));
        let fenced =
            deck.aboard.values().any(|aboard| aboard.purpose == Purpose::Fence && !overdue(aboard));
        // A fence that another attempt already passes decides nothing more.
        let newest_is_old = deck.aboard.values().next_back().is_some_and(overdue);
        if may_sign && adrift && !fenced && newest_is_old {
            guard::met(Guard::FenceOpened);
            let fence = Batch { purpose: Purpose::Fence, members: Vec::new() };
            return self.open(deck, fence).await;
        }
        None
    }

    /// Steps 2 to 4: sign, store, and only then let it go.
    async fn open(&self, deck: &mut Deck, mut batch: Batch) -> Option<Leave> {
        loop {
            let Some(nonce) = deck.next.filter(|_| self.may_sign()) else {
                self.shared.owner.returned(batch, "the lane may not sign now");
                return None;
            };
            let payloads: Vec<_> = batch.members.iter().map(|member| &member.payload).collect();
            let signed =
                self.shared.rail.sign(batch.purpose, &payloads, &self.face.id, nonce).await;
            let signed = match signed {
                Ok(signed) if self.may_sign() => signed,
                Ok(_) => continue,
                Err(RailError::Misconfigured(why)) => {
                    self.shared.owner.unsignable(batch, &why);
                    return None;
                }
                Err(error) => {
                    self.shared.owner.returned(batch, &error.to_string());
                    return None;
                }
            };
            let open = self.opening(deck.epoch(), nonce, &batch, signed);
            let moves = open.moves.clone();
            if wound::is(Wound::StoredAfterSent) {
                self.send_too_early(&open).await;
            }
            match self.shared.store.open_attempt(open).await {
                Ok(Opened::Stored(attempt)) => {
                    let members = carried_members(&batch.members, &moves, &attempt);
                    return self.let_go(deck, Carried { attempt: *attempt, members });
                }
                Ok(Opened::StaleMembers(stale)) => {
                    guard::met(Guard::StaleMembers);
                    self.shared.owner.forgotten(&stale);
                    batch.members.retain(|member| !stale.contains(&member.id));
                    if batch.members.is_empty() {
                        return None;
                    }
                }
                Ok(Opened::Behind(why)) => {
                    guard::met(Guard::OpenedBehind);
                    self.shared.suspect(&format!("the store has forgotten something: {why}"));
                    self.shared.owner.returned(batch, "the store is behind");
                    return Some(Leave::Again);
                }
                Ok(Opened::Restarted) => {
                    guard::met(Guard::OpenedRestarted);
                    self.shared.restarted();
                    self.shared.owner.returned(batch, "the store has lived on in another process");
                    return Some(Leave::Again);
                }
                Ok(refused @ (Opened::Fenced(_) | Opened::StaleNonce)) => {
                    if matches!(refused, Opened::Fenced(_)) {
                        guard::met(Guard::OpenedFenced);
                    }
                    tracing::info!(lane = %self.face.id, ?refused, "an attempt was refused");
                    self.shared.owner.returned(batch, "the lane has another holder");
                    return Some(Leave::Again);
                }
                Err(error) => {
                    // It may have been stored: recovery will find it, or the sweeper its members.
                    tracing::warn!(lane = %self.face.id, %error, "not known whether it was stored");
                    let ids: Vec<_> = batch.members.iter().map(|member| member.id).collect();
                    self.shared.owner.forgotten(&ids);
                    return Some(Leave::Again);
                }
            }
        }
    }

    /// What is to be stored before the batch may be sent.
    fn opening(&self, epoch: Epoch, nonce: Nonce, batch: &Batch, signed: Signed) -> OpenAttempt {
        let now_ms = self.shared.clock.now_ms();
        OpenAttempt {
            rail: self.shared.rail.name(),
            lane: self.face.id.clone(),
            epoch,
            nonce,
            purpose: batch.purpose,
            moves: self.shared.owner.opening(batch, &signed.hash, now_ms),
            signed,
            marks: self.marks(),
            incarnation: self.shared.incarnation(),
            now_ms,
        }
    }

    /// How far all lanes are known to have come. Signatures are not counted outside the store yet.
    fn marks(&self) -> Vec<(LaneId, Mark)> {
        let marks = self.shared.high_water.marks().into_iter();
        marks.map(|(lane, nonce)| (lane, nonce.into())).collect()
    }

    /// The mistake of a wounded build.
    async fn send_too_early(&self, open: &OpenAttempt) {
        let attempt = open.opened_as(AttemptId(0), 0);
        self.shared.rail.broadcast(&attempt, 0).await;
    }

    /// Remembers the attempt outside the store; nothing is sent before that is done.
    fn mark(&self, epoch: Epoch, attempt: &Attempt) -> Result<(), String> {
        let written = self.shared.high_water.record(&attempt.lane, epoch, attempt.nonce);
        written.map_err(|error| {
            let message =
                format!("the high-water mark cannot be written: {error}; nothing is sent");
            self.shared.owner.alert("high_water", message.clone());
            message
        })
    }

    fn let_go(&self, deck: &mut Deck, carried: Carried) -> Option<Leave> {
        let attempt = &carried.attempt;
        deck.floor = attempt.nonce.next();
        deck.next = Some(deck.floor);
        self.shared.owner.opened(attempt);
        if self.mark(deck.epoch(), attempt).is_err() {
            return Some(Leave::Died);
        }
        self.launch(deck, carried, true);
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
