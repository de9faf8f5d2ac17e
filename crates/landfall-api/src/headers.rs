//! What requests say in their headers: the idempotency key, and the type of the body.
//!
//! Not here: API keys (`auth`).

use std::borrow::Cow;

use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};

use crate::error::ApiError;

/// Longest idempotency key: fits a UUID, a hash or a composed name, and an index of any store.
pub const KEY_MAX_CHARS: usize = 255;

pub const KEY_RULE: &str = "must be 1 to 255 visible ASCII characters (letters, digits, \
                            punctuation; no spaces), and neither \".\" nor \"..\"";

const OWN_KEY: &str = "X-Idempotency-Key";
const STANDARD_KEY: &str = "Idempotency-Key";

/// How a body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyType {
    Json,
    /// One JSON value a line.
    Lines,
}

/// The idempotency key, by our own header or the standard one.
pub fn idempotency_key(headers: &HeaderMap) -> Result<Cow<'_, str>, ApiError> {
    optional_key(headers)?.ok_or_else(|| missing_key(OWN_KEY))
}

pub fn missing_key(header: &str) -> ApiError {
    ApiError::bad(
        header,
        "is missing; send a key of your own making, the same for every repeat of this transfer",
    )
}

/// The same where a request may do without.
pub fn optional_key(headers: &HeaderMap) -> Result<Option<Cow<'_, str>>, ApiError> {
    let own = only(headers, OWN_KEY)?.map(|value| checked_key(OWN_KEY, value.as_bytes().into()));
    let standard = only(headers, STANDARD_KEY)?
        .map(|value| checked_key(STANDARD_KEY, unquoted(value.as_bytes())?));
    match (own.transpose()?, standard.transpose()?) {
        (Some(own), Some(standard)) if own != standard => Err(ApiError::Bad(
            "X-Idempotency-Key and Idempotency-Key name different keys; send one of them".into(),
        )),
        (own, standard) => Ok(own.or(standard)),
    }
}

fn only<'a>(
    headers: &'a HeaderMap,
    name: &'static str,
) -> Result<Option<&'a HeaderValue>, ApiError> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    match values.next() {
        Some(_) => Err(ApiError::bad(name, "is given more than once; send it once")),
        None => Ok(first),
    }
}

fn checked_key<'a>(header: &str, key: Cow<'a, [u8]>) -> Result<Cow<'a, str>, ApiError> {
    let rule = || ApiError::bad(header, KEY_RULE);
    let text = match key {
        Cow::Borrowed(bytes) => Cow::Borrowed(std::str::from_utf8(bytes).map_err(|_| rule())?),
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8(bytes).map_err(|_| rule())?),
    };
    if is_key(&text) { Ok(text) } else { Err(rule()) }
}

/// Dots alone are steps in a path: clients take them out of `/transfer/..`, encoded or not.
pub fn is_key(text: &str) -> bool {
    (1..=KEY_MAX_CHARS).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_graphic())
        && !matches!(text, "." | "..")
}

/// The standard header is a structured string (RFC 8941), `"like this"`; many send it bare.
fn unquoted(value: &[u8]) -> Result<Cow<'_, [u8]>, ApiError> {
    let Some(inside) = value.strip_prefix(b"\"") else {
        return Ok(Cow::Borrowed(value));
    };
    let broken = || {
        ApiError::bad(STANDARD_KEY, "starts with a quote but is not one quoted string (RFC 8941)")
    };
    let mut text = Vec::with_capacity(inside.len());
    let mut bytes = inside.iter();
    loop {
        match bytes.next() {
            Some(b'"') if bytes.as_slice().is_empty() => return Ok(Cow::Owned(text)),
            Some(b'\\') => match bytes.next() {
                Some(escaped @ (b'"' | b'\\')) => text.push(*escaped),
                _ => return Err(broken()),
            },
            Some(b'"') | None => return Err(broken()),
            Some(byte) => text.push(*byte),
        }
    }
}

/// The type of a body that must be one of `taken`.
pub fn body_type(headers: &HeaderMap, taken: &[BodyType]) -> Result<BodyType, ApiError> {
    let wrong = |what: &str| {
        let names: Vec<&str> = taken.iter().map(|kind| media_type(*kind)).collect();
        ApiError::WrongType(format!("Content-Type: {what}; send {}", names.join(" or ")))
    };
    if let Some(coding) = headers.get(CONTENT_ENCODING)
        && !coding.as_bytes().eq_ignore_ascii_case(b"identity")
    {
        return Err(ApiError::WrongType("Content-Encoding: must not be set; send it plain".into()));
    }
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let value = values.next().ok_or_else(|| wrong("is missing"))?;
    if values.next().is_some() {
        return Err(wrong("is given more than once"));
    }
    let text = value.to_str().map_err(|_| wrong("is not readable"))?;
    let mut parts = text.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    if essence.is_empty() {
        return Err(wrong("is empty"));
    }
    let kind = taken
        .iter()
        .find(|kind| media_type(**kind).eq_ignore_ascii_case(essence))
        .ok_or_else(|| wrong("is not taken here"))?;
    match parts.all(is_utf8_or_no_charset) {
        true => Ok(*kind),
        false => Err(ApiError::WrongType("Content-Type: charset must be utf-8".into())),
    }
}

fn media_type(kind: BodyType) -> &'static str {
    match kind {
        BodyType::Json => "application/json",
        BodyType::Lines => "application/x-ndjson",
    }
}

fn is_utf8_or_no_charset(parameter: &str) -> bool {
    match parameter.split_once('=') {
        Some((name, value)) if name.trim().eq_ignore_ascii_case("charset") => {
            value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        _ => true,
    }
}
