//! A hint on the wire: seed 002's body.
//!
//! `transactionId` is the transfer's id and `type` its stage. `request` stays empty: what is to be
//! paid is in the store, and a message that said otherwise would have to be disbelieved.

use aws_sdk_sqs::primitives::{DateTime, DateTimeFormat};
use landfall_core::queue::Hint;
use landfall_core::{Stage, TransferId};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    #[serde(default)]
    message_id: String,
    transaction_id: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    request: serde_json::Map<String, serde_json::Value>,
    #[serde(default)]
    timestamp: String,
}

pub(crate) fn encode(hint: &Hint, now_ms: u64) -> String {
    let time = DateTime::from_millis(i64::try_from(now_ms).unwrap_or(i64::MAX));
    let body = Body {
        message_id: message_id(rand::random()),
        transaction_id: hint.transfer.to_string(),
        kind: hint.stage.to_string(),
        request: serde_json::Map::new(),
        timestamp: time.fmt(DateTimeFormat::DateTime).unwrap_or_default(),
    };
    serde_json::to_string(&body).expect("text in a map is JSON")
}

/// None if it is no hint of ours.
pub(crate) fn decode(body: &str) -> Option<Hint> {
    let body: Body = serde_json::from_str(body).ok()?;
    let stage = Stage::ALL.into_iter().find(|stage| stage.0 == body.kind)?;
    let transfer = body.transaction_id.parse().ok().map(TransferId)?;
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
    use landfall_core::near;

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
        ];
        for body in foreign {
            assert_eq!(decode(body), None, "{body}");
        }
    }
}
