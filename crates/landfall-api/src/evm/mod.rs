//! Calls on EVM chains: `/api/v1/relay/…`.
//!
//! `submit` takes them, `read` shows them, `remembered` keeps final statuses at hand; `fields` is
//! what comes in and `wire` what goes out; `describe` is their part of the API's description.

mod describe;
mod fields;
mod read;
mod remembered;
mod submit;
mod wire;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use crate::router::App;

pub use describe::describe;

pub fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/api/v1/relay/direct", post(submit::direct))
        .route("/api/v1/relay/gasless", post(submit::gasless))
        .route("/api/v1/relay/status/{transactionId}", get(read::status))
        .route("/api/v1/relay/transactions", get(read::list))
}
