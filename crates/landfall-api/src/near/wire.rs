//! What goes out of payouts, by the field names clients know.
//!
//! **Rule:** the idempotency key is the `transfer_id`; amounts are strings.

use std::borrow::Cow;

use landfall_core::{Certificate, Fault, TrailEntry, Transfer};
use serde::{Serialize, Serializer};

use crate::wire::Time;

/// Written as a string, whatever its size.
#[derive(Clone, Copy)]
pub struct Amount(pub u128);

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// The answer to a new transfer.
#[derive(Serialize)]
pub struct NewBody<'a> {
    transfer_id: &'a str,
    status: &'static str,
    receiver_id: Cow<'a, str>,
    amount: Amount,
    #[serde(skip_serializing_if = "Option::is_none")]
    memo: Option<&'a str>,
    created_at: Time,
}

impl<'a> NewBody<'a> {
    pub fn of(transfer: &'a Transfer) -> NewBody<'a> {
        NewBody {
            transfer_id: &transfer.key,
            // What was done for the client; the stored state may already be further.
            status: "RECEIVED",
            receiver_id: transfer.payload.receiver(),
            amount: Amount(transfer.payload.amount()),
            memo: transfer.payload.near().and_then(|payout| payout.memo.as_deref()),
            created_at: Time(transfer.created_ms),
        }
    }
}

/// A transfer as it is stored.
#[derive(Serialize)]
pub struct TransferBody<'a> {
    transfer_id: &'a str,
    status: &'static str,
    receiver_id: Cow<'a, str>,
    amount: Amount,
    #[serde(skip_serializing_if = "Option::is_none")]
    memo: Option<&'a str>,
    tx_hash: Option<&'a str>,
    created_at: Time,
    updated_at: Time,
    completed_at: Option<Time>,
    retry_count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Fault>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aside: Option<&'a str>,
}

impl<'a> TransferBody<'a> {
    pub fn of(transfer: &'a Transfer) -> TransferBody<'a> {
        TransferBody {
            transfer_id: &transfer.key,
            status: transfer.state.name(),
            receiver_id: transfer.payload.receiver(),
            amount: Amount(transfer.payload.amount()),
            memo: transfer.payload.near().and_then(|payout| payout.memo.as_deref()),
            tx_hash: transfer.tx_hash.as_deref(),
            created_at: Time(transfer.created_ms),
            updated_at: Time(transfer.updated_ms),
            completed_at: transfer.completed_ms.map(Time),
            retry_count: transfer.retry_count,
            error: transfer.error.as_ref(),
            aside: transfer.aside.as_deref(),
        }
    }
}

/// A transfer with its audit trail.
#[derive(Serialize)]
pub struct StoryBody<'a> {
    #[serde(flatten)]
    transfer: TransferBody<'a>,
    events: Vec<EventBody<'a>>,
}

impl<'a> StoryBody<'a> {
    pub fn of(transfer: &'a Transfer, trail: &'a [TrailEntry]) -> StoryBody<'a> {
        StoryBody {
            transfer: TransferBody::of(transfer),
            events: trail.iter().map(EventBody::of).collect(),
        }
    }
}

/// One line of the audit trail.
#[derive(Serialize)]
struct EventBody<'a> {
    time: Time,
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tx_hash: Option<&'a str>,
    #[serde(flatten)]
    error: Option<&'a Fault>,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<&'a Certificate>,
}

impl<'a> EventBody<'a> {
    fn of(entry: &'a TrailEntry) -> EventBody<'a> {
        EventBody {
            time: Time(entry.at_ms),
            event: entry.event.name(),
            tx_hash: entry.tx_hash.as_deref(),
            error: entry.error.as_ref(),
            certificate: entry.certificate.as_ref(),
        }
    }
}

/// What became of one of many.
#[derive(Serialize)]
pub struct ItemBody<'a> {
    /// None where it was not readable.
    pub idempotency_key: Option<&'a str>,
    /// As `POST /transfer` would have answered.
    pub status: u16,
    #[serde(flatten)]
    pub result: ItemResult<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemResult<'a> {
    /// New.
    #[serde(rename = "transfer")]
    Created(NewBody<'a>),
    /// The same again.
    #[serde(rename = "transfer")]
    Already(TransferBody<'a>),
    Error(String),
}
