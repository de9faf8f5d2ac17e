//! The stage that makes sure a payment can land: is the need met, and if not, who meets it.
//!
//! What is known to be met is skipped; else the claim is asked for: one flight per need, however
//! many transfers wait for it. The owner has the ledger asked, and only then an attempt prepares
//! it, many in one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use landfall_core::store::Applied;
use landfall_core::{ClaimEnd, ClaimKey, Claimed, Event, Move, Purpose, Transfer};
use tokio::task::JoinSet;

use crate::pool::Step;
use crate::runner::Runner;

/// Transfers checked in one go.
const CHECK_MAX: usize = 500;
/// Needs asked of the ledger in one task: enough to overlap, few enough to answer soon.
const LOOK_UP_MAX: usize = 32;
/// Look-up tasks under way at once.
const LOOK_UPS_MAX: usize = 8;

/// How far an outage makes the look-ups back off: to half a minute, with the default times.
const OUTAGE_MAX: u32 = 6;

/// Checks preparations for ever.
pub(crate) async fn check(runner: Arc<Runner>) {
    let mut look_ups = JoinSet::new();
    while !runner.core.is_stopping() {
        let batch = runner.pools.lock().take_checks(CHECK_MAX, runner.mono_ms());
        if batch.is_empty() {
            tokio::select! {
                biased;
                _ = runner.core.stopped.notified() => return,
                _ = runner.check.notified() => {}
                Some(_) = look_ups.join_next() => {}
            }
            continue;
        }
        let owners = sort(&runner, batch).await;
        for chunk in owners.chunks(LOOK_UP_MAX) {
            if look_ups.len() >= LOOK_UPS_MAX {
                look_ups.join_next().await;
            }
            look_ups.spawn(look_up(runner.clone(), chunk.to_vec()));
        }
    }
}

/// Moves on those whose need is met and returns those who own the claim for theirs.
async fn sort(runner: &Arc<Runner>, batch: Vec<Transfer>) -> Vec<(Transfer, ClaimKey)> {
    let (mut met, mut needy) = (Vec::new(), Vec::new());
    for transfer in batch {
        match runner.rail.preparation(&transfer.payload) {
            Some(key) if !runner.is_known_prepared(&transfer.payload) => {
                needy.push((transfer, key))
            }
            // A claim it may still own ends with it, though the need is known to be met.
            key => met.push((transfer, key)),
        }
    }
    let asks = needy.iter().map(|(transfer, key)| (key.clone(), transfer.id)).collect();
    let answers = match runner.core.store.claim(asks).await {
        Ok(answers) => answers,
        Err(error) => {
            tracing::warn!(%error, "claims unanswered; the sweeper brings them back");
            runner.pools.lock().release(needy.iter().map(|(transfer, _)| transfer.id));
            Vec::new()
        }
    };
    let mut owners = Vec::new();
    for ((transfer, key), claimed) in needy.into_iter().zip(answers) {
        match claimed {
            Claimed::Yours => owners.push((transfer, key)),
            Claimed::Kept { .. } => {
                runner.remember([key.clone()]);
                met.push((transfer, Some(key)));
            }
            // The end of the claim makes it due again.
            Claimed::Held { .. } => runner.pools.lock().release([transfer.id]),
        }
    }
    move_on(runner, met).await;
    owners
}

/// Asks the ledger; what is not there goes to be prepared.
async fn look_up(runner: Arc<Runner>, owners: Vec<(Transfer, ClaimKey)>) {
    let payloads: Vec<_> = owners.iter().map(|(transfer, _)| &transfer.payload).collect();
    let answers = runner.rail.prepared(&payloads).await;
    let now_ms = runner.mono_ms();
    let (mut met, mut unanswered) = (Vec::new(), Vec::new());
    for ((transfer, key), answer) in owners.into_iter().zip(answers) {
        match answer {
            Ok(true) => met.push((transfer, Some(key))),
            Ok(false) => {
                let step = Step::Carry(Purpose::Prepare);
                runner.pools.lock().put(step, transfer, now_ms, true);
            }
            Err(error) => {
                tracing::debug!(%error, "look-up unanswered");
                unanswered.push(transfer);
            }
        }
    }
    match unanswered.is_empty() {
        true => runner.outage.store(0, Ordering::Relaxed),
        false => _ = runner.outage.fetch_add(1, Ordering::Relaxed),
    }
    runner.wake.notify_one();
    move_on(&runner, met).await;
    ask_later(&runner, unanswered).await;
}

/// An outage counts against nobody: they come back soon, uncharged.
async fn ask_later(runner: &Runner, unanswered: Vec<Transfer>) {
    if unanswered.is_empty() {
        return;
    }
    let now_ms = runner.now_ms();
    let outage = runner.outage.load(Ordering::Relaxed).min(OUTAGE_MAX);
    let later = now_ms + runner.backoff_ms(outage);
    let moves = unanswered.iter().map(|transfer| Move::of(transfer, now_ms).due(Some(later)));
    if let Err(error) = runner.core.store.apply(moves.collect()).await {
        tracing::warn!(%error, "not put off; the sweeper brings them back");
    }
    runner.pools.lock().release(unanswered.iter().map(|transfer| transfer.id));
}

/// Prepared: on to payment. The claim, if the mover owned it, ends kept.
async fn move_on(runner: &Runner, met: Vec<(Transfer, Option<ClaimKey>)>) {
    if met.is_empty() {
        return;
    }
    let now_ms = runner.now_ms();
    let due_ms = Some(now_ms + runner.core.settings.hint_grace_ms);
    let step = |(transfer, key): &(Transfer, Option<ClaimKey>)| {
        let prepared = Move::of(transfer, now_ms)
            .fire(Event::Prepared)
            .and_then(|prepared| prepared.fire(Event::Enqueued))
            .expect("only transfers that wait for preparation are checked")
            .due(due_ms);
        match key {
            Some(key) => prepared.ending(ClaimEnd::Keep(key.clone())),
            None => prepared,
        }
    };
    let moves: Vec<Move> = met.iter().map(step).collect();
    let result = runner.core.store.apply(moves.clone()).await;
    runner.pools.lock().release(met.iter().map(|(transfer, _)| transfer.id));
    let applied = match result {
        Ok(applied) => applied,
        Err(error) => return tracing::warn!(%error, "not moved; the sweeper brings them back"),
    };
    let mut ready = Vec::new();
    for (((transfer, key), step), applied) in met.into_iter().zip(&moves).zip(applied.moves) {
        if applied == Applied::Applied {
            runner.remember(key);
            ready.push(step.applied_to(&transfer));
        }
    }
    runner.offer(ready).await;
    runner.fetch(&applied.released).await;
}
