//! The contract's words in Landfall's, and back. Pure.

use landfall_core::execution::{Execution, State};
use landfall_core::lane::Mark;
use landfall_core::store::StoreError;
use landfall_core::{
    Attempt, Fault, Lane, LaneId, Payload, Purpose, RailName, Transfer, attempt, machine,
};

use crate::wire;

impl From<Lane> for wire::Lane {
    fn from(lane: Lane) -> wire::Lane {
        let Lane { id, epoch, holder, lease_until_ms, base_nonce, next_nonce, seq, halted, .. } =
            lane;
        wire::Lane { id, epoch, holder, lease_until_ms, base_nonce, next_nonce, seq, halted }
    }
}

impl From<wire::Lane> for Lane {
    fn from(lane: wire::Lane) -> Lane {
        let wire::Lane { id, epoch, holder, lease_until_ms, base_nonce, next_nonce, seq, halted } =
            lane;
        let rail = RailName::Lanes;
        Lane { id, rail, epoch, holder, lease_until_ms, base_nonce, next_nonce, seq, halted }
    }
}

impl From<attempt::Signed> for wire::Signed {
    fn from(signed: attempt::Signed) -> wire::Signed {
        let attempt::Signed { bytes, hash, base, expires_height } = signed;
        wire::Signed { hash, bytes, base, expires_height }
    }
}

impl From<wire::Signed> for attempt::Signed {
    fn from(signed: wire::Signed) -> attempt::Signed {
        let wire::Signed { hash, bytes, base, expires_height } = signed;
        attempt::Signed { bytes, hash, base, expires_height }
    }
}

impl From<attempt::Variant> for wire::Variant {
    fn from(variant: attempt::Variant) -> wire::Variant {
        let attempt::Variant { number, kind, epoch, seq, signed, opened_ms } = variant;
        wire::Variant { number, kind, epoch, seq, opened_ms, signed: signed.into() }
    }
}

impl From<wire::Variant> for attempt::Variant {
    fn from(variant: wire::Variant) -> attempt::Variant {
        let wire::Variant { number, kind, epoch, seq, opened_ms, signed } = variant;
        attempt::Variant { number, kind, epoch, seq, signed: signed.into(), opened_ms }
    }
}

impl From<Attempt> for wire::Attempt {
    fn from(attempt: Attempt) -> wire::Attempt {
        wire::Attempt {
            id: attempt.id,
            lane: attempt.lane,
            epoch: attempt.epoch,
            nonce: attempt.nonce,
            seq: attempt.seq,
            record: attempt.members.first().copied(),
            signed: wire::Signed {
                hash: attempt.hash,
                bytes: attempt.bytes,
                base: attempt.base,
                expires_height: attempt.expires_height,
            },
            variants: attempt.variants.into_iter().map(Into::into).collect(),
            opened_ms: attempt.opened_ms,
            sightings: attempt.sightings,
            fate: attempt.fate,
            decided_ms: attempt.decided_ms,
        }
    }
}

impl From<wire::Attempt> for Attempt {
    fn from(attempt: wire::Attempt) -> Attempt {
        Attempt {
            id: attempt.id,
            rail: RailName::Lanes,
            lane: attempt.lane,
            epoch: attempt.epoch,
            nonce: attempt.nonce,
            purpose: if attempt.record.is_some() { Purpose::Pay } else { Purpose::Fence },
            seq: attempt.seq,
            hash: attempt.signed.hash,
            bytes: attempt.signed.bytes,
            base: attempt.signed.base,
            expires_height: attempt.signed.expires_height,
            variants: attempt.variants.into_iter().map(Into::into).collect(),
            members: attempt.record.into_iter().collect(),
            opened_ms: attempt.opened_ms,
            sightings: attempt.sightings,
            fate: attempt.fate,
            decided_ms: attempt.decided_ms,
        }
    }
}

/// None of a transfer that is no execution's: it is none of a client's business.
pub fn record_of(transfer: Transfer) -> Option<wire::Record> {
    let Payload::Lanes(Execution { digest }) = transfer.payload else { return None };
    let error =
        |fault: Fault| wire::RecordError { error_type: fault.error_type, message: fault.message };
    Some(wire::Record {
        id: transfer.id,
        key: transfer.key,
        digest,
        status: transfer.state.name().to_owned(),
        version: transfer.version,
        attempt: transfer.attempt,
        hash: transfer.tx_hash,
        error: transfer.error.map(error),
        created_ms: transfer.created_ms,
        updated_ms: transfer.updated_ms,
        completed_ms: transfer.completed_ms,
    })
}

/// A record as Landfall's own parts know it.
pub fn transfer_of(record: wire::Record) -> Result<Transfer, StoreError> {
    let status = State::ALL.into_iter().find(|state| state.name() == record.status);
    let unknown = || StoreError::Corrupt(format!("a record is {}", record.status));
    let state = machine::State::Lanes(status.ok_or_else(unknown)?);
    let execution = Execution { digest: record.digest };
    let fault = |error: wire::RecordError| Fault {
        error_type: error.error_type,
        message: error.message,
        retry_count: 0,
        will_retry: false,
    };
    Ok(Transfer {
        id: record.id,
        tenant: String::new(),
        key: record.key,
        fingerprint: execution.fingerprint(),
        payload: Payload::Lanes(execution),
        state,
        confirmed: false,
        version: record.version,
        attempt: record.attempt,
        stage_retries: 0,
        retry_count: 0,
        due_ms: None,
        aside: None,
        tx_hash: record.hash,
        error: record.error.map(fault),
        created_ms: record.created_ms,
        updated_ms: record.updated_ms,
        completed_ms: record.completed_ms,
    })
}

pub fn marks_to_wire(marks: Vec<(LaneId, Mark)>) -> Vec<wire::Mark> {
    let one = |(lane, Mark { nonce, seq })| wire::Mark { lane, nonce, seq };
    marks.into_iter().map(one).collect()
}

pub fn marks_of_wire(marks: Vec<wire::Mark>) -> Vec<(LaneId, Mark)> {
    let one = |wire::Mark { lane, nonce, seq }| (lane, Mark { nonce, seq });
    marks.into_iter().map(one).collect()
}
