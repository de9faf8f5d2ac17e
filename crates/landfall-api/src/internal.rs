//! `POST /api/v1/transfer` and `GET /api/v1/transfer/{req_id}`: moves between two services.
//!
//! A request is answered as soon as its transfer is final, at the latest after the gateway's
//! patience: then it is `pending`, and goes on without the client.
//! **Rule:** the request's id comes from the client's idempotency key where it gave one, so that a
//! repeat is the same request to the services too.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use landfall_core::internal::{Asked, Order, request_id};
use landfall_core::store::Accepted;
use landfall_core::{Fault, Payload, RailName, TrailEntry, Transfer};
use landfall_engine::Submission;
use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::body;
use crate::config::Scope;
use crate::error::ApiError;
use crate::headers::{self, BodyType};
use crate::query::Query;
use crate::router::App;
use crate::submit::{claimed, conflict};

const EXAMPLE: &str = "{\"from\": \"funding\", \"to\": \"trading\", \"user_id\": 4001, \
                       \"asset\": \"BTC\", \"amount\": \"1.5\"}";

pub async fn submit(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let caller = app.admit(&parts.headers, Scope::Submit)?;
    let gateway = app.internal()?;
    headers::body_type(&parts.headers, &[BodyType::Json])?;
    let client_key = headers::optional_key(&parts.headers)?.map(|key| key.into_owned());
    if client_key.is_none() && gateway.key_required {
        return Err(headers::missing_key("Idempotency-Key"));
    }
    let bytes = body::read(&app.config, &parts.headers, body, app.config.body_limit_bytes).await?;
    let fields = Fields::parse(body::text(&bytes)?)?;
    let mut order = Order::new(&gateway.terms, fields.asked()?)?;
    order.client_key = client_key;
    let named = order.client_key.as_deref().map(|key| request_id(caller.tenant, key));
    let key = named.unwrap_or_else(Uuid::new_v4).to_string();
    let payload = Payload::Internal(order);
    screen(&app, caller.tenant, &key, &payload).await?;
    let submission = Submission { tenant: caller.tenant.to_owned(), key, payload: payload.clone() };
    match app.desk.submit(vec![submission]).await?.pop().ok_or(ApiError::Internal)? {
        Accepted::Created(transfer) | Accepted::Already(transfer) => {
            // It is stored: a store that fails from here on makes the answer late, not wrong.
            let waited = app.desk.wait_final(transfer.clone(), gateway.patience).await;
            Ok(answer(&waited.unwrap_or(transfer)))
        }
        Accepted::Conflict(stored) => Err(conflict(&stored, &payload)),
        Accepted::Claimed { key, .. } => Err(claimed(&key)),
    }
}

/// Asks the source whether it knows the user, unless the same request was taken before.
async fn screen(app: &App, tenant: &str, key: &str, payload: &Payload) -> Result<(), ApiError> {
    let repeated = payload.internal().is_some_and(|order| order.client_key.is_some());
    if repeated && app.desk.find(RailName::Internal, tenant, key).await?.is_some() {
        return Ok(());
    }
    Ok(app.desk.screen(payload).await?)
}

pub async fn read(
    State(app): State<Arc<App>>,
    req_id: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let caller = app.admit(&headers, Scope::Read)?;
    app.internal()?;
    let req_id = req_id.ok().and_then(|Path(text)| text.parse::<Uuid>().ok());
    let rule = "must be a UUID, as the answer to the POST gave it";
    let req_id = req_id.ok_or_else(|| ApiError::bad("req_id", rule))?.to_string();
    let patience = Query::parse(query.as_deref(), &["wait"])?.patience("wait")?;
    let found = app.desk.find(RailName::Internal, caller.tenant, &req_id).await?;
    let unknown = || ApiError::NotFound(format!("no transfer has the req_id {req_id}"));
    let mut transfer = found.ok_or_else(unknown)?;
    if !patience.is_zero() && !transfer.state.is_final() {
        transfer = app.desk.wait_final(transfer, patience).await?;
    }
    let trail = app.desk.trail(transfer.id).await?;
    let events = trail.iter().map(Line::of).collect();
    Ok(Json(Story { transfer: OrderBody::of(&transfer)?, events }).into_response())
}

/// The fields of a request, as sent.
#[derive(Default)]
struct Fields {
    from: Option<String>,
    to: Option<String>,
    user_id: Option<u64>,
    asset: Option<String>,
    amount: Option<String>,
}

impl Fields {
    fn parse(text: &str) -> Result<Fields, ApiError> {
        let mut fields = Fields::default();
        for (name, value) in body::members(text, EXAMPLE)? {
            let given_before = match name.as_str() {
                "from" => fields.from.replace(string("from", value)?).is_some(),
                "to" => fields.to.replace(string("to", value)?).is_some(),
                "user_id" => fields.user_id.replace(number(value)?).is_some(),
                "asset" => fields.asset.replace(string("asset", value)?).is_some(),
                "amount" => fields.amount.replace(amount(value)?).is_some(),
                _ => {
                    let known = "the fields are from, to, user_id, asset and amount";
                    let message = format!("is not a field; {known}");
                    return Err(ApiError::bad(&body::shown(&name), message));
                }
            };
            if given_before {
                return Err(ApiError::bad(&name, "is given twice"));
            }
        }
        Ok(fields)
    }

    fn asked(&self) -> Result<Asked<'_>, ApiError> {
        let service = "name a service, such as \"funding\"";
        Ok(Asked {
            from: given("from", self.from.as_deref(), service)?,
            to: given("to", self.to.as_deref(), service)?,
            user_id: given("user_id", self.user_id, "give the user's number, such as 4001")?,
            asset: given("asset", self.asset.as_deref(), "name an asset, such as \"BTC\"")?,
            amount: given("amount", self.amount.as_deref(), "give it as a string: \"1.5\"")?,
        })
    }
}

fn given<T>(field: &str, value: Option<T>, remedy: &str) -> Result<T, ApiError> {
    value.ok_or_else(|| ApiError::bad(field, format!("is missing; {remedy}")))
}

fn string(field: &str, value: &RawValue) -> Result<String, ApiError> {
    serde_json::from_str(value.get()).map_err(|_| ApiError::bad(field, "must be a string"))
}

fn number(value: &RawValue) -> Result<u64, ApiError> {
    let rule = "must be a whole number, such as 4001";
    serde_json::from_str(value.get()).map_err(|_| ApiError::bad("user_id", rule))
}

fn amount(value: &RawValue) -> Result<String, ApiError> {
    let rule = "must be a string such as \"1.5\", not a number: JSON numbers lose digits";
    serde_json::from_str(value.get()).map_err(|_| ApiError::bad("amount", rule))
}

/// The answer to a request.
#[derive(Serialize)]
struct Answer<'a> {
    req_id: &'a str,
    status: &'static str,
    message: String,
}

fn answer(transfer: &Transfer) -> Response {
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
struct Story<'a> {
    #[serde(flatten)]
    transfer: OrderBody<'a>,
    events: Vec<Line<'a>>,
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
