//! Bodies of requests, and what a relayer tells of a transaction.
//!
//! Pure. What cannot be read is absent: it proves nothing, and nothing is adopted by it.

use alloy_primitives::{Address, B256, Bytes, U256};
use landfall_core::evm::Speed;
use serde::Deserialize;
use serde_json::{Value, json};

use super::handover::Handover;
use super::settings::Shape;

/// Where a relayer says a transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It is at work on it.
    Open,
    /// It has seen it in a block.
    InBlock,
    /// It has given it up, in its own words: failed, expired, canceled. No proof of anything.
    GivenUp,
    /// A word that nobody here knows.
    Strange,
}

impl Status {
    fn parse(word: &str) -> Status {
        match word {
            "pending" | "sent" | "submitted" => Status::Open,
            "mined" | "confirmed" => Status::InBlock,
            "failed" | "expired" | "canceled" | "cancelled" => Status::GivenUp,
            _ => Status::Strange,
        }
    }
}

/// What a relayer tells of one of its transactions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    pub id: String,
    pub status: Status,
    /// The relayer's own words: its status, and why.
    pub words: String,
    /// Of the newest bytes it signed, if any.
    pub hash: Option<B256>,
    pub from: Option<Address>,
    pub nonce: Option<u64>,
    pub to: Option<Address>,
    pub value: Option<U256>,
    pub data: Option<Bytes>,
    pub gas_limit: Option<u64>,
    pub created_ms: Option<u64>,
}

/// The body of the POST.
pub fn body(handover: &Handover, shape: Shape) -> Value {
    let Handover { to, value, data, gas, speed, .. } = handover;
    match shape {
        Shape::Enveloped => json!({
            "to": to,
            "value": number(value),
            "data": data,
            "gas_limit": gas,
            "speed": match speed {
                Speed::Slow => "safeLow",
                speed => speed.as_str(),
            },
        }),
        Shape::Bare => json!({
            "to": to,
            "value": value.to_string(),
            "data": data,
            "gas": gas.to_string(),
            "speed": speed.as_str(),
        }),
    }
}

/// A number where every reader of JSON keeps it exact, else hex.
fn number(value: &U256) -> Value {
    match u64::try_from(*value) {
        Ok(small) => json!(small),
        Err(_) => json!(value),
    }
}

#[derive(Deserialize)]
struct Envelope {
    success: bool,
    #[serde(default)]
    data: Value,
    #[serde(default)]
    error: Value,
}

/// What an envelope holds.
pub enum Enveloped {
    Data(Value),
    Error(String),
}

/// Opens an envelope; none if it is not one, or contradicts itself.
pub fn open(body: &[u8]) -> Option<Enveloped> {
    let Envelope { success, data, error } = serde_json::from_slice(body).ok()?;
    match (success, data, error) {
        (true, data, Value::Null) if !data.is_null() => Some(Enveloped::Data(data)),
        (false, Value::Null, Value::String(error)) if !error.trim().is_empty() => {
            Some(Enveloped::Error(error))
        }
        _ => None,
    }
}

/// One transaction, if it has an id.
pub fn told(value: &Value, shape: Shape) -> Option<Told> {
    let id = match shape {
        Shape::Enveloped => &value["id"],
        Shape::Bare => &value["transactionId"],
    };
    let id = id.as_str().filter(|id| is_id(id))?.to_owned();
    let status = value["status"].as_str().unwrap_or_default();
    let reason = value["status_reason"].as_str();
    let created = value["created_at"].as_str().or_else(|| value["createdAt"].as_str());
    Some(Told {
        id,
        status: Status::parse(status),
        words: reason.map_or(status.to_owned(), |reason| format!("{status}: {reason}")),
        hash: parsed(&value["hash"]),
        from: parsed(&value["from"]),
        nonce: value["nonce"].as_u64(),
        to: parsed(&value["to"]),
        value: parsed(&value["value"]).or_else(|| value["value"].as_u64().map(U256::from)),
        data: parsed(&value["data"]),
        gas_limit: value["gas_limit"].as_u64(),
        created_ms: created.and_then(when),
    })
}

/// It becomes a part of an address.
fn is_id(id: &str) -> bool {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || char == '-' || char == '_';
    (1..=128).contains(&id.len()) && id.chars().all(is_plain)
}

/// RFC 3339, as milliseconds since 1970.
fn when(text: &str) -> Option<u64> {
    u64::try_from(text.parse::<jiff::Timestamp>().ok()?.as_millisecond()).ok()
}

fn parsed<T: std::str::FromStr>(value: &Value) -> Option<T> {
    value.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handover(value: U256) -> Handover {
        Handover {
            relayer: "one".to_owned(),
            to: Address::repeat_byte(1),
            value,
            data: Bytes::from_static(&[1, 2]),
            gas: 50_007,
            speed: Speed::Slow,
            request: None,
        }
    }

    #[test]
    fn each_shape_has_its_own_words_for_the_same() {
        let enveloped = body(&handover(U256::from(7)), Shape::Enveloped);
        let to = Address::repeat_byte(1);
        let expected = json!({
            "to": to, "value": 7, "data": "0x0102", "gas_limit": 50_007, "speed": "safeLow",
        });
        assert_eq!(enveloped, expected);
        let bare = body(&handover(U256::from(7)), Shape::Bare);
        let expected =
            json!({"to": to, "value": "7", "data": "0x0102", "gas": "50007", "speed": "slow"});
        assert_eq!(bare, expected);
    }

    #[test]
    fn no_amount_is_rounded_on_the_way() {
        let large = U256::from(u64::MAX) + U256::from(1);
        let sent = body(&handover(large), Shape::Enveloped);
        assert_eq!(sent["value"], "0x10000000000000000");
        assert_eq!(body(&handover(large), Shape::Bare)["value"], "18446744073709551616");
    }

    #[test]
    fn an_envelope_that_contradicts_itself_is_none() {
        let opens = |text: &str| open(text.as_bytes()).is_some();
        assert!(opens(r#"{"success":true,"data":{"id":"x"},"error":null}"#));
        assert!(opens(r#"{"success":false,"data":null,"error":"no"}"#));
        for bad in [
            r#"{"success":true,"data":null,"error":null}"#,
            r#"{"success":true,"data":{},"error":"no"}"#,
            r#"{"success":false,"data":{},"error":"no"}"#,
            r#"{"success":false,"data":null,"error":" "}"#,
            r#"{"data":{}}"#,
            "[]",
            "",
        ] {
            assert!(!opens(bad), "{bad}");
        }
    }

    #[test]
    fn a_transaction_is_read_as_far_as_it_can_be() {
        let value = json!({
            "id": "a-1", "status": "failed", "status_reason": "no funds",
            "to": "0x0101010101010101010101010101010101010101", "value": "7", "data": "0x0102",
            "gas_limit": 9, "created_at": "2026-01-06T12:48:16.789+00:00", "hash": null, "nonce": 3,
        });
        let one = told(&value, Shape::Enveloped).unwrap();
        assert_eq!((one.status, one.words.as_str()), (Status::GivenUp, "failed: no funds"));
        assert_eq!((one.to, one.value), (Some(Address::repeat_byte(1)), Some(U256::from(7))));
        assert_eq!((one.hash, one.nonce, one.gas_limit), (None, Some(3), Some(9)));
        assert_eq!(one.created_ms, Some(1_767_703_696_789));
        let odd = json!({"id": "a", "to": 7, "value": [], "data": "01x", "created_at": "now"});
        let odd = told(&odd, Shape::Enveloped).unwrap();
        assert_eq!((odd.to, odd.value, odd.data, odd.created_ms), (None, None, None, None));
        assert_eq!(odd.status, Status::Strange);
    }

    #[test]
    fn an_id_that_would_lead_elsewhere_is_none() {
        for bad in ["", "../x", "a b", "a/b", "a?b"] {
            assert!(told(&json!({ "id": bad }), Shape::Enveloped).is_none(), "{bad}");
        }
        assert!(told(&json!({ "id": 7 }), Shape::Enveloped).is_none());
        assert!(told(&json!({ "transactionId": "x_1" }), Shape::Bare).is_some());
    }
}
