//! The description of this very server, put together from what each rail says of itself: its
//! version, who is let in, what can be moved where.
//!
//! Whatever goes out is described by the types that are written ([`Part::with`]) and by the words
//! that the machines have for their states. Routes with their examples, and what comes in, which no
//! type of ours holds and whose rules say more than types can, are in `openapi.json`, here and in
//! the rails' folders, kept true by a test. These files have a mark where something of the server's
//! own goes, or what many routes answer alike; their fields stay in the order in which they were
//! written.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use utoipa::openapi::schema::{AllOf, Object, SchemaType};
use utoipa::openapi::{Ref, RefOr, Schema, Type};
use utoipa::{OpenApi, PartialSchema, ToSchema};

use crate::config::{ApiConfig, Auth};
use crate::wire::{FaultBody, PageBody};
use crate::{dead, error, evm, health, internal, near, solana};

const FRAME: &str = include_str!("openapi.json");

/// What every route that wants a key may answer, and what one that takes a body may besides.
const REFUSALS: [(u16, &str); 6] = [
    (400, "BadRequest"),
    (401, "Unauthorized"),
    (403, "Forbidden"),
    (429, "RateLimited"),
    (500, "Internal"),
    (503, "Unavailable"),
];
const REFUSALS_OF_BODIES: [(u16, &str); 3] =
    [(408, "TooSlow"), (413, "TooLarge"), (415, "WrongType")];

/// What a rail adds to the description, as JSON that stands between brackets or braces.
#[derive(Default)]
pub struct Part {
    tags: String,
    paths: String,
    schemas: String,
    /// By name, of types.
    derived: BTreeMap<String, RefOr<Schema>>,
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
            derived: BTreeMap::new(),
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
            self.derived.insert(name.clone(), whole);
        }
        self
    }

    /// The same, with a page of what is written out so.
    pub fn with_page<Body: ToSchema>(self, name: &str) -> Part {
        self.and(name, PageBody::<Body>::schema())
    }

    /// The same, with one schema more.
    pub fn and(mut self, name: &str, schema: RefOr<Schema>) -> Part {
        self.derived.insert(name.to_owned(), schema);
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

/// One object of an object's own fields and those of others that are written among them, if they
/// are there at all.
fn flattened(schemas: &Schemas, parts: &AllOf) -> RefOr<Schema> {
    let mut whole = Object::new();
    for part in &parts.items {
        if let RefOr::T(Schema::OneOf(or_nothing)) = part {
            let objects = or_nothing.items.iter().filter_map(|one| object(schemas, one));
            objects.for_each(|object| whole.properties.extend(object.properties.clone()));
        } else if let Some(object) = object(schemas, part) {
            whole.required.extend(object.required.clone());
            whole.properties.extend(object.properties.clone());
        }
    }
    whole.schema_type = Type::Object.into();
    whole.description = parts.description.clone();
    whole.into()
}

/// What a schema, or the one that it refers to, says of an object.
fn object<'a>(schemas: &'a Schemas, schema: &'a RefOr<Schema>) -> Option<&'a Object> {
    let found = match schema {
        RefOr::Ref(to) => to.ref_location.rsplit('/').next().and_then(|name| schemas.get(name))?,
        own => own,
    };
    match found {
        RefOr::T(Schema::Object(object)) if object.schema_type != Type::Null.into() => Some(object),
        _ => None,
    }
}

/// Without the sizes of our own numbers, which are nobody's business.
fn plain(schema: &mut RefOr<Schema>) {
    match schema {
        RefOr::T(Schema::Object(object)) => {
            if is_number(&object.schema_type) {
                object.format = None;
            }
            object.properties.values_mut().for_each(plain);
        }
        RefOr::T(Schema::OneOf(either)) => either.items.iter_mut().for_each(plain),
        _ => {}
    }
}

fn is_number(kind: &SchemaType) -> bool {
    let is_number = |kind: &Type| matches!(kind, Type::Integer | Type::Number);
    match kind {
        SchemaType::Type(kind) => is_number(kind),
        SchemaType::Array(kinds) => kinds.iter().any(is_number),
        SchemaType::AnyValue => false,
    }
}

/// A part that is the server's own: no rail's.
fn of_the_server() -> Part {
    let part = Part::default().with::<health::Described>().with::<error::Described>();
    part.and("Fault", FaultBody::schema())
}

/// The schemas of all parts: those of types that several parts name are the same.
fn schemas(parts: &[Part]) -> String {
    let written = parts.iter().map(|part| part.schemas.clone()).filter(|text| !text.is_empty());
    let derived: BTreeMap<_, _> = parts.iter().flat_map(|part| part.derived.clone()).collect();
    let derived = derived.into_iter().map(|(name, mut schema)| {
        plain(&mut schema);
        let text = serde_json::to_string(&schema).expect("schemas are JSON");
        format!("{name:?}: {text}")
    });
    written.chain(derived).collect::<Vec<_>>().join(",\n")
}

fn answers(refusals: &[(u16, &str)]) -> String {
    let refer = |(status, name): &(u16, &str)| {
        format!("\"{status}\": {{\"$ref\": \"#/components/responses/{name}\"}}")
    };
    refusals.iter().map(refer).collect::<Vec<_>>().join(",\n")
}

pub fn openapi(config: &ApiConfig) -> Bytes {
    let keys = match config.auth {
        Auth::Off => Vec::new(),
        Auth::Keys(_) => vec![json!({"ApiKey": []}), json!({"Bearer": []})],
    };
    let parts = [
        near::describe(),
        internal::describe(config.internal.as_ref()),
        evm::describe(config.evm.as_ref()),
        solana::describe(),
        dead::describe(),
        of_the_server(),
    ];
    let all = |of: fn(&Part) -> &str| {
        let texts = parts.iter().map(of).filter(|text| !text.is_empty());
        texts.collect::<Vec<_>>().join(",\n")
    };
    let text = FRAME
        .replace("\"$tags\"", &all(|part| &part.tags))
        .replace("\"$paths\": 0", &all(|part| &part.paths))
        .replace("\"$schemas\": 0", &schemas(&parts))
        .replace("\"$refusals\": 0", &answers(&REFUSALS))
        .replace("\"$refusals_of_bodies\": 0", &answers(&REFUSALS_OF_BODIES));
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
