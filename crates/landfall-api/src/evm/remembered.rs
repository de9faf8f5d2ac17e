//! Final statuses, remembered beside the store.
//!
//! **Rule:** only what the store has shown to be final is remembered, with whose it is: ids alone
//! let nobody in.

use landfall_core::Transfer;
use serde_json::{Map, Value};

use super::wire::StatusBody;
use crate::router::App;

/// The field beside the status that says whose it is.
const TENANT: &str = "tenant";

pub async fn get(app: &App, tenant: &str, id: &str) -> Option<Map<String, Value>> {
    let mut body = app.config.cache.as_ref()?.get(id).await?;
    let own = body.remove(TENANT).is_some_and(|whose| whose == tenant);
    own.then_some(body)
}

pub async fn put(app: &App, transfer: &Transfer, body: &StatusBody<'_>) {
    let Some(cache) = app.config.cache.as_ref().filter(|_| transfer.state.is_final()) else {
        return;
    };
    let Ok(Value::Object(mut body)) = serde_json::to_value(body) else { return };
    body.insert(TENANT.to_owned(), transfer.tenant.as_str().into());
    cache.put(&transfer.key, transfer.version, body).await;
}
