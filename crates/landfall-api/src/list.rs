//! `GET /transfers`: a caller's transfers, newest first, by pages.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use landfall_core::store::ListFilter;
use landfall_core::{RailName, State as TransferState, TransferId};

use crate::config::Scope;
use crate::error::ApiError;
use crate::query::Query;
use crate::router::App;
use crate::wire::{PageBody, TransferBody};

/// Transfers on a page, unless asked otherwise: about a screenful or two.
const LIMIT_DEFAULT: usize = 50;
/// Most transfers on a page: about 200 KiB of JSON.
const LIMIT_MAX: usize = 500;

const PARAMETERS: [&str; 7] =
    ["status", "receiver_id", "created_from", "created_until", "adrift", "cursor", "limit"];

pub async fn list(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let caller = app.admit(&headers, Scope::Read)?;
    let query = Query::parse(query.as_deref(), &PARAMETERS)?;
    let limit = limit(&query)?;
    let mut filter = filter(&app, &query)?;
    filter.tenant = Some(caller.tenant.to_owned());
    // One more than asked for tells whether there is another page.
    filter.limit = limit + 1;
    let mut transfers = app.desk.list(filter).await?;
    let more = transfers.len() > limit;
    transfers.truncate(limit);
    let last = transfers.last().filter(|_| more);
    let page = PageBody {
        next_cursor: last.map(|transfer| transfer.id.to_string()),
        transfers: transfers.iter().map(TransferBody::of).collect(),
    };
    Ok(Json(page).into_response())
}

fn limit(query: &Query<'_>) -> Result<usize, ApiError> {
    let Some(text) = query.get("limit") else { return Ok(LIMIT_DEFAULT) };
    match text.parse() {
        Ok(limit @ 1..=LIMIT_MAX) => Ok(limit),
        _ => Err(ApiError::bad("limit", format!("must be a number from 1 to {LIMIT_MAX}"))),
    }
}

fn filter(app: &App, query: &Query<'_>) -> Result<ListFilter, ApiError> {
    let now_ms = app.config.clock.now_ms();
    let adrift = query.is_true("adrift")?;
    Ok(ListFilter {
        rail: Some(RailName::Near),
        tenant: None,
        state: query.get("status").map(state).transpose()?,
        receiver: query.get("receiver_id").map(str::to_owned),
        created_from_ms: query.time_ms("created_from")?,
        created_until_ms: query.time_ms("created_until")?,
        adrift_before_ms: adrift.then(|| now_ms.saturating_sub(app.config.adrift_after_ms)),
        before: query.get("cursor").map(cursor).transpose()?,
        limit: 0,
    })
}

fn state(name: &str) -> Result<TransferState, ApiError> {
    TransferState::parse(RailName::Near, name).ok_or_else(|| {
        let states = TransferState::all(RailName::Near);
        let names: Vec<&str> = states.iter().map(|state| state.name()).collect();
        ApiError::bad("status", format!("must be one of {}", names.join(", ")))
    })
}

fn cursor(text: &str) -> Result<TransferId, ApiError> {
    let wrong = || ApiError::bad("cursor", "must be the next_cursor of an earlier page");
    text.parse().map(TransferId).map_err(|_| wrong())
}
