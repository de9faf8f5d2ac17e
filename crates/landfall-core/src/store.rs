//! The seam of truth. Every operation takes a batch and is one commit.
//!
//! MUSTs for every store:
//! - an answer is given after a commit that survives `kill -9`;
//! - a batch of independent moves applies each or calls it stale; nothing in between;
//! - each opening of a batch, and each settlement, is all or nothing;
//! - what may be opened, and which variants may be added, is as [`crate::opening`] says;
//! - an old epoch stores neither an attempt, nor a variant, nor a sighting, nor a settlement;
//! - a transfer is accepted with all that it claims, or not at all;
//! - idempotency keys are unique per (rail, tenant) for ever;
//! - due times and leases are compared with the store's own clock.
//!
//! Not here: what a state means, when to retry, what a ledger says.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::attempt::{Attempt, Fate, Purpose, Sighting, Signed, Variant, VariantKind};
use crate::claim::{ClaimKey, Claimed};
use crate::ids::{AttemptId, Epoch, LaneId, Nonce, TransferId};
use crate::lane::{Lane, Mark};
use crate::machine::{RailName, Stage, State};
use crate::trail::TrailEntry;
use crate::transfer::{Move, NewTransfer, Transfer};

/// No lease lasts longer. One that seems to was given before the clock was set back, and counts as
/// run out; epochs keep that safe.
pub const LEASE_MAX_MS: u64 = 600_000;

/// A store that did not do it, cut by what the caller does next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It may or may not have been committed. Read before relying on either; every operation can
    /// be repeated.
    #[error("store unavailable: {0}")]
    Unavailable(String),
    /// The data contradicts the rules. Stop and tell an operator.
    #[error("store corrupt: {0}")]
    Corrupt(String),
}

pub type Result<T> = std::result::Result<T, StoreError>;

/// The answer to one new transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Accepted {
    Created(Transfer),
    /// The same key and fingerprint: the stored transfer.
    Already(Transfer),
    /// The same key with another fingerprint. Nothing happened.
    Conflict(Transfer),
    /// The key is new, but this, the first such of its claims, is held or kept. Nothing happened.
    /// The owner is none where [`Claimed::Kept`] has none.
    Claimed {
        key: ClaimKey,
        owner: Option<TransferId>,
    },
}

/// The answer to one move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    Applied,
    /// State, version or attempt was another. Nothing happened.
    Stale,
}

/// The answer to a batch of moves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AppliedBatch {
    /// One per move, in order.
    pub moves: Vec<Applied>,
    /// Waiters made due because a claim ended.
    pub released: Vec<TransferId>,
}

/// An attempt to be stored with its members moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenAttempt {
    pub rail: RailName,
    pub lane: LaneId,
    pub epoch: Epoch,
    pub nonce: Nonce,
    pub purpose: Purpose,
    pub signed: Signed,
    /// One per member, in the order of the actions. The store puts the new attempt's id in each.
    pub moves: Vec<Move>,
    /// How far the opener knows lanes to have come, this lane and others. A store whose lanes are
    /// behind any of them has forgotten something that may have been sent.
    pub marks: Vec<(LaneId, Mark)>,
    /// The store's incarnation under which the opener has looked its lanes over. A store that has
    /// lived on in another one may have forgotten what others stored: all lanes must be looked
    /// over again first.
    pub incarnation: String,
    pub now_ms: u64,
}

impl OpenAttempt {
    /// The attempt as it is once a store has opened it under `id`, as the lane's `seq`-th
    /// signature.
    pub fn opened_as(&self, id: AttemptId, seq: u64) -> Attempt {
        Attempt {
            id,
            rail: self.rail,
            lane: self.lane.clone(),
            epoch: self.epoch,
            nonce: self.nonce,
            purpose: self.purpose,
            seq,
            hash: self.signed.hash.clone(),
            bytes: self.signed.bytes.clone(),
            base: self.signed.base.clone(),
            expires_height: self.signed.expires_height,
            variants: Vec::new(),
            members: self.moves.iter().map(|step| step.id).collect(),
            opened_ms: self.now_ms,
            sightings: Vec::new(),
            fate: None,
            decided_ms: None,
        }
    }
}

/// The answer to opening an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    Stored(Box<Attempt>),
    /// The lease epoch is old, or the lane is halted and this is no fence. Nothing happened.
    Fenced(String),
    /// The store is behind the opener's marks. Nothing happened.
    Behind(String),
    /// The store's incarnation is another. Nothing happened.
    Restarted,
    /// The nonce is not the lane's next (a fence's: below it). Nothing happened.
    StaleNonce,
    /// These members have moved meanwhile. Nothing happened.
    StaleMembers(Vec<TransferId>),
}

/// Other bytes to be stored for an attempt that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddVariant {
    pub attempt: AttemptId,
    pub lane: LaneId,
    pub epoch: Epoch,
    /// The next after those that are stored, from 1.
    pub number: u32,
    pub kind: VariantKind,
    pub signed: Signed,
    /// As of an opening.
    pub marks: Vec<(LaneId, Mark)>,
    /// As of an opening.
    pub incarnation: String,
    pub now_ms: u64,
}

impl AddVariant {
    /// The variant as it is once a store has added it as the lane's `seq`-th signature.
    pub fn stored_as(&self, seq: u64) -> Variant {
        let (number, kind, epoch) = (self.number, self.kind, self.epoch);
        Variant { number, kind, epoch, seq, signed: self.signed.clone(), opened_ms: self.now_ms }
    }
}

/// The answer to adding a variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Added {
    Stored(Box<Variant>),
    /// The lease epoch is old, the attempt is another lane's, or the lane is halted and this
    /// cancels nothing. Nothing happened.
    Fenced(String),
    /// The store is behind the caller's marks. Nothing happened.
    Behind(String),
    /// The store's incarnation is another. Nothing happened.
    Restarted,
    /// The attempt is decided. Nothing happened.
    Decided,
    /// The number is not the next: somebody else has added one, or this one is stored. Nothing
    /// happened.
    StaleNumber,
}

/// What was seen of an open attempt, with what that shows of its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sight {
    pub attempt: AttemptId,
    pub lane: LaneId,
    pub epoch: Epoch,
    pub sightings: Vec<Sighting>,
    /// Of members, forwards or back. Each applies only to one that is as it expects and is carried
    /// by this attempt, and leaves it there; others are left out.
    pub moves: Vec<Move>,
}

impl Sight {
    /// A move that would take its transfer out of the attempt is a mistake of ours.
    pub fn check(&self) -> Result<()> {
        let ours = Some(self.attempt);
        let leaves = |step: &&Move| step.from_attempt != ours || step.attempt != ours;
        match self.moves.iter().find(leaves) {
            None => Ok(()),
            Some(step) => Err(StoreError::Corrupt(format!(
                "a sighting of attempt {} moves transfer {} in or out of it",
                self.attempt, step.id
            ))),
        }
    }
}

/// A decision about an open attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    pub attempt: AttemptId,
    pub lane: LaneId,
    pub epoch: Epoch,
    pub fate: Fate,
    /// One per member; each applies only to a member whose current attempt this is.
    pub moves: Vec<Move>,
    pub now_ms: u64,
}

/// The answer to a settlement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    Done {
        /// Members that moved, in order of the moves.
        moved: Vec<TransferId>,
        released: Vec<TransferId>,
    },
    /// Somebody decided it before. Nothing happened.
    AlreadyDecided,
    /// The lease epoch is old. Nothing happened.
    Fenced,
}

/// The answer to asking for a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leased {
    /// Held, under a new epoch.
    Yours(Lane),
    /// Somebody else's lease has not run out.
    Busy { holder: String, until_ms: u64 },
}

/// What identifies a store and tells whether it has forgotten anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreIdentity {
    /// Drawn when the store was created; a restored backup keeps it, an empty store has another.
    pub id: String,
    /// Names the life of the server process behind the store: a restart, a promoted replica or a
    /// restored backup MUST have another. A store inside this process lives as long as it is open.
    pub incarnation: String,
    /// Whether it lives in a process of its own, which others use, too, and which may be replaced
    /// by one that knows less.
    pub shared: bool,
}

/// A page of transfers, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListFilter {
    pub rail: Option<RailName>,
    pub tenant: Option<String>,
    pub state: Option<State>,
    pub receiver: Option<String>,
    pub created_from_ms: Option<u64>,
    pub created_until_ms: Option<u64>,
    /// Only transfers carried by an attempt that is open since before this time.
    pub adrift_before_ms: Option<u64>,
    /// Continue below this id.
    pub before: Option<TransferId>,
    pub limit: usize,
}

/// What the lanes need of a store: leases, attempts and their fates, and the members they carry.
#[async_trait]
pub trait LaneStore: Send + Sync + 'static {
    async fn identity(&self) -> Result<StoreIdentity>;

    /// Opens attempts in one commit; one answer each, in order. Each is decided as those before it
    /// have left the store, so that nonces in a row can be opened together, and those after one
    /// that was refused are stale.
    /// A fence is opened on a halted lane, too, and may leave nonces out: it carries nobody, and is
    /// landed above whatever a store may have forgotten.
    async fn open(&self, batch: Vec<OpenAttempt>) -> Result<Vec<Opened>>;
    /// Opens one.
    async fn open_attempt(&self, open: OpenAttempt) -> Result<Opened> {
        let unanswered = || StoreError::Unavailable("an opening was not answered".into());
        self.open(vec![open]).await?.pop().ok_or_else(unanswered)
    }
    /// Adds other bytes to an open attempt. A variant that cancels is added on a halted lane, too.
    async fn add_variant(&self, add: AddVariant) -> Result<Added>;
    async fn settle(&self, settlement: Settlement) -> Result<Settled>;
    /// Adds sightings to an open attempt and moves its members, in one commit. False, and nothing
    /// happened, if the epoch is old or the attempt is decided, unknown or another lane's.
    async fn sight(&self, sight: Sight) -> Result<bool>;

    /// Open attempts of a lane, by nonce.
    async fn open_attempts(&self, lane: &LaneId) -> Result<Vec<Attempt>>;
    /// Attempts of a lane with nonces above `above` that are open or have landed, by nonce, at most
    /// `limit`. Sunk ones explain nothing and MUST NOT count, however many there are.
    async fn attempts_after(
        &self,
        lane: &LaneId,
        above: Nonce,
        limit: usize,
    ) -> Result<Vec<Attempt>>;
    async fn attempt(&self, id: AttemptId) -> Result<Option<Attempt>>;
    async fn attempt_at(&self, lane: &LaneId, nonce: Nonce) -> Result<Option<Attempt>>;
    /// The transfers that exist, in the order of `ids`.
    async fn transfers(&self, ids: &[TransferId]) -> Result<Vec<Transfer>>;

    /// Leases a lane for `ttl_ms`, creating it if it is new. A holder of the same name takes its
    /// own lane back at once. Every success has a new epoch.
    async fn lease(
        &self,
        lane: &LaneId,
        rail: RailName,
        holder: &str,
        ttl_ms: u64,
    ) -> Result<Leased>;
    /// Renews leases; true where the epoch is still current.
    async fn renew(&self, lanes: &[(LaneId, Epoch)], ttl_ms: u64) -> Result<Vec<bool>>;
    /// Gives leases back, where the epoch is still current.
    async fn release(&self, lanes: &[(LaneId, Epoch)]) -> Result<()>;
    /// Sets the first nonce of a lane that has none. False if the epoch is old or it has one.
    async fn start_lane(&self, lane: &LaneId, epoch: Epoch, ledger_nonce: Nonce) -> Result<bool>;
    /// Halts a lane, whoever holds it. The first reason stays.
    async fn halt(&self, lane: &LaneId, reason: &str) -> Result<()>;
    /// Ends a halt by an operator's word: attempts go on above `ledger_nonce` (never below the
    /// lane's own next), which no stored attempt needs to explain. Nobody holds the lane then, and
    /// its epoch and its count of signatures are at least the time in milliseconds: holders and
    /// variants that the store has forgotten are past, too, however often it went back.
    async fn adopt(&self, lane: &LaneId, ledger_nonce: Nonce) -> Result<()>;
    async fn lanes(&self) -> Result<Vec<Lane>>;
}

/// The truth.
#[async_trait]
pub trait Store: LaneStore {
    /// Whether it would take a transfer now. Asked about once a second, so it may cost a commit; a
    /// store whose `identity` tells nothing about that MUST try.
    async fn health(&self) -> Result<()> {
        self.identity().await.map(|_| ())
    }

    /// Accepts new transfers; one answer each, in order. The same key, or the same claim, twice in
    /// one batch is decided in order; of one transfer its key is looked at before its claims. Ids
    /// MUST grow: one that was given is never given again, so that a store which does has gone
    /// back.
    async fn accept(&self, batch: Vec<NewTransfer>) -> Result<Vec<Accepted>>;
    async fn apply(&self, moves: Vec<Move>) -> Result<AppliedBatch>;

    /// Open attempts of a rail, by lane and nonce.
    async fn open_attempts_of(&self, rail: RailName) -> Result<Vec<Attempt>>;
    /// The newest attempt of the rail that has this hash, its own or a variant's.
    async fn attempt_of(&self, rail: RailName, hash: &str) -> Result<Option<Attempt>>;
    /// Decided attempts of a rail with ids above `after`, by id, for audits.
    async fn attempts_page(
        &self,
        rail: RailName,
        after: AttemptId,
        limit: usize,
    ) -> Result<Vec<Attempt>>;

    /// Transfers of the stage that are due, oldest due first. Each one's due time is pushed on by
    /// `push_ms` in the same commit. A due time further away than `horizon_ms` counts as due.
    async fn sweep(
        &self,
        stage: Stage,
        limit: usize,
        push_ms: u64,
        horizon_ms: u64,
    ) -> Result<Vec<TransferId>>;
    async fn by_key(&self, rail: RailName, tenant: &str, key: &str) -> Result<Option<Transfer>>;
    /// The audit trail, oldest first.
    async fn trail(&self, id: TransferId) -> Result<Vec<TrailEntry>>;
    async fn list(&self, filter: ListFilter) -> Result<Vec<Transfer>>;
    async fn counts(&self) -> Result<Vec<(State, u64)>>;

    /// Claims keys for their transfers, one answer each, in order. A claim held by another makes
    /// the asker its waiter.
    async fn claim(&self, claims: Vec<(ClaimKey, TransferId)>) -> Result<Vec<Claimed>>;
    /// Which of the keys ended kept.
    async fn kept(&self, keys: &[ClaimKey]) -> Result<Vec<bool>>;

    /// Forgets transfers of a rail that were final before `before_ms`, **with their keys**, at most
    /// `limit`; how many there were. Only for a rail whose keys may be used again. Attempts stay:
    /// they explain the ledger's nonces. A store that keeps everything for ever forgets none.
    async fn forget(&self, _rail: RailName, _before_ms: u64, _limit: usize) -> Result<usize> {
        Ok(0)
    }
}
