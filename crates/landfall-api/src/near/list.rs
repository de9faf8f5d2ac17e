//! `GET /transfers`: payouts.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::Response;
use landfall_core::{RailName, near};

use super::wire::TransferBody;
use crate::error::ApiError;
use crate::list::{Found, KEY, Kind};
use crate::router::App;

const PAYOUTS: Kind = Kind {
    rail: RailName::Near,
    state: "status",
    receiver: "receiver_id",
    parameters: &[
        KEY,
        "status",
        "receiver_id",
        "created_from",
        "created_until",
        "adrift",
        "cursor",
        "limit",
    ],
    stored_key: |_, key| key.to_owned(),
    stored_receiver: |text| Ok(near::account(text)?.to_string()),
};

pub async fn list(
    State(app): State<Arc<App>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let found = Found::of(&app, &PAYOUTS, query.as_deref(), &headers).await?;
    found.page(|transfer| Ok(TransferBody::of(transfer)))
}
