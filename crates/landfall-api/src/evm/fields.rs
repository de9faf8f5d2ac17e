//! The fields of calls, as sent.
//!
//! A user's request comes flat, or as `{"request": {…}, "signature": "0x…"}`, as OpenZeppelin's
//! clients have it.
//! **Rule:** numbers are exact: strings of decimal or hex digits, or JSON numbers below 2^53, up to
//! which no JSON reader loses digits.
//! Not here: what the fields' text may be (`landfall_core::evm`).

use landfall_core::evm::{DirectFields, GaslessFields};
use serde_json::value::RawValue;

use crate::body;
use crate::error::ApiError;

const DIRECT: &str = "{\"to\": \"0x5FbDB2315678afecb367f032d93F642f64180aa3\", \
                      \"data\": \"0x\", \"value\": \"0\", \"speed\": \"fast\"}";
const GASLESS: &str = "{\"request\": {\"from\": \"0x…\", \"to\": \"0x…\", \"value\": \"0\", \
                       \"gas\": \"100000\", \"nonce\": \"0\", \"deadline\": \"1790000000\", \
                       \"data\": \"0x\"}, \"signature\": \"0x…\"}";

/// From here on a JSON number may have lost digits on its way.
const INEXACT_FROM: u64 = 1 << 53;

/// Of a kind of call: what its fields are called, and which of them are numbers.
struct Known {
    example: &'static str,
    texts: &'static [&'static str],
    numbers: &'static [&'static str],
}

const OF_DIRECT: Known =
    Known { example: DIRECT, texts: &["to", "data", "speed", "chain"], numbers: &["value", "gas"] };

const OF_GASLESS: Known = Known {
    example: GASLESS,
    texts: &["from", "to", "data", "signature", "forwarder", "speed", "chain"],
    numbers: OF_REQUEST.numbers,
};

/// What a user signs, where it is an object of its own, and what is beside it then.
const OF_REQUEST: Known = Known {
    example: GASLESS,
    texts: &["from", "to", "data"],
    numbers: &["value", "gas", "nonce", "deadline"],
};
const BESIDE_REQUEST: Known = Known {
    example: GASLESS,
    texts: &["request", "signature", "forwarder", "speed", "chain"],
    numbers: &[],
};

/// The fields of a call, as sent; a null is as good as none.
pub struct Fields {
    given: Vec<(&'static str, Option<String>)>,
}

impl Fields {
    pub fn of_direct(text: &str) -> Result<Fields, ApiError> {
        OF_DIRECT.read(body::members(text, OF_DIRECT.example)?)
    }

    pub fn of_gasless(text: &str) -> Result<Fields, ApiError> {
        let mut members = body::members(text, OF_GASLESS.example)?;
        let Some(place) = members.iter().position(|(name, _)| name == "request") else {
            return OF_GASLESS.read(members);
        };
        let (_, request) = members.remove(place);
        if members.iter().any(|(name, _)| name == "request") {
            return Err(ApiError::bad("request", "is given twice"));
        }
        if !request.get().starts_with('{') {
            return Err(ApiError::bad("request", "must be an object with the signed fields"));
        }
        let mut fields = OF_REQUEST.read(body::members(request.get(), OF_REQUEST.example)?)?;
        fields.given.extend(BESIDE_REQUEST.read(members)?.given);
        Ok(fields)
    }

    pub fn direct(&self) -> Result<DirectFields<'_>, ApiError> {
        Ok(DirectFields {
            to: self.needed("to", "give the address to call")?,
            data: self.get("data"),
            value: self.get("value"),
            gas: self.get("gas"),
            speed: self.get("speed"),
        })
    }

    pub fn gasless(&self) -> Result<GaslessFields<'_>, ApiError> {
        let signed = |name| self.needed(name, "give it as the user has signed it");
        Ok(GaslessFields {
            from: signed("from")?,
            to: signed("to")?,
            value: signed("value")?,
            gas: signed("gas")?,
            nonce: signed("nonce")?,
            deadline: signed("deadline")?,
            data: signed("data")?,
            signature: self.needed("signature", "give the user's, by EIP-712")?,
            forwarder: self.get("forwarder"),
            speed: self.get("speed"),
        })
    }

    /// The chain that is meant, if the client says so.
    pub fn chain(&self) -> Option<&str> {
        self.get("chain")
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.given.iter().find(|(given, _)| *given == name).and_then(|(_, value)| value.as_deref())
    }

    fn needed(&self, name: &'static str, remedy: &str) -> Result<&str, ApiError> {
        self.get(name).ok_or_else(|| ApiError::bad(name, format!("is missing; {remedy}")))
    }
}

impl Known {
    fn read(&self, members: Vec<(String, &RawValue)>) -> Result<Fields, ApiError> {
        let mut fields = Fields { given: Vec::new() };
        for (name, value) in members {
            let same = |known: &&&'static str| **known == name;
            let (name, read) = match (self.texts.iter().find(same), self.numbers.iter().find(same))
            {
                (Some(name), _) => (*name, text(name, value)),
                (_, Some(name)) => (*name, number(name, value)),
                _ => return Err(self.stranger(&name)),
            };
            if fields.given.iter().any(|(given, _)| *given == name) {
                return Err(ApiError::bad(name, "is given twice"));
            }
            fields.given.push((name, read?));
        }
        Ok(fields)
    }

    fn stranger(&self, name: &str) -> ApiError {
        let known = [self.texts, self.numbers].concat().join(", ");
        ApiError::bad(&body::shown(name), format!("is not a field; the fields are {known}"))
    }
}

fn text(name: &str, value: &RawValue) -> Result<Option<String>, ApiError> {
    serde_json::from_str(value.get()).map_err(|_| ApiError::bad(name, "must be a string"))
}

fn number(name: &str, value: &RawValue) -> Result<Option<String>, ApiError> {
    let written = value.get();
    if !written.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        let rule = "must be a whole number, as a string of decimal digits or of 0x and hex digits";
        return serde_json::from_str(written).map_err(|_| ApiError::bad(name, rule));
    }
    if !written.bytes().all(|byte| byte.is_ascii_digit()) {
        let rule = "must be a whole number, not negative, without a point or an exponent";
        return Err(ApiError::bad(name, rule));
    }
    match written.parse::<u64>() {
        Ok(exact) if exact < INEXACT_FROM => Ok(Some(written.to_owned())),
        _ => {
            let rule = "must be a string: JSON numbers of 2^53 and more lose digits";
            Err(ApiError::bad(name, rule))
        }
    }
}
