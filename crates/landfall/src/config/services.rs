//! The services and assets of internal transfers, as settings.

use landfall_core::internal::{Asset, DECIMALS_MAX};
use landfall_rpc::Url;
use serde_json::{Map, Value};

use super::Secret;
use super::mistake::similar;
use super::value::{Parse, Raw, Wrong, items, wrong};

/// A service that keeps users' funds.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceSpec {
    pub name: String,
    pub url: Url,
    /// Whether its withdrawals are put aside first and need a commit.
    pub freezes: bool,
    /// Whether it has a commit at all.
    pub commits: bool,
    pub auth_header: String,
    pub auth: Option<Secret>,
    pub timeout_ms: u64,
    /// How long it remembers request ids; none is for ever.
    pub dedupe_window_s: Option<u64>,
    /// Paths other than the contract's, by operation.
    pub paths: Vec<(&'static str, String)>,
}

/// Operations whose paths can be set.
pub const PATHS: [&str; 5] = ["withdraw", "deposit", "commit", "rollback", "query"];

const SERVICE_FIELDS: [&str; 8] =
    ["name", "url", "freezes", "commits", "auth_header", "auth", "timeout_ms", "dedupe_window_s"];

const SERVICE_REMEDY: &str = "write {name = \"funding\", url = \"http://10.0.0.5:4001\", \
     freezes = true, \
     dedupe_window_s = \"forever\"}";
/// Two calls of this patience fit into what a gateway's client waits.
const TIMEOUT_MS: u64 = 2_000;

impl Parse for Vec<ServiceSpec> {
    const KIND: &'static str = "list of {name, url, freezes, …}";
    fn parse(raw: &Raw) -> Result<Vec<ServiceSpec>, Wrong> {
        items(raw)?.iter().enumerate().map(|(index, item)| service(index + 1, item)).collect()
    }
}

fn service(number: usize, item: &Value) -> Result<ServiceSpec, Wrong> {
    let path_names: Vec<String> = PATHS.iter().map(|name| format!("{name}_path")).collect();
    let known = SERVICE_FIELDS.iter().copied().chain(path_names.iter().map(String::as_str));
    let fields = Item::new(number, item, known.collect(), SERVICE_REMEDY)?;
    let name = fields.text("name")?.filter(|name| !name.is_empty());
    let Some(name) = name else { return fields.wrong("has no name") };
    let url = match fields.text("url")?.as_deref().map(Url::parse) {
        Some(Ok(url)) => url,
        Some(Err(error)) => return fields.wrong(&format!("url {error}")),
        None => return fields.wrong("has no url"),
    };
    // Neither has a default: a wrong one would leave funds frozen, or move them twice.
    let Some(freezes) = fields.switch("freezes")? else {
        return fields.wrong("does not say whether it freezes what is withdrawn");
    };
    let dedupe_window_s = match fields.fields.get("dedupe_window_s") {
        Some(Value::String(text)) if text == "forever" => None,
        Some(Value::Number(_)) => fields.number("dedupe_window_s")?,
        _ => {
            let what = "needs dedupe_window_s: for how many seconds it remembers request ids, or \
                        \"forever\"";
            return fields.wrong(what);
        }
    };
    let mut paths = Vec::new();
    for (operation, field) in PATHS.iter().zip(&path_names) {
        match fields.text(field)? {
            Some(path) if !path.starts_with('/') => {
                return fields.wrong(&format!("{field} must start with /"));
            }
            Some(path) => paths.push((*operation, path)),
            None => {}
        }
    }
    Ok(ServiceSpec {
        name,
        url,
        freezes,
        commits: fields.switch("commits")?.unwrap_or(true),
        auth_header: fields.text("auth_header")?.unwrap_or_else(|| "Authorization".to_owned()),
        auth: fields.text("auth")?.map(Secret::new),
        timeout_ms: fields.number("timeout_ms")?.unwrap_or(TIMEOUT_MS).clamp(10, 120_000),
        dedupe_window_s,
        paths,
    })
}

impl Parse for Vec<Asset> {
    const KIND: &'static str = "list of {id, symbol, decimals}";
    fn parse(raw: &Raw) -> Result<Vec<Asset>, Wrong> {
        items(raw)?.iter().enumerate().map(|(index, item)| asset(index + 1, item)).collect()
    }
}

fn asset(number: usize, item: &Value) -> Result<Asset, Wrong> {
    let remedy = "write {id = 1, symbol = \"BTC\", decimals = 8}";
    let fields = Item::new(number, item, vec!["id", "symbol", "decimals"], remedy)?;
    let Some(id) = fields.number("id")?.and_then(|id| u32::try_from(id).ok()) else {
        return fields.wrong("has no id, or one beyond 32 bits");
    };
    let Some(symbol) = fields.text("symbol")?.filter(|symbol| !symbol.is_empty()) else {
        return fields.wrong("has no symbol");
    };
    let decimals = fields.number("decimals")?;
    let fits = |decimals: &u64| *decimals <= u64::from(DECIMALS_MAX);
    match decimals.filter(fits).and_then(|decimals| u8::try_from(decimals).ok()) {
        Some(decimals) => Ok(Asset { id, symbol, decimals }),
        None => fields.wrong(&format!("needs decimals from 0 to {DECIMALS_MAX}")),
    }
}

/// One item of a list of objects.
struct Item<'a> {
    number: usize,
    fields: &'a Map<String, Value>,
    remedy: &'static str,
}

impl<'a> Item<'a> {
    fn new(
        number: usize,
        item: &'a Value,
        known: Vec<&str>,
        remedy: &'static str,
    ) -> Result<Item<'a>, Wrong> {
        let Value::Object(fields) = item else {
            return wrong(format!("item {number} is no table"), remedy);
        };
        if let Some(name) = fields.keys().find(|name| !known.contains(&name.as_str())) {
            let remedy = match similar(name, known) {
                Some(near) => format!("did you mean {near:?}?"),
                None => remedy.to_owned(),
            };
            return wrong(format!("item {number} has an unknown field {name:?}"), remedy);
        }
        Ok(Item { number, fields, remedy })
    }

    fn wrong<T>(&self, what: &str) -> Result<T, Wrong> {
        wrong(format!("item {} {what}", self.number), self.remedy)
    }

    fn text(&self, field: &str) -> Result<Option<String>, Wrong> {
        match self.fields.get(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.trim().to_owned())),
            Some(_) => self.wrong(&format!("{field} is no text")),
        }
    }

    fn number(&self, field: &str) -> Result<Option<u64>, Wrong> {
        match self.fields.get(field).map(Value::as_u64) {
            None => Ok(None),
            Some(Some(number)) => Ok(Some(number)),
            Some(None) => self.wrong(&format!("{field} is no whole number")),
        }
    }

    fn switch(&self, field: &str) -> Result<Option<bool>, Wrong> {
        match self.fields.get(field).map(Value::as_bool) {
            None => Ok(None),
            Some(Some(on)) => Ok(Some(on)),
            Some(None) => self.wrong(&format!("{field} is neither true nor false")),
        }
    }
}
