//! What goes out of payouts, by the field names clients know.
//!
//! **Rule:** the idempotency key is the `transfer_id`; amounts are strings.

use std::borrow::Cow;

use landfall_core::{Certificate, CertificateKind, TrailEntry, Transfer};
use serde::{Serialize, Serializer};
use serde_json::Value;
use utoipa::{OpenApi, ToSchema};

use crate::wire::{FaultBody, Time};

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
    error: Option<FaultBody<'a>>,
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
            error: transfer.error.as_ref().map(FaultBody::of),
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

/// A state entered, or a note beside the states. A failure's fields stand beside the event's own.
#[derive(Serialize, ToSchema)]
#[schema(as = Event)]
struct EventBody<'a> {
    /// RFC 3339, UTC, with milliseconds.
    #[schema(value_type = String, format = DateTime)]
    time: Time,
    #[schema(schema_with = described::event)]
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    tx_hash: Option<&'a str>,
    #[serde(flatten)]
    error: Option<FaultBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = described::certificate, required = false)]
    certificate: Option<CertificateBody<'a>>,
}

impl<'a> EventBody<'a> {
    fn of(entry: &'a TrailEntry) -> EventBody<'a> {
        EventBody {
            time: Time(entry.at_ms),
            event: entry.event.name(),
            tx_hash: entry.tx_hash.as_deref(),
            error: entry.error.as_ref().map(FaultBody::of),
            certificate: entry.certificate.as_ref().map(CertificateBody::of),
        }
    }
}

/// The proof that an attempt can never land.
#[derive(Serialize, ToSchema)]
#[schema(as = Certificate)]
struct CertificateBody<'a> {
    #[schema(schema_with = described::proof)]
    kind: CertificateKind,
    summary: &'a str,
    /// What was read, where, at which height.
    #[schema(value_type = Value)]
    evidence: &'a Value,
}

impl<'a> CertificateBody<'a> {
    fn of(certificate: &'a Certificate) -> CertificateBody<'a> {
        let Certificate { kind, summary, evidence } = certificate;
        CertificateBody { kind: *kind, summary, evidence }
    }
}

/// What became of one of many: a transfer, or an error.
#[derive(Serialize, ToSchema)]
#[schema(as = ManyResult)]
pub struct ItemBody<'a> {
    /// As sent; null where it was not readable.
    #[schema(required)]
    idempotency_key: Option<&'a str>,
    #[schema(schema_with = described::item_status)]
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = described::item_transfer, required = false)]
    transfer: Option<ItemTransfer<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    error: Option<String>,
}

#[derive(Serialize)]
#[serde(untagged)]
pub enum ItemTransfer<'a> {
    /// New.
    Created(NewBody<'a>),
    /// The same again.
    Already(TransferBody<'a>),
}

impl<'a> ItemBody<'a> {
    /// Of one that is stored, with the status that `POST /transfer` would have given.
    pub fn stored(key: Option<&'a str>, status: u16, transfer: ItemTransfer<'a>) -> ItemBody<'a> {
        ItemBody { idempotency_key: key, status, transfer: Some(transfer), error: None }
    }

    pub fn refused(key: Option<&'a str>, status: u16, error: String) -> ItemBody<'a> {
        ItemBody { idempotency_key: key, status, transfer: None, error: Some(error) }
    }
}

/// What goes out, as these types have it; what they refer to is in `openapi.json`.
#[derive(OpenApi)]
#[openapi(components(schemas(
    NewBody,
    TransferBody,
    StoryBody,
    EventBody,
    CertificateBody,
    ItemBody
)))]
pub struct Described;

pub mod described {
    use landfall_core::trail::Note;
    use landfall_core::{CertificateKind, near};
    use serde_json::json;
    use utoipa::openapi::schema::{AnyOfBuilder, ArrayBuilder, ObjectBuilder};
    use utoipa::openapi::{RefOr, Schema, Type};

    use crate::describe::refer;

    /// The states of a payout.
    pub fn states() -> RefOr<Schema> {
        let states = near::State::ALL.map(|state| json!(state.name()));
        let schema = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(states));
        schema
            .description(Some(
                "COMPLETED means landed and final on the ledger. FAILED means proven not to have \
                 moved. Every other state is on its way.",
            ))
            .into()
    }

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

    pub fn event() -> RefOr<Schema> {
        let states = near::State::ALL.map(|state| json!(state.name()));
        // The far side of a payout is the ledger: it is confirmed by being final.
        let notes = Note::ALL.into_iter().filter(|note| *note != Note::Confirmed);
        let notes = notes.map(|note| json!(note.name()));
        let words = states.into_iter().chain(notes);
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).into()
    }

    pub fn certificate() -> RefOr<Schema> {
        refer("Certificate", "")
    }

    /// The rules by which an attempt sinks on NEAR, where nothing is replaced under its nonce.
    pub fn proof() -> RefOr<Schema> {
        use CertificateKind::{Expired, NoncePassed, Operator, Refused};
        let kinds = [NoncePassed, Expired, Refused, Operator].map(|kind| json!(kind));
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(kinds)).into()
    }

    pub fn item_status() -> RefOr<Schema> {
        let schema = ObjectBuilder::new().schema_type(Type::Integer);
        let schema = schema.enum_values(Some([201, 200, 409, 400].map(|status| json!(status))));
        schema.description(Some("As POST /transfer would have answered.")).into()
    }

    pub fn item_transfer() -> RefOr<Schema> {
        let either = AnyOfBuilder::new().item(refer("NewTransfer", ""));
        either.item(refer("Transfer", "")).into()
    }

    pub fn events() -> RefOr<Schema> {
        ArrayBuilder::new().description(Some("Oldest first.")).items(refer("Event", "")).into()
    }
}
