//! What a browser sees: the landing page, and the page that shows the API's description.
//!
//! **Rule:** pages work offline: everything they need is in them, and they may load nothing from
//! elsewhere, which the content security policy says too.
//! Not here: the description itself (`describe`), the console.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{Html, IntoResponse, Response};

use crate::router::App;

const DOCS: &str = include_str!("docs.html");
const LANDING: &str = include_str!("landing.html");

const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
     connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'";

pub async fn openapi_json(State(app): State<Arc<App>>) -> Response {
    ([(CONTENT_TYPE, "application/json")], app.openapi.clone()).into_response()
}

pub async fn docs() -> Response {
    page(DOCS)
}

pub async fn landing() -> Response {
    page(LANDING)
}

fn page(text: &'static str) -> Response {
    let headers = [(CONTENT_SECURITY_POLICY, POLICY), (X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (headers, Html(text)).into_response()
}
