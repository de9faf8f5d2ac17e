//! A book on HTTP: the routes, and nothing that decides.
//!
//! The contract is docs/services.md. **Rule:** 200 is given after the commit; 400 only for a
//! request that can never be valid, with the field's name; whatever went wrong on our side is 5xx,
//! so that no caller takes it for a refusal.
//! Not here: faults (`faults`, `sim`).

mod answer;
mod body;
mod routes;

use std::future::Future;
use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::response::Response;
use axum::routing::{get, post};
use axum::serve::ListenerExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use landfall_core::Clock;
use tokio::net::TcpListener;

use crate::book::Book;

pub(crate) use body::MAX_BYTES;

/// On a request whose deposit the service is to decline, for reasons of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Declined;

/// What the routes work with.
#[derive(Clone)]
struct Service {
    book: Arc<dyn Book>,
    clock: Arc<dyn Clock>,
}

/// The routes of one service.
pub fn router(book: Arc<dyn Book>, clock: Arc<dyn Clock>) -> Router {
    Router::new()
        .route("/withdraw", post(routes::withdraw))
        .route("/deposit", post(routes::deposit))
        .route("/commit", post(routes::commit))
        .route("/rollback", post(routes::rollback))
        .route("/operations/{req_id}/{operation}", get(routes::operation))
        .route("/contract", get(routes::contract))
        .route("/users/{user_id}", get(routes::user))
        .route("/fund", post(routes::fund))
        .route("/accounts/{user_id}", get(routes::accounts))
        .route("/accounts/{user_id}/{asset_id}/block", post(routes::block))
        .route("/accounts/{user_id}/{asset_id}/statement", get(routes::account_statement))
        .route("/statement", get(routes::statement))
        .route("/balances", get(routes::balances))
        .route("/health", get(routes::health))
        .fallback(routes::nowhere)
        .method_not_allowed_fallback(routes::no_such_method)
        // The limit with its own words is in `body`.
        .layer(DefaultBodyLimit::disable())
        .with_state(Service { book, clock })
}

/// One request without a connection, as simulated services have it.
pub async fn handle(routes: &Router, request: Request) -> Response {
    let answer: Result<Response, std::convert::Infallible> =
        TowerToHyperService::new(routes.clone()).call(request).await;
    answer.unwrap_or_else(|never| match never {})
}

/// Serves a book until `shutdown`, then lets the answers under way finish.
pub async fn serve(
    listener: TcpListener,
    book: Arc<dyn Book>,
    clock: Arc<dyn Clock>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    // An answer is small: it must not wait for the acknowledgement of the one before.
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, router(book, clock)).with_graceful_shutdown(shutdown).await
}
