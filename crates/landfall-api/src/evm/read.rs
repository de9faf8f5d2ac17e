//! `GET /api/v1/relay/status/{transactionId}`: what became of a call, from the cache if that has
//! it, else from the store.
//! `GET /api/v1/relay/transactions`: calls.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use landfall_core::RailName;
use landfall_core::evm::{Address, transaction_id};
use uuid::Uuid;

use super::remembered;
use super::wire::{CallBody, StatusBody};
use crate::config::Scope;
use crate::error::ApiError;
use crate::list::{Found, KEY, Kind};
use crate::query::Query;
use crate::router::App;

const CALLS: Kind = Kind {
    rail: RailName::Evm,
    state: "state",
    receiver: "to",
    parameters: &[KEY, "state", "to", "created_from", "created_until", "adrift", "cursor", "limit"],
    stored_key: |tenant, key| transaction_id(tenant, key).to_string(),
    stored_receiver: |text| match Address::parse(text) {
        Ok(address) => Ok(address.to_string()),
        Err(why) => Err(ApiError::bad("to", why)),
    },
};

pub async fn status(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let caller = app.admit(&headers, Scope::Read)?;
    app.evm()?;
    let id = id.ok().and_then(|Path(text)| text.parse::<Uuid>().ok());
    let rule = "must be a UUID, as the answer to the POST gave it";
    let id = id.ok_or_else(|| ApiError::bad("transactionId", rule))?.to_string();
    let patience = Query::parse(query.as_deref(), &["wait"])?.patience("wait")?;
    if let Some(body) = remembered::get(&app, caller.tenant, &id).await {
        return Ok(Json(body).into_response());
    }
    let found = app.relay.find(RailName::Evm, caller.tenant, &id).await?;
    let unknown = || ApiError::NotFound(format!("no transaction has the id {id}"));
    let mut transfer = found.ok_or_else(unknown)?;
    if !patience.is_zero() && !transfer.state.is_final() {
        transfer = app.relay.wait_final(transfer, patience).await?;
    }
    let body = StatusBody::of(&transfer)?;
    remembered::put(&app, &transfer, &body).await;
    Ok(Json(body).into_response())
}

pub async fn list(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let found = Found::of(&app, &CALLS, query.as_deref(), &headers).await?;
    found.page(CallBody::of)
}
