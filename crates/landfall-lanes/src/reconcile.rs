//! Does the ledger agree with the store about a lane's nonces?
//!
//! A nonce used on the ledger that no stored attempt explains means that somebody else signs with
//! the key, or that the store has forgotten an attempt. Either way the lane must not sign.

use landfall_core::rail::{LedgerNonce, RailError};
use landfall_core::store::{LaneStore, StoreError};
use landfall_core::wound::{self, Wound};
use landfall_core::{CertificateKind, Fate, Lane, Nonce};

use crate::fleet::Shared;
use crate::handle::{LaneHandle, TroubleAt};

/// The verdict on a lane.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The next nonce to sign with.
    Next(Nonce),
    /// Never seen before: it starts above the ledger's nonce.
    New,
    /// Unexplained; the lane halts.
    Halt(String),
}

/// Compares the ledger's nonce, read **before** `lane` was, with what is stored. None where the
/// ledger keeps none: then there is nothing to explain.
pub(crate) async fn explain(
    store: &dyn LaneStore,
    lane: &Lane,
    ledger: Option<LedgerNonce>,
) -> Result<Verdict, StoreError> {
    let (Some(base), Some(next)) = (lane.base_nonce, lane.next_nonce) else {
        return Ok(Verdict::New);
    };
    let Some(LedgerNonce { nonce: used, .. }) = ledger else {
        return Ok(Verdict::Next(next));
    };
    if used > base && wound::is(Wound::ForeignUnheeded) {
        return Ok(Verdict::Next(next.max(used.next())));
    }
    if used >= next {
        return Ok(Verdict::Halt(format!(
            "the ledger has used nonce {used} of {}, but the newest stored attempt is {}",
            lane.id,
            next.0.saturating_sub(1)
        )));
    }
    if used <= base {
        return Ok(Verdict::Next(next));
    }
    let explained = match store.attempt_at(&lane.id, used).await? {
        None => false,
        Some(attempt) => match &attempt.fate {
            Some(Fate::Sunk(certificate)) => {
                matches!(certificate.kind, CertificateKind::Operator | CertificateKind::Cancelled)
            }
            Some(Fate::Landed(_)) | None => true,
        },
    };
    match explained {
        true => Ok(Verdict::Next(next)),
        false => Ok(Verdict::Halt(format!(
            "the ledger has used nonce {used} of {}, which no stored attempt explains",
            lane.id
        ))),
    }
}

/// Reconciles a held lane, asking until both ledger and store have answered.
pub(crate) async fn reconcile(shared: &Shared, handle: &LaneHandle, held: &Lane) -> Verdict {
    let mut patience = shared.patience();
    loop {
        match try_once(shared, handle, held).await {
            Ok(Some(verdict)) => {
                handle.overcome(TroubleAt::Reconciling);
                return verdict;
            }
            Ok(None) => {}
            Err(why) => tracing::debug!(lane = %handle.id, why, "not reconciled yet"),
        }
        shared.clock.sleep(patience.next_wait()).await;
    }
}

/// None when the lane has changed meanwhile and must be read again.
async fn try_once(
    shared: &Shared,
    handle: &LaneHandle,
    held: &Lane,
) -> Result<Option<Verdict>, String> {
    let id = &handle.id;
    let ledger = handle.ledger.ledger.nonce(id).await.map_err(|error| {
        // A lane whose key is not here signs nothing anyway.
        if let (RailError::Misconfigured(why), true) = (&error, handle.signing) {
            handle.meet(TroubleAt::Reconciling, why.clone());
        }
        error.to_string()
    })?;
    let lanes = shared.store.lanes().await.map_err(|error| error.to_string())?;
    let Some(lane) = lanes.into_iter().find(|lane| &lane.id == id) else {
        return Err("the store does not know the lane".to_owned());
    };
    let verdict =
        explain(shared.store.as_ref(), &lane, ledger).await.map_err(|error| error.to_string())?;
    if verdict != Verdict::New {
        return Ok(Some(verdict));
    }
    let first = handle.ledger.ledger.first_nonce(id, ledger).await;
    let first = first.map_err(|error| error.to_string())?;
    let base = first.map_or(Nonce(0), |first| first.nonce);
    let started = shared.store.start_lane(id, held.epoch, base).await;
    match started.map_err(|error| error.to_string())? {
        true => Ok(Some(Verdict::Next(base.next()))),
        false => Ok(None),
    }
}
