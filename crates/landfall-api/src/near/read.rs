//! `GET /transfer/{key}`: a transfer with its audit trail, at once or when it is final.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use landfall_core::{RailName, TrailEntry, TrailEvent, Transfer};

use super::wire::StoryBody;
use crate::config::Scope;
use crate::error::ApiError;
use crate::headers::{KEY_RULE, is_key};
use crate::query::Query;
use crate::router::App;

/// How often a transfer that moves while it is read is read again, to show one moment.
const READS_MAX: usize = 3;

pub async fn read(
    State(app): State<Arc<App>>,
    key: Result<Path<String>, PathRejection>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let caller = app.admit(&headers, Scope::Read)?;
    let key = key.map(|Path(key)| key).ok().filter(|key| is_key(key));
    let key = key.ok_or_else(|| ApiError::bad("key", KEY_RULE))?;
    let patience = Query::parse(query.as_deref(), &["wait"])?.patience("wait")?;
    let mut transfer = find(&app, caller.tenant, &key).await?;
    if !patience.is_zero() && !transfer.state.is_final() {
        transfer = app.relay.wait_final(transfer, patience).await?;
    }
    let mut trail = app.relay.trail(transfer.id).await?;
    for _ in 1..READS_MAX {
        if last_state(&trail) == Some(transfer.state.name()) {
            break;
        }
        transfer = find(&app, caller.tenant, &key).await?;
        trail = app.relay.trail(transfer.id).await?;
    }
    Ok(Json(StoryBody::of(&transfer, &trail)).into_response())
}

async fn find(app: &App, tenant: &str, key: &str) -> Result<Transfer, ApiError> {
    let found = app.relay.find(RailName::Near, tenant, key).await?;
    found.ok_or_else(|| ApiError::NotFound(format!("no transfer has the key {key:?}")))
}

fn last_state(trail: &[TrailEntry]) -> Option<&'static str> {
    trail.iter().rev().find_map(|entry| match entry.event {
        TrailEvent::Entered(state) => Some(state.name()),
        TrailEvent::Noted(_) => None,
    })
}
