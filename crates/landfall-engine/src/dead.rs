//! Dead letters: transfers that failed, each proven not to have moved, and their replay by an
//! operator.
//!
//! **Rule:** what is not proven unmoved is no dead letter, and is not replayed: it is adrift, or on
//! its way.
//! **Rule:** a replay is the last of its steps: by then a cache has forgotten the failure, and what
//! the transfer must own is its own again. Whatever fails before it changes nothing that is paid.

use landfall_core::cache::{CacheError, StatusCache};
use landfall_core::store::{Applied, ListFilter, Store, StoreError};
use landfall_core::{
    Certificate, CertificateKind, ClaimEnd, ClaimKey, Claimed, Event, Move, RailName, State,
    Transfer, TransferId,
};
use serde_json::json;

use crate::engine::Engine;

/// How far back transfers to the same receiver are looked through: the newest of them. A client
/// that sent a payment again did so after it was told of the failure.
const LOOKED_THROUGH: usize = 1_000;

/// An operator's wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    /// Why. Kept in the transfer's trail for ever.
    pub reason: String,
    /// Although the same was asked for again since.
    pub anyway: bool,
}

/// Why a transfer was not replayed. Nothing happened.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReplayError {
    #[error("there is no transfer {0}")]
    NoSuchTransfer(TransferId),
    #[error("transfer {id} is {state}: only what failed, proven unmoved, is replayed")]
    NotDead { id: TransferId, state: State },
    #[error("transfer {id} of the rail {rail} is never reopened; ask for it anew, by another key")]
    Closed { id: TransferId, rail: RailName },
    #[error(
        "the same was asked for again since, and has not failed: transfers {}; if all of them \
         are meant, say that it is to be replayed anyway", listed(.0)
    )]
    LookAlikes(Vec<TransferId>),
    #[error("{} {:?} is taken by {} meanwhile", key.space, key.key, owned_by(*owner))]
    Claimed { key: ClaimKey, owner: Option<TransferId> },
    #[error("{0}; it could go on showing the failure, so nothing is replayed until it answers")]
    Cache(#[from] CacheError),
    #[error("the transfer moved meanwhile; look again")]
    Moved,
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn listed(ids: &[TransferId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn owned_by(owner: Option<TransferId>) -> String {
    owner.map_or("somebody".to_owned(), |owner| format!("transfer {owner}"))
}

/// Whether a dead letter can be reopened: a rail's machine may know no way back.
pub fn is_replayable(transfer: &Transfer) -> bool {
    transfer.state.is_failed() && transfer.state.next(transfer.confirmed, Event::Replayed).is_ok()
}

/// Dead letters of a rail or of all, newest first, below `before`.
pub async fn list(
    store: &dyn Store,
    rail: Option<RailName>,
    before: Option<TransferId>,
    limit: usize,
) -> Result<Vec<Transfer>, StoreError> {
    let mut dead = Vec::new();
    let rails = RailName::ALL.into_iter().filter(|one| rail.is_none_or(|rail| rail == *one));
    for state in rails.flat_map(State::all).filter(|state| state.is_failed()) {
        let (rail, state) = (Some(state.rail()), Some(state));
        dead.extend(
            store.list(ListFilter { rail, state, before, limit, ..Default::default() }).await?,
        );
    }
    dead.sort_by_key(|transfer| std::cmp::Reverse(transfer.id));
    dead.truncate(limit);
    Ok(dead)
}

/// What the same client asked for since under other keys, the same in every parameter, and which
/// did not fail.
pub async fn look_alikes(
    store: &dyn Store,
    transfer: &Transfer,
) -> Result<Vec<Transfer>, StoreError> {
    let filter = ListFilter {
        rail: Some(transfer.payload.rail()),
        tenant: Some(transfer.tenant.clone()),
        receiver: Some(transfer.payload.receiver().into_owned()),
        created_from_ms: Some(transfer.created_ms),
        limit: LOOKED_THROUGH,
        ..ListFilter::default()
    };
    let mut since = store.list(filter).await?;
    since.retain(|other| {
        other.id != transfer.id
            && other.fingerprint == transfer.fingerprint
            && !other.state.is_failed()
    });
    Ok(since)
}

/// Reopens a dead letter.
pub async fn replay(
    store: &dyn Store,
    cache: Option<&dyn StatusCache>,
    id: TransferId,
    wish: &Replay,
    now_ms: u64,
) -> Result<Transfer, ReplayError> {
    let found = store.transfers(&[id]).await?.pop();
    let transfer = found.ok_or(ReplayError::NoSuchTransfer(id))?;
    if !transfer.state.is_failed() {
        return Err(ReplayError::NotDead { id, state: transfer.state });
    }
    let rail = transfer.payload.rail();
    let reopened = Move::of(&transfer, now_ms).fire(Event::Replayed);
    let reopened = reopened.map_err(|_| ReplayError::Closed { id, rail })?;
    let others = look_alikes(store, &transfer).await?;
    if !others.is_empty() && !wish.anyway {
        return Err(ReplayError::LookAlikes(others.iter().map(|other| other.id).collect()));
    }
    if let Some(cache) = cache {
        cache.forget(&transfer.key, transfer.version).await?;
    }
    claim(store, &transfer).await?;
    let word = word(wish);
    let step = reopened.with(|entry| entry.certificate = Some(word)).due(Some(now_ms));
    match store.apply(vec![step.clone()]).await?.moves[..] {
        [Applied::Applied] => Ok(step.applied_to(&transfer)),
        _ => {
            let_go(store, id, transfer.payload.claims(), now_ms).await?;
            Err(ReplayError::Moved)
        }
    }
}

/// Claims again what the transfer let go of when it failed, all or nothing.
async fn claim(store: &dyn Store, transfer: &Transfer) -> Result<(), ReplayError> {
    let keys = transfer.payload.claims();
    let asked = keys.iter().map(|key| (key.clone(), transfer.id)).collect();
    let answers = store.claim(asked).await?;
    let mut mine = Vec::new();
    let mut taken = None;
    for (key, answer) in keys.into_iter().zip(answers) {
        match answer {
            Claimed::Yours => mine.push(key),
            Claimed::Kept { owner } => taken = Some((key, owner)),
            Claimed::Held { owner } => taken = Some((key, Some(owner))),
        }
    }
    let Some((key, owner)) = taken else { return Ok(()) };
    let_go(store, transfer.id, mine, transfer.updated_ms).await?;
    Err(ReplayError::Claimed { key, owner })
}

/// Gives back what was claimed for a replay that did not come to be. A transfer that somebody else
/// has reopened keeps it: it is its own.
async fn let_go(
    store: &dyn Store,
    id: TransferId,
    keys: Vec<ClaimKey>,
    now_ms: u64,
) -> Result<(), StoreError> {
    let found = store.transfers(&[id]).await?.pop();
    let Some(transfer) = found.filter(|found| found.state.is_failed() && !keys.is_empty()) else {
        return Ok(());
    };
    let step = Move::of(&transfer, now_ms);
    let step = keys.into_iter().fold(step, |step, key| step.ending(ClaimEnd::Release(key)));
    store.apply(vec![step]).await.map(|_| ())
}

fn word(wish: &Replay) -> Certificate {
    Certificate {
        kind: CertificateKind::Operator,
        summary: format!("reopened by an operator: {}", wish.reason),
        evidence: json!({"reason": wish.reason, "anyway": wish.anyway}),
    }
}

impl Engine {
    /// Reopens a dead letter, and goes on with it at once.
    pub async fn replay(
        &self,
        cache: Option<&dyn StatusCache>,
        id: TransferId,
        wish: &Replay,
    ) -> Result<Transfer, ReplayError> {
        let now_ms = self.clock().now_ms();
        let reopened = replay(self.store(), cache, id, wish, now_ms).await?;
        if let Some(active) = self.active(&reopened.payload) {
            active.clone().offer(vec![reopened.clone()]).await;
        }
        Ok(reopened)
    }

    /// Dead letters, newest first.
    pub async fn dead(
        &self,
        rail: Option<RailName>,
        before: Option<TransferId>,
        limit: usize,
    ) -> Result<Vec<Transfer>, StoreError> {
        list(self.store(), rail, before, limit).await
    }

    /// A dead letter with what was asked for again since.
    pub async fn dead_letter(
        &self,
        id: TransferId,
    ) -> Result<Option<(Transfer, Vec<Transfer>)>, StoreError> {
        let found = self.store().transfers(&[id]).await?.pop();
        let Some(transfer) = found.filter(|found| found.state.is_failed()) else {
            return Ok(None);
        };
        let others = look_alikes(self.store(), &transfer).await?;
        Ok(Some((transfer, others)))
    }
}
