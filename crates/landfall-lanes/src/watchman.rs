//! The watchman: compares the store with our marks and the ledger with the store, clears the lanes
//! when all of them are explained, and halts them when one is not.
//!
//! **Rule:** marks are taken before the store is read, and the ledger is read before the store:
//! what happens in between is then no reason for alarm.

use std::sync::Arc;
use std::time::Duration;

use landfall_core::store::{StoreError, StoreIdentity};
use landfall_core::{Lane, Nonce};

use crate::fleet::{Face, Place, Shared};
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

/// Looks all lanes over: the store against our marks, and the ledger against the store. Returns the
/// store's incarnation for which that holds; fails if it cannot be told yet.
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
    Ok(check_ledger(shared).await?.map(|()| identity.incarnation))
}

/// Compares every lane's nonce on the ledger, read first, with the store, read after.
async fn check_ledger(shared: &Shared) -> Result<Checked, String> {
    let nonces = shared.rail.nonces().await.map_err(|error| error.to_string())?;
    let stored = shared.store.lanes().await.map_err(|error| error.to_string())?;
    for (id, ledger) in nonces {
        let Some(lane) = stored.iter().find(|lane| lane.id == id) else { continue };
        let verdict = explain(shared.store.as_ref(), lane, ledger).await;
        if let Verdict::Halt(reason) = verdict.map_err(|error| error.to_string())? {
            return Ok(Err(reason));
        }
    }
    Ok(Ok(()))
}

/// The watchman: clears the lanes when all are explained, halts them when one is not, and lets
/// them go on when an operator has adopted them.
pub(crate) async fn watch_over(shared: Arc<Shared>) {
    let mut stop = shared.stop.watch();
    let mut patience = shared.patience();
    let mut waiting_since_ms = shared.clock.monotonic_ms();
    loop {
        let faces = shared.faces();
        let halted = faces.iter().any(|face| face.halted.get().is_some());
        let suspicion = shared.suspicion.lock().clone();
        if let Some(reason) = suspicion {
            if halt_all(&shared, &faces, &reason).await.is_ok() {
                shared.suspicion.lock().take();
            }
        } else if halted {
            // Whatever cleared them before, they are looked at again once adopted.
            shared.cleared.set(false);
            adopt_adopted(&shared, &faces).await;
        } else if !shared.cleared.get() {
            match look_over(&shared).await {
                Ok(Ok(incarnation)) => shared.clear(incarnation),
                Ok(Err(reason)) => shared.suspect(&reason),
                Err(why) => {
                    tracing::debug!(why, "the lanes are not cleared yet");
                    let long_ms = CLEARED_WITHIN_LEASES * shared.settings.lease_ms;
                    if shared.clock.monotonic_ms() >= waiting_since_ms + long_ms {
                        faces.iter().for_each(|face| face.meet(Place::Clearing, why.clone()));
                    }
                }
            }
        }
        let cleared = shared.cleared.get();
        if cleared || halted {
            waiting_since_ms = shared.clock.monotonic_ms();
            faces.iter().for_each(|face| face.overcome(Place::Clearing));
        }
        let wait = match cleared {
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

async fn halt_all(shared: &Shared, faces: &[Arc<Face>], reason: &str) -> Result<(), StoreError> {
    // All of them at once in this process, before the store is asked for the first time.
    for face in faces.iter().filter(|face| face.halted.get().is_none()) {
        face.halted.set(Some(reason.to_owned()));
        tracing::error!(lane = %face.id, reason, "lane halted");
        shared.owner.halted(&face.id, reason);
    }
    for face in faces {
        shared.store.halt(&face.id, reason).await?;
    }
    Ok(())
}

/// A lane that is no longer halted in the store was adopted by an operator.
async fn adopt_adopted(shared: &Shared, faces: &[Arc<Face>]) {
    let (Ok(stored), Ok(identity)) = (shared.store.lanes().await, shared.store.identity().await)
    else {
        return;
    };
    let still_halted =
        |face: &Arc<Face>| stored.iter().any(|lane| lane.id == face.id && lane.halted.is_some());
    if faces.iter().any(still_halted) {
        return;
    }
    // By somebody who did not know how far this instance has come.
    if let Err(reason) = shared.high_water.check_adopted(&stored) {
        return shared.suspect(&reason);
    }
    match shared.high_water.accept(&identity.id, &stored) {
        Ok(()) => faces.iter().for_each(|face| {
            face.halted.set(None);
        }),
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
    let faces = shared.faces();
    for lane in stored.iter().filter(|lane| lane.rail == shared.rail.name()) {
        let face = faces.iter().find(|face| face.id == lane.id);
        face.inspect(|face| face.read(lane, shared.clock.monotonic_ms()));
        if let (Some(halt), Some(face)) = (&lane.halted, face) {
            if face.halted.get().is_none() {
                face.halted.set(Some(halt.reason.clone()));
                shared.owner.halted(&lane.id, &halt.reason);
            }
            continue;
        }
        if !shared.cleared.get() {
            continue;
        }
        if let Err(reason) = shared.high_water.check_lane(&before, &lane.id, Some(lane)) {
            return shared.suspect(&reason);
        }
        let last = lane.next_nonce.map(|next| Nonce(next.0.saturating_sub(1)));
        if let Some(last) = last.filter(|last| Some(*last) > lane.base_nonce) {
            // Only a help: what this instance opens itself is recorded before it is sent.
            let _ = shared.high_water.record(&lane.id, lane.epoch, last);
        }
    }
}
