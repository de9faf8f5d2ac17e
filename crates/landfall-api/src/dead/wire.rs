//! What goes out of dead letters: the same of every rail.

use std::borrow::Cow;

use landfall_core::Transfer;
use landfall_engine::dead::is_replayable;
use serde::Serialize;
use utoipa::{OpenApi, ToSchema};

use crate::wire::{FaultBody, Time};

/// A transfer that failed, or was reopened just now.
#[derive(Serialize, ToSchema)]
#[schema(as = DeadLetter)]
pub struct DeadBody<'a> {
    #[schema(schema_with = described::number)]
    id: String,
    #[schema(schema_with = described::rail)]
    rail: &'static str,
    /// Whose it is; empty where no API keys are in use.
    tenant: &'a str,
    /// Under which it is stored.
    key: &'a str,
    /// As its rail calls it, and as its client is told.
    state: &'static str,
    receiver: Cow<'a, str>,
    /// In the smallest unit of what was to be moved.
    amount: String,
    #[schema(required)]
    tx_hash: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = described::fault, required = false)]
    error: Option<FaultBody<'a>>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
    /// Since when its client is told so; null once it is reopened.
    #[schema(value_type = Option<String>, format = DateTime, required)]
    failed_at: Option<Time>,
    /// Whether its rail knows a way back.
    replayable: bool,
}

impl<'a> DeadBody<'a> {
    pub fn of(transfer: &'a Transfer) -> DeadBody<'a> {
        DeadBody {
            id: transfer.id.to_string(),
            rail: transfer.payload.rail().as_str(),
            tenant: &transfer.tenant,
            key: &transfer.key,
            state: transfer.state.name(),
            receiver: transfer.payload.receiver(),
            amount: transfer.payload.amount().to_string(),
            tx_hash: transfer.tx_hash.as_deref(),
            error: transfer.error.as_ref().map(FaultBody::of),
            created_at: Time(transfer.created_ms),
            failed_at: transfer.completed_ms.map(Time),
            replayable: is_replayable(transfer),
        }
    }
}

/// The same with what its client asked for again since.
#[derive(Serialize, ToSchema)]
#[schema(as = DeadLetterStory)]
pub struct StoryBody<'a> {
    #[serde(flatten)]
    dead: DeadBody<'a>,
    #[schema(schema_with = described::look_alikes)]
    look_alikes: Vec<LookAlike<'a>>,
}

/// A transfer that is the same in every parameter, under another key, and has not failed.
#[derive(Serialize, ToSchema)]
struct LookAlike<'a> {
    #[schema(schema_with = described::number)]
    id: String,
    key: &'a str,
    state: &'static str,
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
}

impl<'a> StoryBody<'a> {
    pub fn of(transfer: &'a Transfer, others: &'a [Transfer]) -> StoryBody<'a> {
        let like = |other: &'a Transfer| LookAlike {
            id: other.id.to_string(),
            key: &other.key,
            state: other.state.name(),
            created_at: Time(other.created_ms),
        };
        StoryBody { dead: DeadBody::of(transfer), look_alikes: others.iter().map(like).collect() }
    }
}

/// What goes out, as these types have it; what they refer to is in `openapi.json`.
#[derive(OpenApi)]
#[openapi(components(schemas(DeadBody, StoryBody, LookAlike)))]
pub struct Described;

mod described {
    use landfall_core::RailName;
    use serde_json::json;
    use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder};
    use utoipa::openapi::{RefOr, Schema, Type};

    use crate::describe::refer;

    pub fn number() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::String).pattern(Some("^[0-9]{1,18}$")).into()
    }

    pub fn rail() -> RefOr<Schema> {
        let names = RailName::ALL.map(|rail| json!(rail.as_str()));
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names)).into()
    }

    pub fn fault() -> RefOr<Schema> {
        refer("Fault", "Why it failed.")
    }

    pub fn look_alikes() -> RefOr<Schema> {
        ArrayBuilder::new().items(refer("LookAlike", "")).into()
    }
}
