//! `GET /status/{request_id}`: what became of a withdraw.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use landfall_core::RailName;
use uuid::Uuid;

use super::wire::StatusBody;
use crate::config::Scope;
use crate::error::ApiError;
use crate::query::Query;
use crate::router::App;

pub async fn status(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let caller = app.admit(&headers, Scope::Read)?;
    app.solana()?;
    let id = id.ok().and_then(|Path(text)| text.parse::<Uuid>().ok());
    let rule = "must be a UUID, as the answer to the POST gave it";
    let id = id.ok_or_else(|| ApiError::bad("request_id", rule))?.to_string();
    let patience = Query::parse(query.as_deref(), &["wait"])?.patience("wait")?;
    let found = app.relay.find(RailName::Solana, caller.tenant, &id).await?;
    let unknown = || ApiError::NotFound(format!("no withdraw has the request id {id}"));
    let mut transfer = found.ok_or_else(unknown)?;
    if !patience.is_zero() && !transfer.state.is_final() {
        transfer = app.relay.wait_final(transfer, patience).await?;
    }
    Ok(Json(StatusBody::of(&transfer)).into_response())
}
