//! What only an operator may do, with evidence on record: by a running [`Engine`], or by
//! [`decide`] on a store that no engine works on.

use landfall_core::courier::Courier;
use landfall_core::rail::Rail;
use landfall_core::store::{Applied, Leased, Settled, Settlement, Store, StoreError};
use landfall_core::wound::{self, Wound};
use landfall_core::{
    Attempt, AttemptId, Certificate, Epoch, Fate, LaneId, Move, Transfer, TransferId,
};
use landfall_lanes::Owner;

use crate::engine::Engine;
use crate::{call_runner, settle};

/// Retries of one step after which an operator may decide it although it is not adrift, where the
/// word would hold: a service may refuse for ever what it must not, or be gone for good.
const LONG_TRIED: u32 = 10;
/// How long a decision keeps its lane from others: reading the members and one commit take less.
const DECIDE_LEASE_MS: u64 = 10_000;

/// Why an operator's word was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperateError {
    #[error("there is no attempt {0}")]
    NoSuchAttempt(AttemptId),
    #[error("attempt {0} is decided already")]
    Decided(AttemptId),
    #[error("the attempt has {0} members; each needs its outcome")]
    OutcomesMissing(usize),
    #[error("the lane changed hands meanwhile; try again")]
    LaneChanged,
    #[error(
        "lane {lane} is held by {holder:?}: stop that relay, or, if it is gone, wait until its \
         lease has ended ({left_s} s), then try again"
    )]
    LaneHeld { lane: LaneId, holder: String, left_s: u64 },
    #[error(
        "transfer {0} is not adrift: the relay still asks its service, and the call may still be \
         made; decided can be what the relay has set aside, or has tried in vain until no call can \
         be late any more (an hour, or the service's dedupe window)"
    )]
    NotAdrift(String),
    #[error(
        "a call of transfer {0} that is under way may still be made; say that it never was once \
         the service's whole dedupe window has passed (an hour, if that is not configured any more)"
    )]
    TooEarly(String),
    #[error("{0}")]
    Useless(String),
    #[error("the transfer moved meanwhile; look again")]
    Moved,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// Decides an attempt that no evidence of the ledger can decide, as `landfall adrift decide`.
    /// The word of an operator stands in the members' trails as the death certificate does.
    pub async fn decide(&self, id: AttemptId, fate: Fate) -> Result<(), OperateError> {
        let (attempt, members) = open_attempt(self.store(), id, &fate).await?;
        let Some(runner) = self.runner(&attempt.lane) else {
            return Err(OperateError::NoSuchAttempt(id));
        };
        let now_ms = self.clock().now_ms();
        let moves = runner.settling(&attempt, &members, &fate, now_ms);
        let epoch = held_epoch(self.store(), &attempt.lane).await?;
        let settlement = (fate.clone(), moves.clone(), now_ms);
        let (moved, released) = settle_open(self.store(), &attempt, epoch, settlement).await?;
        runner.settled(&attempt, &members, &fate, moves, moved, released).await;
        Ok(())
    }
}

/// The same on a store without an engine, as the instance `holder`. The operator's `word` stands in
/// every member's trail. The sweeper of the next engine finds who is to be paid anew.
///
/// A lane that was given back belongs to nobody, and nobody's epoch settles: the lane is leased for
/// the decision. An engine of the same name must not be running; one of another is not disturbed.
pub async fn decide(
    store: &dyn Store,
    rail: &dyn Rail,
    holder: &str,
    id: AttemptId,
    fate: Fate,
    word: &Certificate,
    now_ms: u64,
) -> Result<Vec<TransferId>, OperateError> {
    let (attempt, _) = open_attempt(store, id, &fate).await?;
    let epoch = lease(store, &attempt, holder, now_ms).await?;
    let decided = decide_leased(store, rail, epoch, id, fate, word, now_ms).await;
    // A lease that cannot be given back ends by itself.
    let _ = store.release(&[(attempt.lane, epoch)]).await;
    decided
}

async fn decide_leased(
    store: &dyn Store,
    rail: &dyn Rail,
    epoch: Epoch,
    id: AttemptId,
    fate: Fate,
    word: &Certificate,
    now_ms: u64,
) -> Result<Vec<TransferId>, OperateError> {
    // Read under the lease: whoever held the lane before may have settled it until then.
    let (attempt, members) = open_attempt(store, id, &fate).await?;
    let settle = |(index, member): (usize, &Transfer)| {
        let terms = settle::Terms {
            now_ms,
            // An operator's word is charged to nobody, so nobody runs out of retries by it.
            retries: u32::MAX,
            backoff_ms: &|_| 0,
            claim: rail.preparation(&member.payload),
            ready_due_ms: now_ms,
            everybody: true,
            others_spared: false,
            tries: 0,
            aside_ms: 0,
        };
        let step = settle::member(&attempt, member, &fate, index, &terms);
        step.with(|entry| entry.certificate = Some(word.clone()))
    };
    let moves: Vec<Move> = members.iter().enumerate().map(settle).collect();
    let (moved, _) = settle_open(store, &attempt, epoch, (fate, moves, now_ms)).await?;
    Ok(moved)
}

/// Decides a transfer whose service has forgotten whether it acted, by an operator's `word`. That
/// it never did, and whatever is said of one that was not set aside, is taken only where it would
/// hold: a withdrawal that is called unmade may not be made later.
pub async fn rule(
    store: &dyn Store,
    courier: &dyn Courier,
    transfer: &Transfer,
    took_effect: bool,
    word: &Certificate,
    now_ms: u64,
) -> Result<Transfer, OperateError> {
    if transfer.aside.is_none() && !is_hopeless(store, courier, transfer).await? {
        return Err(OperateError::NotAdrift(transfer.key.clone()));
    }
    if !took_effect
        && !would_hold(store, courier, transfer).await?
        && !wound::is(Wound::WordTakenEarly)
    {
        return Err(OperateError::TooEarly(transfer.key.clone()));
    }
    let known = courier.ruled(transfer, took_effect).map_err(OperateError::Useless)?;
    let step = call_runner::ruled_move(transfer, &known, word, now_ms)
        .map_err(|illegal| OperateError::Useless(illegal.to_string()))?;
    match store.apply(vec![step.clone()]).await?.moves[..] {
        [Applied::Applied] => Ok(step.applied_to(transfer)),
        _ => Err(OperateError::Moved),
    }
}

/// Tried for long, and nothing that is still called can make an operator's word untrue.
async fn is_hopeless(
    store: &dyn Store,
    courier: &dyn Courier,
    transfer: &Transfer,
) -> Result<bool, StoreError> {
    Ok(transfer.stage_retries >= LONG_TRIED && would_hold(store, courier, transfer).await?)
}

/// Whether no call that is under way still can make an operator's word untrue.
async fn would_hold(
    store: &dyn Store,
    courier: &dyn Courier,
    transfer: &Transfer,
) -> Result<bool, StoreError> {
    let since_ms = call_runner::announced_ms(store, transfer).await?;
    Ok(since_ms.is_some_and(|since_ms| courier.would_hold(transfer, since_ms)))
}

/// The attempt and its members, if it can be decided so.
async fn open_attempt(
    store: &dyn Store,
    id: AttemptId,
    fate: &Fate,
) -> Result<(Attempt, Vec<Transfer>), OperateError> {
    let attempt = store.attempt(id).await?.ok_or(OperateError::NoSuchAttempt(id))?;
    if attempt.fate.is_some() {
        return Err(OperateError::Decided(id));
    }
    let members = store.transfers(&attempt.members).await?;
    match fate {
        Fate::Landed(landing) if landing.outcomes.len() != members.len() => {
            Err(OperateError::OutcomesMissing(members.len()))
        }
        _ => Ok((attempt, members)),
    }
}

/// Takes the attempt's lane, if nobody else holds it.
async fn lease(
    store: &dyn Store,
    attempt: &Attempt,
    holder: &str,
    now_ms: u64,
) -> Result<Epoch, OperateError> {
    match store.lease(&attempt.lane, attempt.rail, holder, DECIDE_LEASE_MS).await? {
        Leased::Yours(lane) => Ok(lane.epoch),
        Leased::Busy { holder, until_ms } => Err(OperateError::LaneHeld {
            lane: attempt.lane.clone(),
            holder,
            left_s: until_ms.saturating_sub(now_ms).div_ceil(1_000),
        }),
    }
}

/// The epoch that the lane has now.
async fn held_epoch(store: &dyn Store, id: &LaneId) -> Result<Epoch, OperateError> {
    let lanes = store.lanes().await?;
    let lane = lanes.iter().find(|lane| lane.id == *id);
    lane.map(|lane| lane.epoch).ok_or(OperateError::LaneChanged)
}

/// Returns who moved and who was released.
async fn settle_open(
    store: &dyn Store,
    attempt: &Attempt,
    epoch: Epoch,
    (fate, moves, now_ms): (Fate, Vec<Move>, u64),
) -> Result<(Vec<TransferId>, Vec<TransferId>), OperateError> {
    let settlement =
        Settlement { attempt: attempt.id, lane: attempt.lane.clone(), epoch, fate, moves, now_ms };
    match store.settle(settlement).await? {
        Settled::Done { moved, released } => Ok((moved, released)),
        Settled::AlreadyDecided => Err(OperateError::Decided(attempt.id)),
        Settled::Fenced => Err(OperateError::LaneChanged),
    }
}
