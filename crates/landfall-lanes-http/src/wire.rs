//! The contract's bodies, as docs/lanes.md has them, and nothing that decides.

use landfall_core::attempt::{BaseBlock, Fate, Sighting, VariantKind};
use landfall_core::lane::Halt;
use landfall_core::{AttemptId, Epoch, LaneId, Nonce, TransferId};
use serde::{Deserialize, Serialize};

/// What every client and server of the contract can count to.
pub const NUMBER_MAX: u64 = (1 << 53) - 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nothing {}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failed {
    pub error: String,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    pub id: LaneId,
    pub epoch: Epoch,
    pub holder: Option<String>,
    pub lease_until_ms: u64,
    pub base_nonce: Option<Nonce>,
    pub next_nonce: Option<Nonce>,
    pub seq: u64,
    pub halted: Option<Halt>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub lane: LaneId,
    pub holder: String,
    pub ttl_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Leased {
    Yours { lane: Lane },
    Busy { holder: String, until_ms: u64 },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub lane: LaneId,
    pub epoch: Epoch,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renew {
    pub lanes: Vec<Held>,
    pub ttl_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewed {
    pub renewed: Vec<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    pub lanes: Vec<Held>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    pub lane: LaneId,
    pub epoch: Epoch,
    pub ledger_nonce: Nonce,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    pub started: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    pub lane: LaneId,
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adopt {
    pub lane: LaneId,
    pub ledger_nonce: Nonce,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneList {
    pub lanes: Vec<Lane>,
}

/// An idempotency record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub id: TransferId,
    pub key: String,
    pub digest: String,
    /// As `landfall_core::execution::State` names them.
    pub status: String,
    pub version: u64,
    pub attempt: Option<AttemptId>,
    pub hash: Option<String>,
    pub error: Option<RecordError>,
    pub created_ms: u64,
    pub updated_ms: u64,
    pub completed_ms: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordError {
    pub error_type: String,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enter {
    pub key: String,
    pub digest: String,
    pub at_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Entered {
    Created { record: Record },
    Already { record: Record },
    Conflict { record: Record },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByKey {
    pub key: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    pub record: Option<Record>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByIds {
    pub ids: Vec<TransferId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Records {
    pub records: Vec<Record>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forget {
    pub before_ms: u64,
    pub limit: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forgotten {
    pub forgotten: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signed {
    pub hash: String,
    #[serde(with = "in_base64")]
    pub bytes: Vec<u8>,
    pub base: Option<BaseBlock>,
    pub expires_height: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    pub number: u32,
    pub kind: VariantKind,
    pub epoch: Epoch,
    pub seq: u64,
    pub opened_ms: u64,
    #[serde(flatten)]
    pub signed: Signed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    pub id: AttemptId,
    pub lane: LaneId,
    pub epoch: Epoch,
    pub nonce: Nonce,
    pub seq: u64,
    /// None of a fence.
    pub record: Option<TransferId>,
    #[serde(flatten)]
    pub signed: Signed,
    pub variants: Vec<Variant>,
    pub opened_ms: u64,
    pub sightings: Vec<Sighting>,
    pub fate: Option<Fate>,
    pub decided_ms: Option<u64>,
}

/// A record as it must be for an attempt to carry it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    pub id: TransferId,
    pub version: u64,
    pub updated_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    pub lane: LaneId,
    pub nonce: Nonce,
    pub seq: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenOne {
    pub lane: LaneId,
    pub epoch: Epoch,
    pub nonce: Nonce,
    /// None: a fence.
    pub record: Option<Carried>,
    pub signed: Signed,
    pub marks: Vec<Mark>,
    pub incarnation: String,
    pub at_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    pub attempts: Vec<OpenOne>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenedAll {
    pub answers: Vec<Opened>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Opened {
    Stored { attempt: Box<Attempt> },
    Fenced { why: String },
    Behind { why: String },
    Restarted { why: String },
    StaleNonce,
    StaleRecord,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vary {
    pub attempt: AttemptId,
    pub lane: LaneId,
    pub epoch: Epoch,
    pub number: u32,
    pub kind: VariantKind,
    pub signed: Signed,
    pub marks: Vec<Mark>,
    pub incarnation: String,
    pub at_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Varied {
    Stored { variant: Box<Variant> },
    Fenced { why: String },
    Behind { why: String },
    Restarted { why: String },
    Decided,
    StaleNumber,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct See {
    pub attempt: AttemptId,
    pub lane: LaneId,
    pub epoch: Epoch,
    pub sightings: Vec<Sighting>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    pub noted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settle {
    pub attempt: AttemptId,
    pub lane: LaneId,
    pub epoch: Epoch,
    pub fate: Fate,
    pub at_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Settled {
    Done { moved: Vec<TransferId> },
    Already,
    Fenced,
}

/// Which attempts: by their lane and one of the three, or one by its id.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Which {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<AttemptId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<LaneId>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<Nonce>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above: Option<Nonce>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempts {
    pub attempts: Vec<Attempt>,
}

mod in_base64 {
    //! Bytes in JSON.

    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    pub fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&BASE64_STANDARD.encode(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        BASE64_STANDARD.decode(String::deserialize(from)?).map_err(D::Error::custom)
    }
}
