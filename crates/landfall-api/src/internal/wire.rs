//! What goes out of moves between services. Times are in milliseconds.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use landfall_core::{Fault, Payload, TrailEntry, Transfer};
use serde::Serialize;

use crate::error::ApiError;

/// The answer to a request.
#[derive(Serialize)]
struct Answer<'a> {
    req_id: &'a str,
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
#[derive(Serialize)]
pub struct Story<'a> {
    #[serde(flatten)]
    transfer: OrderBody<'a>,
    events: Vec<Line<'a>>,
}

impl<'a> Story<'a> {
    pub fn of(transfer: &'a Transfer, trail: &'a [TrailEntry]) -> Result<Story<'a>, ApiError> {
        let events = trail.iter().map(Line::of).collect();
        Ok(Story { transfer: OrderBody::of(transfer)?, events })
    }
}

/// A transfer as it is stored. Times are in milliseconds.
#[derive(Serialize)]
pub struct OrderBody<'a> {
    req_id: &'a str,
    /// The client's own, if it gave one.
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
    state: &'static str,
    from: &'a str,
    to: &'a str,
    user_id: u64,
    asset: &'a str,
    amount: String,
    created_at: u64,
    updated_at: u64,
    completed_at: Option<u64>,
    retry_count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a Fault>,
    /// Why an operator must decide, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    adrift: Option<&'a str>,
}

#[derive(Serialize)]
struct Line<'a> {
    time: u64,
    event: &'static str,
    #[serde(flatten)]
    error: Option<&'a Fault>,
}

impl<'a> Line<'a> {
    fn of(entry: &'a TrailEntry) -> Line<'a> {
        Line { time: entry.at_ms, event: entry.event.name(), error: entry.error.as_ref() }
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
            error: transfer.error.as_ref(),
            adrift: transfer.aside.as_deref(),
        })
    }
}
