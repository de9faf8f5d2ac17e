//! `POST /transfers`: many transfers, each with its own idempotency key.
//!
//! **Rule:** one result each, in order; a bad one never spoils its siblings.
//! **Rule:** all good ones are one submission, so one commit.
//! **Rule:** what is said of a line names it: blank ones are passed over, so counting answers does
//! not find it.

use std::borrow::Cow;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use landfall_core::Payload;
use landfall_core::near::Terms;
use landfall_core::store::Accepted;
use landfall_engine::Submission;

use super::fields::{self, Fields, KeyIn};
use super::submit::{conflict, payload};
use super::wire::{ItemBody, ItemTransfer, NewBody, TransferBody};
use crate::body;
use crate::config::Scope;
use crate::error::ApiError;
use crate::headers::{self, BodyType, KEY_RULE, is_key};
use crate::router::App;
use crate::taken::claimed;

/// One of many, read and checked.
struct Item<'a> {
    key: Option<Cow<'a, str>>,
    /// Its number, from 1, in a body of lines.
    line: Option<usize>,
    /// The payload of a good one.
    checked: Result<Payload, ApiError>,
}

pub async fn submit_many(
    State(app): State<Arc<App>>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let caller = app.admit(&parts.headers, Scope::Submit)?;
    let terms = app.near()?;
    let kind = headers::body_type(&parts.headers, &[BodyType::Json, BodyType::Lines])?;
    let bytes = body::read(&app.config, &parts.headers, body, app.config.many_limit_bytes).await?;
    let texts = split(body::text(&bytes)?, kind, app.config.many_max)?;
    app.charge(caller, texts.len().saturating_sub(1));

    let mut items: Vec<Item<'_>> =
        texts.into_iter().map(|(line, text)| item(terms, line, text)).collect();
    for item in &mut items {
        if let (Ok(payload), Some(key)) = (&item.checked, &item.key)
            && let Err(error) = app.screen(payload, (caller.tenant, key)).await
        {
            item.checked = Err(error);
        }
    }
    let good = items.iter().filter_map(|item| submission(caller.tenant, item)).collect();
    let answers = submit_if_any(&app, good).await?;
    Ok(Json(results(&items, &answers)?).into_response())
}

/// The items' texts, with their lines' numbers.
fn split(text: &str, kind: BodyType, max: usize) -> Result<Vec<(Option<usize>, &str)>, ApiError> {
    match kind {
        BodyType::Json => {
            Ok(body::items(text, max)?.into_iter().map(|raw| (None, raw.get())).collect())
        }
        BodyType::Lines => {
            let lines = text.split('\n').map(str::trim_ascii).enumerate();
            let lines = lines.filter(|(_, line)| !line.is_empty());
            let numbered = lines.map(|(index, line)| (Some(index + 1), line));
            let lines: Vec<_> = numbered.take(max + 1).collect();
            if lines.len() > max { Err(body::too_many(max)) } else { Ok(lines) }
        }
    }
}

fn item<'a>(terms: &Terms, line: Option<usize>, text: &'a str) -> Item<'a> {
    let mut fields = match Fields::parse(text, KeyIn::Object) {
        Ok(fields) => fields,
        Err(error) => return Item { key: fields::key_at_least(text), line, checked: Err(error) },
    };
    let checked = match (wrong_key(&fields), payload(terms, &fields)) {
        (None, Ok(payload)) => Ok(payload),
        (wrong, payload) => {
            Err(ApiError::all(wrong.into_iter().chain(payload.err().unwrap_or_default())))
        }
    };
    Item { key: fields.idempotency_key.take(), line, checked }
}

fn wrong_key(fields: &Fields<'_>) -> Option<String> {
    let remedy = "give a key of your own making, the same for every repeat of this transfer";
    match fields.idempotency_key.as_deref() {
        Some(key) => (!is_key(key)).then(|| format!("idempotency_key: {KEY_RULE}")),
        None => fields.missing("idempotency_key", remedy),
    }
}

fn submission(tenant: &str, item: &Item<'_>) -> Option<Submission> {
    let payload = item.checked.as_ref().ok()?.clone();
    let key = item.key.as_deref()?.to_owned();
    Some(Submission { tenant: tenant.to_owned(), key, payload })
}

async fn submit_if_any(app: &App, good: Vec<Submission>) -> Result<Vec<Accepted>, ApiError> {
    if good.is_empty() {
        return Ok(Vec::new());
    }
    Ok(app.relay.submit(good).await?)
}

/// Puts the engine's answers back among the items that were not submitted.
fn results<'a>(
    items: &'a [Item<'_>],
    answers: &'a [Accepted],
) -> Result<Vec<ItemBody<'a>>, ApiError> {
    let mut answers = answers.iter();
    let mut results = Vec::with_capacity(items.len());
    for item in items {
        results.push(match &item.checked {
            Ok(payload) => answered(item, answers.next().ok_or(ApiError::Internal)?, payload),
            Err(error) => refused(item, error),
        });
    }
    Ok(results)
}

fn answered<'a>(item: &'a Item<'_>, answer: &'a Accepted, asked: &Payload) -> ItemBody<'a> {
    let stored = |status, transfer| ItemBody::stored(item.key.as_deref(), status, transfer);
    match answer {
        Accepted::Created(transfer) => stored(201, ItemTransfer::Created(NewBody::of(transfer))),
        Accepted::Already(transfer) => {
            stored(200, ItemTransfer::Already(TransferBody::of(transfer)))
        }
        Accepted::Conflict(stored) => refused(item, &conflict(stored, asked)),
        Accepted::Claimed { key, .. } => refused(item, &claimed(key)),
    }
}

fn refused<'a>(item: &'a Item<'_>, error: &ApiError) -> ItemBody<'a> {
    let message = match item.line {
        Some(line) => format!("line {line}: {}", error.message()),
        None => error.message(),
    };
    ItemBody::refused(item.key.as_deref(), error.status().as_u16(), message)
}
