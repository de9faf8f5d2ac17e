//! `POST /withdraw`: a withdraw from the shield pool.
//!
//! **Rule:** a nullifier is claimed in the commit that accepts its withdraw. A second use is told
//! the first one's request, unless it is the same request again: that gets the same answer.
//! **Rule:** a request's id comes from the client's idempotency key where it gave one.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use landfall_core::solana::{Withdraw, request_id};
use landfall_core::store::{Accepted, ListFilter};
use landfall_core::{BadField, Payload, RailName, Transfer, TransferId};
use landfall_engine::Submission;
use uuid::Uuid;

use super::wire::answer;
use crate::body;
use crate::config::Scope;
use crate::error::ApiError;
use crate::headers::{self, BodyType};
use crate::router::App;
use crate::taken::{self, Part};

const EXAMPLE: &str = "{\"outputs\": [{\"recipient\": \"…\", \"amount\": 1000000000}], \
                       \"policy\": {\"fee_bps\": 75}, \"public_inputs\": {\"root\": \"…\", \
                       \"nf\": \"…\", \"amount\": 1007537688, \"fee_bps\": 75, \
                       \"outputs_hash\": \"…\"}, \"proof_bytes\": \"…\"}";
const FIELDS: [&str; 7] =
    ["proof", "proof_bytes", "public_inputs", "outputs", "fee_bps", "policy", "priority"];

pub async fn submit(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let caller = app.admit(&parts.headers, Scope::Submit)?;
    let door = app.solana()?;
    headers::body_type(&parts.headers, &[BodyType::Json])?;
    let client_key = headers::optional_key(&parts.headers)?;
    let bytes = body::read(&app.config, &parts.headers, body, app.config.body_limit_bytes).await?;
    let text = body::text(&bytes)?;
    known_fields(text)?;
    let told = |faults: Vec<BadField>| ApiError::all(faults.iter().map(ToString::to_string));
    let withdraw = door.read(text).map_err(told)?;
    let named = client_key.as_deref().map(|key| request_id(caller.tenant, key));
    let key = named.unwrap_or_else(Uuid::new_v4).to_string();
    let tenant = caller.tenant.to_owned();
    let payload = Payload::Solana(withdraw.clone());
    let submission = Submission { tenant: tenant.clone(), key: key.clone(), payload };
    app.screen(&submission.payload, (&tenant, &key)).await?;
    let fingerprint = submission.payload.fingerprint();
    match app.relay.submit(vec![submission]).await?.pop().ok_or(ApiError::Internal)? {
        Accepted::Created(transfer) | Accepted::Already(transfer) => Ok(answer(&transfer)),
        Accepted::Conflict(stored) => {
            let stored = stored.payload.solana().map(parts_of).unwrap_or_default();
            let key = client_key.unwrap_or_default();
            Err(taken::conflict(&key, stored, parts_of(&withdraw)))
        }
        Accepted::Claimed { owner, .. } => {
            let first = owner_of(&app, &tenant, owner).await?;
            match first {
                Some(first) if first.fingerprint == fingerprint => Ok(answer(&first)),
                Some(first) => Err(spent(&format!("request {}", first.key))),
                None => Err(spent("another client's request")),
            }
        }
    }
}

fn spent(by: &str) -> ApiError {
    ApiError::Conflict(format!("public_inputs: the nullifier is spent by {by}"))
}

/// What is no field is refused, so that a misspelt one is not lost; and none is given twice.
fn known_fields(text: &str) -> Result<(), ApiError> {
    let mut given: Vec<String> = Vec::new();
    for (name, _) in body::members(text, EXAMPLE)? {
        if !FIELDS.contains(&name.as_str()) {
            let rule = format!("is not a field; the fields are {}", FIELDS.join(", "));
            return Err(ApiError::bad(&body::shown(&name), rule));
        }
        if given.contains(&name) {
            return Err(ApiError::bad(&name, "is given twice"));
        }
        given.push(name);
    }
    Ok(())
}

/// Whoever has the nullifier, if it is one of the same client's.
async fn owner_of(
    app: &App,
    tenant: &str,
    owner: Option<TransferId>,
) -> Result<Option<Transfer>, ApiError> {
    let Some(owner) = owner else { return Ok(None) };
    let filter = ListFilter {
        rail: Some(RailName::Solana),
        tenant: Some(tenant.to_owned()),
        before: Some(TransferId(owner.0.saturating_add(1))),
        limit: 1,
        ..ListFilter::default()
    };
    let found = app.relay.list(filter).await?;
    Ok(found.into_iter().next().filter(|transfer| transfer.id == owner))
}

/// All that a client can say of a withdraw, but for its urgency.
fn parts_of(withdraw: &Withdraw) -> Vec<Part> {
    let outputs = serde_json::to_string(&withdraw.outputs).ok();
    vec![
        ("proof", Some(withdraw.proof.clone())),
        ("root", Some(withdraw.root.clone())),
        ("nullifier", Some(withdraw.nullifier.clone())),
        ("amount", Some(withdraw.amount.to_string())),
        ("outputs", outputs),
    ]
}
