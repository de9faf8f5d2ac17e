//! Payouts on NEAR: `/transfer`, `/transfers`.
//!
//! `submit` and `many` take them, `read` and `list` show them; `fields` is what comes in and
//! `wire` what goes out.

mod fields;
mod list;
mod many;
mod read;
mod submit;
mod wire;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use crate::describe::Part;
use crate::router::App;

/// Their part of the API's description.
pub fn describe() -> Part {
    let part = Part::of(include_str!("openapi.json")).with::<wire::Described>();
    part.with_page::<wire::TransferBody<'_>>("Page").and("State", wire::described::states())
}

pub fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/transfer", post(submit::submit))
        .route("/transfer/{key}", get(read::read))
        .route("/transfers", get(list::list).post(many::submit_many))
}
