//! The seam of rails. A rail is a [`Ledger`] that also builds and signs, and answers a few
//! questions about what it pays; it holds keys and connections, never transfers, and never sees
//! the store.

use async_trait::async_trait;

use crate::attempt::{Attempt, Purpose, Shortage, Signed, VariantKind};
use crate::claim::ClaimKey;
use crate::field::BadField;
use crate::ids::{LaneId, Nonce};
use crate::ledger::Ledger;
use crate::machine::{AttemptStages, Payload};

pub use crate::ledger::{
    Beforehand, Broadcast, Foreign, Later, LedgerNonce, Look, RailError, Refusal,
};

/// What an account of the relay can spend, at a final block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Funds {
    pub tokens: u128,
    pub native: u128,
    /// Below this the account cannot be trusted to pay for one more full attempt.
    pub native_floor: u128,
}

/// How long a failed step waits before it is tried again: at first so long, then twice as long each
/// time, with jitter, up to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    pub first_ms: u64,
    pub max_ms: u64,
}

/// How a rail's transfers are batched, and when and how often each is tried. The rail's own
/// settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Most transfers in one attempt, within what fits ([`Rail::fit`]).
    pub batch_max: usize,
    /// How long a batch waits for company.
    pub linger_ms: u64,
    /// Charged failures before a preparation is given up.
    pub prepare_retries: u32,
    /// Charged failures before a payment is given up.
    pub pay_retries: u32,
    /// None: the engine's.
    pub backoff: Option<Backoff>,
}

impl Default for Pace {
    /// A hundred at a time, as NEAR takes; 20 ms cost a client nothing beside a block of 600 ms.
    fn default() -> Pace {
        Pace { batch_max: 100, linger_ms: 20, prepare_retries: 10, pay_retries: 10, backoff: None }
    }
}

/// What an operator is to do about what the relay lacks, in the rail's own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remedies {
    pub tokens: &'static str,
    pub native: &'static str,
    pub gas: &'static str,
    pub refused: &'static str,
    pub contract: &'static str,
}

impl Default for Remedies {
    fn default() -> Remedies {
        Remedies {
            tokens: "the relay account is out of tokens: top it up",
            native: "the relay account is out of the ledger's own coin: fund it",
            gas: "the gas that is attached is too little: attach more",
            refused: "the ledger refuses what the relay signs: check its keys and limits",
            contract: "the contract refuses the relay: is it paused or missing?",
        }
    }
}

impl Remedies {
    /// What is lacking and what to do, with what the ledger said.
    pub fn describe(&self, shortage: Shortage, message: &str) -> String {
        let what = match shortage {
            Shortage::Tokens => self.tokens,
            Shortage::Native => self.native,
            Shortage::Gas => self.gas,
            Shortage::Refused => self.refused,
            Shortage::Contract => self.contract,
        };
        format!("{what} ({message})")
    }
}

/// How a rail's ledger can be reached, for `/health`.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointHealth {
    /// Tells it from others behind the same host: a service's name, or which of the nodes it is.
    pub name: String,
    /// Scheme, host and port; never credentials.
    pub endpoint: String,
    pub up: bool,
    pub detail: String,
    pub calls: u64,
    pub errors: u64,
    /// Whether it is avoided: its breaker is not closed.
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

/// One ledger, and what is paid on it.
#[async_trait]
pub trait Rail: Ledger {
    /// What its stages are called.
    fn stages(&self) -> AttemptStages;

    /// Whether it is this rail's to pay, where a rail has several ledgers.
    fn takes(&self, payload: &Payload) -> bool {
        payload.rail() == self.name()
    }

    /// Whether a new transfer can be taken at all, by what the rail knows beyond the rules of its
    /// fields: MUST say yes where nodes do not answer, and need no keys, as a process that only
    /// takes transfers asks, too.
    async fn screen(&self, _: &Payload) -> Result<(), BadField> {
        Ok(())
    }

    /// What must be true on the ledger before this can be paid; none if nothing.
    /// MUST give the same key for the same need, for ever.
    fn preparation(&self, payload: &Payload) -> Option<ClaimKey>;

    /// Whether the preparation is already there, at a final block. One answer per payload, in
    /// order.
    async fn prepared(&self, payloads: &[&Payload]) -> Vec<Result<bool, RailError>>;

    /// MUST be the same as long as the process lives.
    fn pace(&self) -> Pace {
        Pace::default()
    }

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

    /// Builds and signs other bytes under the attempt's nonce: the same on better terms, or what
    /// does nothing. None if no better terms are to be had: then what is stored is sent on.
    async fn sign_variant(
        &self,
        _attempt: &Attempt,
        _payloads: &[&Payload],
        _kind: VariantKind,
    ) -> Result<Option<Signed>, RailError> {
        Ok(None)
    }

    /// Whether all its lanes spend from one account, so that a lack of the ledger's own coin stops
    /// them all. Else each has funds of its own, and such a lack stops that lane alone.
    fn shares_funds(&self) -> bool {
        true
    }

    /// What can be spent on the attempts of a lane; without one, or where lanes share their funds,
    /// what all of them pay out of.
    async fn funds(&self, lane: Option<&LaneId>) -> Result<Funds, RailError>;

    fn remedies(&self) -> Remedies {
        Remedies::default()
    }

    /// Every endpoint's health as known; makes no call.
    fn endpoints(&self) -> Vec<EndpointHealth>;

    /// Tries the ledger for real: reachable, the right network, the keys known to it.
    async fn check(&self) -> Result<String, RailError>;
}
