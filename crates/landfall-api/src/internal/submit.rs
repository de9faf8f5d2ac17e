//! `POST /api/v1/transfer`: a move between two services.
//!
//! A request is answered as soon as its transfer is final, at the latest after the gateway's
//! patience: then it is `pending`, and goes on without the client.
//! **Rule:** the request's id comes from the client's idempotency key where it gave one, so that a
//! repeat is the same request to the services too.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use landfall_core::internal::{Order, request_id};
use landfall_core::store::Accepted;
use landfall_core::{Payload, RailName, Transfer};
use landfall_engine::Submission;
use uuid::Uuid;

use super::fields::Fields;
use super::wire::answer;
use crate::body;
use crate::config::Scope;
use crate::error::ApiError;
use crate::headers::{self, BodyType};
use crate::router::App;
use crate::taken::{self, Part, claimed};

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
    match app.relay.submit(vec![submission]).await?.pop().ok_or(ApiError::Internal)? {
        Accepted::Created(transfer) | Accepted::Already(transfer) => {
            // It is stored: a store that fails from here on makes the answer late, not wrong.
            let waited = app.relay.wait_final(transfer.clone(), gateway.patience).await;
            Ok(answer(&waited.unwrap_or(transfer)))
        }
        Accepted::Conflict(stored) => Err(conflict(&stored, &payload)),
        Accepted::Claimed { key, .. } => Err(claimed(&key)),
    }
}

/// Asks the source whether it knows the user, unless the same request was taken before.
async fn screen(app: &App, tenant: &str, key: &str, payload: &Payload) -> Result<(), ApiError> {
    let repeated = payload.internal().is_some_and(|order| order.client_key.is_some());
    if repeated && app.relay.find(RailName::Internal, tenant, key).await?.is_some() {
        return Ok(());
    }
    Ok(app.relay.screen(payload).await?)
}

/// Says which parameters are others than those stored under the client's own key.
fn conflict(stored: &Transfer, asked: &Payload) -> ApiError {
    let own = stored.payload.internal().and_then(|order| order.client_key.as_ref());
    taken::conflict(own.unwrap_or(&stored.key), parts(&stored.payload), parts(asked))
}

fn parts(payload: &Payload) -> Vec<Part> {
    let Some(order) = payload.internal() else { return Vec::new() };
    vec![
        ("from", Some(order.source.clone())),
        ("to", Some(order.target.clone())),
        ("user_id", Some(order.user_id.to_string())),
        ("asset", Some(order.asset.clone())),
        ("amount", Some(order.amount.to_string())),
    ]
}
