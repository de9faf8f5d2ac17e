//! `GET /api/v1/transfer/{req_id}`: a move with its trail. `GET /api/v1/transfers`: moves.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use landfall_core::RailName;
use landfall_core::internal::request_id;
use uuid::Uuid;

use super::wire::{OrderBody, Story};
use crate::config::Scope;
use crate::error::ApiError;
use crate::list::{Found, KEY, Kind, number};
use crate::query::Query;
use crate::router::App;

const USER: &str = "user_id";

const ORDERS: Kind = Kind {
    rail: RailName::Internal,
    state: "state",
    receiver: USER,
    parameters: &[KEY, "state", USER, "created_from", "created_until", "cursor", "limit"],
    stored_key: |tenant, key| request_id(tenant, key).to_string(),
    stored_receiver: |text| match number(text) {
        Some(user @ 1..) => Ok(user.to_string()),
        _ => Err(ApiError::bad(USER, "must be a whole number, such as 4001")),
    },
};

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
    let found = app.relay.find(RailName::Internal, caller.tenant, &req_id).await?;
    let unknown = || ApiError::NotFound(format!("no transfer has the req_id {req_id}"));
    let mut transfer = found.ok_or_else(unknown)?;
    if !patience.is_zero() && !transfer.state.is_final() {
        transfer = app.relay.wait_final(transfer, patience).await?;
    }
    let trail = app.relay.trail(transfer.id).await?;
    Ok(Json(Story::of(&transfer, &trail)?).into_response())
}

pub async fn list(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let found = Found::of(&app, &ORDERS, query.as_deref(), &headers).await?;
    found.page(OrderBody::of)
}
