//! Reading bodies: their size, their encoding, and the items or members in them.
//!
//! **Rule:** no more is read than the limit.
//! Not here: the fields of a rail's requests (`near`, `internal`).

use std::fmt;

use axum::body::{Body, to_bytes};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use bytes::Bytes;
use http_body_util::LengthLimitError;
use serde::Deserializer;
use serde::de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::config::ApiConfig;
use crate::error::ApiError;

/// The whole body, if it is within the limit and arrives in time.
pub async fn read(
    config: &ApiConfig,
    headers: &HeaderMap,
    body: Body,
    limit: usize,
) -> Result<Bytes, ApiError> {
    let patience = config.body_timeout;
    tokio::select! {
        biased;
        read = read_whole(headers, body, limit) => read,
        () = config.clock.sleep(patience) => {
            let late = format!("body: did not arrive within {} ms", patience.as_millis());
            Err(ApiError::TooSlow(late))
        }
    }
}

async fn read_whole(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, ApiError> {
    let too_large =
        || ApiError::TooLarge(format!("body: is too large; at most {limit} bytes are taken"));
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if announced.and_then(|text| text.parse().ok()).is_some_and(|bytes: u64| bytes > limit as u64) {
        return Err(too_large());
    }
    to_bytes(body, limit).await.map_err(|error| {
        let cause = std::error::Error::source(&error);
        match cause.is_some_and(|cause| cause.is::<LengthLimitError>()) {
            true => too_large(),
            false => ApiError::bad("body", "ended before all of it arrived"),
        }
    })
}

/// The text of a body.
pub fn text(bytes: &[u8]) -> Result<&str, ApiError> {
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return Err(ApiError::bad("body", "starts with a byte order mark; send UTF-8 without one"));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        ApiError::bad("body", format!("is not UTF-8 from byte {} on", error.valid_up_to()))
    })?;
    match text.trim_ascii().is_empty() {
        true => Err(ApiError::bad("body", "is empty; send JSON")),
        false => Ok(text),
    }
}

/// The members of the one object that `text` is, unread, in order, also those given twice.
pub fn members<'a>(
    text: &'a str,
    example: &'static str,
) -> Result<Vec<(String, &'a RawValue)>, ApiError> {
    let mut json = serde_json::Deserializer::from_str(text);
    let members = json.deserialize_any(Members { example }).map_err(|error| complaint(&error))?;
    json.end().map_err(|error| complaint(&error))?;
    Ok(members)
}

/// The items of the array that `text` is, unread, at most `max`.
pub fn items(text: &str, max: usize) -> Result<Vec<&RawValue>, ApiError> {
    let mut json = serde_json::Deserializer::from_str(text);
    let list = json.deserialize_any(Array { max }).map_err(|error| complaint(&error))?;
    json.end().map_err(|error| complaint(&error))?;
    if list.len() > max {
        return Err(too_many(max));
    }
    Ok(list)
}

pub fn too_many(max: usize) -> ApiError {
    ApiError::TooLarge(format!(
        "body: holds more than {max} transfers; send them in several requests"
    ))
}

/// What is wrong with a body, in our words where we said it, else in the parser's, with the place.
pub fn complaint(error: &serde_json::Error) -> ApiError {
    complaint_at(error, format!("line {} column {}", error.line(), error.column()))
}

pub fn complaint_at(error: &serde_json::Error, place: String) -> ApiError {
    let (line, column) = (error.line(), error.column());
    let said = error.to_string();
    let cause = said.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&said);
    match error.classify() {
        serde_json::error::Category::Data => ApiError::Bad(cause.to_owned()),
        serde_json::error::Category::Eof => {
            ApiError::bad("body", format!("is cut off: the JSON ends at {place}"))
        }
        _ => ApiError::bad("body", format!("is not JSON: {cause} at {place}")),
    }
}

/// Answers every type of JSON value with a complaint, but those its user overrides.
macro_rules! refuse {
    ($value:ty: $($method:ident($($of:ty)?) $what:literal),* $(,)?) => {
        $(fn $method<E: serde::de::Error>(self $(, _: $of)?) -> Result<$value, E> {
            Err(E::custom(self.not($what)))
        })*
    };
}
pub(crate) use refuse;

/// A name of the sender's making, short and plain enough to be repeated in a message.
pub fn shown(name: &str) -> String {
    /// Enough to recognise a field by.
    const MAX_CHARS: usize = 40;
    let mut quoted = format!("{:?}", name.chars().take(MAX_CHARS).collect::<String>());
    if name.chars().nth(MAX_CHARS).is_some() {
        quoted.push('…');
    }
    quoted
}

/// An object of fields that somebody else reads.
struct Members {
    example: &'static str,
}

impl Members {
    fn not(&self, what: &str) -> String {
        format!("body: must be an object such as {}, not {what}", self.example)
    }
}

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(members)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Self::Value, A::Error> {
        Err(A::Error::custom(self.not("an array")))
    }

    refuse!(Vec<(String, &'de RawValue)>:
        visit_unit() "null", visit_bool(bool) "a boolean", visit_str(&str) "a string",
        visit_i64(i64) "a number", visit_u64(u64) "a number", visit_f64(f64) "a number");
}

struct Array {
    max: usize,
}

impl Array {
    fn not(&self, what: &str) -> String {
        format!("body: must be an array of transfers, not {what}")
    }
}

impl<'de> Visitor<'de> for Array {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    /// Keeps one more than the most, to tell, and reads past the rest.
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while list.len() <= self.max {
            match items.next_element()? {
                Some(item) => list.push(item),
                None => return Ok(list),
            }
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<Self::Value, A::Error> {
        Err(A::Error::custom(self.not("an object")))
    }

    refuse!(Vec<&'de RawValue>:
        visit_unit() "null", visit_bool(bool) "a boolean", visit_str(&str) "a string",
        visit_i64(i64) "a number", visit_u64(u64) "a number", visit_f64(f64) "a number");
}
