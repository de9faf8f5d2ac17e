//! What the lanes ask of whoever owns the transfers: the engine.
//!
//! Lanes know when an attempt is opened and what its fate is; only the owner knows what that
//! means for the transfers it carries.

use async_trait::async_trait;
use landfall_core::attempt::{Shortage, Signed, VariantKind};
use landfall_core::ledger::{Beforehand, RailError};
use landfall_core::{Attempt, Fate, LaneId, Move, Nonce, Purpose, Transfer, TransferId};

/// Transfers to be carried by one attempt.
#[derive(Debug, Clone)]
pub struct Batch {
    pub purpose: Purpose,
    /// In the order of the actions. Empty for a fence.
    pub members: Vec<Transfer>,
}

/// How much a lane is wanted by its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// Held for as long as the process lives.
    Always,
    /// Held for so long at a time: others may want it, too.
    InTurns { turn_ms: u64 },
    /// There is nothing to sign on it here. Given back once nothing of it is open.
    Nothing,
}

/// The owner of the transfers. Calls that are not `async` MUST return at once.
#[async_trait]
pub trait Owner: Send + Sync + 'static {
    /// Builds and signs. Nothing has left the process on return. Action `i` is for member `i`.
    async fn sign(&self, batch: &Batch, lane: &LaneId, nonce: Nonce) -> Result<Signed, RailError>;

    /// Builds and signs other bytes under the attempt's nonce; none if no better terms are to be
    /// had. Nothing has left the process on return.
    async fn sign_variant(
        &self,
        attempt: &Attempt,
        members: &[Transfer],
        kind: VariantKind,
    ) -> Result<Option<Signed>, RailError>;

    /// The members' moves when their attempt is stored, in order.
    fn opening(&self, batch: &Batch, hash: &str, now_ms: u64) -> Vec<Move>;

    /// The members' moves when their attempt is seen in a block, or is in none any more: of those
    /// whom it changes. They stay with the attempt.
    fn sighted(
        &self,
        attempt: &Attempt,
        members: &[Transfer],
        included: bool,
        now_ms: u64,
    ) -> Vec<Move>;

    /// The members' moves when their attempt is decided, in order. MUST cover every member.
    fn settling(
        &self,
        attempt: &Attempt,
        members: &[Transfer],
        fate: &Fate,
        now_ms: u64,
    ) -> Vec<Move>;

    /// The attempt is stored; nothing was sent yet.
    fn opened(&self, attempt: &Attempt);

    /// The settlement is committed: `moved` members moved as `moves` say; `released` are due.
    async fn settled(
        &self,
        attempt: &Attempt,
        members: &[Transfer],
        fate: &Fate,
        moves: Vec<Move>,
        moved: Vec<TransferId>,
        released: Vec<TransferId>,
    );

    /// Nothing happened to these members; they may be batched again.
    fn returned(&self, batch: Batch, why: &str);

    /// The rail will not sign this batch as it is configured; repeating it does not help.
    fn unsignable(&self, batch: Batch, why: &str);

    /// What these ask for can never be done, by the word of a quorum. Nothing was signed.
    fn hopeless(&self, batch: Batch, why: &str);

    /// What was found out of these instead of signing for them. Only a rail that finds out such
    /// things has its transfers asked about.
    fn beforehand(&self, batch: Batch, found: Beforehand) {
        self.returned(batch, &found.to_string());
    }

    /// These were given up: the store knows better where they are. The sweeper finds the rest.
    fn forgotten(&self, members: &[TransferId]);

    /// The ledger says of an attempt of this lane that the relay lacks something.
    fn shortage(&self, lane: &LaneId, shortage: Shortage, message: &str);

    /// The lane stands still until an operator adopts it.
    fn halted(&self, lane: &LaneId, reason: &str);

    /// Something an operator should look at, until it is called off by the same kind.
    fn alert(&self, kind: &str, message: String);
    fn calm(&self, kind: &str);

    /// Some lane can take a batch.
    fn freed(&self);

    /// How much a lane that it can sign on is wanted now. When that becomes more, the owner says so
    /// ([`crate::LedgerLanes::want`]).
    fn demand(&self, _: &LaneId) -> Demand {
        Demand::Always
    }

    /// The lane is not held here any more, for a while or for good. Of what was stored on it nobody
    /// here need hear again: others may bring it to its end.
    fn let_go(&self, _: &LaneId) {}

    /// Somebody else holds the lane, which was asked for.
    fn contended(&self, _: &LaneId) {}

    /// The lane was taken with so many attempts open that others had stored.
    fn took_over(&self, _: &LaneId, _attempts: usize) {}
}
