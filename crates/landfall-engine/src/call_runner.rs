//! A rail of services at work: each transfer is driven by calls that may be repeated.
//!
//! There are no locks: any number of processes may drive the same transfer. Each step is a
//! compare-and-set, what is about to be done is stored before it is done, and the services
//! deduplicate what is done twice.
//! **Invariant:** nothing is given up. What stays unknown is asked for again, for ever, ever more
//! slowly, and raises an alert.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use landfall_core::BadField;
use landfall_core::courier::{Courier, Doubt, Known, Step, Turn};
use landfall_core::queue::Hint;
use landfall_core::rail::Backoff;
use landfall_core::store::{Applied, Store, StoreError};
use landfall_core::{
    Certificate, Clock, Event, Fault, Illegal, Move, Note, Payload, RailName, Stage, TrailEvent,
    Transfer, TransferId,
};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::active_rail::{ActiveRail, Alerts};
use crate::engine::Core;
use crate::schedule;
use crate::status::RailStatus;
use crate::sweeper::REVIEW_MAX;

/// Doubts that are all written into the trail; of later ones only those at powers of two, or a
/// service that is down for a week would fill the store with them.
const TRAIL_DOUBTS: u32 = 10;
/// How long after a call began to be announced it is still made without a look. Longer than a
/// commit takes, and short against every dedupe window: whoever was held up for longer does not
/// know what others have done since, nor whether a service still remembers it.
const FIRST_CALL_MS: u64 = 5_000;

/// A rail of services at work.
pub(crate) struct CallRunner {
    core: Arc<Core>,
    courier: Arc<dyn Courier>,
    busy: Mutex<HashSet<TransferId>>,
    tasks: Mutex<JoinSet<()>>,
    sweep: Notify,
    alerts: Alerts,
    /// Unknown for longer than an operator wants to wait, with what to say about each.
    stuck: Mutex<HashMap<TransferId, String>>,
    adrift: Mutex<HashMap<TransferId, String>>,
    /// Told by the courier to take a step that their state does not allow.
    illegal: Mutex<HashMap<TransferId, String>>,
    /// Up to which of these was looked again.
    reviewed: Mutex<TransferId>,
}

/// A moment by both clocks: one may be set, the other stands still while a machine sleeps.
#[derive(Clone, Copy)]
struct Moment {
    now_ms: u64,
    monotonic_ms: u64,
}

impl Moment {
    fn now(clock: &dyn Clock) -> Moment {
        Moment { now_ms: clock.now_ms(), monotonic_ms: clock.monotonic_ms() }
    }

    fn is_long_ago(self, clock: &dyn Clock) -> bool {
        let now = Moment::now(clock);
        let passed_ms = now.monotonic_ms.abs_diff(self.monotonic_ms);
        passed_ms.max(now.now_ms.abs_diff(self.now_ms)) > FIRST_CALL_MS
    }
}

impl CallRunner {
    pub fn new(core: Arc<Core>, courier: Arc<dyn Courier>) -> CallRunner {
        CallRunner {
            alerts: Alerts::new(core.clock.clone()),
            core,
            courier,
            busy: Mutex::default(),
            tasks: Mutex::default(),
            sweep: Notify::new(),
            stuck: Mutex::default(),
            adrift: Mutex::default(),
            illegal: Mutex::default(),
            reviewed: Mutex::new(TransferId(0)),
        }
    }

    /// Takes one up unless it is being worked on, or there is no room: then false.
    fn take_up(self: &Arc<CallRunner>, transfer: Transfer) -> bool {
        let id = transfer.id;
        let mut busy = self.busy.lock();
        if busy.contains(&id) {
            return true;
        }
        if busy.len() >= self.core.settings.calls_max {
            return false;
        }
        busy.insert(id);
        drop(busy);
        let leave = Leave { runner: self.clone(), id };
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move { leave.runner.run(transfer).await });
        true
    }

    /// Drives a transfer as far as it goes now.
    async fn run(&self, mut transfer: Transfer) {
        let clock = &*self.core.clock;
        // When this task began to store that the call it is about to make is due.
        let mut announced: Option<Moment> = None;
        while !transfer.state.is_final() && !self.core.is_stopping() {
            let turn = match announced {
                Some(began) if began.is_long_ago(clock) => {
                    announced = None;
                    let Some(now) = self.read(transfer.id).await else { return };
                    transfer = now;
                    continue;
                }
                Some(began) => Turn { first: true, since_ms: began.now_ms },
                None => Turn { first: false, since_ms: self.since_ms(&transfer).await },
            };
            let step = self.courier.act(&transfer, turn).await;
            let goes_on = matches!(step, Step::Go(_));
            announced = Some(Moment::now(clock));
            match self.store(&transfer, step).await {
                Some(moved) if goes_on => transfer = moved,
                _ => return,
            }
        }
    }

    /// None if the store did not answer: the sweeper finds it.
    async fn read(&self, id: TransferId) -> Option<Transfer> {
        self.core.store.transfers(&[id]).await.ok()?.pop()
    }

    /// Since when the call that the state asks for may have been made; where that is not known, the
    /// earliest it can be.
    async fn since_ms(&self, transfer: &Transfer) -> u64 {
        let announced = announced_ms(&*self.core.store, transfer).await;
        announced.ok().flatten().unwrap_or(transfer.created_ms)
    }

    /// Stores what a step came to. None if somebody else moved it, or the store did not answer:
    /// the sweeper finds it.
    async fn store(&self, transfer: &Transfer, step: Step) -> Option<Transfer> {
        let now_ms = self.core.clock.now_ms();
        let step = match step {
            Step::Go(known) => {
                let due_ms = now_ms + self.core.settings.hint_grace_ms;
                known_move(transfer, &known, now_ms, due_ms)
            }
            Step::Wait(doubt) => self.doubt_move(transfer, doubt, now_ms),
            Step::Adrift(why) => Ok(self.adrift_move(transfer, why, now_ms)),
        };
        let step = match step {
            Ok(step) => step,
            Err(illegal) => {
                jot(&self.illegal, transfer.id, Some(format!("{}: {illegal}", transfer.key)));
                self.alert_illegal();
                return None;
            }
        };
        match self.core.store.apply(vec![step.clone()]).await {
            Ok(batch) if batch.moves == [Applied::Applied] => {
                let moved = step.applied_to(transfer);
                self.moved(&moved);
                Some(moved)
            }
            Ok(_) => None,
            Err(error) => {
                tracing::warn!(transfer = %transfer.id, %error, "not known whether it was stored");
                None
            }
        }
    }

    fn backoff(&self) -> Backoff {
        self.core.settings.backoff_of(self.courier.backoff())
    }

    fn doubt_move(&self, of: &Transfer, doubt: Doubt, now_ms: u64) -> Result<Move, Illegal> {
        let (backoff, mut rng) = (self.backoff(), self.core.rng.lock());
        let wait_ms = schedule::backoff_ms(backoff, of.stage_retries, &mut *rng);
        drop(rng);
        let mut step = Move::of(of, now_ms).due(Some(now_ms + wait_ms));
        step.stage_retries = of.stage_retries.saturating_add(1);
        step.retry_count = of.retry_count.saturating_add(1);
        let news = of.error.as_ref().is_none_or(|last| last.error_type != doubt.kind);
        let fault = Fault {
            error_type: doubt.kind.to_owned(),
            message: doubt.message,
            retry_count: step.retry_count,
            will_retry: true,
        };
        // A refusal that led here is what the client wants to know; the trail keeps the rest.
        if of.error.as_ref().is_none_or(|last| last.will_retry) {
            step.error = Some(fault.clone());
        }
        let retries = step.stage_retries;
        if let Some(event) = doubt.event {
            step = step.fire(event)?;
        } else {
            step = step.note(Note::Retry);
        }
        match news || retries <= TRAIL_DOUBTS || retries.is_power_of_two() {
            true => Ok(step.with(|entry| entry.error = Some(fault))),
            false => {
                step.trail.clear();
                Ok(step)
            }
        }
    }

    fn adrift_move(&self, of: &Transfer, why: String, now_ms: u64) -> Move {
        // Still asked, though slowly: a service may find its memory again.
        let wait_ms = self.backoff().max_ms;
        let mut step = Move::of(of, now_ms).due(Some(now_ms + wait_ms));
        if of.aside.is_none() {
            let fault = Fault {
                error_type: "adrift".to_owned(),
                message: why.clone(),
                retry_count: of.retry_count,
                will_retry: true,
            };
            step = step.note(Note::Adrift).with(|entry| entry.error = Some(fault));
        }
        step.aside = Some(why);
        step
    }

    /// Tells those who watch.
    fn moved(&self, now: &Transfer) {
        tracing::debug!(transfer = %now.id, key = %now.key, state = %now.state, "moved");
        jot(&self.illegal, now.id, None);
        self.note(now);
        if now.state.is_final() {
            self.core.finished(now);
        }
    }

    /// Notes what operators should know of it, or that this is over.
    fn note(&self, now: &Transfer) {
        let settings = &self.core.settings;
        let age_ms = now.updated_ms.saturating_sub(now.created_ms);
        let slow = now.stage_retries >= settings.alert_after_retries
            || age_ms >= settings.alert_after_ms && now.stage_retries > 0;
        let (state, retries) = (now.state, now.retry_count);
        let why = now.error.as_ref().map_or("", |fault| fault.message.as_str());
        let story =
            || format!("{} {state}, {retries} retries, {} s old: {why}", now.key, age_ms / 1_000);
        jot(&self.stuck, now.id, (slow && !now.state.is_final()).then(story));
        jot(&self.adrift, now.id, now.aside.clone().map(|why| format!("{}: {why}", now.key)));
        if now.state.is_final() {
            jot(&self.illegal, now.id, None);
        }
        self.alert_illegal();
        self.alert("transfer_stuck", "are stuck, the first is", &self.stuck);
        self.alert("adrift", "wait for an operator's decision, the first is", &self.adrift);
    }

    /// What was noted and nobody here works on, next in turn.
    fn to_review(&self) -> Vec<TransferId> {
        let mut noted: BTreeSet<TransferId> = self.stuck.lock().keys().copied().collect();
        noted.extend(self.adrift.lock().keys());
        noted.extend(self.illegal.lock().keys());
        let busy = self.busy.lock();
        noted.retain(|id| !busy.contains(id));
        let mut after = self.reviewed.lock();
        let rest = noted.range((Bound::Excluded(*after), Bound::Unbounded));
        let some: Vec<TransferId> = rest.copied().take(REVIEW_MAX).collect();
        *after = some.last().copied().unwrap_or(TransferId(0));
        some
    }

    fn alert_illegal(&self) {
        let what = "were to take a step that their state does not allow, the first is";
        self.alert("illegal_step", what, &self.illegal);
    }

    fn alert(&self, kind: &str, what: &str, which: &Mutex<HashMap<TransferId, String>>) {
        let which = which.lock();
        match which.iter().min_by_key(|(id, _)| **id) {
            None => self.alerts.calm(kind),
            Some((_, story)) => {
                self.alerts.raise(kind, format!("{} transfers {what} {story}", which.len()))
            }
        }
    }
}

/// When the call that the state asks for was announced; none if the trail does not tell.
pub(crate) async fn announced_ms(
    store: &dyn Store,
    transfer: &Transfer,
) -> Result<Option<u64>, StoreError> {
    // Of this very state: others may have moved the transfer since it was read.
    let announcement = match transfer.confirmed {
        true => TrailEvent::Noted(Note::Confirmed),
        false => TrailEvent::Entered(transfer.state),
    };
    let trail = store.trail(transfer.id).await?;
    Ok(trail.iter().rev().find(|entry| entry.event == announcement).map(|entry| entry.at_ms))
}

fn jot(which: &Mutex<HashMap<TransferId, String>>, id: TransferId, story: Option<String>) {
    match story {
        Some(story) => _ = which.lock().insert(id, story),
        None => _ = which.lock().remove(&id),
    }
}

/// The move of a transfer about which something has become certain.
pub(crate) fn known_move(
    of: &Transfer,
    known: &Known,
    now_ms: u64,
    due_ms: u64,
) -> Result<Move, Illegal> {
    let mut step = Move::of(of, now_ms).due(Some(due_ms));
    if of.aside.is_some() {
        step = step.note(Note::Resumed);
    }
    step.aside = None;
    step.stage_retries = 0;
    // What is only a doubt is over; a refusal is what the client wants to know in the end.
    if step.error.as_ref().is_some_and(|last| last.will_retry) {
        step.error = None;
    }
    if known.confirmed {
        step = step.confirm();
    }
    for event in &known.events {
        step = step.fire(*event)?;
    }
    if let Some(why) = &known.refusal {
        let fault = Fault {
            error_type: "refused".to_owned(),
            message: why.clone(),
            retry_count: step.retry_count,
            will_retry: false,
        };
        step.error = Some(fault.clone());
        step = step.with(|entry| entry.error = Some(fault));
    }
    Ok(step)
}

/// The same by an operator's word, which stands in the trail.
pub(crate) fn ruled_move(
    of: &Transfer,
    known: &Known,
    word: &Certificate,
    now_ms: u64,
) -> Result<Move, Illegal> {
    let step = known_move(of, known, now_ms, now_ms)?;
    Ok(step.with(|entry| entry.certificate = Some(word.clone())))
}

/// Lets a transfer be taken up again, also when its task died.
struct Leave {
    runner: Arc<CallRunner>,
    id: TransferId,
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.runner.busy.lock().remove(&self.id);
    }
}

#[async_trait]
impl ActiveRail for CallRunner {
    fn rail(&self) -> RailName {
        self.courier.name()
    }

    fn takes(&self, payload: &Payload) -> bool {
        payload.rail() == self.rail()
    }

    fn first_events(&self, _: &Payload) -> &'static [Event] {
        &[]
    }

    async fn screen(&self, payload: &Payload) -> Result<(), BadField> {
        self.courier.screen(payload).await
    }

    async fn offer(self: Arc<Self>, transfers: Vec<Transfer>) {
        let stage = self.courier.stage();
        let mine = transfers.into_iter().filter(|one| one.state.stage() == Some(stage));
        let mut hints = Vec::new();
        for transfer in mine {
            let id = transfer.id;
            if !self.take_up(transfer) {
                hints.push(Hint { transfer: id, stage });
            }
        }
        if !hints.is_empty() && self.core.queue.push(&hints).await.unwrap_or(hints.len()) > 0 {
            self.sweep.notify_one();
        }
    }

    async fn fetch(self: Arc<Self>, ids: &[TransferId]) {
        let wanted: Vec<TransferId> = {
            let busy = self.busy.lock();
            ids.iter().copied().filter(|id| !busy.contains(id)).collect()
        };
        if wanted.is_empty() {
            return;
        }
        if let Ok(transfers) = self.core.store.transfers(&wanted).await {
            self.offer(transfers).await;
        }
    }

    fn stages(&self) -> Vec<Stage> {
        vec![self.courier.stage()]
    }

    fn capacity(&self) -> usize {
        self.core.settings.calls_max
    }

    fn room(&self) -> usize {
        self.core.settings.calls_max.saturating_sub(self.busy.lock().len())
    }

    fn is_able(&self) -> bool {
        true
    }

    fn sweep_now(&self) -> &Notify {
        &self.sweep
    }

    fn status(&self) -> RailStatus {
        RailStatus {
            rail: self.rail(),
            endpoints: self.courier.endpoints(),
            paused: None,
            lanes_held: 0,
            lanes_halted: 0,
            adrift: self.adrift.lock().len(),
            aside: 0,
            stuck: self.stuck.lock().len(),
        }
    }

    fn alerts(&self) -> &Alerts {
        &self.alerts
    }

    /// Nothing is signed here, and whatever was forgotten the services remember.
    fn suspect(&self, _: &str) {}

    async fn review(&self) {
        let wanted = self.to_review();
        if wanted.is_empty() {
            return;
        }
        let Ok(found) = self.core.store.transfers(&wanted).await else { return };
        found.iter().for_each(|now| self.note(now));
    }

    async fn stop(&self, grace: Duration) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        let all_gone = async { while tasks.join_next().await.is_some() {} };
        tokio::select! {
            biased;
            _ = all_gone => {}
            _ = self.core.clock.sleep(grace) => {}
        }
    }

    async fn abort(&self) {
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.shutdown().await;
    }
}
