//! The seam of ledgers. A rail builds and signs, broadcasts, looks, and answers a few questions;
//! it holds keys and connections, never transfers, and never sees the store.
//!
//! Errors are cut by what the caller does next. `Adrift` is an answer, not an error.

use async_trait::async_trait;

use crate::attempt::{Attempt, Certificate, Landing, Purpose, Shortage, Sighting, Signed};
use crate::claim::ClaimKey;
use crate::ids::{LaneId, Nonce};
use crate::machine::{AttemptStages, Payload, RailName};

/// A failed question to a ledger, cut by what the caller does next. Nothing is decided by it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RailError {
    /// No answer, or none that can be trusted. Ask again later.
    #[error("ledger unavailable: {0}")]
    Unavailable(String),
    /// The rail cannot do this as configured. Repeating it does not help; tell an operator.
    #[error("{0}")]
    Misconfigured(String),
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
    Foreign(String),
}

/// A stored attempt of the same lane with a higher nonce, as far as the look needs it.
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

/// What the relay's account can spend, at a final block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Funds {
    pub tokens: u128,
    pub native: u128,
    /// Below this the account cannot be trusted to pay for one more full attempt.
    pub native_floor: u128,
}

/// How a rail's ledger can be reached, for `/health`.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointHealth {
    /// Scheme, host and port; never credentials.
    pub endpoint: String,
    pub up: bool,
    pub detail: String,
    pub calls: u64,
    pub errors: u64,
    pub breaker_open: bool,
    pub mean_latency_ms: f64,
    /// Set once it was caught contradicting a quorum.
    pub caught: Option<Caught>,
}

/// A node that was caught saying what a quorum of the others contradicts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caught {
    /// How often, since this process began.
    pub times: u64,
    /// The newest contradiction.
    pub said: String,
    pub quorum_says: String,
    pub at_ms: u64,
    /// Long enough ago, it is asked like any other again.
    pub asked_last: bool,
}

/// One ledger.
#[async_trait]
pub trait Rail: Send + Sync + 'static {
    fn name(&self) -> RailName;

    /// What its stages are called.
    fn stages(&self) -> AttemptStages;

    /// The lanes this process can sign on, from its configured keys.
    fn lanes(&self) -> Vec<LaneId>;

    /// What must be true on the ledger before this can be paid; none if nothing.
    /// MUST give the same key for the same need, for ever.
    fn preparation(&self, payload: &Payload) -> Option<ClaimKey>;

    /// Whether the preparation is already there, at a final block. One answer per payload, in
    /// order.
    async fn prepared(&self, payloads: &[&Payload]) -> Vec<Result<bool, RailError>>;

    /// How many of these, from the front, one attempt can carry. At least 1 unless empty.
    fn fit(&self, purpose: Purpose, payloads: &[&Payload]) -> usize;

    /// Builds and signs. Nothing has left the process on return. Action `i` is for payload `i`.
    /// MUST refuse as `Misconfigured` a payload of another network, token or account than its own.
    async fn sign(
        &self,
        purpose: Purpose,
        payloads: &[&Payload],
        lane: &LaneId,
        nonce: Nonce,
    ) -> Result<Signed, RailError>;

    /// Sends the stored bytes. MUST be safe to repeat. `round` counts up, so that a repeat can go
    /// by another endpoint. MUST send at most once per call and endpoint, and to another one only
    /// if nothing left for the first, or it refused. `Refused` MUST be the word of a quorum.
    async fn broadcast(&self, attempt: &Attempt, round: u32) -> Broadcast;

    /// Looks at one attempt; one call to the ledger when it is known there. `later` are the lane's
    /// stored attempts (open or landed) with higher nonces, in nonce order.
    /// `Landed` MUST be final, `Foreign` true at final blocks, both by the word of a quorum; `Sunk`
    /// MUST carry its evidence and MUST be refused while any of the attempt's sightings vetoes it.
    async fn look(&self, attempt: &Attempt, later: &[Later]) -> Result<Look, RailError>;

    /// The last nonce the ledger has used for the lane's key, at a final block, by a quorum.
    async fn nonce(&self, lane: &LaneId) -> Result<LedgerNonce, RailError>;

    /// The same for all configured lanes, each at a final block, in as few calls as possible.
    async fn nonces(&self) -> Result<Vec<(LaneId, LedgerNonce)>, RailError>;

    /// The newest nonces in sight of all lanes, final or not, in as few calls as possible. Progress
    /// only ("is it included yet?"), never a fate. MAY leave lanes out.
    async fn pulse(&self) -> Result<Vec<(LaneId, Nonce)>, RailError>;

    /// What the relay can spend.
    async fn funds(&self) -> Result<Funds, RailError>;

    /// Every endpoint's health as known; makes no call.
    fn endpoints(&self) -> Vec<EndpointHealth>;

    /// Tries the ledger for real: reachable, the right network, the keys known to it.
    async fn check(&self) -> Result<String, RailError>;
}
