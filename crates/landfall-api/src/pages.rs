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
use landfall_core::internal::{Asset, Terms};
use serde_json::{Value, json};

use crate::config::{ApiConfig, Auth};
use crate::decimal;
use crate::router::App;

const DESCRIPTION: &str = include_str!("openapi.json");
const DOCS: &str = include_str!("docs.html");
const LANDING: &str = include_str!("landing.html");

const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
     connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'";

/// The description of this very server: its version, who is let in, what can be moved where. The
/// file has a mark where each goes; its fields stay in the order in which they were written.
pub fn openapi(config: &ApiConfig) -> Bytes {
    let keys = match config.auth {
        Auth::Off => Vec::new(),
        Auth::Keys(_) => vec![json!({"ApiKey": []}), json!({"Bearer": []})],
    };
    let gateway = config.internal.as_ref();
    let terms = gateway.map_or_else(example, |gateway| gateway.terms.clone());
    let symbols = terms.assets.iter().map(|asset| json!(asset.symbol)).collect();
    let services = terms.services.iter().map(|name| json!(name)).collect();
    let named = |index: usize| vec![json!(terms.services.get(index))];
    let first = terms.assets.first();
    let amount = if first.is_some_and(|asset| asset.decimals == 0) { "1" } else { "1.5" };
    let text = [
        ("\"$version\"", vec![json!(config.version)]),
        ("\"$keys\"", keys),
        ("\"$key_required\"", vec![json!(gateway.is_some_and(|gateway| gateway.key_required))]),
        ("\"$services\"", services),
        ("\"$from\"", named(0)),
        ("\"$to\"", named(1)),
        ("\"$asset\"", vec![json!(first.map(|asset| &asset.symbol))]),
        ("\"$amount\"", vec![json!(amount)]),
        ("\"$assets\"", symbols),
        ("\"$order_rules\"", order_rules(&terms)),
    ]
    .into_iter()
    .fold(DESCRIPTION.to_owned(), |text, (mark, values)| {
        let values: Vec<String> = values.iter().map(Value::to_string).collect();
        text.replace(mark, &values.join(", "))
    });
    Bytes::from(text)
}

/// Shown where the rail is off: its routes say so themselves.
fn example() -> Terms {
    let asset = Asset { id: 1, symbol: "BTC".to_owned(), decimals: 8 };
    Terms { services: ["funding", "trading"].map(str::to_owned).to_vec(), assets: vec![asset] }
}

/// What the fields of an order ask of each other: two services, and no more than an asset can hold.
fn order_rules(terms: &Terms) -> Vec<Value> {
    let rule = |field: &str, is: &str, other: &str, then: Value| {
        json!({
            "if": {"properties": {field: {"const": is}}},
            "then": {"properties": {other: then}},
        })
    };
    let elsewhere = |name: &String| rule("from", name, "to", json!({"not": {"const": name}}));
    let within = |asset: &Asset| {
        let pattern = decimal::pattern(asset.decimals);
        rule("asset", &asset.symbol, "amount", json!({"pattern": pattern}))
    };
    terms.services.iter().map(elsewhere).chain(terms.assets.iter().map(within)).collect()
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
