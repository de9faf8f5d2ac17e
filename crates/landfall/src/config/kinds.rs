//! The types that only some settings have: where the store and the queue are, who may call the
//! API, how to log.

use std::path::PathBuf;

use serde_json::Value;

use super::Secret;
use super::mistake::similar;
use super::value::{Parse, Raw, Wrong, Wrongs, choice, each, items, keep, text, wrong};

/// Which store, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreUrl {
    Sqlite(PathBuf),
    /// Forgets everything on exit: for tests and trials.
    Memory,
    // The whole URLs, which may hold passwords.
    Redis(Secret),
    Postgres(Secret),
    Mysql(Secret),
}

impl StoreUrl {
    /// Whether other processes can work on it too.
    pub fn is_shared(&self) -> bool {
        !matches!(self, StoreUrl::Sqlite(_) | StoreUrl::Memory)
    }
}

impl Parse for StoreUrl {
    const KIND: &'static str = "store URL";
    fn parse(raw: &Raw) -> Result<StoreUrl, Wrongs> {
        let remedy = "give \"sqlite:PATH\", \"redis://HOST\", \"postgres://HOST/DATABASE\", \
                      \"mysql://HOST/DATABASE\" or, for trials, \"memory:\"";
        let url = text(raw, "a store URL")?;
        let (scheme, rest) = url.split_once(':').unwrap_or((&url, ""));
        match scheme {
            "sqlite" => match rest.strip_prefix("//").unwrap_or(rest) {
                "" => wrong("names no file", "give a path, such as \"sqlite:landfall.db\""),
                path => Ok(StoreUrl::Sqlite(PathBuf::from(path))),
            },
            "memory" => Ok(StoreUrl::Memory),
            "redis" | "rediss" => Ok(StoreUrl::Redis(Secret::new(url))),
            "postgres" | "postgresql" => Ok(StoreUrl::Postgres(Secret::new(url))),
            "mysql" => Ok(StoreUrl::Mysql(Secret::new(url))),
            "mariadb" => Ok(StoreUrl::Mysql(Secret::new(format!("mysql:{rest}")))),
            _ => wrong("is of an unknown kind", remedy),
        }
    }
}

/// Which queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueUrl {
    /// In process, bounded.
    Ring,
    /// What is due in the store itself.
    Store,
    // The whole URL, which may hold a password.
    Redis(Secret),
    /// The name of the queue; region, endpoint and credentials are the environment's.
    Sqs(String),
}

/// The queue's name where the URL gives none.
const SQS_QUEUE: &str = "relay-transactions";

impl Parse for QueueUrl {
    const KIND: &'static str = "queue URL";
    fn parse(raw: &Raw) -> Result<QueueUrl, Wrongs> {
        let remedy = "give \"ring:\", \"store:\", \"redis://HOST\" or \"sqs:QUEUE\"";
        let url = text(raw, "a queue URL")?;
        let (scheme, rest) = url.split_once(':').unwrap_or((&url, ""));
        match scheme {
            "ring" => Ok(QueueUrl::Ring),
            "store" => Ok(QueueUrl::Store),
            "redis" | "rediss" => Ok(QueueUrl::Redis(Secret::new(url))),
            "sqs" => match rest.trim_start_matches('/') {
                "" => Ok(QueueUrl::Sqs(SQS_QUEUE.to_owned())),
                name => Ok(QueueUrl::Sqs(name.to_owned())),
            },
            _ => wrong("is of an unknown kind", remedy),
        }
    }
}

/// Where final statuses are kept at hand. The whole URL, which may hold a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheUrl(pub Secret);

impl Parse for CacheUrl {
    const KIND: &'static str = "cache URL";
    fn parse(raw: &Raw) -> Result<CacheUrl, Wrongs> {
        let url = text(raw, "a cache URL")?;
        match url.split_once(':') {
            Some(("redis" | "rediss", _)) => Ok(CacheUrl(Secret::new(url))),
            _ => wrong("is of an unknown kind", "give \"redis://HOST\""),
        }
    }
}

/// Whether callers of the API must show a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    Keys,
    Off,
}

impl Parse for Auth {
    const KIND: &'static str = "\"keys\" or \"off\"";
    fn parse(raw: &Raw) -> Result<Auth, Wrongs> {
        choice(raw, &[("keys", Auth::Keys), ("off", Auth::Off)])
    }
}

/// Who may read the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metrics {
    Key,
    Open,
}

impl Parse for Metrics {
    const KIND: &'static str = "\"key\" or \"open\"";
    fn parse(raw: &Raw) -> Result<Metrics, Wrongs> {
        choice(raw, &[("key", Metrics::Key), ("open", Metrics::Open)])
    }
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    Json,
    Pretty,
}

impl Parse for LogFormat {
    const KIND: &'static str = "\"json\" or \"pretty\"";
    fn parse(raw: &Raw) -> Result<LogFormat, Wrongs> {
        choice(raw, &[("json", LogFormat::Json), ("pretty", LogFormat::Pretty)])
    }
}

/// What a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Submit,
    Read,
    Operate,
}

const SCOPES: [(&str, Scope); 3] =
    [("submit", Scope::Submit), ("read", Scope::Read), ("operate", Scope::Operate)];

/// One caller of the API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// The key itself, or [`DIGEST_PREFIX`] and its SHA-256 in hexadecimal.
    pub key: Secret,
    /// Scopes its idempotency keys; callers of one tenant see each other's transfers.
    pub tenant: String,
    pub scopes: Vec<Scope>,
}

/// Before a digest that stands for the key.
pub const DIGEST_PREFIX: &str = "sha256:";
/// Hexadecimal digits of a SHA-256.
const DIGEST_DIGITS: usize = 64;

/// A shorter key could be guessed.
pub const API_KEY_LENGTH_MIN: usize = 16;

impl Parse for Vec<ApiKey> {
    const KIND: &'static str = "list of {key, tenant, scopes}";
    fn parse(raw: &Raw) -> Result<Vec<ApiKey>, Wrongs> {
        each(&items(raw)?, api_key)
    }
}

const API_KEY_REMEDY: &str =
    "write {key = \"…\", tenant = \"acme\", scopes = [\"submit\", \"read\"]}, or the key alone";

fn api_key(number: usize, item: &Value) -> Result<ApiKey, Wrongs> {
    let mut found = Wrongs::new();
    let (key, tenant, scopes) = match item {
        Value::String(key) => (key.as_str(), Some(""), Some(vec![Scope::Submit, Scope::Read])),
        Value::Object(fields) => {
            let known = ["key", "tenant", "scopes"];
            keep(&mut found, known_fields(number, fields, &known, API_KEY_REMEDY));
            let key = fields.get("key").and_then(Value::as_str).unwrap_or_default();
            let tenant = match fields.get("tenant").map(Value::as_str) {
                None => Ok(""),
                Some(Some(tenant)) => Ok(tenant),
                Some(None) => wrong(format!("item {number}: tenant is no text"), API_KEY_REMEDY),
            };
            let scopes = scopes(number, fields.get("scopes"));
            (key, keep(&mut found, tenant), keep(&mut found, scopes))
        }
        _ => return wrong(format!("item {number} is no key"), API_KEY_REMEDY),
    };
    keep(&mut found, well_made(number, key));
    match (tenant, scopes) {
        (Some(tenant), Some(scopes)) if found.is_empty() => {
            Ok(ApiKey { key: Secret::new(key), tenant: tenant.to_owned(), scopes })
        }
        _ => Err(found),
    }
}

/// Whether a key is long enough, and a digest a digest.
fn well_made(number: usize, key: &str) -> Result<(), Wrongs> {
    if key.len() < API_KEY_LENGTH_MIN {
        return wrong(
            format!("item {number}: the key is missing or shorter than {API_KEY_LENGTH_MIN}"),
            "make one with `openssl rand -hex 32`",
        );
    }
    let digest = key.strip_prefix(DIGEST_PREFIX);
    if digest.is_some_and(|digest| {
        digest.len() != DIGEST_DIGITS || !digest.bytes().all(|digit| digit.is_ascii_hexdigit())
    }) {
        return wrong(
            format!("item {number}: after {DIGEST_PREFIX} come {DIGEST_DIGITS} hexadecimal digits"),
            "make them with `printf %s KEY | sha256sum`",
        );
    }
    Ok(())
}

/// Complains of every field that is not known.
pub fn known_fields(
    number: usize,
    fields: &serde_json::Map<String, Value>,
    known: &[&str],
    remedy: &str,
) -> Result<(), Wrongs> {
    let unknown = fields.keys().filter(|name| !known.contains(&name.as_str()));
    let complaint = |name: &String| Wrong {
        message: format!("item {number} has an unknown field {name:?}"),
        remedy: match similar(name, known.iter().copied()) {
            Some(near) => format!("did you mean {near:?}?"),
            None => remedy.to_owned(),
        },
    };
    let found: Wrongs = unknown.map(complaint).collect();
    if found.is_empty() { Ok(()) } else { Err(found) }
}

fn scopes(number: usize, written: Option<&Value>) -> Result<Vec<Scope>, Wrongs> {
    let Some(written) = written else {
        return Ok(vec![Scope::Submit, Scope::Read]);
    };
    let remedy = "scopes are \"submit\", \"read\" and \"operate\"";
    let Some(words) = written.as_array() else {
        return wrong(format!("item {number}: scopes is no list"), remedy);
    };
    let read = |word: &Value| {
        let found = SCOPES.iter().find(|(name, _)| word.as_str() == Some(name));
        found.map_or_else(
            || wrong(format!("item {number} has an unknown scope"), remedy),
            |(_, scope)| Ok(*scope),
        )
    };
    words.iter().map(read).collect()
}
