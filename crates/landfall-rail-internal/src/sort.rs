//! THE TABLE: what a service's answer says.
//!
//! Operations:
//!
//! | status | body | it is |
//! |---|---|---|
//! | 200 | `success` is `true`, nothing else of ours | done |
//! | 200, 400 | `error` is a text, nothing else of ours | refused |
//! | 200 | `status` is `in_progress`, nothing else of ours | pending: still working |
//! | 202 | any | pending: still working |
//! | everything else | any | pending: nothing is known |
//!
//! Queries, only with 200:
//!
//! | body | it is |
//! |---|---|
//! | `status` is `done`, nothing else of ours | done |
//! | `status` is `refused` and `error` is a text, nothing else of ours | refused |
//! | `status` is `in_progress`, nothing else of ours | in progress |
//! | `status` is `unknown`, nothing else of ours | unknown |
//! | everything else, 404 too | no answer |
//!
//! *Of ours* are the fields `success`, `error` and `status`; `null` counts as absent, other fields
//! are the service's own and ignored. A text has at least one visible character.
//! **Rule:** a field given twice, another type, a contradiction: nothing is known.
//! Pure: no clock, no I/O.

use std::fmt;

use serde::Deserializer as _;
use serde::de::{Error as _, MapAccess, Visitor};
use serde_json::Value;

use crate::adapter::{Answer, Standing};

/// A longer body is not the contract's, in bytes. Its longest is a refusal of some sentences.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// Kinds of doubt, as machines see them.
pub mod kind {
    pub const IN_PROGRESS: &str = "in_progress";
    pub const UNAUTHORIZED: &str = "unauthorized";
    pub const NOT_FOUND: &str = "not_found";
    pub const TIMEOUT: &str = "timeout";
    pub const CONFLICT: &str = "conflict";
    pub const RATE_LIMITED: &str = "rate_limited";
    pub const SERVER_ERROR: &str = "server_error";
    pub const UNEXPECTED_STATUS: &str = "unexpected_status";
    pub const UNEXPECTED_BODY: &str = "unexpected_body";
}

/// The fields that the contract knows.
#[derive(Debug, Default)]
struct Fields {
    success: Option<Value>,
    error: Option<Value>,
    status: Option<Value>,
}

struct Object;

impl<'de> Visitor<'de> for Object {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("one JSON object")
    }

    /// Reads the values of other fields too: a body that is damaged anywhere is not believed.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let (mut fields, mut given) = (Fields::default(), Vec::new());
        while let Some((name, value)) = map.next_entry::<String, Value>()? {
            let field = match name.as_str() {
                "success" => &mut fields.success,
                "error" => &mut fields.error,
                "status" => &mut fields.status,
                _ => continue,
            };
            *field = Some(value).filter(|value| !value.is_null());
            if given.contains(&name) {
                return Err(A::Error::custom("a field is given twice"));
            }
            given.push(name);
        }
        Ok(fields)
    }
}

/// What the fields say together, if it is one of the contract's sentences.
#[derive(Debug, PartialEq)]
enum Sentence {
    Success,
    Error(String),
    Status(String),
    Refused(String),
    Other,
}

fn sentence(body: &[u8]) -> Sentence {
    let Some(fields) = fields(body) else { return Sentence::Other };
    match (fields.success, fields.error, fields.status) {
        (Some(Value::Bool(true)), None, None) => Sentence::Success,
        (None, Some(Value::String(error)), None) if is_text(&error) => Sentence::Error(error),
        (None, None, Some(Value::String(status))) => Sentence::Status(status),
        (None, Some(Value::String(error)), Some(Value::String(status)))
            if status == "refused" && is_text(&error) =>
        {
            Sentence::Refused(error)
        }
        _ => Sentence::Other,
    }
}

fn fields(body: &[u8]) -> Option<Fields> {
    if body.len() > BODY_BYTES_MAX {
        return None;
    }
    let mut json = serde_json::Deserializer::from_slice(body);
    let fields = json.deserialize_map(Object).ok()?;
    json.end().ok().map(|()| fields)
}

fn is_text(text: &str) -> bool {
    text.chars().any(|char| !char.is_whitespace() && !char.is_control())
}

/// Sorts the answer to an operation.
pub fn operation(status: u16, body: &[u8]) -> Answer {
    match (status, sentence(body)) {
        (200, Sentence::Success) => Answer::Done,
        (200 | 400, Sentence::Error(why)) => Answer::Refused(why),
        (202, _) => pending(kind::IN_PROGRESS, "the service works on it".to_owned()),
        (200, Sentence::Status(status)) if status == "in_progress" => {
            pending(kind::IN_PROGRESS, "the service works on it".to_owned())
        }
        (status, _) => {
            let (kind, message) = doubt(status, body);
            pending(kind, message)
        }
    }
}

fn pending(kind: &'static str, message: String) -> Answer {
    Answer::Pending { kind, message }
}

/// Sorts the answer to a query.
pub fn query(status: u16, body: &[u8]) -> Standing {
    let said = match sentence(body) {
        _ if status != 200 => None,
        Sentence::Refused(why) => Some(Standing::Refused(why)),
        Sentence::Status(word) => match word.as_str() {
            "done" => Some(Standing::Done),
            "in_progress" => Some(Standing::InProgress),
            "unknown" => Some(Standing::Unknown),
            _ => None,
        },
        Sentence::Success | Sentence::Error(_) | Sentence::Other => None,
    };
    said.unwrap_or_else(|| {
        let (kind, message) = doubt(status, body);
        Standing::NoAnswer { kind, message }
    })
}

/// Names an answer that says nothing, with the service's own words if there are any.
fn doubt(status: u16, body: &[u8]) -> (&'static str, String) {
    let kind = match status {
        200 | 400 => kind::UNEXPECTED_BODY,
        401 | 403 => kind::UNAUTHORIZED,
        404 => kind::NOT_FOUND,
        408 => kind::TIMEOUT,
        409 => kind::CONFLICT,
        429 => kind::RATE_LIMITED,
        500..=599 => kind::SERVER_ERROR,
        _ => kind::UNEXPECTED_STATUS,
    };
    let words = match fields(body).and_then(|fields| fields.error) {
        Some(Value::String(words)) if is_text(&words) => format!(": {words}"),
        _ => String::new(),
    };
    (kind, format!("HTTP {status}{words}"))
}

#[cfg(test)]
mod tests;
