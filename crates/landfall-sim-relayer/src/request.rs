//! What a client asks the relayer to send: the body of 1.8's route, and that of the older service
//! which is told its gas as `gas` and everything as text.
//!
//! Pure. Fields that are not known are ignored, as the real one does.

use alloy_primitives::{Address, Bytes, U256};
use serde::Deserialize;
use serde_json::Value;

/// What a transaction gets that came without a limit.
const GAS_DEFAULT: u64 = 300_000;
/// Less can never be enough.
const GAS_MIN: u64 = 21_000;

/// How much a client wants to pay for haste.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speed {
    SafeLow,
    Average,
    Fast,
    Fastest,
}

impl Speed {
    pub fn name(self) -> &'static str {
        match self {
            Speed::SafeLow => "safeLow",
            Speed::Average => "average",
            Speed::Fast => "fast",
            Speed::Fastest => "fastest",
        }
    }

    fn parse(name: &str) -> Option<Speed> {
        match name {
            // The older service's word.
            "slow" => Some(Speed::SafeLow),
            _ => [Speed::SafeLow, Speed::Average, Speed::Fast, Speed::Fastest]
                .into_iter()
                .find(|speed| speed.name() == name),
        }
    }

    /// How much of the node's price it offers, in percent.
    pub fn percent(self) -> u64 {
        match self {
            Speed::SafeLow => 100,
            Speed::Average => 125,
            Speed::Fast => 150,
            Speed::Fastest => 200,
        }
    }
}

/// A call that the relayer was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub to: Address,
    pub value: U256,
    pub data: Bytes,
    pub gas_limit: u64,
    pub speed: Speed,
}

#[derive(Deserialize)]
struct Body {
    to: Option<Address>,
    value: Option<Value>,
    data: Option<Bytes>,
    #[serde(alias = "gas")]
    gas_limit: Option<Value>,
    speed: Option<String>,
}

impl Request {
    /// Reads a body, or says why it is refused.
    pub fn read(body: &[u8]) -> Result<Request, String> {
        let body: Body = serde_json::from_slice(body)
            .map_err(|error| format!("Json deserialize error: {error}"))?;
        let to = body.to.ok_or("to is required: this relayer creates no contracts")?;
        let value = body.value.as_ref().map_or(Ok(U256::ZERO), |value| number("value", value))?;
        let gas_limit = match &body.gas_limit {
            None | Some(Value::Null) => GAS_DEFAULT,
            Some(gas) => {
                number("gas_limit", gas)?.try_into().map_err(|_| "gas_limit is too high")?
            }
        };
        if gas_limit < GAS_MIN {
            return Err("gas_limit is too low".to_owned());
        }
        let speed = match body.speed.as_deref() {
            None => Speed::Average,
            Some(name) => Speed::parse(name).ok_or_else(|| format!("unknown variant `{name}`"))?,
        };
        Ok(Request { to, value, data: body.data.unwrap_or_default(), gas_limit, speed })
    }
}

/// A number, or a text of one, decimal or with `0x`.
fn number(name: &str, value: &Value) -> Result<U256, String> {
    let read = match value {
        Value::Number(number) => number.as_u64().map(U256::from),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    read.ok_or_else(|| format!("{name} is not a number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO: &str = "0x1111111111111111111111111111111111111111";

    fn read(rest: &str) -> Result<Request, String> {
        Request::read(format!(r#"{{"to":"{TO}"{rest}}}"#).as_bytes())
    }

    #[test]
    fn both_bodies_ask_for_the_same() {
        let one = read(r#","value":7,"data":"0x01","gas_limit":50000,"speed":"safeLow""#);
        let other = read(r#","value":"7","data":"0x01","gas":"50000","speed":"slow""#);
        let hex = read(r#","value":"0x7","data":"0x01","gas":"0xc350","speed":"slow""#);
        assert_eq!(one, other);
        assert_eq!(one, hex);
        assert_eq!(
            one.map(|request| (request.value, request.gas_limit)),
            Ok((U256::from(7), 50_000))
        );
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        assert_eq!(read("").map(|request| request.gas_limit), Ok(GAS_DEFAULT));
        for bad in [r#","gas_limit":1"#, r#","value":-1"#, r#","speed":"now""#, r#","data":"0x1""#]
        {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(Request::read(b"{}").is_err());
        assert!(Request::read(b"[").is_err());
    }
}
