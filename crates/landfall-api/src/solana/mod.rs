//! Withdraws from a shield pool on Solana: `/withdraw` and `/status/{request_id}`.
//!
//! `submit` takes them, `read` shows them; `wire` is what goes out, `describe` their part of the
//! API's description. What comes in is read by the door that the rail gives.

mod describe;
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
        .route("/withdraw", post(submit::submit))
        .route("/status/{request_id}", get(read::status))
}
