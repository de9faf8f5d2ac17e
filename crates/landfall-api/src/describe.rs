//! The description of this very server, put together from what each rail says of itself: its
//! version, who is let in, what can be moved where.
//!
//! The files have a mark where something of the server's own goes; their fields stay in the order
//! in which they were written. Not here: their text (`openapi.json` here and in the rails' folders,
//! kept true by a test).

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::config::{ApiConfig, Auth};
use crate::{internal, near};

const FRAME: &str = include_str!("openapi.json");

/// What a rail adds to the description, as JSON that stands between brackets or braces.
pub struct Part {
    tags: String,
    paths: String,
    schemas: String,
}

impl Part {
    /// Of an object with `tags`, `paths` and `schemas`.
    pub fn of(text: &str) -> Part {
        #[derive(Deserialize)]
        struct Written<'a> {
            #[serde(borrow)]
            tags: &'a RawValue,
            #[serde(borrow)]
            paths: &'a RawValue,
            #[serde(borrow)]
            schemas: &'a RawValue,
        }
        let written: Written<'_> = serde_json::from_str(text).expect("a test reads the same");
        let inner = |raw: &RawValue| {
            let text = raw.get();
            text[1..text.len() - 1].trim().to_owned()
        };
        Part {
            tags: inner(written.tags),
            paths: inner(written.paths),
            schemas: inner(written.schemas),
        }
    }
}

pub fn openapi(config: &ApiConfig) -> Bytes {
    let keys = match config.auth {
        Auth::Off => Vec::new(),
        Auth::Keys(_) => vec![json!({"ApiKey": []}), json!({"Bearer": []})],
    };
    let rails = [near::describe(), internal::describe(config.internal.as_ref())];
    let all = |of: fn(&Part) -> &str| rails.iter().map(of).collect::<Vec<_>>().join(",\n");
    let text = FRAME
        .replace("\"$tags\"", &all(|rail| &rail.tags))
        .replace("\"$paths\": 0", &all(|rail| &rail.paths))
        .replace("\"$schemas\": 0", &all(|rail| &rail.schemas));
    let marks = [("\"$version\"", vec![json!(config.version)]), ("\"$keys\"", keys)];
    Bytes::from(filled(&text, &marks))
}

/// The text with values, separated by commas, in place of their marks.
pub fn filled(text: &str, marks: &[(&str, Vec<Value>)]) -> String {
    marks.iter().fold(text.to_owned(), |text, (mark, values)| {
        let values: Vec<String> = values.iter().map(Value::to_string).collect();
        text.replace(mark, &values.join(", "))
    })
}
