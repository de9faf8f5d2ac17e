//! What goes out of withdraws, by the field names clients know.
//!
//! **Rule:** a withdraw that is confirmed and not final is `processing`, and says so.

use axum::Json;
use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use landfall_core::{State, Transfer, solana};
use serde::Serialize;
use utoipa::{OpenApi, ToSchema};

use crate::wire::Time;

/// A withdraw that was taken.
#[derive(Serialize, ToSchema)]
#[schema(as = WithdrawAnswer)]
struct Answer<'a> {
    #[schema(format = "uuid")]
    request_id: &'a str,
    #[schema(schema_with = described::status)]
    status: &'static str,
}

/// 202 while it is on its way; a repeat of what is final is told so.
pub fn answer(transfer: &Transfer) -> Response {
    let code = match transfer.state.is_final() {
        true => StatusCode::OK,
        false => StatusCode::ACCEPTED,
    };
    let body = Answer { request_id: &transfer.key, status: status(transfer.state) };
    let mut response = (code, Json(body)).into_response();
    if let Ok(path) = HeaderValue::try_from(format!("/status/{}", transfer.key)) {
        response.headers_mut().insert(LOCATION, path);
    }
    response
}

fn status(state: State) -> &'static str {
    match state {
        State::Solana(solana::State::Confirmed) => solana::State::Processing.name(),
        state => state.name(),
    }
}

/// What became of a withdraw.
#[derive(Serialize, ToSchema)]
#[schema(as = WithdrawStatus)]
pub struct StatusBody<'a> {
    #[schema(format = "uuid")]
    request_id: &'a str,
    #[schema(schema_with = described::status)]
    status: &'static str,
    /// Signature of the transaction that pays it, or was to; of one that somebody else forestalled,
    /// theirs.
    #[schema(required)]
    tx_id: Option<&'a str>,
    /// Whether its transaction is confirmed: most validators have voted for its block, which a
    /// fork may still take back.
    confirmed: bool,
    /// RFC 3339, UTC, with milliseconds.
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
    /// When it was seen to be final; null until then.
    #[schema(value_type = Option<String>, format = DateTime, required)]
    completed_at: Option<Time>,
    /// Why it failed; of one that goes on, what went wrong last or what it waits for.
    #[schema(required)]
    error: Option<&'a str>,
}

impl<'a> StatusBody<'a> {
    pub fn of(transfer: &'a Transfer) -> StatusBody<'a> {
        let state = transfer.state;
        let fault = transfer.error.as_ref().map(|fault| fault.message.as_str());
        let said = transfer.aside.as_deref().or(fault);
        StatusBody {
            request_id: &transfer.key,
            status: status(state),
            tx_id: transfer.tx_hash.as_deref(),
            confirmed: state.is_completed() || state == State::Solana(solana::State::Confirmed),
            created_at: Time(transfer.created_ms),
            completed_at: transfer.completed_ms.map(Time),
            error: said.filter(|_| !state.is_completed()),
        }
    }
}

/// What goes out, as these types have it.
#[derive(OpenApi)]
#[openapi(components(schemas(Answer, StatusBody)))]
pub struct Described;

mod described {
    use serde_json::json;
    use utoipa::openapi::schema::ObjectBuilder;
    use utoipa::openapi::{RefOr, Schema, Type};

    pub fn status() -> RefOr<Schema> {
        let words = ["queued", "processing", "completed", "failed"].map(|word| json!(word));
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).into()
    }
}
