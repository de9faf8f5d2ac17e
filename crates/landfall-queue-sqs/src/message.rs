//! A hint on the wire: seed 002's body.
//!
//! `transactionId` is the transfer's id and `type` its stage. Where a call on an EVM chain is
//! announced they are what its client knows, as is `request`, for others who read along, and
//! `transfer` and `stage` are the hint. **Rule:** nobody of ours reads `request`: what is to be
//! done is in the store.

use aws_sdk_sqs::primitives::{DateTime, DateTimeFormat};
use landfall_core::evm::Call;
use landfall_core::queue::Hint;
use landfall_core::{Stage, Transfer, TransferId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The largest request that is shown: ten messages share a request of 256 KiB.
const REQUEST_BYTES_MAX: usize = 16 * 1024;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    #[serde(default)]
    message_id: String,
    transaction_id: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    request: Map<String, Value>,
    #[serde(default)]
    timestamp: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    transfer: Option<TransferId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stage: Option<String>,
}

pub(crate) fn encode(hint: &Hint, now_ms: u64) -> String {
    written(&body(hint, now_ms))
}

/// The same of a transfer that was just taken.
pub(crate) fn announce(hint: &Hint, transfer: &Transfer, now_ms: u64) -> String {
    let plain = body(hint, now_ms);
    let Some(call) = transfer.payload.evm() else { return written(&plain) };
    written(&Body {
        transaction_id: transfer.key.clone(),
        kind: call.kind().to_owned(),
        request: request(call),
        transfer: Some(hint.transfer),
        stage: Some(hint.stage.to_string()),
        ..plain
    })
}

fn body(hint: &Hint, now_ms: u64) -> Body {
    let time = DateTime::from_millis(i64::try_from(now_ms).unwrap_or(i64::MAX));
    Body {
        message_id: message_id(rand::random()),
        transaction_id: hint.transfer.to_string(),
        kind: hint.stage.to_string(),
        request: Map::new(),
        timestamp: time.fmt(DateTimeFormat::DateTime).unwrap_or_default(),
        transfer: None,
        stage: None,
    }
}

fn written(body: &Body) -> String {
    serde_json::to_string(body).expect("text in a map is JSON")
}

/// A call as a client sends it, all in texts; nothing of one that is too large.
fn request(call: &Call) -> Map<String, Value> {
    let Ok(Value::Object(mut fields)) = serde_json::to_value(&call.work) else { return Map::new() };
    let Some(Value::Object(mut request)) = fields.remove("request") else { return Map::new() };
    for value in request.values_mut().filter(|value| value.is_number()) {
        *value = value.to_string().into();
    }
    request.insert("speed".to_owned(), call.speed.as_str().into());
    request.insert("chain".to_owned(), call.chain.as_str().into());
    let length = |value: &Value| value.as_str().map_or(0, str::len);
    let bytes: usize = request.values().map(length).sum();
    if bytes > REQUEST_BYTES_MAX { Map::new() } else { request }
}

/// None if it is no hint of ours.
pub(crate) fn decode(body: &str) -> Option<Hint> {
    let body: Body = serde_json::from_str(body).ok()?;
    let name = body.stage.unwrap_or(body.kind);
    let stage = Stage::ALL.into_iter().find(|stage| stage.0 == name)?;
    let transfer = body.transfer.or_else(|| body.transaction_id.parse().ok().map(TransferId))?;
    Some(Hint { transfer, stage })
}

/// A random UUID, version 4.
fn message_id(random: u128) -> String {
    let bits = random & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{bits:032x}");
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use landfall_core::{NewTransfer, Payload, RailName, State, evm, near};

    #[test]
    fn a_message_has_the_fields_of_the_seed() {
        let hint = Hint { transfer: TransferId(42), stage: near::TRANSFER };
        let body = encode(&hint, 1_767_702_896_789);
        let fields: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(fields["transactionId"], "42");
        assert_eq!(fields["type"], "transfer");
        assert_eq!(fields["timestamp"], "2026-01-06T12:34:56.789Z");
        assert_eq!(fields["request"], serde_json::json!({}));
        assert_eq!(decode(&body), Some(hint));
    }

    fn call(data: &str) -> Transfer {
        let terms = evm::Terms { chain: "sim".into(), chain_id: 31_337, forwarder: None };
        let (to, data) = ("0x5FbDB2315678afecb367f032d93F642f64180aa3", Some(data));
        let (value, gas, speed) = (Some("0"), Some("21000"), Some("fast"));
        let fields = evm::DirectFields { to, data, value, gas, speed };
        let payload = Payload::Evm(Call::direct(&terms, &fields).expect("a good call"));
        let scope = (String::new(), "550e8400-e29b-41d4-a716-446655440001".to_owned());
        let (print, first) = (payload.fingerprint(), State::all(RailName::Evm)[0]);
        let new = NewTransfer::begin(scope, print, payload, first, &[], 0);
        new.expect("a legal beginning").accepted_as(TransferId(42))
    }

    #[test]
    fn a_call_is_announced_as_its_client_knows_it() {
        let call = call("0x");
        let hint = Hint::at(&call).expect("somebody has to work on it");
        let body = announce(&hint, &call, 1_767_702_896_789);
        let fields: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(fields["transactionId"], "550e8400-e29b-41d4-a716-446655440001");
        assert_eq!((&fields["type"], &fields["stage"]), (&"direct".into(), &"submission".into()));
        let request = serde_json::json!({"to": "0x5fbdb2315678afecb367f032d93f642f64180aa3",
            "data": "0x", "value": "0", "gas": "21000", "speed": "fast", "chain": "sim"});
        assert_eq!(fields["request"], request);
        assert_eq!(decode(&body), Some(hint));
    }

    #[test]
    fn ten_large_calls_fit_one_request_of_sqs() {
        let call = call(&format!("0x{}", "00".repeat(30_000)));
        let hint = Hint::at(&call).expect("somebody has to work on it");
        let body = announce(&hint, &call, 0);
        assert!(10 * body.len() < 256 * 1024);
        assert_eq!(decode(&body), Some(hint));
    }

    #[test]
    fn message_ids_are_random_uuids() {
        assert_eq!(message_id(0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(message_id(u128::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }

    #[test]
    fn what_others_wrote_is_no_hint() {
        let foreign = [
            "",
            "hello",
            "{}",
            r#"{"transactionId":"550e8400-e29b-41d4-a716-446655440001","type":"direct"}"#,
            r#"{"transactionId":"7","type":"unheard-of"}"#,
            r#"{"transactionId":"-7","type":"transfer"}"#,
            r#"{"transactionId":7,"type":"transfer"}"#,
            r#"{"messageId":"m","transactionId":"550e8400-e29b-41d4-a716-446655440001",
                "type":"gasless","request":{"to":"0x"},"timestamp":"2026-01-06T12:34:56.789Z"}"#,
            r#"{"transactionId":"7","type":"direct","transfer":"7","stage":"submission"}"#,
            r#"{"transactionId":"7","type":"direct","transfer":7,"stage":"unheard-of"}"#,
        ];
        for body in foreign {
            assert_eq!(decode(body), None, "{body}");
        }
    }
}
