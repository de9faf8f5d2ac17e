//! One rail at work: its pools, its lanes, what it knows, and why it may be standing still.
//!
//! The stages are in [`crate::prepare`] and [`crate::pay`]; this is what they share, and the
//! owner that the lanes ask.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use landfall_core::BadField;
use landfall_core::attempt::{Shortage, Signed, VariantKind};
use landfall_core::ledger::Beforehand;
use landfall_core::queue::Hint;
use landfall_core::rail::{Rail, RailError};
use landfall_core::{
    Attempt, ClaimKey, Event, Fate, LaneId, Move, Nonce, Note, Payload, Purpose, RailName, Stage,
    State, Transfer, TransferId,
};
use landfall_lanes::{Batch, LedgerLanes, Owner};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::active_rail::{ActiveRail, Alerts};
use crate::engine::{Core, employ};
use crate::pool::{Pools, Step};
use crate::shortfall::Shortfall;
use crate::status::RailStatus;
use crate::sweeper::REVIEW_MAX;
use crate::trouble::Troubles;
use crate::unfunded::Unfunded;
use crate::{pay, prepare, schedule};

/// Accounts remembered as prepared: about 100 bytes each. Beyond it the memory starts anew; the
/// store still knows.
const KNOWN_MAX: usize = 500_000;

/// How long dispatch rests after a batch came back.
const REST_MS: u64 = 100;

/// One rail at work.
pub(crate) struct Runner {
    pub core: Arc<Core>,
    pub rail: Arc<dyn Rail>,
    /// None before the launch and after the end: the lanes know their runner too.
    lanes: Mutex<Option<Arc<LedgerLanes>>>,
    pub pools: Mutex<Pools>,
    pub known: Mutex<HashSet<ClaimKey>>,
    /// Wakes the dispatcher of attempts.
    pub wake: Notify,
    /// Wakes the stage that checks preparations.
    pub check: Notify,
    /// Wakes the sweeper early: hints were dropped, or there is room again.
    pub sweep: Notify,
    /// Who fails alone, and why a stage may stand still.
    pub troubles: Mutex<Troubles>,
    /// A batch came back: nothing is dispatched before this time, so that an unreachable ledger
    /// is not asked in a tight loop.
    pub rest_until_ms: AtomicU64,
    /// Look-ups in a row that the ledger did not answer.
    pub outage: AtomicU32,
    /// Whose turn it is when both preparing and paying are ripe.
    pub pay_next: AtomicBool,
    /// Whose turn it is when both a batch and a member that travels alone are ready.
    pub alone_next: AtomicBool,
    /// Members of a batch that the rail would not sign: each goes alone, to find the culprit.
    pub solo: Mutex<HashSet<TransferId>>,
    /// Found, and to be set aside by the dispatcher.
    pub unsignable: Mutex<Vec<(Transfer, String)>>,
    /// Found, and to be failed by the dispatcher.
    pub hopeless: Mutex<Vec<(Transfer, String)>>,
    /// Found out before anything was signed, and to be stored by the dispatcher.
    pub beforehand: Mutex<Vec<(Transfer, Beforehand)>>,
    /// Lanes that lack funds of their own.
    pub unfunded: Mutex<Unfunded>,
    /// What is known of a lack of tokens.
    pub shortfall: Mutex<Shortfall>,
    /// Who waits aside, as far as is known here; with why, if it cannot be signed.
    pub aside: Mutex<BTreeMap<TransferId, Option<String>>>,
    /// Up to which of these was looked again.
    reviewed: Mutex<TransferId>,
    alerts: Alerts,
}

impl Runner {
    pub fn new(core: Arc<Core>, rail: Arc<dyn Rail>) -> Runner {
        Runner {
            alerts: Alerts::new(core.clock.clone()),
            core,
            lanes: Mutex::default(),
            pools: Mutex::default(),
            known: Mutex::default(),
            wake: Notify::new(),
            check: Notify::new(),
            sweep: Notify::new(),
            troubles: Mutex::new(Troubles::new(rail.remedies())),
            rest_until_ms: AtomicU64::new(0),
            outage: AtomicU32::new(0),
            pay_next: AtomicBool::new(false),
            alone_next: AtomicBool::new(true),
            solo: Mutex::default(),
            unsignable: Mutex::default(),
            hopeless: Mutex::default(),
            beforehand: Mutex::default(),
            unfunded: Mutex::default(),
            shortfall: Mutex::default(),
            aside: Mutex::default(),
            reviewed: Mutex::new(TransferId(0)),
            rail,
        }
    }

    pub fn launch(self: &Arc<Runner>, lanes: LedgerLanes, tasks: &mut JoinSet<()>) {
        *self.lanes.lock() = Some(Arc::new(lanes));
        let runner = self.clone();
        employ(&self.core, tasks, "dispatch", move || pay::dispatch(runner.clone()));
        let runner = self.clone();
        employ(&self.core, tasks, "check", move || prepare::check(runner.clone()));
    }

    pub fn lanes(&self) -> Option<Arc<LedgerLanes>> {
        self.lanes.lock().clone()
    }

    pub fn now_ms(&self) -> u64 {
        self.core.clock.now_ms()
    }

    /// The process's own time, for waits: it never jumps.
    pub fn mono_ms(&self) -> u64 {
        self.core.clock.monotonic_ms()
    }

    pub fn backoff_ms(&self, retries: u32) -> u64 {
        let backoff = self.core.settings.backoff_of(self.rail.pace().backoff);
        schedule::backoff_ms(backoff, retries, &mut *self.core.rng.lock())
    }

    pub fn is_known_prepared(&self, payload: &Payload) -> bool {
        match self.rail.preparation(payload) {
            Some(key) => self.known.lock().contains(&key),
            None => true,
        }
    }

    pub fn remember(&self, keys: impl IntoIterator<Item = ClaimKey>) {
        let mut known = self.known.lock();
        for key in keys {
            if known.len() >= KNOWN_MAX {
                known.clear();
            }
            known.insert(key);
        }
    }

    /// The step a transfer waits for, if it waits for one now.
    fn step(&self, transfer: &Transfer) -> Option<Step> {
        let stages = self.rail.stages();
        match (transfer.attempt, transfer.state.stage()) {
            (None, Some(stage)) if Some(stage) == stages.prepare => Some(Step::Check),
            (None, Some(stage)) if stage == stages.pay => Some(Step::Carry(Purpose::Pay)),
            _ => None,
        }
    }

    /// Pools what there is room for and hints at the rest.
    pub async fn offer(&self, transfers: Vec<Transfer>) {
        let now_ms = self.mono_ms();
        let mut hints = Vec::new();
        {
            let mut pools = self.pools.lock();
            for transfer in transfers {
                let Some(step) = self.step(&transfer) else { continue };
                if pools.room(self.core.settings.pool_capacity) > 0 {
                    pools.put(step, transfer, now_ms, false);
                } else if let Some(stage) = transfer.state.stage() {
                    hints.push(Hint { transfer: transfer.id, stage });
                }
            }
        }
        self.check.notify_one();
        self.wake.notify_one();
        self.hint(&hints).await;
    }

    pub async fn hint(&self, hints: &[Hint]) {
        if hints.is_empty() {
            return;
        }
        let dropped = self.core.queue.push(hints).await.unwrap_or(hints.len());
        if dropped > 0 {
            self.sweep.notify_one();
        }
    }

    /// Loads transfers and pools those that wait for a step.
    pub async fn fetch(&self, ids: &[TransferId]) {
        let now_ms = self.mono_ms();
        let wanted: Vec<TransferId> = {
            let pools = self.pools.lock();
            ids.iter().copied().filter(|id| !pools.is_busy(*id, now_ms)).collect()
        };
        if wanted.is_empty() {
            return;
        }
        let Ok(transfers) = self.core.store.transfers(&wanted).await else { return };
        let (mine, others) = transfers.into_iter().partition(|one| self.rail.takes(&one.payload));
        self.offer(mine).await;
        // What nobody can sign as things are is found out, and shown, by trying.
        let strangers = self.core.pass_on(others).await;
        self.offer(strangers).await;
    }

    /// Lets the sweeper fill the pools when hints overflowed and there is room again.
    pub fn sweep_if_roomy(&self) {
        let capacity = self.core.settings.pool_capacity;
        let live = self.core.gauges.backlog.load(Ordering::Relaxed);
        if live > capacity as u64 && self.pools.lock().room(capacity) > capacity / 2 {
            self.sweep.notify_one();
        }
    }

    pub fn alert(&self, kind: &str, message: String) {
        self.alerts.raise(kind, message);
    }

    pub fn calm(&self, kind: &str) {
        self.alerts.calm(kind);
    }
}

#[async_trait]
impl ActiveRail for Runner {
    fn rail(&self) -> RailName {
        self.rail.name()
    }

    fn takes(&self, payload: &Payload) -> bool {
        self.rail.takes(payload)
    }

    /// A need that is known to be met skips its queue.
    fn first_events(&self, payload: &Payload) -> &'static [Event] {
        State::first_events(self.rail.name(), self.is_known_prepared(payload))
    }

    async fn screen(&self, payload: &Payload) -> Result<(), BadField> {
        self.rail.screen(payload).await
    }

    async fn offer(self: Arc<Self>, transfers: Vec<Transfer>) {
        Runner::offer(&self, transfers).await;
    }

    async fn fetch(self: Arc<Self>, ids: &[TransferId]) {
        Runner::fetch(&self, ids).await;
    }

    /// No transfer is ever due in verification: its lane pursues it.
    fn stages(&self) -> Vec<Stage> {
        let stages = self.rail.stages();
        std::iter::once(stages.pay).chain(stages.prepare).collect()
    }

    fn capacity(&self) -> usize {
        self.core.settings.pool_capacity
    }

    fn room(&self) -> usize {
        self.pools.lock().room(self.core.settings.pool_capacity)
    }

    /// Without a lane nothing found could be carried.
    fn is_able(&self) -> bool {
        self.lanes().is_some_and(|lanes| lanes.holds_any())
    }

    fn sweep_now(&self) -> &Notify {
        &self.sweep
    }

    fn status(&self) -> RailStatus {
        self.tell()
    }

    fn alerts(&self) -> &Alerts {
        &self.alerts
    }

    /// Halts are for lanes, which the engine holds.
    fn suspect(&self, _: &str) {}

    /// Who was set aside here may be carried, or final, by another's doing.
    async fn review(&self) {
        let wanted: Vec<TransferId> = {
            let (aside, mut after) = (self.aside.lock(), self.reviewed.lock());
            let rest = aside.range((Bound::Excluded(*after), Bound::Unbounded));
            let some: Vec<TransferId> = rest.map(|(id, _)| *id).take(REVIEW_MAX).collect();
            *after = some.last().copied().unwrap_or(TransferId(0));
            some
        };
        if wanted.is_empty() {
            return;
        }
        let Ok(found) = self.core.store.transfers(&wanted).await else { return };
        let over = found.iter().filter(|now| now.aside.is_none() || now.state.is_final());
        over.for_each(|now| _ = self.aside.lock().remove(&now.id));
    }

    /// Whatever it has begun is pursued by its lanes.
    async fn stop(&self, _: Duration) {}

    async fn abort(&self) {
        self.lanes.lock().take();
    }
}

#[async_trait]
impl Owner for Runner {
    async fn sign(&self, batch: &Batch, lane: &LaneId, nonce: Nonce) -> Result<Signed, RailError> {
        let payloads: Vec<_> = batch.members.iter().map(|member| &member.payload).collect();
        self.rail.sign(batch.purpose, &payloads, lane, nonce).await
    }

    async fn sign_variant(
        &self,
        attempt: &Attempt,
        members: &[Transfer],
        kind: VariantKind,
    ) -> Result<Option<Signed>, RailError> {
        let payloads: Vec<_> = members.iter().map(|member| &member.payload).collect();
        self.rail.sign_variant(attempt, &payloads, kind).await
    }

    /// Most machines have no state for what is in a block and not final: to them it is no event.
    fn sighted(
        &self,
        attempt: &Attempt,
        members: &[Transfer],
        included: bool,
        now_ms: u64,
    ) -> Vec<Move> {
        if attempt.purpose != Purpose::Pay {
            return Vec::new();
        }
        let event = if included { Event::Included } else { Event::FellOff };
        let shown = |member: &Transfer| {
            let mut base = Move::of_member(member, attempt.id, now_ms);
            base.attempt = Some(attempt.id);
            // Which of several variants it is, its fate tells.
            let hash = Some(attempt.hash.clone()).filter(|_| attempt.variants.is_empty());
            Some(base.fire(event).ok()?.with(|entry| entry.tx_hash = hash))
        };
        members.iter().filter_map(shown).collect()
    }

    fn opening(&self, batch: &Batch, hash: &str, now_ms: u64) -> Vec<Move> {
        let open = |member: &Transfer| {
            let base = Move::of(member, now_ms).due(None);
            let mut base = match member.aside {
                Some(_) => base.note(Note::Resumed),
                None => base,
            };
            base.aside = None;
            if batch.purpose != Purpose::Pay {
                return base;
            }
            // Where another signs for us, the hash is not known before it has.
            base.tx_hash = self.rail.manner().repeats.then(|| hash.to_owned());
            let fire = |step: Move, event: &Event| {
                let step = step.fire(*event).expect("only what waits for payment is batched");
                match event {
                    Event::AttemptStored => step.with(|entry| entry.tx_hash = Some(hash.into())),
                    _ => step,
                }
            };
            member.state.opening_events().iter().fold(base, fire)
        };
        batch.members.iter().map(open).collect()
    }

    fn settling(
        &self,
        attempt: &Attempt,
        members: &[Transfer],
        fate: &Fate,
        now_ms: u64,
    ) -> Vec<Move> {
        let settle = |(index, member)| self.settle_member(attempt, member, fate, index, now_ms);
        members.iter().enumerate().map(settle).collect()
    }

    fn opened(&self, attempt: &Attempt) {
        self.pools.lock().release(attempt.members.iter().copied());
        let mut aside = self.aside.lock();
        if !aside.is_empty() {
            attempt.members.iter().for_each(|id| {
                aside.remove(id);
            });
        }
        drop(aside);
        self.shortfall.lock().handed_on(attempt.members.iter().copied());
        self.core.metrics.opened(attempt);
        tracing::debug!(
            lane = %attempt.lane, nonce = %attempt.nonce, tx = %attempt.hash,
            purpose = attempt.purpose.as_str(), members = attempt.members.len(), "attempt stored"
        );
    }

    async fn settled(
        &self,
        attempt: &Attempt,
        members: &[Transfer],
        fate: &Fate,
        moves: Vec<Move>,
        moved: Vec<TransferId>,
        released: Vec<TransferId>,
    ) {
        let now_ms = self.now_ms();
        self.core.metrics.settled(attempt, fate, now_ms);
        let back = self.heed(attempt, members, fate, &moves);
        self.report();
        self.shortfall.lock().outdate();
        let mut ready = Vec::new();
        let soon_ms = now_ms + self.core.settings.hint_grace_ms;
        // Moves and members are parallel; `moved` is a subsequence of both.
        let all_moved = moved.len() == moves.len();
        for (member, step) in members.iter().zip(&moves) {
            if !all_moved && !moved.contains(&member.id) {
                continue;
            }
            let after = step.applied_to(member);
            tracing::debug!(transfer = %after.id, key = %after.key, state = %after.state, "moved");
            if after.state.is_final() {
                self.core.finished(&after);
            } else if after.aside.is_some() {
                self.aside.lock().insert(after.id, None);
            } else if after.due_ms.is_some_and(|due_ms| due_ms <= soon_ms) {
                ready.push(after);
            }
        }
        if attempt.purpose == Purpose::Prepare {
            let prepared = ready.iter().filter(|ready| self.step(ready) != Some(Step::Check));
            let keys = prepared.filter_map(|ready| self.rail.preparation(&ready.payload));
            self.remember(keys.collect::<Vec<_>>());
        }
        self.offer(ready).await;
        self.fetch(&released).await;
        self.fetch(&back).await;
    }

    fn returned(&self, batch: Batch, why: &str) {
        tracing::debug!(why, members = batch.members.len(), "batch returned");
        self.take_back(&batch);
        let now_ms = self.mono_ms();
        let mut pools = self.pools.lock();
        for member in batch.members.into_iter().rev() {
            pools.put(Step::Carry(batch.purpose), member, now_ms, true);
        }
        drop(pools);
        self.rest_until_ms.store(now_ms + REST_MS, Ordering::Relaxed);
        self.wake.notify_one();
    }

    fn unsignable(&self, batch: Batch, why: &str) {
        if batch.members.len() > 1 {
            self.solo.lock().extend(batch.members.iter().map(|member| member.id));
            return self.returned(batch, why);
        }
        self.take_back(&batch);
        let culprits = batch.members.into_iter().map(|member| (member, why.to_owned()));
        self.unsignable.lock().extend(culprits);
        self.wake.notify_one();
    }

    fn hopeless(&self, batch: Batch, why: &str) {
        if batch.members.len() > 1 {
            self.solo.lock().extend(batch.members.iter().map(|member| member.id));
            return self.returned(batch, why);
        }
        self.take_back(&batch);
        let lost = batch.members.into_iter().map(|member| (member, why.to_owned()));
        self.hopeless.lock().extend(lost);
        self.wake.notify_one();
    }

    fn beforehand(&self, batch: Batch, found: Beforehand) {
        if batch.members.len() > 1 {
            self.solo.lock().extend(batch.members.iter().map(|member| member.id));
            return self.returned(batch, &found.to_string());
        }
        self.take_back(&batch);
        let settled = batch.members.into_iter().map(|member| (member, found.clone()));
        self.beforehand.lock().extend(settled);
        self.wake.notify_one();
    }

    fn forgotten(&self, members: &[TransferId]) {
        self.pools.lock().release(members.iter().copied());
        self.troubles.lock().all().into_iter().for_each(|trouble| trouble.forgot(members));
        self.shortfall.lock().handed_on(members.iter().copied());
    }

    /// Said by one node: funds are looked at before it is believed, those of the lane alone if it
    /// has its own.
    fn shortage(&self, lane: &LaneId, shortage: Shortage, message: &str) {
        if shortage == Shortage::Tokens {
            self.shortfall.lock().suspect();
            return;
        }
        let (now_ms, settings) = (self.mono_ms(), &self.core.settings);
        if shortage == Shortage::Native && !self.rail.shares_funds() {
            let reason = self.rail.remedies().describe(shortage, message);
            self.unfunded.lock().doubt(lane, reason, now_ms);
            self.wake.notify_one();
            return;
        }
        let mut troubles = self.troubles.lock();
        match shortage {
            Shortage::Native => troubles.doubt_funds(message, now_ms),
            _ => {
                let all = troubles.all().into_iter();
                all.for_each(|stage| stage.pause(shortage, message, now_ms, settings));
            }
        }
        drop(troubles);
        self.report();
        self.wake.notify_one();
    }

    fn halted(&self, lane: &LaneId, reason: &str) {
        self.alert("lane_halted", format!("{lane}: {reason}"));
    }

    fn alert(&self, kind: &str, message: String) {
        Runner::alert(self, kind, message);
    }

    fn calm(&self, kind: &str) {
        Runner::calm(self, kind);
    }

    fn freed(&self) {
        self.wake.notify_one();
    }
}
