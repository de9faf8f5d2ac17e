//! What goes out of calls on EVM chains, by the field names clients know.
//!
//! **Rule:** whatever is not final is `pending`; amounts are strings.

use axum::Json;
use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use landfall_core::evm::{Call, Work};
use landfall_core::{State, Transfer};
use serde::Serialize;
use utoipa::{OpenApi, ToSchema};

use crate::error::ApiError;
use crate::wire::Time;

/// A call that was taken.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RelayAnswer)]
struct Answer<'a> {
    #[schema(format = "uuid")]
    transaction_id: &'a str,
    #[schema(schema_with = described::status)]
    status: &'static str,
    /// RFC 3339, UTC, with milliseconds.
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
}

/// 202 while it is on its way; a repeat of what is final is told so.
pub fn answer(transfer: &Transfer) -> Response {
    let code = match transfer.state.is_final() {
        true => StatusCode::OK,
        false => StatusCode::ACCEPTED,
    };
    let body = Answer {
        transaction_id: &transfer.key,
        status: status(transfer.state),
        created_at: Time(transfer.created_ms),
    };
    let mut response = (code, Json(body)).into_response();
    let path = format!("/api/v1/relay/status/{}", transfer.key);
    if let Ok(path) = HeaderValue::try_from(path) {
        response.headers_mut().insert(LOCATION, path);
    }
    response
}

fn status(state: State) -> &'static str {
    match (state.is_completed(), state.is_failed()) {
        (true, _) => "success",
        (_, true) => "failed",
        _ => "pending",
    }
}

/// What became of a call.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RelayStatus)]
pub struct StatusBody<'a> {
    #[schema(format = "uuid")]
    transaction_id: &'a str,
    #[schema(schema_with = described::status)]
    status: &'static str,
    /// Of the newest transaction that did, or was to do, it.
    #[schema(required)]
    hash: Option<&'a str>,
    /// When it was seen to be final on the chain; null unless it is a success.
    #[schema(value_type = Option<String>, format = DateTime, required)]
    confirmed_at: Option<Time>,
    #[schema(schema_with = described::result, required)]
    result: Option<ResultBody<'a>>,
    /// Why it failed; of one that is pending, what went wrong last or what it waits for.
    #[serde(rename = "error_message")]
    #[schema(rename = "error_message", required)]
    error_message: Option<&'a str>,
}

impl<'a> StatusBody<'a> {
    pub fn of(transfer: &'a Transfer) -> Result<StatusBody<'a>, ApiError> {
        let call = transfer.payload.evm().ok_or(ApiError::Internal)?;
        let landed = transfer.state.is_completed();
        Ok(StatusBody {
            transaction_id: &transfer.key,
            status: status(transfer.state),
            hash: transfer.tx_hash.as_deref(),
            confirmed_at: transfer.completed_ms.filter(|_| landed).map(Time),
            result: landed.then(|| ResultBody::of(transfer, call)),
            error_message: error_message(transfer),
        })
    }
}

fn error_message(transfer: &Transfer) -> Option<&str> {
    let fault = transfer.error.as_ref().map(|fault| fault.message.as_str());
    let said = transfer.aside.as_deref().or(fault);
    said.filter(|_| !transfer.state.is_completed())
}

/// A success.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RelayResult)]
struct ResultBody<'a> {
    #[schema(required)]
    hash: Option<&'a str>,
    /// By its configured name.
    chain: &'a str,
    chain_id: u64,
    /// Failures on its way that were charged to it.
    retries: u32,
}

impl<'a> ResultBody<'a> {
    fn of(transfer: &'a Transfer, call: &'a Call) -> ResultBody<'a> {
        ResultBody {
            hash: transfer.tx_hash.as_deref(),
            chain: &call.chain,
            chain_id: call.chain_id,
            retries: transfer.retry_count,
        }
    }
}

/// A call as it is stored, but for the bytes that it carries.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RelayTransaction)]
pub struct CallBody<'a> {
    #[serde(flatten)]
    status: StatusBody<'a>,
    #[schema(schema_with = described::kind)]
    #[serde(rename = "type")]
    kind: &'static str,
    #[schema(schema_with = described::state)]
    state: &'static str,
    /// By its configured name.
    chain: &'a str,
    /// The user who has signed it; of a call by the relay, left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    from: Option<String>,
    /// Whom it calls in the end.
    to: String,
    /// In wei.
    value: String,
    #[schema(schema_with = described::speed)]
    speed: &'static str,
    /// RFC 3339, UTC, with milliseconds.
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
    /// When it last moved.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Time,
}

impl<'a> CallBody<'a> {
    pub fn of(transfer: &'a Transfer) -> Result<CallBody<'a>, ApiError> {
        let call = transfer.payload.evm().ok_or(ApiError::Internal)?;
        let from = match &call.work {
            Work::Direct(_) => None,
            Work::Gasless(request) => Some(request.from.to_string()),
        };
        Ok(CallBody {
            status: StatusBody::of(transfer)?,
            kind: call.kind(),
            state: transfer.state.name(),
            chain: &call.chain,
            from,
            to: call.to().to_string(),
            value: call.value().to_string(),
            speed: call.speed.as_str(),
            created_at: Time(transfer.created_ms),
            updated_at: Time(transfer.updated_ms),
        })
    }
}

/// What goes out, as these types have it; what they refer to is in `openapi.json`.
#[derive(OpenApi)]
#[openapi(components(schemas(Answer, StatusBody, ResultBody, CallBody)))]
pub struct Described;

pub mod described {
    use landfall_core::evm;
    use serde_json::{Value, json};
    use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder};
    use utoipa::openapi::{RefOr, Schema, Type};

    use crate::describe::refer;

    fn one_of(words: impl IntoIterator<Item = Value>) -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).into()
    }

    /// The states of a call.
    pub fn states() -> RefOr<Schema> {
        let states = evm::State::ALL.map(|state| json!(state.name()));
        let schema = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(states));
        schema
            .description(Some(
                "mined is in a block that may yet fall off the chain. success is final on it. \
                 failed means proven, at finality, not to have been done.",
            ))
            .into()
    }

    pub fn status() -> RefOr<Schema> {
        one_of(["pending", "success", "failed"].map(|word| json!(word)))
    }

    pub fn kind() -> RefOr<Schema> {
        one_of(["direct", "gasless"].map(|word| json!(word)))
    }

    pub fn state() -> RefOr<Schema> {
        refer("RelayState", "")
    }

    pub fn speed() -> RefOr<Schema> {
        one_of(evm::Speed::ALL.map(|speed| json!(speed.as_str())))
    }

    pub fn result() -> RefOr<Schema> {
        let nothing = ObjectBuilder::new().schema_type(Type::Null);
        OneOfBuilder::new().item(nothing).item(refer("RelayResult", "")).into()
    }
}
