//! For tests: captured answers, given back through the real JSON-RPC reader.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use landfall_core::clock::Clock;
use landfall_rpc::{Endpoints, HttpAnswer, RpcError, Settings, Transport, TransportError, Url};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// A capture's whole file.
pub fn capture(case: &str) -> Value {
    let path = format!("{}/tests/captures/{case}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap()
}

/// Every captured case.
pub fn cases() -> Vec<String> {
    let folder = format!("{}/tests/captures", env!("CARGO_MANIFEST_DIR"));
    let mut cases: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().unwrap().into())
        .filter_map(|name| name.strip_suffix(".json").map(str::to_owned))
        .filter(|name| name.contains("--"))
        .collect();
    cases.sort();
    cases
}

/// A capture's status and body, with the id of the one request that tests make.
pub fn body(case: &str) -> (u16, String) {
    let whole = capture(case);
    let status = whole["http_status"].as_u64().unwrap() as u16;
    let mut response = whole["response"].clone();
    if let Some(raw) = whole["response_raw"].as_str() {
        return (status, raw.to_owned());
    }
    if response.get("id").is_some() {
        response["id"] = json!(1);
    }
    (status, response.to_string())
}

/// What the endpoints make of a status and a body.
pub fn answer(status: u16, body: impl Into<Bytes>) -> Result<Box<RawValue>, RpcError> {
    struct Fixed(HttpAnswer);
    #[async_trait]
    impl Transport for Fixed {
        async fn post(&self, _: &Url, _: Bytes, _: Duration) -> Result<HttpAnswer, TransportError> {
            Ok(self.0.clone())
        }
    }
    struct Still;
    #[async_trait]
    impl Clock for Still {
        fn now_ms(&self) -> u64 {
            0
        }
        async fn sleep(&self, _: Duration) {}
    }
    let wire = Arc::new(Fixed(HttpAnswer { status, body: body.into() }));
    let urls = vec![Url::parse("http://node").unwrap()];
    let endpoints = Endpoints::new(urls, wire, Arc::new(Still), Settings::default()).unwrap();
    let call = endpoints.send_once(0, &[], ("any", &()), Duration::from_secs(1));
    futures::executor::block_on(call).1
}

/// A capture as the endpoints hand it on.
pub fn captured(case: &str) -> Result<Box<RawValue>, RpcError> {
    let (status, body) = body(case);
    answer(status, body)
}
