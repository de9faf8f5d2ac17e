//! `POST /api/v1/relay/direct` and `/api/v1/relay/gasless`: calls on EVM chains.
//!
//! **Rule:** a call's id comes from the client's idempotency key where it gave one, so that a
//! repeat is the same call.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use landfall_core::evm::{Call, Work, transaction_id};
use landfall_core::store::{Accepted, ListFilter};
use landfall_core::{Payload, RailName, TransferId};
use landfall_engine::Submission;
use uuid::Uuid;

use super::fields::Fields;
use super::wire::answer;
use crate::body;
use crate::config::{EvmTerms, Scope};
use crate::error::ApiError;
use crate::headers::{self, BodyType};
use crate::router::App;
use crate::taken::{self, Part};

pub async fn direct(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    submit(&app, request, |terms, text| {
        let fields = Fields::of_direct(text)?;
        Ok(Call::direct(terms.chain(fields.chain())?, &fields.direct()?)?)
    })
    .await
}

pub async fn gasless(State(app): State<Arc<App>>, request: Request) -> Result<Response, ApiError> {
    submit(&app, request, |terms, text| {
        let fields = Fields::of_gasless(text)?;
        Ok(Call::gasless(terms.chain(fields.chain())?, &fields.gasless()?)?)
    })
    .await
}

async fn submit(
    app: &App,
    request: Request,
    read: fn(&EvmTerms, &str) -> Result<Call, ApiError>,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let caller = app.admit(&parts.headers, Scope::Submit)?;
    let terms = app.evm()?;
    headers::body_type(&parts.headers, &[BodyType::Json])?;
    let client_key = headers::optional_key(&parts.headers)?;
    let bytes = body::read(&app.config, &parts.headers, body, app.config.body_limit_bytes).await?;
    let call = read(terms, body::text(&bytes)?)?;
    let named = client_key.as_deref().map(|key| transaction_id(caller.tenant, key));
    let key = named.unwrap_or_else(Uuid::new_v4).to_string();
    let tenant = caller.tenant.to_owned();
    let payload = Payload::Evm(call.clone());
    app.screen(&payload, (&tenant, &key)).await?;
    let submission = Submission { tenant: tenant.clone(), key, payload };
    match app.relay.submit(vec![submission]).await?.pop().ok_or(ApiError::Internal)? {
        Accepted::Created(transfer) | Accepted::Already(transfer) => Ok(answer(&transfer)),
        Accepted::Conflict(stored) => {
            let (key, stored) =
                (client_key.unwrap_or_default(), stored.payload.evm().map(parts_of));
            Err(taken::conflict(&key, stored.unwrap_or_default(), parts_of(&call)))
        }
        Accepted::Claimed { owner, .. } => Err(claimed(app, &tenant, &call, owner).await?),
    }
}

/// Says who has the nonce of a user's request: by its id, if it is one of the same client's.
async fn claimed(
    app: &App,
    tenant: &str,
    call: &Call,
    owner: Option<TransferId>,
) -> Result<ApiError, ApiError> {
    let Work::Gasless(request) = &call.work else { return Err(ApiError::Internal) };
    let mut by = "another client's transaction".to_owned();
    if let Some(owner) = owner {
        let filter = ListFilter {
            rail: Some(RailName::Evm),
            tenant: Some(tenant.to_owned()),
            before: Some(TransferId(owner.0.saturating_add(1))),
            limit: 1,
            ..ListFilter::default()
        };
        let found = app.relay.list(filter).await?;
        if let Some(own) = found.first().filter(|transfer| transfer.id == owner) {
            by = format!("transaction {}", own.key);
        }
    }
    let (nonce, from) = (request.nonce, request.from);
    let taken = format!("nonce: {nonce} of {from} is taken at this forwarder by {by}");
    Ok(ApiError::Conflict(taken))
}

/// All that a client can say of a call.
fn parts_of(call: &Call) -> Vec<Part> {
    let (from, data, gas, nonce, deadline, signature) = match &call.work {
        Work::Direct(direct) => (None, &direct.data, direct.gas, None, None, None),
        Work::Gasless(request) => (
            Some(request.from.to_string()),
            &request.data,
            Some(request.gas),
            Some(request.nonce.to_string()),
            Some(request.deadline.to_string()),
            Some(request.signature.to_string()),
        ),
    };
    vec![
        ("type", Some(call.kind().to_owned())),
        ("chain", Some(call.chain.clone())),
        ("from", from),
        ("to", Some(call.to().to_string())),
        ("data", Some(data.to_string())),
        ("value", Some(call.value().to_string())),
        ("gas", gas.map(|gas| gas.to_string())),
        ("nonce", nonce),
        ("deadline", deadline),
        ("signature", signature),
        ("speed", Some(call.speed.as_str().to_owned())),
    ]
}
