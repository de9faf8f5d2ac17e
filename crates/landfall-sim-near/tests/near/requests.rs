//! Requests a node refuses before it looks at them, word for word.

use serde_json::{Value, json};

use crate::captures::{check_equal, load};
use crate::support::*;

/// Captures whose request is whole and needs nothing of the chain.
const REFUSED: [&str; 16] = [
    "parse--bad-params-type",
    "parse--bad-tx-hash",
    "parse--bad-wait-until",
    "parse--batch-array",
    "parse--empty-object",
    "parse--jsonrpc-1.0",
    "parse--missing-params",
    "parse--no-id",
    "parse--no-jsonrpc-version",
    "parse--short-tx-hash",
    "parse--unknown-method",
    "invalid_tx--malformed-base64",
    "invalid_tx--malformed-base64-broadcast_tx_async",
    "invalid_tx--malformed-borsh",
    "invalid_tx--receiver-id-invalid",
    "tx--no-sender",
];

#[test]
fn malformed_requests_are_refused_word_for_word() {
    let mut world = World::new();
    for name in REFUSED {
        let answer = at_once(world.raw(&request(name)));
        check_equal(name, &answer, &[]);
    }
}

#[test]
fn cut_or_lengthened_transactions_are_refused_word_for_word() {
    let mut world = World::new();
    for name in ["invalid_tx--trailing-bytes", "invalid_tx--truncated-borsh"] {
        let answer = at_once(world.raw(&request(name)));
        check_equal(name, &answer, &[]);
    }
}

#[test]
fn an_id_may_be_a_number() {
    let mut world = World::new();
    let answer = at_once(world.raw(&request("parse--numeric-id")));
    assert_eq!(answer.json(), &json!({ "jsonrpc": "2.0", "result": null, "id": 7 }));
}

/// Requests that were sent as text are kept as text.
fn request(name: &str) -> Value {
    match load(name).request {
        Value::String(text) => serde_json::from_str(&text).expect("a JSON request"),
        other => other,
    }
}
