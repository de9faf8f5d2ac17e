//! The seam of lanes and ledgers: what it takes to bring a signed attempt to its fate, and nothing
//! about what it pays. [`crate::rail::Rail`] adds the rest.
//!
//! Errors are cut by what the caller does next. `Adrift` is an answer, not an error.

use async_trait::async_trait;

use crate::attempt::{Attempt, Certificate, Landing, Shortage, Sighting};
use crate::ids::{LaneId, Nonce};
use crate::machine::RailName;

/// A failed question to a ledger, cut by what the caller does next. Nothing is decided by it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RailError {
    /// No answer, or none that can be trusted. Ask again later.
    #[error("ledger unavailable: {0}")]
    Unavailable(String),
    /// The rail cannot do this as configured. Repeating it does not help; tell an operator.
    #[error("{0}")]
    Misconfigured(String),
    /// The relay lacks something that it takes. Nothing was signed; wait for it.
    #[error("{why}")]
    Lacking { shortage: Shortage, why: String },
    /// It can never be done as it was asked for, by the word of a quorum. Nothing was signed.
    #[error("{0}")]
    Hopeless(String),
    /// What it asks for is settled without it, or has to wait. Nothing was signed.
    #[error("{0}")]
    Beforehand(Beforehand),
}

/// What is found out of a transfer before anything is signed for it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Beforehand {
    /// Another's transaction has done the very same, at finality, by the word of a quorum.
    #[error("{hash} has done the very same")]
    Done { hash: String },
    /// Another's transaction, at finality and by the word of a quorum, has used up what this one
    /// takes: it can never be done, and what it has claimed is never free again.
    #[error("{why}")]
    Forestalled { hash: String, why: String },
    /// Not now: tried again later. Charged to it where a quorum says that it is its own doing.
    #[error("{why}")]
    NotNow { why: String, charged: bool },
}

/// What one attempt of a lane can do to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// A later nonce that lands kills the earlier ones: sent in order, through one node, and
    /// decided by a fence (NEAR).
    Overtakes,
    /// Nothing lands before its predecessor: replaced or cancelled under its own nonce (EVM).
    Queues,
    /// The ledger knows no nonce; attempts are numbered by us (Solana, a relayer's HTTP API).
    Free,
}

/// How a ledger's lanes behave, and how long what takes there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Manner {
    pub order: Order,
    /// Attempts of one lane that may be on their way at once: stored, and not yet known to be in a
    /// block. At least 1.
    pub window: usize,
    /// Whether the same bytes may be sent again. Where not, they ask somebody else to sign, who
    /// does so each time: after the first only looks decide, and what lands has another's hash.
    pub repeats: bool,
    /// How long an attempt may be in no block before operators are shown it: many blocks, so that a
    /// slow node alone alarms nobody.
    pub inclusion_ms: u64,
    /// How long one in a block may take to be final before it counts as lost again.
    pub finality_ms: u64,
    /// How long an attempt may be adrift before something is done to decide it.
    pub fence_after_ms: u64,
    /// How long the newest bytes of an attempt may be in no block before others are sought, where
    /// attempts queue: the fee may have become too low.
    pub replace_after_ms: u64,
    /// First wait before the same bytes are sent again; doubles up to `rebroadcast_max_ms`.
    pub rebroadcast_ms: u64,
    pub rebroadcast_max_ms: u64,
    /// Wait between looks at an attempt that is in a block but not final: about a block.
    pub look_ms: u64,
    /// How often all lanes are asked about at once while any attempt waits to be included.
    pub pulse_ms: u64,
    /// Whether a pulse also tells what is final: then it goes on until everything is, and what is
    /// in a block is looked at when the pulse says so.
    pub pulse_tells_finality: bool,
}

impl Manner {
    /// One attempt at a time on a ledger like NEAR: blocks of 600 ms, final after two more.
    pub const OVERTAKES: Manner = Manner {
        order: Order::Overtakes,
        window: 1,
        repeats: true,
        inclusion_ms: 10_000,
        finality_ms: 60_000,
        fence_after_ms: 60_000,
        replace_after_ms: 60_000,
        rebroadcast_ms: 1_000,
        rebroadcast_max_ms: 30_000,
        look_ms: 600,
        pulse_ms: 300,
        pulse_tells_finality: false,
    };
}

/// The answer to a broadcast, sorted into three.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broadcast {
    /// These bytes can never enter the ledger. The caller MUST take it for a proof only if no
    /// earlier broadcast of the same bytes was, or may have been, made.
    Refused(Refusal),
    /// The ledger has it. The answer may already hold the look.
    Sent(Option<Look>),
    /// It may have arrived. Look before anything else.
    Unsure { cause: String, shortage: Option<Shortage> },
}

/// A certain refusal of bytes never sent before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub reason: String,
    /// The relay's own doing (a wrong key, a bad setting): charged to nobody, and an alert.
    pub relays_fault: bool,
}

impl Refusal {
    /// As a certificate has it.
    pub fn evidence(&self) -> serde_json::Value {
        serde_json::json!({ "reason": self.reason, "relays_fault": self.relays_fault })
    }
}

/// What a look at an attempt shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    /// Unknown, or seen but not final: it may still land. `sightings` are the blocks in which nodes
    /// say they have it; the caller stores them before it relies on anything else.
    Adrift { why: String, sightings: Vec<Sighting> },
    /// Final.
    Landed(Landing),
    /// Proven never to land.
    Sunk(Certificate),
    /// The ledger shows the nonce used by something that no stored attempt explains.
    Foreign(Foreign),
}

/// Somebody else has signed with a lane's key, or the store has forgotten what we have signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    pub reason: String,
    /// Where attempts queue: that what took the nonce cannot, by its content, have done what the
    /// attempt was to do. It sinks the attempt once an operator has adopted the lane.
    pub certificate: Option<Certificate>,
}

/// A stored attempt of the same lane with a higher nonce, as far as an inquest needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Later {
    pub nonce: Nonce,
    pub hash: String,
    /// Height of the final block it landed in; none while it is open.
    pub landed_height: Option<u64>,
}

/// What the ledger says of a lane's key at a final block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerNonce {
    /// The last nonce used.
    pub nonce: Nonce,
    pub final_height: u64,
}

/// An open attempt whose fate is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    pub lane: LaneId,
    pub nonce: Nonce,
    /// Every hash under which it may land.
    pub hashes: Vec<String>,
    /// Whether it is known to be in a block.
    pub included: bool,
}

/// What a pulse shows of a lane. Progress only, never a fate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    pub lane: LaneId,
    pub reach: Reach,
    /// Whether that is so at a final block.
    pub is_final: bool,
}

/// Which attempts of a lane are in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Every nonce up to this one is used: those attempts are in a block, or passed.
    UpTo(Nonce),
    /// This one is.
    Only(Nonce),
}

/// One ledger, as the lanes know it.
#[async_trait]
pub trait Ledger: Send + Sync + 'static {
    /// The rail whose attempts travel on its lanes.
    fn name(&self) -> RailName;

    /// MUST be the same as long as the process lives.
    fn manner(&self) -> Manner;

    /// The lanes this process can sign on, from its configured keys.
    fn lanes(&self) -> Vec<LaneId>;

    /// Whether a stored lane of its rail is on this very ledger, whoever has its key.
    fn owns(&self, lane: &LaneId) -> bool;

    /// Sends the newest of the stored bytes ([`Attempt::newest`]). MUST be safe to repeat, where
    /// its manner says so. `round` counts up, so that a repeat can go by another endpoint. MUST
    /// send at most once per call and endpoint; unless attempts are free of each other, to another
    /// one only if nothing left for the first, or it refused. `Refused` MUST be the word of a
    /// quorum.
    async fn broadcast(&self, attempt: &Attempt, round: u32) -> Broadcast;

    /// Looks at one attempt, under each of its hashes; one call where it is known, and final.
    /// Never a proof of death, but that a cancel of it landed. `passed`: the ledger has used its
    /// nonce, so that it is worth waiting for it to be final. `Landed` MUST be final and the word
    /// of a quorum.
    async fn look(&self, attempt: &Attempt, passed: bool) -> Result<Look, RailError>;

    /// Everything that can be told of an attempt that a look does not find. `later` are the lane's
    /// stored attempts (open or landed) with higher nonces, in nonce order.
    /// `Landed` and `Foreign` MUST be the word of a quorum at final blocks; `Sunk` MUST carry its
    /// evidence and MUST be refused while any of the attempt's sightings vetoes it. Where attempts
    /// queue, whatever took the nonce and does what the attempt was to do is `Landed`, under a hash
    /// that is stored or not: a store may have forgotten a variant.
    async fn inquest(&self, attempt: &Attempt, later: &[Later]) -> Result<Look, RailError>;

    /// The last nonce the ledger has used for the lane's key, at a final block, by a quorum; lanes
    /// count from 1, so that 0 is a key never used. None where the ledger keeps none: then the
    /// store's numbers alone count.
    async fn nonce(&self, lane: &LaneId) -> Result<Option<LedgerNonce>, RailError>;

    /// The last nonce that a lane must not use on which we have signed nothing yet, where what
    /// [`Ledger::nonce`] said may be too low: others may have used more that is not final.
    async fn first_nonce(
        &self,
        _: &LaneId,
        last: Option<LedgerNonce>,
    ) -> Result<Option<LedgerNonce>, RailError> {
        Ok(last)
    }

    /// What [`Ledger::nonce`] says, for all configured lanes, each at a final block, in as few
    /// calls as possible. Empty where the ledger keeps none.
    async fn nonces(&self) -> Result<Vec<(LaneId, LedgerNonce)>, RailError>;

    /// What of all lanes has been included, in as few calls as possible: `waiting` is everything
    /// that is waited for. MAY leave lanes out.
    async fn pulse(&self, waiting: &[Waiting]) -> Result<Vec<Progress>, RailError>;
}
