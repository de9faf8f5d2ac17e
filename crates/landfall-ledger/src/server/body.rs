//! Reading what was sent: bodies, paths and queries, with complaints that name the field.
//!
//! **Rule:** every field is known, given once, and of its own type: nothing is guessed about money.

use std::fmt;
use std::num::NonZeroU64;

use axum::body::{Body, to_bytes};
use axum::http::Uri;
use http_body_util::LengthLimitError;
use serde::Deserializer as _;
use serde::de::{Error as _, MapAccess, Visitor};
use serde_json::Value;

use super::answer::Wrong;
use crate::words::{AccountId, ReqId, Terms};

/// Longest body: a few times what the longest valid one needs.
pub(crate) const MAX_BYTES: usize = 4 * 1024;

/// Longest reference of money from outside, in bytes.
const REFERENCE_MAX_BYTES: usize = 200;

/// The fields of one JSON object, each taken once.
#[derive(Debug)]
pub(super) struct Fields(Vec<(String, Value)>);

struct Object;

impl<'de> Visitor<'de> for Object {
    type Value = Vec<(String, Value)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields: Vec<(String, Value)> = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, Value>()? {
            if fields.iter().any(|(known, _)| *known == name) {
                return Err(A::Error::custom(format!("`{name}` is given twice")));
            }
            fields.push((name, value));
        }
        Ok(fields)
    }
}

impl Fields {
    pub(super) async fn read(body: Body) -> Result<Fields, Wrong> {
        let bytes = to_bytes(body, MAX_BYTES).await.map_err(|error| {
            let cause = std::error::Error::source(&error);
            match cause.is_some_and(|cause| cause.is::<LengthLimitError>()) {
                true => Wrong::TooLarge(MAX_BYTES),
                false => Wrong::CutShort,
            }
        })?;
        Fields::parse(&bytes)
    }

    fn parse(bytes: &[u8]) -> Result<Fields, Wrong> {
        let mut json = serde_json::Deserializer::from_slice(bytes);
        let fields = json.deserialize_map(Object).and_then(|fields| json.end().map(|()| fields));
        fields.map(Fields).map_err(|error| Wrong::bad("body", error))
    }

    fn take(&mut self, name: &str) -> Result<Value, Wrong> {
        let place = self.0.iter().position(|(known, _)| known == name);
        let place = place.ok_or_else(|| Wrong::bad(name, "is missing"))?;
        Ok(self.0.swap_remove(place).1)
    }

    fn text(&mut self, name: &str) -> Result<String, Wrong> {
        match self.take(name)? {
            Value::String(text) => Ok(text),
            _ => Err(Wrong::bad(name, "must be a string")),
        }
    }

    fn number(&mut self, name: &str) -> Result<u64, Wrong> {
        let complaint = || Wrong::bad(name, format!("must be a whole number up to {}", u64::MAX));
        self.take(name)?.as_u64().ok_or_else(complaint)
    }

    pub(super) fn flag(&mut self, name: &str) -> Result<bool, Wrong> {
        self.take(name)?.as_bool().ok_or_else(|| Wrong::bad(name, "must be true or false"))
    }

    pub(super) fn req_id(&mut self) -> Result<ReqId, Wrong> {
        self.text("req_id")?.parse().map_err(|error| Wrong::bad("req_id", error))
    }

    pub(super) fn reference(&mut self) -> Result<String, Wrong> {
        let reference = self.text("ref")?;
        match (1..=REFERENCE_MAX_BYTES).contains(&reference.len()) {
            true => Ok(reference),
            false => {
                let complaint = format!("must have 1 to {REFERENCE_MAX_BYTES} bytes");
                Err(Wrong::bad("ref", complaint))
            }
        }
    }

    pub(super) fn terms(&mut self) -> Result<Terms, Wrong> {
        let user_id = self.number("user_id")?;
        let asset_id = asset(self.number("asset_id")?)?;
        let amount = NonZeroU64::new(self.number("amount")?);
        let amount = amount.ok_or_else(|| Wrong::bad("amount", "must be at least 1"))?;
        Ok(Terms { account: AccountId { user_id, asset_id }, amount })
    }

    /// Refuses what nobody asked for.
    pub(super) fn end(self) -> Result<(), Wrong> {
        match self.0.into_iter().next() {
            None => Ok(()),
            Some((name, _)) => Err(Wrong::bad(name, "is not a field of this request")),
        }
    }
}

fn asset(number: u64) -> Result<u32, Wrong> {
    let complaint = |_| Wrong::bad("asset_id", format!("must be at most {}", u32::MAX));
    u32::try_from(number).map_err(complaint)
}

/// A number of a path or a query.
fn digits(name: &str, text: &str) -> Result<u64, Wrong> {
    text.parse().map_err(|_| Wrong::bad(name, format!("must be a whole number, not {text:?}")))
}

pub(super) fn user_id(text: &str) -> Result<u64, Wrong> {
    digits("user_id", text)
}

pub(super) fn account((user, asset_text): &(String, String)) -> Result<AccountId, Wrong> {
    let asset_id = asset(digits("asset_id", asset_text)?)?;
    Ok(AccountId { user_id: user_id(user)?, asset_id })
}

/// The numbers of a query by name, in the order of `names`.
pub(super) fn numbers<const N: usize>(
    uri: &Uri,
    names: [&str; N],
) -> Result<[Option<u64>; N], Wrong> {
    let mut found = [None; N];
    let pairs = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    for pair in pairs {
        let (name, text) = pair.split_once('=').unwrap_or((pair, ""));
        let place = names.iter().position(|known| *known == name);
        let place = place.ok_or_else(|| Wrong::bad(name, "is not a parameter of this route"))?;
        if found[place].replace(digits(name, text)?).is_some() {
            return Err(Wrong::bad(name, "is given twice"));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, complaint: &str) {
        let read = || {
            let mut fields = Fields::parse(body.as_bytes())?;
            fields.req_id()?;
            fields.terms()?;
            fields.end()
        };
        let said = read().map_or_else(|wrong: Wrong| wrong.to_string(), |()| "taken".into());
        assert!(said.starts_with(complaint), "{body} is answered by {said:?}");
    }

    const ID: &str = r#""req_id":"6f1c3f0e-8a51-4d0b-9d8e-0f6a1c2b3d4e""#;

    #[test]
    fn complaints_name_the_field() {
        let with = |rest: &str| format!("{{{ID},{rest}}}");
        check(&with(r#""user_id":1,"asset_id":1,"amount":1"#), "taken");
        check(&with(r#""user_id":1,"asset_id":1,"amount":0"#), "amount: must be at least 1");
        check(&with(r#""user_id":1,"asset_id":1,"amount":-1"#), "amount: must be a whole");
        check(&with(r#""user_id":1,"asset_id":1,"amount":1.5"#), "amount: must be a whole");
        check(&with(r#""user_id":1,"asset_id":1,"amount":1e3"#), "amount: must be a whole");
        check(&with(r#""user_id":1,"asset_id":1,"amount":"1""#), "amount: must be a whole");
        check(&with(r#""user_id":1,"asset_id":1,"amount":18446744073709551615"#), "taken");
        check(&with(r#""user_id":1,"asset_id":1,"amount":18446744073709551616"#), "amount: must");
        check(&with(r#""user_id":1,"asset_id":4294967296,"amount":1"#), "asset_id: must be at");
        check(&with(r#""user_id":1,"amount":1"#), "asset_id: is missing");
        check(&with(r#""user_id":1,"asset_id":1,"amount":1,"memo":"x""#), "memo: is not a field");
        check(&with(r#""user_id":1,"user_id":2,"asset_id":1,"amount":1"#), "body: `user_id` is");
        check(r#"{"req_id":"7","user_id":1,"asset_id":1,"amount":1}"#, "req_id: must be a UUID");
        check(r#"{"req_id":7}"#, "req_id: must be a string");
        check("", "body: ");
        check("[]", "body: invalid type: sequence, expected one JSON object");
        check("{} {}", "body: trailing characters");
    }

    #[test]
    fn queries_are_numbers_with_known_names() {
        let read = |uri: &str| numbers(&uri.parse().expect("a URI"), ["after", "limit"]);
        assert_eq!(read("/x?limit=5").ok(), Some([None, Some(5)]));
        assert_eq!(read("/x").ok(), Some([None, None]));
        for uri in ["/x?after=-1", "/x?after", "/x?before=1", "/x?limit=1&limit=2"] {
            assert!(read(uri).is_err(), "{uri}");
        }
    }
}
