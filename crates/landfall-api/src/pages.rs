//! What a browser sees: the landing page, the API's description and the page that shows it.
//!
//! **Rule:** pages work offline: everything they need is in them, and they may load nothing from
//! elsewhere, which the content security policy says too.
//! Not here: the description's text (`openapi.json`, kept true by a test), the console.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{Html, IntoResponse, Response};
use bytes::Bytes;
use serde_json::Value;

use crate::config::ApiConfig;
use crate::router::App;

const DESCRIPTION: &str = include_str!("openapi.json");
const DOCS: &str = include_str!("docs.html");
const LANDING: &str = include_str!("landing.html");

const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
     connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'";

/// How the description's file marks where the version goes.
const VERSION_MARK: &str = "\"version\": \"0\"";

/// The description with this build's version, its fields in the order in which they were written.
pub fn openapi(config: &ApiConfig) -> Bytes {
    let version = format!("\"version\": {}", Value::from(config.version.as_str()));
    Bytes::from(DESCRIPTION.replacen(VERSION_MARK, &version, 1))
}

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
