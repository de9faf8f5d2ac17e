//! Attempts and their fates.
//!
//! **Invariant:** an attempt is stored, with its members moved, before its first byte is sent.
//! **Invariant:** it is settled once; every fate is decided at finality.

use serde::{Deserialize, Serialize};

use crate::ids::{AttemptId, Epoch, LaneId, Nonce, TransferId};
use crate::machine::RailName;

/// What an attempt is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// Makes ready what payments need (NEAR: registers receivers). Its members own the claims.
    Prepare,
    /// Pays its members.
    Pay,
    /// Carries nobody. Landing it decides every earlier attempt of its lane.
    Fence,
}

impl Purpose {
    pub fn as_str(self) -> &'static str {
        match self {
            Purpose::Prepare => "prepare",
            Purpose::Pay => "pay",
            Purpose::Fence => "fence",
        }
    }

    pub fn parse(name: &str) -> Option<Purpose> {
        [Purpose::Prepare, Purpose::Pay, Purpose::Fence]
            .into_iter()
            .find(|purpose| purpose.as_str() == name)
    }
}

/// A signed transaction before it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    pub bytes: Vec<u8>,
    /// The ledger's own name for these bytes.
    pub hash: String,
    /// The block the bytes refer to, and the last height at which they can be included.
    pub base_block: String,
    pub base_height: u64,
    pub expires_height: u64,
}

/// One signed transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    pub id: AttemptId,
    pub rail: RailName,
    pub lane: LaneId,
    /// The epoch under which it was opened.
    pub epoch: Epoch,
    pub nonce: Nonce,
    pub purpose: Purpose,
    pub hash: String,
    #[serde(skip)]
    pub bytes: Vec<u8>,
    pub base_block: String,
    pub base_height: u64,
    pub expires_height: u64,
    /// Whom it carries, in the order of its actions: action `i` is for `members[i]`.
    pub members: Vec<TransferId>,
    pub opened_ms: u64,
    /// Sightings that were not yet final, oldest first.
    pub sightings: Vec<Sighting>,
    /// None while open.
    pub fate: Option<Fate>,
    pub decided_ms: Option<u64>,
}

/// What became of an attempt. There is no third: what is neither is still open, and adrift.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fate", rename_all = "lowercase")]
pub enum Fate {
    /// Final on the ledger.
    Landed(Landing),
    /// Proven that it can never land.
    Sunk(Certificate),
}

/// Where and how an attempt landed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Landing {
    pub block_height: u64,
    pub block_hash: String,
    /// One per member, in the order of the members.
    pub outcomes: Vec<Outcome>,
}

/// What a landed attempt did for one member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// Paid (or, for [`Purpose::Prepare`], prepared).
    Done,
    /// Reverted because of another member. Charged to nobody.
    Sibling,
    /// What it needs on the ledger is not there (NEAR: not registered).
    Unprepared { message: String },
    /// Its own fault: it can never be paid as asked.
    OwnFault { message: String },
    /// The relay's fault: funds, gas, a paused contract. Charged to nobody.
    RelayFault { shortage: Shortage, message: String },
    /// It failed and the ledger does not say why. Charged to it.
    Unexplained { message: String },
}

/// What the relay lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shortage {
    /// Of what it pays out.
    Tokens,
    /// Of the ledger's own coin, for fees and deposits.
    Native,
    /// Gas attached by configuration is too little.
    Gas,
    /// What it signs is refused: a wrong key, a setting beyond the ledger's limits.
    Refused,
    /// The contract is paused, missing, or the relay is not registered with it.
    Contract,
}

/// Proof that an attempt can never land, kept for ever in the audit trail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    pub kind: CertificateKind,
    /// One sentence for an operator.
    pub summary: String,
    /// What was read, where, at which height.
    pub evidence: serde_json::Value,
}

/// Which rule sank it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CertificateKind {
    /// A later attempt of ours used a higher nonce, and this one is on no node.
    NoncePassed,
    /// Its block hash expired at a final block, and it is on no node.
    Expired,
    /// Refused for certain at its very first broadcast.
    Refused,
    /// An operator decided, with evidence.
    Operator,
}

/// Sightings kept of one endpoint for one attempt. Blocks fall off a chain once or twice; who has
/// seen it in more of them than this invents them.
const SIGHTINGS_MAX: usize = 16;

impl Attempt {
    /// Whether a sighting adds nothing to those that are stored.
    pub fn has_heard(&self, new: &Sighting) -> bool {
        // A node may not say in which block: then what another has seen is another sighting.
        let same_block = |known: &Sighting| match new.block_hash.as_str() {
            "" => known.block_hash.is_empty() && known.endpoint == new.endpoint,
            block => known.block_hash == block,
        };
        let of_endpoint = self.sightings.iter().filter(|known| known.endpoint == new.endpoint);
        let same = |known: &Sighting| same_block(known) && known.was_final == new.was_final;
        of_endpoint.count() >= SIGHTINGS_MAX || self.sightings.iter().any(same)
    }
}

/// A node saw the attempt in a block. Vetoes a certificate until a quorum shows that the block is
/// off the final chain, or does not hold it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sighting {
    pub endpoint: String,
    pub block_hash: String,
    pub block_height: Option<u64>,
    pub was_final: bool,
    pub at_ms: u64,
}
