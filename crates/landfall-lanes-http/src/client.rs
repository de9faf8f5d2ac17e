//! The contract as a store: whoever runs a `TxManager` on it needs no store of its own.
//!
//! **Invariant:** one call is one request; nothing here repeats anything.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use landfall_core::store::{
    Accepted, AddVariant, Added, LaneStore, Leased, OpenAttempt, Opened, Result, Settled,
    Settlement, Sight, StoreError, StoreIdentity,
};
use landfall_core::{
    Attempt, AttemptId, Clock, Epoch, Lane, LaneId, Move, NewTransfer, Nonce, Payload, RailName,
    Transfer, TransferId,
};
use landfall_lanes::RecordStore;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::auth::{Asked, ID_HEADER, SIGNATURE_HEADER, Secret, TIME_HEADER};
use crate::translate::{marks_to_wire, transfer_of};
use crate::wire;

/// How long an answer may take: a store's commit, and a busy server. Shorter than a lease.
const TIMEOUT: Duration = Duration::from_secs(5);

/// An address that cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{address}: {why}")]
pub struct BadAddress {
    pub address: String,
    pub why: String,
}

/// One space of the contract.
pub struct LanesClient {
    base: reqwest::Url,
    secret: Secret,
    clock: Arc<dyn Clock>,
    http: reqwest::Client,
}

impl LanesClient {
    /// Of the space at this address, such as `http://127.0.0.1:3050/v1`.
    pub fn new(
        base: &str,
        secret: Secret,
        clock: Arc<dyn Clock>,
    ) -> std::result::Result<LanesClient, BadAddress> {
        let bad = |why: String| BadAddress { address: base.to_owned(), why };
        let base = reqwest::Url::parse(base).map_err(|error| bad(error.to_string()))?;
        // A redirect would carry a signed request to whoever is named.
        let http = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| bad(error.to_string()))?;
        Ok(LanesClient { base, secret, clock, http })
    }

    async fn ask<B: Serialize, A: DeserializeOwned>(&self, operation: &str, body: &B) -> Result<A> {
        let lost = |why: String| StoreError::Unavailable(format!("{operation}: {why}"));
        let body = serde_json::to_vec(body).map_err(|error| lost(error.to_string()))?;
        let mut url = self.base.clone();
        url.set_path(&format!("{}/{operation}", self.base.path().trim_end_matches('/')));
        let (time_ms, id) = (self.clock.now_ms(), fresh_id());
        let asked = Asked { method: "POST", path: url.path(), time_ms, id: &id, body: &body };
        let proof = self.secret.sign(&asked);
        let request = self
            .http
            .post(url)
            .header("content-type", "application/json")
            .header(TIME_HEADER, proof.time_ms)
            .header(ID_HEADER, proof.id)
            .header(SIGNATURE_HEADER, proof.signature)
            .body(body);
        let answer = request.send().await.map_err(|error| lost(error.to_string()))?;
        let status = answer.status();
        let text = answer.bytes().await.map_err(|error| lost(error.to_string()))?;
        if status.is_success() {
            return serde_json::from_slice(&text).map_err(|error| lost(error.to_string()));
        }
        let failed = serde_json::from_slice::<wire::Failed>(&text).ok();
        match failed {
            Some(wire::Failed { error, message }) if error == "corrupt" => {
                Err(StoreError::Corrupt(format!("{operation}: {message}")))
            }
            Some(wire::Failed { message, .. }) => Err(lost(format!("{status}: {message}"))),
            None => Err(lost(status.to_string())),
        }
    }

    async fn attempts(&self, which: wire::Which) -> Result<Vec<Attempt>> {
        let wire::Attempts { attempts } = self.ask("attempts", &which).await?;
        Ok(attempts.into_iter().map(Attempt::from).collect())
    }
}

/// Drawn for one request alone.
fn fresh_id() -> String {
    let drawn: [u8; 16] = rand::random();
    drawn.iter().fold(String::with_capacity(32), |mut id, byte| {
        // Writing to a string cannot fail.
        let _ = write!(id, "{byte:02x}");
        id
    })
}

fn held(lanes: &[(LaneId, Epoch)]) -> Vec<wire::Held> {
    let one = |(lane, epoch): &(LaneId, Epoch)| wire::Held { lane: lane.clone(), epoch: *epoch };
    lanes.iter().map(one).collect()
}

/// What the opening of an attempt expects of the record it carries. The rest of the move is the
/// server's to make: it is the same for all.
fn carried(step: &Move) -> wire::Carried {
    // A move that expects no version belongs to no opening: no record has the version 0.
    let version = step.from_version.unwrap_or_default();
    wire::Carried { id: step.id, version, updated_ms: step.from_updated_ms }
}

fn open_one(open: OpenAttempt) -> wire::OpenOne {
    wire::OpenOne {
        lane: open.lane,
        epoch: open.epoch,
        nonce: open.nonce,
        record: open.moves.first().map(carried),
        signed: open.signed.into(),
        marks: marks_to_wire(open.marks),
        incarnation: open.incarnation,
        at_ms: open.now_ms,
    }
}

fn opened(answer: wire::Opened, record: Option<TransferId>) -> Opened {
    match answer {
        wire::Opened::Stored { attempt } => Opened::Stored(Box::new((*attempt).into())),
        wire::Opened::Fenced { why } => Opened::Fenced(why),
        wire::Opened::Behind { why } => Opened::Behind(why),
        wire::Opened::Restarted { .. } => Opened::Restarted,
        wire::Opened::StaleNonce => Opened::StaleNonce,
        wire::Opened::StaleRecord => Opened::StaleMembers(record.into_iter().collect()),
    }
}

#[async_trait]
impl LaneStore for LanesClient {
    async fn identity(&self) -> Result<StoreIdentity> {
        self.ask("identity", &wire::Nothing {}).await
    }

    async fn open(&self, batch: Vec<OpenAttempt>) -> Result<Vec<Opened>> {
        let record = |open: &OpenAttempt| open.moves.first().map(|step| step.id);
        let records: Vec<Option<TransferId>> = batch.iter().map(record).collect();
        let attempts = batch.into_iter().map(open_one).collect();
        let wire::OpenedAll { answers } = self.ask("open", &wire::Open { attempts }).await?;
        if answers.len() != records.len() {
            return Err(StoreError::Unavailable("open: not every opening was answered".into()));
        }
        Ok(answers.into_iter().zip(records).map(|(one, record)| opened(one, record)).collect())
    }

    async fn add_variant(&self, add: AddVariant) -> Result<Added> {
        let vary = wire::Vary {
            attempt: add.attempt,
            lane: add.lane,
            epoch: add.epoch,
            number: add.number,
            kind: add.kind,
            signed: add.signed.into(),
            marks: marks_to_wire(add.marks),
            incarnation: add.incarnation,
            at_ms: add.now_ms,
        };
        Ok(match self.ask("vary", &vary).await? {
            wire::Varied::Stored { variant } => Added::Stored(Box::new((*variant).into())),
            wire::Varied::Fenced { why } => Added::Fenced(why),
            wire::Varied::Behind { why } => Added::Behind(why),
            wire::Varied::Restarted { .. } => Added::Restarted,
            wire::Varied::Decided => Added::Decided,
            wire::Varied::StaleNumber => Added::StaleNumber,
        })
    }

    async fn settle(&self, settlement: Settlement) -> Result<Settled> {
        let Settlement { attempt, lane, epoch, fate, moves: _, now_ms: at_ms } = settlement;
        let settle = wire::Settle { attempt, lane, epoch, fate, at_ms };
        Ok(match self.ask("settle", &settle).await? {
            wire::Settled::Done { moved } => Settled::Done { moved, released: Vec::new() },
            wire::Settled::Already => Settled::AlreadyDecided,
            wire::Settled::Fenced => Settled::Fenced,
        })
    }

    async fn sight(&self, sight: Sight) -> Result<bool> {
        sight.check()?;
        let Sight { attempt, lane, epoch, sightings, moves: _ } = sight;
        let see = wire::See { attempt, lane, epoch, sightings };
        let wire::Seen { noted } = self.ask("sight", &see).await?;
        Ok(noted)
    }

    async fn open_attempts(&self, lane: &LaneId) -> Result<Vec<Attempt>> {
        let lane = Some(lane.clone());
        self.attempts(wire::Which { lane, open: true, ..Default::default() }).await
    }

    async fn attempts_after(
        &self,
        lane: &LaneId,
        above: Nonce,
        limit: usize,
    ) -> Result<Vec<Attempt>> {
        let (lane, limit) = (Some(lane.clone()), Some(limit as u64));
        self.attempts(wire::Which { lane, above: Some(above), limit, ..Default::default() }).await
    }

    async fn attempt(&self, id: AttemptId) -> Result<Option<Attempt>> {
        let which = wire::Which { attempt: Some(id), ..Default::default() };
        Ok(self.attempts(which).await?.pop())
    }

    async fn attempt_at(&self, lane: &LaneId, nonce: Nonce) -> Result<Option<Attempt>> {
        let (lane, nonce) = (Some(lane.clone()), Some(nonce));
        Ok(self.attempts(wire::Which { lane, nonce, ..Default::default() }).await?.pop())
    }

    async fn transfers(&self, ids: &[TransferId]) -> Result<Vec<Transfer>> {
        let ids = ids.to_vec();
        let wire::Records { records } = self.ask("records", &wire::ByIds { ids }).await?;
        records.into_iter().map(transfer_of).collect()
    }

    async fn lease(
        &self,
        lane: &LaneId,
        _rail: RailName,
        holder: &str,
        ttl_ms: u64,
    ) -> Result<Leased> {
        let lease = wire::Lease { lane: lane.clone(), holder: holder.to_owned(), ttl_ms };
        Ok(match self.ask("lease", &lease).await? {
            wire::Leased::Yours { lane } => Leased::Yours(lane.into()),
            wire::Leased::Busy { holder, until_ms } => Leased::Busy { holder, until_ms },
        })
    }

    async fn renew(&self, lanes: &[(LaneId, Epoch)], ttl_ms: u64) -> Result<Vec<bool>> {
        let renew = wire::Renew { lanes: held(lanes), ttl_ms };
        let wire::Renewed { renewed } = self.ask("renew", &renew).await?;
        match renewed.len() == lanes.len() {
            true => Ok(renewed),
            false => Err(StoreError::Unavailable("renew: not every lease was answered".into())),
        }
    }

    async fn release(&self, lanes: &[(LaneId, Epoch)]) -> Result<()> {
        let wire::Nothing {} = self.ask("release", &wire::Release { lanes: held(lanes) }).await?;
        Ok(())
    }

    async fn start_lane(&self, lane: &LaneId, epoch: Epoch, ledger_nonce: Nonce) -> Result<bool> {
        let start = wire::Start { lane: lane.clone(), epoch, ledger_nonce };
        let wire::Started { started } = self.ask("start", &start).await?;
        Ok(started)
    }

    async fn halt(&self, lane: &LaneId, reason: &str) -> Result<()> {
        let stop = wire::Stop { lane: lane.clone(), reason: reason.to_owned() };
        let wire::Nothing {} = self.ask("halt", &stop).await?;
        Ok(())
    }

    async fn adopt(&self, lane: &LaneId, ledger_nonce: Nonce) -> Result<()> {
        let adopt = wire::Adopt { lane: lane.clone(), ledger_nonce };
        let wire::Nothing {} = self.ask("adopt", &adopt).await?;
        Ok(())
    }

    async fn lanes(&self) -> Result<Vec<Lane>> {
        let wire::LaneList { lanes } = self.ask("lanes", &wire::Nothing {}).await?;
        Ok(lanes.into_iter().map(Lane::from).collect())
    }
}

#[async_trait]
impl RecordStore for LanesClient {
    async fn enter(&self, new: NewTransfer) -> Result<Accepted> {
        let Payload::Lanes(execution) = new.payload else {
            return Err(StoreError::Corrupt("a record is of an execution".into()));
        };
        let enter = wire::Enter { key: new.key, digest: execution.digest, at_ms: new.created_ms };
        Ok(match self.ask("enter", &enter).await? {
            wire::Entered::Created { record } => Accepted::Created(transfer_of(record)?),
            wire::Entered::Already { record } => Accepted::Already(transfer_of(record)?),
            wire::Entered::Conflict { record } => Accepted::Conflict(transfer_of(record)?),
        })
    }

    async fn record(&self, key: &str) -> Result<Option<Transfer>> {
        let by_key = wire::ByKey { key: key.to_owned() };
        let wire::Found { record } = self.ask("record", &by_key).await?;
        record.map(transfer_of).transpose()
    }

    async fn forget_records(&self, before_ms: u64, limit: usize) -> Result<usize> {
        let forget = wire::Forget { before_ms, limit: limit as u64 };
        let wire::Forgotten { forgotten } = self.ask("forget", &forget).await?;
        Ok(forgotten as usize)
    }
}
