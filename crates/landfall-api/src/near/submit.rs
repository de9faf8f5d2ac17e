//! `POST /transfer`: one transfer, with its idempotency key in a header.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use landfall_core::near::{Payout, Terms};
use landfall_core::store::Accepted;
use landfall_core::{Payload, Transfer};
use landfall_engine::Submission;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::fields::{Fields, KeyIn};
use super::wire::{NewBody, TransferBody};
use crate::body;
use crate::config::Scope;
use crate::error::ApiError;
use crate::headers::{self, BodyType};
use crate::router::App;
use crate::taken::{self, Part, claimed};

/// What a URL's path segment need not escape (RFC 3986, unreserved).
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

pub async fn submit(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let caller = app.admit(&parts.headers, Scope::Submit)?;
    let terms = app.near()?;
    headers::body_type(&parts.headers, &[BodyType::Json])?;
    let key = headers::idempotency_key(&parts.headers)?.into_owned();
    let bytes = body::read(&app.config, &parts.headers, body, app.config.body_limit_bytes).await?;
    let fields = Fields::parse(body::text(&bytes)?, KeyIn::Header)?;
    let payload = payload(terms, &fields).map_err(ApiError::all)?;
    app.screen(&payload, (caller.tenant, &key)).await?;
    let submission = Submission { tenant: caller.tenant.to_owned(), key, payload: payload.clone() };
    match app.relay.submit(vec![submission]).await?.pop().ok_or(ApiError::Internal)? {
        Accepted::Created(transfer) => Ok(created(&transfer)),
        Accepted::Already(transfer) => Ok(Json(TransferBody::of(&transfer)).into_response()),
        Accepted::Conflict(stored) => Err(conflict(&stored, &payload)),
        Accepted::Claimed { key, .. } => Err(claimed(&key)),
    }
}

/// A payout by the ledger's own rules, or all that is wrong with it.
pub fn payload(terms: &Terms, fields: &Fields<'_>) -> Result<Payload, Vec<String>> {
    let Fields { receiver_id, amount, memo, .. } = fields;
    let (receiver_id, amount) = (receiver_id.as_deref(), amount.as_deref());
    let memo = memo.as_deref();
    if let (Some(receiver_id), Some(amount), false) = (receiver_id, amount, fields.is_mistaken())
        && let Ok(payout) = Payout::new(terms, receiver_id, amount, memo)
    {
        return Ok(Payload::Near(payout));
    }
    let needed = [
        ("receiver_id", receiver_id, "give the account to be paid, as a string"),
        ("amount", amount, "give a whole number in the smallest unit, as a string"),
    ];
    let absent = needed.iter().filter(|(_, given, _)| given.is_none());
    let missing = absent.filter_map(|(name, _, remedy)| fields.missing(name, remedy));
    let faults = Payout::faults(terms, receiver_id, amount, memo);
    let faults = faults.iter().map(ToString::to_string);
    Err(fields.mistakes().chain(missing).chain(faults).collect())
}

fn created(transfer: &Transfer) -> Response {
    let path = format!("/transfer/{}", utf8_percent_encode(&transfer.key, SEGMENT));
    let mut response = (StatusCode::CREATED, Json(NewBody::of(transfer))).into_response();
    if let Ok(path) = HeaderValue::try_from(path) {
        response.headers_mut().insert(LOCATION, path);
    }
    response
}

/// Says which parameters are others than those stored under the key.
pub fn conflict(stored: &Transfer, asked: &Payload) -> ApiError {
    taken::conflict(&stored.key, parts(&stored.payload), parts(asked))
}

fn parts(payload: &Payload) -> Vec<Part> {
    let Some(payout) = payload.near() else { return Vec::new() };
    vec![
        ("receiver_id", Some(payout.receiver_id.clone())),
        ("amount", Some(payout.amount.to_string())),
        ("memo", payout.memo.clone()),
    ]
}
