//! A caller's transfers on a rail, newest first, by pages; or the one that has an idempotency key.
//!
//! Not here: the routes, and what a rail calls its fields (`near`, `internal`).

use axum::Json;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use landfall_core::store::ListFilter;
use landfall_core::{RailName, State as TransferState, Transfer, TransferId};
use serde::Serialize;

use crate::config::Scope;
use crate::error::ApiError;
use crate::headers::{KEY_RULE, is_key};
use crate::query::Query;
use crate::router::App;
use crate::wire::PageBody;

/// Transfers on a page, unless asked otherwise: about a screenful or two.
const LIMIT_DEFAULT: usize = 50;
/// Most transfers on a page: about 200 KiB of JSON.
const LIMIT_MAX: u64 = 500;

/// More than any id has; every store can compare such numbers.
const CURSOR_MAX_DIGITS: usize = 18;

pub const KEY: &str = "idempotency_key";

/// What differs between the lists: names of the rail's own fields, and how they are stored.
pub struct Kind {
    pub rail: RailName,
    pub state: &'static str,
    pub receiver: &'static str,
    pub parameters: &'static [&'static str],
    /// The key under which a client's own is stored, by tenant.
    pub stored_key: fn(&str, &str) -> String,
    /// Who receives, as the store knows them.
    pub stored_receiver: fn(&str) -> Result<String, ApiError>,
}

/// The transfers of a page, and whether others follow.
pub struct Found {
    transfers: Vec<Transfer>,
    more: bool,
}

impl Found {
    pub async fn of(
        app: &App,
        kind: &Kind,
        query: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<Found, ApiError> {
        let caller = app.admit(headers, Scope::Read)?;
        let query = Query::parse(query, kind.parameters)?;
        let limit = limit(&query)?;
        let mut filter = filter(app, kind, &query)?;
        filter.tenant = Some(caller.tenant.to_owned());
        if let Some(key) = query.get(KEY) {
            return Found::by_key(app, kind, key, filter).await;
        }
        // One more than asked for tells whether there is another page.
        filter.limit = limit + 1;
        let mut transfers = app.relay.list(filter).await?;
        let more = transfers.len() > limit;
        transfers.truncate(limit);
        Ok(Found { transfers, more })
    }

    /// The one transfer with the key, if the filter lets it through: it is then the first below
    /// the id after its own.
    async fn by_key(
        app: &App,
        kind: &Kind,
        key: &str,
        mut filter: ListFilter,
    ) -> Result<Found, ApiError> {
        if !is_key(key) {
            return Err(ApiError::bad(KEY, KEY_RULE));
        }
        let tenant = filter.tenant.clone().unwrap_or_default();
        let key = (kind.stored_key)(&tenant, key);
        let none = Found { transfers: Vec::new(), more: false };
        let Some(found) = app.relay.find(kind.rail, &tenant, &key).await? else { return Ok(none) };
        if filter.before.is_some_and(|before| before <= found.id) {
            return Ok(none);
        }
        filter.before = Some(TransferId(found.id.0.saturating_add(1)));
        filter.limit = 1;
        let mut transfers = app.relay.list(filter).await?;
        transfers.retain(|transfer| transfer.id == found.id);
        Ok(Found { transfers, ..none })
    }

    pub fn page<'a, B: Serialize>(
        &'a self,
        body: impl Fn(&'a Transfer) -> Result<B, ApiError>,
    ) -> Result<Response, ApiError> {
        let last = self.transfers.last().filter(|_| self.more);
        let page = PageBody {
            next_cursor: last.map(|transfer| transfer.id.to_string()),
            transfers: self.transfers.iter().map(body).collect::<Result<Vec<B>, ApiError>>()?,
        };
        Ok(Json(page).into_response())
    }
}

pub fn limit(query: &Query<'_>) -> Result<usize, ApiError> {
    let Some(text) = query.get("limit") else { return Ok(LIMIT_DEFAULT) };
    match number(text) {
        Some(limit @ 1..=LIMIT_MAX) => Ok(limit as usize),
        _ => Err(ApiError::bad("limit", format!("must be a number from 1 to {LIMIT_MAX}"))),
    }
}

fn filter(app: &App, kind: &Kind, query: &Query<'_>) -> Result<ListFilter, ApiError> {
    let now_ms = app.config.clock.now_ms();
    let adrift = query.is_true("adrift")?;
    let receiver = query.get(kind.receiver).map(kind.stored_receiver);
    Ok(ListFilter {
        rail: Some(kind.rail),
        tenant: None,
        state: query.get(kind.state).map(|name| state(kind, name)).transpose()?,
        receiver: receiver.transpose()?,
        created_from_ms: query.time_ms("created_from")?,
        created_until_ms: query.time_ms("created_until")?,
        adrift_before_ms: adrift.then(|| now_ms.saturating_sub(app.config.adrift_after_ms)),
        before: query.get("cursor").map(cursor).transpose()?,
        limit: 0,
    })
}

fn state(kind: &Kind, name: &str) -> Result<TransferState, ApiError> {
    TransferState::parse(kind.rail, name).ok_or_else(|| {
        let states = TransferState::all(kind.rail);
        let names: Vec<&str> = states.iter().map(|state| state.name()).collect();
        ApiError::bad(kind.state, format!("must be one of {}", names.join(", ")))
    })
}

pub fn cursor(text: &str) -> Result<TransferId, ApiError> {
    let id = number(text).filter(|_| text.len() <= CURSOR_MAX_DIGITS).map(TransferId);
    id.ok_or_else(|| ApiError::bad("cursor", "must be the next_cursor of an earlier page"))
}

/// Digits alone.
pub fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}
