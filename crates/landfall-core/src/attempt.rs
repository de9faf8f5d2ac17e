//! Attempts and their fates.
//!
//! **Invariant:** an attempt is stored, with its members moved, before its first byte is sent; so
//! is every variant of it.
//! **Invariant:** it is settled once, whichever of its bytes landed; every fate is decided at
//! finality.

use serde::{Deserialize, Serialize};

use crate::ids::{AttemptId, Epoch, LaneId, Nonce, TransferId};
use crate::lane::Mark;
use crate::ledger::Refusal;
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

/// A block that signed bytes refer to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseBlock {
    pub hash: String,
    pub height: u64,
}

/// A signed transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signed {
    #[serde(skip)]
    pub bytes: Vec<u8>,
    /// The ledger's own name for these bytes.
    pub hash: String,
    /// The block the bytes refer to; none on a ledger that wants none.
    pub base: Option<BaseBlock>,
    /// The last height at which they can be included; none if they never expire.
    pub expires_height: Option<u64>,
}

/// What other bytes for the same attempt are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VariantKind {
    /// Does the same under other terms: a higher fee.
    Replaces,
    /// Does nothing, in the attempt's place.
    Cancels,
}

impl VariantKind {
    pub fn as_str(self) -> &'static str {
        match self {
            VariantKind::Replaces => "replaces",
            VariantKind::Cancels => "cancels",
        }
    }

    pub fn parse(name: &str) -> Option<VariantKind> {
        [VariantKind::Replaces, VariantKind::Cancels].into_iter().find(|kind| kind.as_str() == name)
    }
}

/// Other bytes for the same attempt, under its nonce. At most one of them all lands, any of them
/// may, and what becomes of one decides nothing about the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    /// From 1, without holes.
    pub number: u32,
    pub kind: VariantKind,
    /// The epoch under which it was stored.
    pub epoch: Epoch,
    /// Which of the lane's signatures it is.
    pub seq: u64,
    #[serde(flatten)]
    pub signed: Signed,
    pub opened_ms: u64,
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
    /// Which of the lane's signatures it is; 0 if it was stored before they were counted.
    pub seq: u64,
    pub hash: String,
    #[serde(skip)]
    pub bytes: Vec<u8>,
    /// See [`Signed::base`].
    pub base: Option<BaseBlock>,
    /// See [`Signed::expires_height`].
    pub expires_height: Option<u64>,
    /// Other bytes for it, by number.
    pub variants: Vec<Variant>,
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
    /// Which of the attempt's hashes landed; none for its own, as in all records from before there
    /// were variants. [`Attempt::landed_as`] tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    pub block_height: u64,
    pub block_hash: String,
    /// One per member, in the order of the members.
    pub outcomes: Vec<Outcome>,
}

impl Landing {
    /// The hash under which the attempt, whose landing this is, landed.
    pub fn hash_of<'a>(&'a self, attempt: &'a Attempt) -> &'a str {
        self.hash.as_deref().unwrap_or(&attempt.hash)
    }
}

/// What a landed attempt did for one member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// Paid (or, for [`Purpose::Prepare`], prepared).
    Done,
    /// Reverted because of another member. Charged to nobody.
    Sibling,
    /// It was too late: somebody else has done it, or used up what it takes. Charged to nobody:
    /// who it was is found out before it is signed again.
    Overtaken { message: String },
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

impl Certificate {
    /// Why the ledger refused it for certain, if it did, as [`crate::ledger::Refusal`] has it.
    pub fn refusal(&self) -> Option<&serde_json::Value> {
        match self.kind {
            CertificateKind::Refused => Some(&self.evidence),
            CertificateKind::Cancelled => self.evidence.get("refused"),
            _ => None,
        }
    }

    /// Notes that it was cancelled because the ledger had refused it.
    pub fn cancelled_because(&mut self, refusal: &Refusal) {
        if let (CertificateKind::Cancelled, Some(evidence)) =
            (self.kind, self.evidence.as_object_mut())
        {
            evidence.insert("refused".to_owned(), refusal.evidence());
            self.summary = format!("{}; it had been refused: {}", self.summary, refusal.reason);
        }
    }
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
    /// A variant of ours that does nothing took its nonce.
    Cancelled,
    /// Something took its nonce that cannot, by its content, have done the same.
    Displaced,
    /// An operator decided, with evidence.
    Operator,
}

/// Sightings kept of one endpoint for one attempt. Blocks fall off a chain once or twice; who has
/// seen it in more of them than this invents them.
const SIGHTINGS_MAX: usize = 16;

impl Attempt {
    /// Every hash under which it may land: its own, then those of its variants.
    pub fn hashes(&self) -> impl Iterator<Item = &str> {
        let variants = self.variants.iter().map(|variant| variant.signed.hash.as_str());
        std::iter::once(self.hash.as_str()).chain(variants)
    }

    /// What was signed last.
    pub fn newest(&self) -> Signed {
        match self.variants.last() {
            Some(variant) => variant.signed.clone(),
            None => self.original(),
        }
    }

    fn original(&self) -> Signed {
        Signed {
            bytes: self.bytes.clone(),
            hash: self.hash.clone(),
            base: self.base.clone(),
            expires_height: self.expires_height,
        }
    }

    /// Whether one of its variants cancels it: then nothing but cancels is signed for it.
    pub fn is_cancelled(&self) -> bool {
        self.variants.iter().any(|variant| variant.kind == VariantKind::Cancels)
    }

    /// What was signed under the hash, if it is one of its own.
    pub fn signed_as(&self, hash: &str) -> Option<Signed> {
        if self.hash == hash {
            return Some(self.original());
        }
        let mut variants = self.variants.iter().map(|variant| &variant.signed);
        variants.find(|signed| signed.hash == hash).cloned()
    }

    /// How far its lane has come with it.
    pub fn mark(&self) -> Mark {
        let seq = self.variants.iter().map(|variant| variant.seq).fold(self.seq, u64::max);
        Mark { nonce: self.nonce, seq }
    }

    /// The hash that landed, once one has.
    pub fn landed_as(&self) -> Option<&str> {
        match &self.fate {
            Some(Fate::Landed(landing)) => Some(landing.hash_of(self)),
            _ => None,
        }
    }

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
