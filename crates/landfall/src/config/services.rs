//! The services and assets of internal transfers, as settings.

use landfall_core::internal::{Asset, DECIMALS_MAX};
use landfall_rpc::Url;
use serde_json::{Map, Value};

use super::Secret;
use super::kinds::known_fields;
use super::value::{Parse, Raw, Wrong, Wrongs, each, items, keep, wrong};

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
    fn parse(raw: &Raw) -> Result<Vec<ServiceSpec>, Wrongs> {
        each(&items(raw)?, service)
    }
}

fn service(number: usize, item: &Value) -> Result<ServiceSpec, Wrongs> {
    let path_names: Vec<String> = PATHS.iter().map(|name| format!("{name}_path")).collect();
    let known = SERVICE_FIELDS.iter().copied().chain(path_names.iter().map(String::as_str));
    let known: Vec<&str> = known.collect();
    let mut found = Wrongs::new();
    let fields = Item::new(&mut found, number, item, (&known, SERVICE_REMEDY))?;
    let name = keep(&mut found, fields.needed("name", Item::filled, "has no name"));
    let url = keep(
        &mut found,
        fields.needed("url", Item::filled, "has no url").and_then(|url| {
            Url::parse(&url).or_else(|error| fields.wrong(&format!("url {error}")))
        }),
    );
    // Neither has a default: a wrong one would leave funds frozen, or move them twice.
    let unsaid = "does not say whether it freezes what is withdrawn";
    let freezes = keep(&mut found, fields.needed("freezes", Item::switch, unsaid));
    let window = keep(&mut found, dedupe_window_s(&fields));
    let commits = keep(&mut found, fields.switch("commits"));
    let auth_header = keep(&mut found, fields.text("auth_header"));
    let auth = keep(&mut found, fields.text("auth"));
    let timeout_ms = keep(&mut found, fields.number("timeout_ms"));
    let mut paths = Vec::new();
    for (operation, field) in PATHS.iter().zip(&path_names) {
        let path = keep(&mut found, fields.path(field)).flatten();
        paths.extend(path.map(|path| (*operation, path)));
    }
    let (Some(name), Some(url), Some(freezes), true) = (name, url, freezes, found.is_empty())
    else {
        return Err(found);
    };
    let auth_header = auth_header.flatten().unwrap_or_else(|| "Authorization".to_owned());
    Ok(ServiceSpec {
        name,
        url,
        freezes,
        commits: commits.flatten().unwrap_or(true),
        auth_header,
        auth: auth.flatten().map(Secret::new),
        timeout_ms: timeout_ms.flatten().unwrap_or(TIMEOUT_MS).clamp(10, 120_000),
        dedupe_window_s: window.flatten(),
        paths,
    })
}

/// None is for ever.
fn dedupe_window_s(fields: &Item<'_>) -> Result<Option<u64>, Wrongs> {
    match fields.fields.get("dedupe_window_s") {
        Some(Value::String(text)) if text == "forever" => Ok(None),
        Some(Value::Number(_)) => fields.number("dedupe_window_s"),
        _ => fields.missing(
            "needs dedupe_window_s: for how many seconds it remembers request ids, or \
             \"forever\"",
        ),
    }
}

impl Parse for Vec<Asset> {
    const KIND: &'static str = "list of {id, symbol, decimals}";
    fn parse(raw: &Raw) -> Result<Vec<Asset>, Wrongs> {
        each(&items(raw)?, asset)
    }
}

fn asset(number: usize, item: &Value) -> Result<Asset, Wrongs> {
    let remedy = "write {id = 1, symbol = \"BTC\", decimals = 8}";
    let known = ["id", "symbol", "decimals"];
    let mut found = Wrongs::new();
    let fields = Item::new(&mut found, number, item, (&known, remedy))?;
    let id = keep(
        &mut found,
        fields.number("id").and_then(|id| {
            let id = id.and_then(|id| u32::try_from(id).ok());
            id.map_or_else(|| fields.missing("has no id, or one beyond 32 bits"), Ok)
        }),
    );
    let symbol = keep(&mut found, fields.needed("symbol", Item::filled, "has no symbol"));
    let decimals = keep(
        &mut found,
        fields.number("decimals").and_then(|decimals| {
            let decimals = decimals.and_then(|decimals| u8::try_from(decimals).ok());
            let needed = format!("needs decimals from 0 to {DECIMALS_MAX}");
            let fits = decimals.filter(|decimals| *decimals <= DECIMALS_MAX);
            fits.map_or_else(|| fields.missing(&needed), Ok)
        }),
    );
    match (id, symbol, decimals) {
        (Some(id), Some(symbol), Some(decimals)) if found.is_empty() => {
            Ok(Asset { id, symbol, decimals })
        }
        _ => Err(found),
    }
}

/// One item of a list of objects.
pub(super) struct Item<'a> {
    number: usize,
    pub fields: &'a Map<String, Value>,
    remedy: &'static str,
    /// Some field is not known: it may be the one that is missed.
    has_stranger: bool,
}

impl<'a> Item<'a> {
    pub fn new(
        found: &mut Wrongs,
        number: usize,
        item: &'a Value,
        (known, remedy): (&[&str], &'static str),
    ) -> Result<Item<'a>, Wrongs> {
        let Value::Object(fields) = item else {
            return wrong(format!("item {number} is no table"), remedy);
        };
        let has_stranger = keep(found, known_fields(number, fields, known, remedy)).is_none();
        Ok(Item { number, fields, remedy, has_stranger })
    }

    pub fn missing<T>(&self, what: &str) -> Result<T, Wrongs> {
        if self.has_stranger { Err(Wrongs::new()) } else { self.wrong(what) }
    }

    /// A field that must be there.
    pub fn needed<T>(
        &self,
        field: &str,
        read: impl Fn(&Self, &str) -> Result<Option<T>, Wrongs>,
        missing: &str,
    ) -> Result<T, Wrongs> {
        read(self, field)?.map_or_else(|| self.missing(missing), Ok)
    }

    /// A value of any type that settings have; its default where it is not there.
    pub fn typed<T: Parse + Default>(&self, field: &str) -> Result<T, Wrongs> {
        let Some(value) = self.fields.get(field) else { return Ok(T::default()) };
        let named = |mut wrong: Wrong| {
            wrong.message = format!("item {}: {field} {}", self.number, wrong.message);
            wrong
        };
        T::parse(&Raw::Written(value.clone()))
            .map_err(|wrongs| wrongs.into_iter().map(named).collect())
    }

    /// A text; an empty one is none.
    pub fn filled(&self, field: &str) -> Result<Option<String>, Wrongs> {
        Ok(self.text(field)?.filter(|text| !text.is_empty()))
    }

    pub fn path(&self, field: &str) -> Result<Option<String>, Wrongs> {
        match self.text(field)? {
            Some(path) if !path.starts_with('/') => {
                self.wrong(&format!("{field} must start with /"))
            }
            path => Ok(path),
        }
    }

    pub fn wrong<T>(&self, what: &str) -> Result<T, Wrongs> {
        wrong(format!("item {} {what}", self.number), self.remedy)
    }

    pub fn text(&self, field: &str) -> Result<Option<String>, Wrongs> {
        match self.fields.get(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.trim().to_owned())),
            Some(_) => self.wrong(&format!("{field} is no text")),
        }
    }

    pub fn number(&self, field: &str) -> Result<Option<u64>, Wrongs> {
        match self.fields.get(field).map(Value::as_u64) {
            None => Ok(None),
            Some(Some(number)) => Ok(Some(number)),
            Some(None) => self.wrong(&format!("{field} is no whole number")),
        }
    }

    pub fn switch(&self, field: &str) -> Result<Option<bool>, Wrongs> {
        match self.fields.get(field).map(Value::as_bool) {
            None => Ok(None),
            Some(Some(on)) => Ok(Some(on)),
            Some(None) => self.wrong(&format!("{field} is neither true nor false")),
        }
    }
}
