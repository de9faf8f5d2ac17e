//! Moves between two services: `/api/v1/transfer`, `/api/v1/transfers`.
//!
//! `submit` takes them, `read` shows them; `fields` is what comes in and `wire` what goes out;
//! `describe` is their part of the API's description.

mod describe;
mod fields;
mod read;
mod submit;
mod wire;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use crate::router::App;

pub use describe::describe;

pub fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/api/v1/transfer", post(submit::submit))
        .route("/api/v1/transfer/{req_id}", get(read::read))
        .route("/api/v1/transfers", get(read::list))
}
