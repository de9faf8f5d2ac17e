//! The watchman: compares the store with our marks and the ledger with the store, clears the lanes
//! when all of them are explained, and halts them when one is not.
//!
//! **Rule:** marks are taken before the store is read, and the ledger is read before the store:
//! what happens in between is then no reason for alarm.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use landfall_core::store::{StoreError, StoreIdentity};
use landfall_core::{Lane, Mark, Nonce};

use crate::fleet::{ActiveLedger, Shared};
use crate::handle::{LaneHandle, TroubleAt};
use crate::high_water::Remembered;
use crate::reconcile::{Verdict, explain};

type Checked = Result<(), String>;

/// Leases for which the lanes may wait to be cleared before operators are told: others had the time
/// to object, and store and ledger to answer.
const CLEARED_WITHIN_LEASES: u64 = 3;

pub(crate) fn check_high_water(
    shared: &Shared,
    before: &Remembered,
    identity: &StoreIdentity,
    stored: &[Lane],
) -> Checked {
    shared.high_water.check_store(&identity.id)?;
    for id in before.lanes() {
        let lane = stored.iter().find(|lane| lane.id == *id);
        shared.high_water.check_lane(before, id, lane)?;
    }
    Ok(())
}

/// Looks the store over against our marks, for all ledgers at once. Returns its incarnation for
/// which that holds; fails if it cannot be told yet.
async fn look_over(shared: &Shared) -> Result<Result<String, String>, String> {
    let before = shared.high_water.remembered();
    let identity = shared.store.identity().await.map_err(|error| error.to_string())?;
    let stored = shared.store.lanes().await.map_err(|error| error.to_string())?;
    if let Err(reason) = check_high_water(shared, &before, &identity, &stored) {
        return Ok(Err(reason));
    }
    // An empty store may have been emptied since it was looked over.
    let has_a_past =
        shared.high_water.knows_a_life() || stored.iter().any(|lane| lane.next_nonce.is_some());
    let left_ms = shared.grace_left_ms(&identity);
    if has_a_past && left_ms > 0 {
        return Err(format!("the store has another life; others may object for {left_ms} ms"));
    }
    Ok(Ok(identity.incarnation))
}

/// Compares the nonces of a ledger's lanes, read first, with the store, read after.
async fn check_ledger(shared: &Shared, active: &ActiveLedger) -> Result<Checked, String> {
    let nonces = active.ledger.nonces().await.map_err(|error| error.to_string())?;
    let stored = shared.store.lanes().await.map_err(|error| error.to_string())?;
    for (id, ledger) in nonces {
        let Some(lane) = stored.iter().find(|lane| lane.id == id) else { continue };
        let verdict = explain(shared.store.as_ref(), lane, Some(ledger)).await;
        if let Verdict::Halt(reason) = verdict.map_err(|error| error.to_string())? {
            return Ok(Err(reason));
        }
    }
    Ok(Ok(()))
}

/// Clears the ledgers that are not, each for itself: one that cannot be reached holds up no other.
/// Says what keeps each from it.
async fn clear_ledgers(shared: &Shared) -> Vec<(Arc<ActiveLedger>, String)> {
    let unclear = shared.ledgers.iter().filter(|active| !active.cleared.get());
    let unclear: Vec<Arc<ActiveLedger>> = unclear.cloned().collect();
    if unclear.is_empty() {
        return Vec::new();
    }
    let incarnation = match look_over(shared).await {
        Ok(Ok(incarnation)) => incarnation,
        Ok(Err(reason)) => {
            shared.suspect(&reason);
            return Vec::new();
        }
        Err(why) => return unclear.into_iter().map(|active| (active, why.clone())).collect(),
    };
    let check = async |active: Arc<ActiveLedger>| match check_ledger(shared, &active).await {
        Ok(Ok(())) => {
            shared.clear(&active, &incarnation);
            None
        }
        Ok(Err(reason)) => {
            shared.suspect(&reason);
            None
        }
        Err(why) => Some((active, why)),
    };
    join_all(unclear.into_iter().map(check)).await.into_iter().flatten().collect()
}

/// Tells operators of ledgers that have not been cleared for long.
struct Impatience {
    since_ms: Vec<u64>,
}

impl Impatience {
    fn new(shared: &Shared) -> Impatience {
        Impatience { since_ms: vec![shared.clock.monotonic_ms(); shared.ledgers.len()] }
    }

    fn tell(&mut self, shared: &Shared, why: &[(Arc<ActiveLedger>, String)], halted: bool) {
        let now_ms = shared.clock.monotonic_ms();
        let long_ms = CLEARED_WITHIN_LEASES * shared.settings.lease_ms;
        for (active, since_ms) in shared.ledgers.iter().zip(&mut self.since_ms) {
            let lanes = shared.lanes_of(active);
            if active.cleared.get() || halted {
                *since_ms = now_ms;
                lanes.iter().for_each(|lane| lane.overcome(TroubleAt::Clearing));
            }
            let kept = why.iter().find(|(kept, _)| Arc::ptr_eq(kept, active));
            if let Some((_, why)) = kept.filter(|_| now_ms >= *since_ms + long_ms) {
                lanes.iter().for_each(|lane| lane.meet(TroubleAt::Clearing, why.clone()));
            }
        }
    }
}

/// The watchman: clears the lanes when all are explained, halts them when one is not, and lets
/// them go on when an operator has adopted them.
pub(crate) async fn watch_over(shared: Arc<Shared>) {
    let mut stop = shared.stop.watch();
    let mut patience = shared.patience();
    let mut impatience = Impatience::new(&shared);
    loop {
        let lanes = shared.lanes();
        let halted = lanes.iter().any(|lane| lane.halted.get().is_some());
        let suspicion = shared.suspicion.lock().clone();
        let mut kept = Vec::new();
        if let Some(reason) = suspicion {
            if halt_all(&shared, &lanes, &reason).await.is_ok() {
                shared.suspicion.lock().take();
            }
        } else if halted {
            // Whatever cleared them before, they are looked at again once adopted.
            shared.unclear();
            adopt_adopted(&shared, &lanes).await;
        } else {
            kept = clear_ledgers(&shared).await;
            kept.iter().for_each(|(_, why)| tracing::debug!(why, "lanes are not cleared yet"));
        }
        impatience.tell(&shared, &kept, halted);
        let wait = match shared.ledgers.iter().all(|active| active.cleared.get()) {
            true => {
                patience = shared.patience();
                Duration::from_millis(shared.settings.halted_poll_ms)
            }
            false => patience.next_wait(),
        };
        tokio::select! {
            biased;
            _ = stop.until(|stop| *stop) => return,
            _ = shared.suspected.notified() => {}
            _ = shared.clock.sleep(wait) => {}
        }
    }
}

async fn halt_all(
    shared: &Shared,
    lanes: &[Arc<LaneHandle>],
    reason: &str,
) -> Result<(), StoreError> {
    // All of them at once in this process, before the store is asked for the first time.
    for lane in lanes.iter().filter(|lane| lane.halted.get().is_none()) {
        lane.halted.set(Some(reason.to_owned()));
        tracing::error!(lane = %lane.id, reason, "lane halted");
        lane.ledger.owner.halted(&lane.id, reason);
    }
    for lane in lanes {
        shared.store.halt(&lane.id, reason).await?;
    }
    Ok(())
}

/// A lane that is no longer halted in the store was adopted by an operator.
async fn adopt_adopted(shared: &Shared, lanes: &[Arc<LaneHandle>]) {
    let (Ok(stored), Ok(identity)) = (shared.store.lanes().await, shared.store.identity().await)
    else {
        return;
    };
    let still_halted = |handle: &Arc<LaneHandle>| {
        stored.iter().any(|lane| lane.id == handle.id && lane.halted.is_some())
    };
    if lanes.iter().any(still_halted) {
        return;
    }
    // By somebody who did not know how far this instance has come.
    if let Err(reason) = shared.high_water.check_adopted(&stored) {
        return shared.suspect(&reason);
    }
    match shared.high_water.accept(&identity.id, &stored) {
        Ok(()) => lanes.iter().for_each(|lane| lane.halted.set(None)),
        Err(error) => tracing::error!(%error, "the high-water mark cannot be written"),
    }
}

/// Remembers how far all lanes have come, whoever holds them, so that a store that forgets what
/// another instance stored is noticed here too; hears of lanes that others halted; and takes up
/// lanes that were stored since this process began.
pub(crate) async fn learn(shared: &Arc<Shared>) {
    let before = shared.high_water.remembered();
    let Ok(stored) = shared.store.lanes().await else { return };
    shared.enlist(&stored);
    let handles = shared.lanes();
    for lane in &stored {
        let handle = handles.iter().find(|handle| handle.id == lane.id);
        handle.inspect(|handle| handle.read(lane, shared.clock.monotonic_ms()));
        if let (Some(halt), Some(handle)) = (&lane.halted, handle) {
            if handle.halted.get().is_none() {
                handle.halted.set(Some(halt.reason.clone()));
                handle.ledger.owner.halted(&lane.id, &halt.reason);
            }
            continue;
        }
        // Lanes on ledgers that are not at work here tell of the store, too.
        let cleared = match handle {
            Some(handle) => handle.ledger.cleared.get(),
            None => shared.ledgers.iter().any(|active| active.cleared.get()),
        };
        if !cleared {
            continue;
        }
        if let Err(reason) = shared.high_water.check_lane(&before, &lane.id, Some(lane)) {
            return shared.suspect(&reason);
        }
        let last = lane.next_nonce.map(|next| Nonce(next.0.saturating_sub(1)));
        if let Some(nonce) = last.filter(|last| Some(*last) > lane.base_nonce) {
            // Only a help: what this instance opens itself is recorded before it is sent.
            let _ = shared.high_water.record(&lane.id, lane.epoch, Mark { nonce, seq: lane.seq });
        }
    }
}
