//! What goes out of moves between services. Times are in milliseconds.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use landfall_core::{Payload, TrailEntry, Transfer};
use serde::Serialize;
use utoipa::{OpenApi, ToSchema};

use crate::error::ApiError;
use crate::wire::FaultBody;

/// The answer to a request.
#[derive(Serialize, ToSchema)]
#[schema(as = OrderAnswer)]
struct Answer<'a> {
    #[schema(format = "uuid")]
    req_id: &'a str,
    #[schema(schema_with = described::status)]
    status: &'static str,
    message: String,
}

pub fn answer(transfer: &Transfer) -> Response {
    let state = transfer.state;
    let (code, status) = match (state.is_completed(), state.is_failed()) {
        (true, _) => (StatusCode::OK, "committed"),
        (_, true) => (StatusCode::OK, "failed"),
        _ => (StatusCode::ACCEPTED, "pending"),
    };
    let body = Answer { req_id: &transfer.key, status, message: message(transfer) };
    (code, Json(body)).into_response()
}

fn message(transfer: &Transfer) -> String {
    let Payload::Internal(order) = &transfer.payload else { return String::new() };
    let (source, target) = (&order.source, &order.target);
    let why = transfer.error.as_ref().map_or("refused", |fault| fault.message.as_str());
    match transfer.state.name() {
        "committed" => {
            format!("{} {} moved from {source} to {target}", order.shown_amount(), order.asset)
        }
        "failed" => format!("{source} refused: {why}; nothing was moved"),
        "rolled_back" => {
            format!("rolled back: {target} refused: {why}; the funds are back in {source}")
        }
        state => format!("{state}; goes on by itself, see GET /api/v1/transfer/{}", transfer.key),
    }
}

/// A transfer with its audit trail.
#[derive(Serialize, ToSchema)]
#[schema(as = OrderStory)]
pub struct Story<'a> {
    #[serde(flatten)]
    transfer: OrderBody<'a>,
    #[schema(schema_with = described::events)]
    events: Vec<Line<'a>>,
}

impl<'a> Story<'a> {
    pub fn of(transfer: &'a Transfer, trail: &'a [TrailEntry]) -> Result<Story<'a>, ApiError> {
        let events = trail.iter().map(Line::of).collect();
        Ok(Story { transfer: OrderBody::of(transfer)?, events })
    }
}

/// A transfer as it is stored.
#[derive(Serialize, ToSchema)]
#[schema(as = Order)]
pub struct OrderBody<'a> {
    #[schema(format = "uuid")]
    req_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = described::client_key, required = false)]
    idempotency_key: Option<&'a str>,
    #[schema(schema_with = described::state)]
    state: &'static str,
    from: &'a str,
    to: &'a str,
    #[schema(minimum = 1)]
    user_id: u64,
    asset: &'a str,
    amount: String,
    /// Milliseconds since 1970.
    created_at: u64,
    /// Milliseconds since 1970.
    updated_at: u64,
    /// Milliseconds since 1970.
    #[schema(required)]
    completed_at: Option<u64>,
    #[schema(minimum = 0)]
    retry_count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = described::fault, required = false)]
    error: Option<FaultBody<'a>>,
    /// Why only an operator can decide it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    adrift: Option<&'a str>,
}

/// A line of the audit trail.
#[derive(Serialize, ToSchema)]
#[schema(as = OrderEvent)]
struct Line<'a> {
    /// Milliseconds since 1970.
    time: u64,
    /// A state entered, or a note beside the states in capitals.
    event: &'static str,
    #[serde(flatten)]
    error: Option<FaultBody<'a>>,
}

impl<'a> Line<'a> {
    fn of(entry: &'a TrailEntry) -> Line<'a> {
        let error = entry.error.as_ref().map(FaultBody::of);
        Line { time: entry.at_ms, event: entry.event.name(), error }
    }
}

impl<'a> OrderBody<'a> {
    pub fn of(transfer: &'a Transfer) -> Result<OrderBody<'a>, ApiError> {
        let order = transfer.payload.internal().ok_or(ApiError::Internal)?;
        Ok(OrderBody {
            req_id: &transfer.key,
            idempotency_key: order.client_key.as_deref(),
            state: transfer.state.name(),
            from: &order.source,
            to: &order.target,
            user_id: order.user_id,
            asset: &order.asset,
            amount: order.shown_amount(),
            created_at: transfer.created_ms,
            updated_at: transfer.updated_ms,
            completed_at: transfer.completed_ms,
            retry_count: transfer.retry_count,
            error: transfer.error.as_ref().map(FaultBody::of),
            adrift: transfer.aside.as_deref(),
        })
    }
}

/// What goes out, as these types have it; what they refer to is in `openapi.json`.
#[derive(OpenApi)]
#[openapi(components(schemas(Answer, OrderBody, Story, Line)))]
pub struct Described;

pub mod described {
    use landfall_core::internal;
    use serde_json::json;
    use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder};
    use utoipa::openapi::{RefOr, Schema, Type};

    use crate::describe::refer;

    /// The states of an order.
    pub fn states() -> RefOr<Schema> {
        let states = internal::State::ALL.map(|state| json!(state.name()));
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(states)).into()
    }

    pub fn status() -> RefOr<Schema> {
        let words = ["committed", "pending", "failed"].map(|word| json!(word));
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).into()
    }

    pub fn client_key() -> RefOr<Schema> {
        refer("Key", "The client's own, if it gave one.")
    }

    pub fn state() -> RefOr<Schema> {
        refer("OrderState", "")
    }

    pub fn fault() -> RefOr<Schema> {
        refer("Fault", "")
    }

    pub fn events() -> RefOr<Schema> {
        ArrayBuilder::new().items(refer("OrderEvent", "")).into()
    }
}
