//! What each operation of the contract does to the store.
//!
//! **Invariant:** a record's moves are those of the transaction manager's own settling: a caller
//! says what it expects and what became of it, never what a record shall be.

use landfall_core::execution::{Execution, State};
use landfall_core::store::{
    Accepted, AddVariant, Added, LEASE_MAX_MS, Leased, OpenAttempt, Opened, Settled, Settlement,
    Sight, StoreError,
};
use landfall_core::{
    Attempt, AttemptId, Epoch, LaneId, NewTransfer, Payload, Purpose, RailName, Transfer,
    TransferId, machine,
};
use landfall_lanes::{KEY_MAX_BYTES, RecordStore, record_opening, record_settling};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Refused, Service};
use crate::translate::{marks_of_wire, record_of, transfer_of};
use crate::wire;

/// Attempts, records or leases that one question may be about.
const MANY_MAX: usize = 1_000;

type Answer = Result<Vec<u8>, Refused>;

pub(super) async fn perform<S: RecordStore + ?Sized>(
    service: &Service<S>,
    operation: &str,
    body: &[u8],
) -> Answer {
    match operation {
        "lease" => say(service.lease(read(body)?).await?),
        "renew" => say(service.renew(read(body)?).await?),
        "release" => say(service.release(read(body)?).await?),
        "start" => say(service.start(read(body)?).await?),
        "halt" => say(service.halt(read(body)?).await?),
        "adopt" => say(service.adopt(read(body)?).await?),
        "lanes" => say(service.lanes(read(body)?).await?),
        "identity" => say(service.identity(read(body)?).await?),
        "enter" => say(service.enter(read(body)?).await?),
        "record" => say(service.record(read(body)?).await?),
        "records" => say(service.records(read(body)?).await?),
        "forget" => say(service.forget(read(body)?).await?),
        "open" => say(service.open(read(body)?).await?),
        "vary" => say(service.vary(read(body)?).await?),
        "sight" => say(service.sight(read(body)?).await?),
        "settle" => say(service.settle(read(body)?).await?),
        "attempts" => say(service.attempts(read(body)?).await?),
        _ => Err(Refused::Nowhere),
    }
}

fn read<B: DeserializeOwned>(body: &[u8]) -> Result<B, Refused> {
    serde_json::from_slice(body).map_err(|error| Refused::Mistaken(error.to_string()))
}

fn say(answer: impl Serialize) -> Answer {
    let unsaid = |error: serde_json::Error| StoreError::Corrupt(error.to_string());
    serde_json::to_vec(&answer).map_err(|error| unsaid(error).into())
}

fn no_more_than(limit: usize, count: usize) -> Result<(), Refused> {
    match count <= limit {
        true => Ok(()),
        false => Err(Refused::Mistaken(format!("no more than {limit} at once"))),
    }
}

fn numbers(all: &[u64]) -> Result<(), Refused> {
    match all.iter().all(|number| *number <= wire::NUMBER_MAX) {
        true => Ok(()),
        false => Err(Refused::Mistaken("numbers are at most 2^53 - 1".into())),
    }
}

fn held(lanes: Vec<wire::Held>) -> Vec<(LaneId, Epoch)> {
    lanes.into_iter().map(|wire::Held { lane, epoch }| (lane, epoch)).collect()
}

/// As much of a record as its moves are made of.
fn outline(id: TransferId, status: State) -> Result<Transfer, Refused> {
    let record = wire::Record {
        id,
        key: String::new(),
        digest: String::new(),
        status: status.name().to_owned(),
        version: 0,
        attempt: None,
        hash: None,
        error: None,
        created_ms: 0,
        updated_ms: 0,
        completed_ms: None,
    };
    Ok(transfer_of(record)?)
}

fn told(record: Transfer) -> Result<wire::Record, Refused> {
    let foreign = || StoreError::Corrupt("a record is no execution's".into());
    Ok(record_of(record).ok_or_else(foreign)?)
}

impl<S: RecordStore + ?Sized> Service<S> {
    /// Whether a lane that is stored is a relay's own.
    async fn is_a_relays(&self, lane: &LaneId) -> Result<bool, Refused> {
        let lanes = self.store.lanes().await?;
        Ok(lanes.iter().any(|one| one.id == *lane && one.rail != RailName::Lanes))
    }

    async fn keep_out_of_relays(&self, lane: &LaneId) -> Result<(), Refused> {
        match self.is_a_relays(lane).await? {
            true => Err(Refused::Mistaken(format!("{lane} is a relay's own"))),
            false => Ok(()),
        }
    }

    /// An attempt of an execution's, or a fence beside them.
    async fn ours(&self, id: AttemptId) -> Result<Attempt, Refused> {
        match self.store.attempt(id).await? {
            Some(attempt) if attempt.rail == RailName::Lanes => Ok(attempt),
            _ => Err(StoreError::Corrupt(format!("attempt {id} is not in the store")).into()),
        }
    }

    async fn lease(&self, asked: wire::Lease) -> Result<wire::Leased, Refused> {
        let wire::Lease { lane, holder, ttl_ms } = asked;
        if lane.as_str().is_empty() || lane.as_str().len() > KEY_MAX_BYTES || holder.is_empty() {
            let why = format!("a lane has 1 to {KEY_MAX_BYTES} bytes, and its holder a name");
            return Err(Refused::Mistaken(why));
        }
        if !(1..=LEASE_MAX_MS).contains(&ttl_ms) {
            return Err(Refused::Mistaken(format!("ttl_ms is 1 to {LEASE_MAX_MS}")));
        }
        self.keep_out_of_relays(&lane).await?;
        Ok(match self.store.lease(&lane, RailName::Lanes, &holder, ttl_ms).await? {
            // A relay has made it in the meantime.
            Leased::Yours(taken) if taken.rail != RailName::Lanes => {
                self.store.release(&[(lane.clone(), taken.epoch)]).await?;
                return Err(Refused::Mistaken(format!("{lane} is a relay's own")));
            }
            Leased::Yours(lane) => wire::Leased::Yours { lane: lane.into() },
            Leased::Busy { holder, until_ms } => wire::Leased::Busy { holder, until_ms },
        })
    }

    async fn renew(&self, asked: wire::Renew) -> Result<wire::Renewed, Refused> {
        no_more_than(MANY_MAX, asked.lanes.len())?;
        if !(1..=LEASE_MAX_MS).contains(&asked.ttl_ms) {
            return Err(Refused::Mistaken(format!("ttl_ms is 1 to {LEASE_MAX_MS}")));
        }
        let renewed = self.store.renew(&held(asked.lanes), asked.ttl_ms).await?;
        Ok(wire::Renewed { renewed })
    }

    async fn release(&self, asked: wire::Release) -> Result<wire::Nothing, Refused> {
        no_more_than(MANY_MAX, asked.lanes.len())?;
        self.store.release(&held(asked.lanes)).await?;
        Ok(wire::Nothing {})
    }

    async fn start(&self, asked: wire::Start) -> Result<wire::Started, Refused> {
        numbers(&[asked.ledger_nonce.0])?;
        let wire::Start { lane, epoch, ledger_nonce } = asked;
        let started = self.store.start_lane(&lane, epoch, ledger_nonce).await?;
        Ok(wire::Started { started })
    }

    async fn halt(&self, asked: wire::Stop) -> Result<wire::Nothing, Refused> {
        self.keep_out_of_relays(&asked.lane).await?;
        self.store.halt(&asked.lane, &asked.reason).await?;
        Ok(wire::Nothing {})
    }

    async fn adopt(&self, asked: wire::Adopt) -> Result<wire::Nothing, Refused> {
        numbers(&[asked.ledger_nonce.0])?;
        self.keep_out_of_relays(&asked.lane).await?;
        self.store.adopt(&asked.lane, asked.ledger_nonce).await?;
        Ok(wire::Nothing {})
    }

    async fn lanes(&self, _: wire::Nothing) -> Result<wire::LaneList, Refused> {
        let ours = self.store.lanes().await?.into_iter().filter(|one| one.rail == RailName::Lanes);
        Ok(wire::LaneList { lanes: ours.map(Into::into).collect() })
    }

    /// Shared, whatever the store is: everybody who asks here uses it.
    async fn identity(
        &self,
        _: wire::Nothing,
    ) -> Result<landfall_core::store::StoreIdentity, Refused> {
        let identity = self.store.identity().await?;
        Ok(landfall_core::store::StoreIdentity { shared: true, ..identity })
    }

    async fn enter(&self, asked: wire::Enter) -> Result<wire::Entered, Refused> {
        let wire::Enter { key, digest, at_ms } = asked;
        let is_digest = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        if key.is_empty() || key.len() > KEY_MAX_BYTES || !is_digest {
            let why = format!("a key has 1 to {KEY_MAX_BYTES} bytes, a digest 64 hex digits");
            return Err(Refused::Mistaken(why));
        }
        numbers(&[at_ms])?;
        let payload = Payload::Lanes(Execution { digest: digest.to_ascii_lowercase() });
        let (print, first) = (payload.fingerprint(), machine::State::Lanes(State::Queued));
        let new = NewTransfer::begin((String::new(), key), print, payload, first, &[], at_ms)
            .map_err(|illegal| StoreError::Corrupt(illegal.to_string()))?;
        Ok(match self.store.enter(new).await? {
            Accepted::Created(record) => wire::Entered::Created { record: told(record)? },
            Accepted::Already(record) => wire::Entered::Already { record: told(record)? },
            Accepted::Conflict(record) => wire::Entered::Conflict { record: told(record)? },
            Accepted::Claimed { .. } => {
                let why = "a record that claims nothing met a claim".to_owned();
                return Err(StoreError::Corrupt(why).into());
            }
        })
    }

    async fn record(&self, asked: wire::ByKey) -> Result<wire::Found, Refused> {
        let found = self.store.record(&asked.key).await?;
        Ok(wire::Found { record: found.map(told).transpose()? })
    }

    async fn records(&self, asked: wire::ByIds) -> Result<wire::Records, Refused> {
        no_more_than(MANY_MAX, asked.ids.len())?;
        let found = self.store.transfers(&asked.ids).await?;
        Ok(wire::Records { records: found.into_iter().filter_map(record_of).collect() })
    }

    async fn forget(&self, asked: wire::Forget) -> Result<wire::Forgotten, Refused> {
        let limit = usize::try_from(asked.limit).unwrap_or(MANY_MAX).min(MANY_MAX);
        let forgotten = self.store.forget_records(asked.before_ms, limit).await?;
        Ok(wire::Forgotten { forgotten: forgotten as u64 })
    }

    async fn open(&self, asked: wire::Open) -> Result<wire::OpenedAll, Refused> {
        no_more_than(MANY_MAX, asked.attempts.len())?;
        let batch = asked.attempts.into_iter().map(opening).collect::<Result<Vec<_>, _>>()?;
        let answers = self.store.open(batch).await?.into_iter().map(opened).collect();
        Ok(wire::OpenedAll { answers })
    }

    async fn vary(&self, asked: wire::Vary) -> Result<wire::Varied, Refused> {
        numbers(&[asked.at_ms])?;
        self.ours(asked.attempt).await?;
        let add = AddVariant {
            attempt: asked.attempt,
            lane: asked.lane,
            epoch: asked.epoch,
            number: asked.number,
            kind: asked.kind,
            signed: asked.signed.into(),
            marks: marks_of_wire(asked.marks),
            incarnation: asked.incarnation,
            now_ms: asked.at_ms,
        };
        Ok(match self.store.add_variant(add).await? {
            Added::Stored(variant) => wire::Varied::Stored { variant: Box::new((*variant).into()) },
            Added::Fenced(why) => wire::Varied::Fenced { why },
            Added::Behind(why) => wire::Varied::Behind { why },
            Added::Restarted => wire::Varied::Restarted { why: RESTARTED.to_owned() },
            Added::Decided => wire::Varied::Decided,
            Added::StaleNumber => wire::Varied::StaleNumber,
        })
    }

    async fn sight(&self, asked: wire::See) -> Result<wire::Seen, Refused> {
        no_more_than(MANY_MAX, asked.sightings.len())?;
        self.ours(asked.attempt).await?;
        let wire::See { attempt, lane, epoch, sightings } = asked;
        let sight = Sight { attempt, lane, epoch, sightings, moves: Vec::new() };
        Ok(wire::Seen { noted: self.store.sight(sight).await? })
    }

    async fn settle(&self, asked: wire::Settle) -> Result<wire::Settled, Refused> {
        numbers(&[asked.at_ms])?;
        let stored = self.ours(asked.attempt).await?;
        let wire::Settle { attempt, lane, epoch, fate, at_ms: now_ms } = asked;
        let mut moves = Vec::new();
        for id in &stored.members {
            let mut record = outline(*id, State::Inflight)?;
            record.tx_hash = Some(stored.hash.clone());
            let step = record_settling(&stored, &record, &fate, now_ms);
            moves.push(step.map_err(|illegal| StoreError::Corrupt(illegal.to_string()))?);
        }
        let settlement = Settlement { attempt, lane, epoch, fate, moves, now_ms };
        Ok(match self.store.settle(settlement).await? {
            Settled::Done { moved, .. } => wire::Settled::Done { moved },
            Settled::AlreadyDecided => wire::Settled::Already,
            Settled::Fenced => wire::Settled::Fenced,
        })
    }

    async fn attempts(&self, asked: wire::Which) -> Result<wire::Attempts, Refused> {
        let found = match asked {
            wire::Which { attempt: Some(id), lane: None, .. } => {
                self.store.attempt(id).await?.into_iter().collect()
            }
            wire::Which { lane: Some(lane), open: true, nonce: None, above: None, .. } => {
                self.store.open_attempts(&lane).await?
            }
            wire::Which {
                lane: Some(lane), open: false, nonce: Some(nonce), above: None, ..
            } => self.store.attempt_at(&lane, nonce).await?.into_iter().collect(),
            wire::Which {
                lane: Some(lane),
                open: false,
                nonce: None,
                above: Some(above),
                limit,
                ..
            } => {
                let limit = limit.map_or(MANY_MAX, |limit| limit.min(MANY_MAX as u64) as usize);
                self.store.attempts_after(&lane, above, limit).await?
            }
            _ => {
                return Err(Refused::Mistaken(
                    "a lane with open, nonce or above; or an attempt".into(),
                ));
            }
        };
        let ours = found.into_iter().filter(|attempt: &Attempt| attempt.rail == RailName::Lanes);
        Ok(wire::Attempts { attempts: ours.map(Into::into).collect() })
    }
}

const RESTARTED: &str = "the store lives on in another process; look its lanes over";

fn opening(one: wire::OpenOne) -> Result<OpenAttempt, Refused> {
    numbers(&[one.nonce.0, one.at_ms])?;
    if one.signed.bytes.is_empty() || one.signed.hash.is_empty() {
        return Err(Refused::Mistaken("what is signed has bytes and a hash".into()));
    }
    let mut moves = Vec::new();
    if let Some(wire::Carried { id, version, updated_ms }) = one.record {
        let record = Transfer { version, updated_ms, ..outline(id, State::Queued)? };
        let step = record_opening(&record, &one.signed.hash, one.at_ms);
        moves.push(step.map_err(|illegal| StoreError::Corrupt(illegal.to_string()))?);
    }
    Ok(OpenAttempt {
        rail: RailName::Lanes,
        lane: one.lane,
        epoch: one.epoch,
        nonce: one.nonce,
        purpose: if moves.is_empty() { Purpose::Fence } else { Purpose::Pay },
        signed: one.signed.into(),
        moves,
        marks: marks_of_wire(one.marks),
        incarnation: one.incarnation,
        now_ms: one.at_ms,
    })
}

fn opened(answer: Opened) -> wire::Opened {
    match answer {
        Opened::Stored(attempt) => wire::Opened::Stored { attempt: Box::new((*attempt).into()) },
        Opened::Fenced(why) => wire::Opened::Fenced { why },
        Opened::Behind(why) => wire::Opened::Behind { why },
        Opened::Restarted => wire::Opened::Restarted { why: RESTARTED.to_owned() },
        Opened::StaleNonce => wire::Opened::StaleNonce,
        Opened::StaleMembers(_) => wire::Opened::StaleRecord,
    }
}
