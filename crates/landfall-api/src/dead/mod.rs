//! Dead letters, for operators: `/dead`.
//!
//! What failed, of all tenants and rails, each proven not to have moved. A replay reopens one.
//! Not here: what may be replayed (`landfall_engine::dead`).

mod wire;

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use landfall_core::{RailName, TransferId};
use landfall_engine::dead::Replay;
use serde_json::json;
use serde_json::value::RawValue;

use crate::body;
use crate::config::Scope;
use crate::describe::{Part, filled};
use crate::error::ApiError;
use crate::headers::{self, BodyType};
use crate::list::{cursor, limit};
use crate::query::Query;
use crate::router::App;
use crate::wire::PageBody;

use wire::{DeadBody, StoryBody};

const EXAMPLE: &str = "{\"reason\": \"the contract is back\"}";
/// Longest reason: a few sentences.
const REASON_MAX_CHARS: usize = 1_000;

/// Their part of the API's description.
pub fn describe() -> Part {
    let rails = RailName::ALL.map(|rail| json!(rail.as_str())).to_vec();
    let text = filled(include_str!("openapi.json"), &[("\"$rails\"", rails)]);
    Part::of(&text).with::<wire::Described>().with_page::<DeadBody<'_>>("DeadPage")
}

pub fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/dead", get(list))
        .route("/dead/{id}", get(show))
        .route("/dead/{id}/replay", post(replay))
}

async fn list(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    app.admit(&headers, Scope::Operate)?;
    let query = Query::parse(query.as_deref(), &["rail", "cursor", "limit"])?;
    let limit = limit(&query)?;
    let rail = query.get("rail").map(rail).transpose()?;
    let before = query.get("cursor").map(cursor).transpose()?;
    // One more than asked for tells whether there is another page.
    let mut dead = app.relay.dead(rail, before, limit + 1).await?;
    let more = dead.len() > limit;
    dead.truncate(limit);
    let page = PageBody {
        next_cursor: dead.last().filter(|_| more).map(|last| last.id.to_string()),
        transfers: dead.iter().map(DeadBody::of).collect(),
    };
    Ok(Json(page).into_response())
}

async fn show(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    app.admit(&headers, Scope::Operate)?;
    let id = transfer_id(id)?;
    let none = || ApiError::NotFound(format!("there is no dead letter {id}"));
    let (transfer, others) = app.relay.dead_letter(id).await?.ok_or_else(none)?;
    Ok(Json(StoryBody::of(&transfer, &others)).into_response())
}

async fn replay(
    State(app): State<Arc<App>>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    app.admit(&parts.headers, Scope::Operate)?;
    let id = transfer_id(id)?;
    headers::body_type(&parts.headers, &[BodyType::Json])?;
    let bytes = body::read(&app.config, &parts.headers, body, app.config.body_limit_bytes).await?;
    let wish = wish(body::text(&bytes)?)?;
    let reopened = app.relay.replay(app.config.cache.as_deref(), id, &wish).await?;
    Ok(Json(DeadBody::of(&reopened)).into_response())
}

fn rail(name: &str) -> Result<RailName, ApiError> {
    let names = || RailName::ALL.map(RailName::as_str).join(", ");
    let unknown = || ApiError::bad("rail", format!("must be one of {}", names()));
    RailName::parse(name).ok_or_else(unknown)
}

fn transfer_id(id: Result<Path<String>, PathRejection>) -> Result<TransferId, ApiError> {
    let id = id.ok().and_then(|Path(text)| cursor(&text).ok());
    id.ok_or_else(|| ApiError::bad("id", "must be a number, as GET /dead shows it"))
}

fn wish(text: &str) -> Result<Replay, ApiError> {
    let (mut reason, mut anyway) = (None, None);
    for (name, value) in body::members(text, EXAMPLE)? {
        let given_before = match name.as_str() {
            "reason" => reason.replace(text_of(value)?).is_some(),
            "anyway" => anyway.replace(bool_of(value)?).is_some(),
            _ => {
                let message = "is not a field; the fields are reason and anyway";
                return Err(ApiError::bad(&body::shown(&name), message));
            }
        };
        if given_before {
            return Err(ApiError::bad(&name, "is given twice"));
        }
    }
    let missing = || ApiError::bad("reason", "is missing; say why, for those who come after");
    Ok(Replay { reason: reason.ok_or_else(missing)?, anyway: anyway.unwrap_or(false) })
}

fn text_of(value: &RawValue) -> Result<String, ApiError> {
    let text = serde_json::from_str::<String>(value.get()).unwrap_or_default();
    match (1..=REASON_MAX_CHARS).contains(&text.chars().count()) {
        true => Ok(text),
        false => Err(ApiError::bad("reason", "must be a string of 1 to 1000 characters")),
    }
}

fn bool_of(value: &RawValue) -> Result<bool, ApiError> {
    let rule = "must be true or false";
    serde_json::from_str(value.get()).map_err(|_| ApiError::bad("anyway", rule))
}
