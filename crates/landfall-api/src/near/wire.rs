//! What goes out of payouts, by the field names clients know.
//!
//! **Rule:** the idempotency key is the `transfer_id`; amounts are strings.

use std::borrow::Cow;

use landfall_core::{Certificate, Fault, TrailEntry, Transfer};
use serde::{Serialize, Serializer};
use utoipa::{OpenApi, ToSchema};

use crate::wire::Time;

/// Written as a string, whatever its size.
#[derive(Clone, Copy)]
pub struct Amount(pub u128);

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// A transfer that was just accepted.
#[derive(Serialize, ToSchema)]
#[schema(as = NewTransfer)]
pub struct NewBody<'a> {
    #[schema(schema_with = described::key)]
    transfer_id: &'a str,
    #[schema(schema_with = described::received)]
    status: &'static str,
    #[schema(schema_with = described::receiver)]
    receiver_id: Cow<'a, str>,
    #[schema(schema_with = described::amount)]
    amount: Amount,
    /// As it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    memo: Option<&'a str>,
    /// RFC 3339, UTC, with milliseconds.
    #[schema(value_type = String, format = DateTime)]
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
#[derive(Serialize, ToSchema)]
#[schema(as = Transfer)]
pub struct TransferBody<'a> {
    #[schema(schema_with = described::key)]
    transfer_id: &'a str,
    #[schema(schema_with = described::state)]
    status: &'static str,
    #[schema(schema_with = described::receiver)]
    receiver_id: Cow<'a, str>,
    #[schema(schema_with = described::amount)]
    amount: Amount,
    /// As it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    memo: Option<&'a str>,
    /// Hash of the newest transaction that paid, or was to pay, it.
    #[schema(required)]
    tx_hash: Option<&'a str>,
    /// When it was accepted.
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
    /// When it last moved.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Time,
    /// When it became final.
    #[schema(value_type = Option<String>, format = DateTime, required)]
    completed_at: Option<Time>,
    /// Failures charged to this transfer.
    #[schema(minimum = 0)]
    retry_count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = described::fault, required = false)]
    error: Option<&'a Fault>,
    /// Why it waits for the relay rather than for itself, such as a lack of funds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
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
#[derive(Serialize, ToSchema)]
#[schema(as = TransferStory)]
pub struct StoryBody<'a> {
    #[serde(flatten)]
    transfer: TransferBody<'a>,
    #[schema(schema_with = described::events)]
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

/// What goes out, as these types have it; what they refer to is in `openapi.json`.
#[derive(OpenApi)]
#[openapi(components(schemas(NewBody, TransferBody, StoryBody)))]
pub struct Described;

mod described {
    use serde_json::json;
    use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder};
    use utoipa::openapi::{RefOr, Schema, Type};

    use crate::describe::refer;

    pub fn key() -> RefOr<Schema> {
        refer("Key", "The idempotency key.")
    }

    pub fn received() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some([json!("RECEIVED")])).into()
    }

    pub fn state() -> RefOr<Schema> {
        refer("State", "")
    }

    pub fn receiver() -> RefOr<Schema> {
        refer("AccountId", "The account that is paid.")
    }

    pub fn amount() -> RefOr<Schema> {
        refer("Amount", "In the token's smallest unit, without leading zeros.")
    }

    pub fn fault() -> RefOr<Schema> {
        refer("Fault", "The newest failure.")
    }

    pub fn events() -> RefOr<Schema> {
        ArrayBuilder::new().description(Some("Oldest first.")).items(refer("Event", "")).into()
    }
}
