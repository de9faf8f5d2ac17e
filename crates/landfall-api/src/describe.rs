//! The description of this very server, put together from what each rail says of itself: its
//! version, who is let in, what can be moved where.
//!
//! A rail's answers are described by the types that are written ([`Part::with`]). Its routes, and
//! what comes in, which no type of ours holds and whose rules say more than types can, are in
//! `openapi.json`, here and in the rails' folders, kept true by a test. These files have a mark
//! where something of the server's own goes; their fields stay in the order in which they were
//! written.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use utoipa::OpenApi;
use utoipa::openapi::schema::{AllOf, Object, SchemaType};
use utoipa::openapi::{Ref, RefOr, Schema, Type};

use crate::config::{ApiConfig, Auth};
use crate::{dead, evm, internal, near};

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

    /// The same, with the schemas of types that are written out.
    pub fn with<Types: OpenApi>(mut self) -> Part {
        let schemas = Types::openapi().components.unwrap_or_default().schemas;
        for (name, schema) in &schemas {
            let whole = match schema {
                RefOr::T(Schema::AllOf(parts)) => flattened(&schemas, parts),
                other => other.clone(),
            };
            let text = serde_json::to_string(&plain(whole)).expect("schemas are JSON");
            self.schemas.push_str(&format!(",\n{name:?}: {text}"));
        }
        self
    }
}

/// A schema that is described elsewhere, and what it is for here.
pub fn refer(name: &str, what_for: &str) -> RefOr<Schema> {
    let mut to = Ref::from_schema_name(name);
    to.description = what_for.to_owned();
    to.into()
}

type Schemas = BTreeMap<String, RefOr<Schema>>;

/// One object of an object's own fields and those of others that are written among them.
fn flattened(schemas: &Schemas, parts: &AllOf) -> RefOr<Schema> {
    let mut whole = Object::new();
    for part in &parts.items {
        let found = match part {
            RefOr::Ref(to) => to.ref_location.rsplit('/').next().and_then(|name| schemas.get(name)),
            own => Some(own),
        };
        if let Some(RefOr::T(Schema::Object(object))) = found {
            whole.required.extend(object.required.clone());
            whole.properties.extend(object.properties.clone());
        }
    }
    whole.schema_type = Type::Object.into();
    whole.description = parts.description.clone();
    whole.into()
}

/// Without the sizes of our own integers, which are nobody's business.
fn plain(schema: RefOr<Schema>) -> RefOr<Schema> {
    let RefOr::T(Schema::Object(mut object)) = schema else { return schema };
    for property in object.properties.values_mut() {
        if let RefOr::T(Schema::Object(field)) = property
            && is_integer(&field.schema_type)
        {
            field.format = None;
        }
    }
    object.into()
}

fn is_integer(kind: &SchemaType) -> bool {
    match kind {
        SchemaType::Type(kind) => *kind == Type::Integer,
        SchemaType::Array(kinds) => kinds.contains(&Type::Integer),
        SchemaType::AnyValue => false,
    }
}

pub fn openapi(config: &ApiConfig) -> Bytes {
    let keys = match config.auth {
        Auth::Off => Vec::new(),
        Auth::Keys(_) => vec![json!({"ApiKey": []}), json!({"Bearer": []})],
    };
    let rails = [
        near::describe(),
        internal::describe(config.internal.as_ref()),
        evm::describe(config.evm.as_ref()),
        dead::describe(),
    ];
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
