//! Where values come from: the file with its line numbers, and the environment.
//!
//! Unknown names are mistakes here, because a setting that is misspelt is a setting that is not
//! set. Not here: types and limits (`value`, `mod`).

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use toml::de::{DeTable, DeValue};

use super::mistake::{Mistake, Place, similar};
use super::settings::{SECTIONS, SETTINGS};
use super::value::Raw;

/// Variables with the prefix that are no settings.
const OTHER_VARIABLES: [&str; 2] = ["LANDFALL_CONFIG", "LANDFALL_LEDGER_STORE"];

/// Values by `section.key`.
pub type Given = BTreeMap<String, (Place, Raw)>;

/// Reads the file's text; fails if it is no TOML at all. `path` is only for its name.
pub fn from_file(path: &Path, text: &str, mistakes: &mut Vec<Mistake>) -> Result<Given, Mistake> {
    let place = |offset: usize| Place::File {
        path: path.display().to_string(),
        line: text[..offset.min(text.len())].matches('\n').count() + 1,
    };
    let mut given = Given::new();
    let table = DeTable::parse(text).map_err(|error| Mistake {
        place: place(error.span().map_or(0, |span| span.start)),
        setting: None,
        // The message alone: the error's full form would show the line, secrets included.
        message: format!("this is not TOML ({})", error.message().replace('\n', ", ")),
        remedy: "write lines such as `url = \"sqlite:landfall.db\"` under `[store]`".into(),
    })?;
    for (section, content) in table.get_ref() {
        let at = place(section.span().start);
        let name = section.get_ref().as_ref();
        if !SECTIONS.iter().any(|(known, _)| *known == name) {
            mistakes.push(unknown_section(at, name));
            continue;
        }
        let DeValue::Table(keys) = content.get_ref() else {
            mistakes.push(Mistake {
                place: at,
                setting: Some(name.to_owned()),
                message: "is a section, not a value".into(),
                remedy: format!("write [{name}] on a line of its own"),
            });
            continue;
        };
        for (key, value) in keys {
            let at = place(key.span().start);
            let full = format!("{name}.{}", key.get_ref());
            if SETTINGS.iter().any(|setting| setting.name() == full) {
                given.insert(full, (at, Raw::Written(json(value.get_ref()))));
            } else {
                mistakes.push(unknown_key(at, name, key.get_ref()));
            }
        }
    }
    Ok(given)
}

fn unknown_section(place: Place, name: &str) -> Mistake {
    let known = SECTIONS.iter().map(|(known, _)| *known);
    let remedy = match similar(name, known.clone()) {
        Some(near) => format!("did you mean [{near}]?"),
        None => format!("sections are {}", known.collect::<Vec<_>>().join(", ")),
    };
    Mistake { place, setting: None, message: format!("[{name}] is no section"), remedy }
}

fn unknown_key(place: Place, section: &str, key: &str) -> Mistake {
    let siblings = SETTINGS.iter().filter(|setting| setting.section == section);
    let elsewhere = SETTINGS.iter().find(|setting| setting.key == key);
    let remedy = match (similar(key, siblings.map(|setting| setting.key)), elsewhere) {
        (Some(near), _) => format!("did you mean {section}.{near}?"),
        (None, Some(other)) => format!("did you mean {}?", other.name()),
        (None, None) => "remove it, or see `landfall settings` for those there are".to_owned(),
    };
    Mistake { place, setting: None, message: format!("{section}.{key} is no setting"), remedy }
}

fn json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(number) => number.into(),
            Err(_) => Value::String(integer.as_str().to_owned()),
        },
        DeValue::Float(float) => Value::String(float.as_str().to_owned()),
        DeValue::Boolean(on) => Value::Bool(*on),
        DeValue::Datetime(datetime) => Value::String(datetime.to_string()),
        DeValue::Array(items) => items.iter().map(|item| json(item.get_ref())).collect(),
        DeValue::Table(fields) => {
            let pairs = fields.iter();
            pairs.map(|(key, value)| (key.get_ref().to_string(), json(value.get_ref()))).collect()
        }
    }
}

/// Reads the environment: first Landfall's own names, then those of the relay it replaces. An
/// empty variable counts as not set.
pub fn from_environment(
    variables: &BTreeMap<String, String>,
    mistakes: &mut Vec<Mistake>,
) -> (Given, Given) {
    let (mut own, mut seeds) = (Given::new(), Given::new());
    let set = |name: &str| variables.get(name).filter(|text| !text.trim().is_empty());
    for setting in SETTINGS.iter() {
        if let Some(text) = set(&setting.variable()) {
            own.insert(setting.name(), variable(setting.variable(), text));
        }
        for seed in setting.seeds {
            if let Some(text) = set(seed) {
                seeds.insert(setting.name(), variable((*seed).to_owned(), text));
            }
        }
    }
    mistakes.extend(variables.keys().filter_map(|name| unknown_variable(name)));
    (own, seeds)
}

fn variable(name: String, text: &str) -> (Place, Raw) {
    (Place::Variable(name), Raw::Text(text.to_owned()))
}

/// A variable that looks like ours and is not. Names without the double underscore are left alone
/// unless they are nearly ours: orchestrators make such (`LANDFALL_SERVICE_HOST`).
fn unknown_variable(name: &str) -> Option<Mistake> {
    if !name.starts_with("LANDFALL_") || OTHER_VARIABLES.contains(&name) {
        return None;
    }
    let known: Vec<String> = SETTINGS.iter().map(|setting| setting.variable()).collect();
    if known.iter().any(|variable| variable == name) {
        return None;
    }
    let near = similar(name, known.iter().map(String::as_str));
    if near.is_none() && !name.contains("__") {
        return None;
    }
    Some(Mistake {
        place: Place::Variable(name.to_owned()),
        setting: None,
        message: "is no setting".into(),
        remedy: match near {
            Some(near) => format!("did you mean {near}?"),
            None => "unset it, or see `landfall settings` for those there are".into(),
        },
    })
}
