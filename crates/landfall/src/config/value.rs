//! How each type of setting is read, whether it was written in the file or in a variable.
//!
//! A list is a list in the file; in a variable it is a JSON array or comma-separated. Numbers and
//! switches are written alike in both. **Rule:** types that hold secrets never repeat their text.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use landfall_rpc::Url;
use near_account_id::AccountId;
use serde_json::Value;

use super::Secret;
use super::secret::{SigningKeys, SigningKeysFile};

/// A value before it has a type.
#[derive(Debug, Clone, PartialEq)]
pub enum Raw {
    /// From a flag, a variable or a default.
    Text(String),
    /// From the file.
    Written(Value),
}

/// Why a value cannot be taken, and what would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    pub message: String,
    pub remedy: String,
}

/// Every reason: a list is read to its end, so that all of it can be mended at once.
pub type Wrongs = Vec<Wrong>;

pub fn wrong<T>(message: impl Into<String>, remedy: impl Into<String>) -> Result<T, Wrongs> {
    Err(vec![Wrong { message: message.into(), remedy: remedy.into() }])
}

/// Reads every item, each with its number from 1, or says what is wrong with all that are.
pub fn each<T>(
    items: &[Value],
    read: impl Fn(usize, &Value) -> Result<T, Wrongs>,
) -> Result<Vec<T>, Wrongs> {
    let mut found = Vec::new();
    let read = |(index, item)| keep(&mut found, read(index + 1, item));
    let values: Vec<Option<T>> = items.iter().enumerate().map(read).collect();
    if found.is_empty() { Ok(values.into_iter().flatten().collect()) } else { Err(found) }
}

/// The value, or none, and then what is wrong with it goes to what was found.
pub fn keep<T>(found: &mut Wrongs, read: Result<T, Wrongs>) -> Option<T> {
    read.map_err(|wrongs| found.extend(wrongs)).ok()
}

/// A type that settings have.
pub trait Parse: Sized {
    /// Its name in the reference.
    const KIND: &'static str;
    /// Whether it leads to what signs.
    const SIGNS: bool = false;
    fn parse(raw: &Raw) -> Result<Self, Wrongs>;
}

impl Raw {
    /// The text of a string, a number or a switch; none of a list or a table.
    fn text(&self) -> Option<String> {
        match self {
            Raw::Text(text) => Some(text.trim().to_owned()),
            Raw::Written(Value::String(text)) => Some(text.trim().to_owned()),
            Raw::Written(Value::Number(number)) => Some(number.to_string()),
            Raw::Written(Value::Bool(on)) => Some(on.to_string()),
            Raw::Written(_) => None,
        }
    }

    fn text_as(&self, kind: &str) -> Result<String, Wrongs> {
        match self.text() {
            Some(text) => Ok(text),
            None => wrong("is a list or a table", format!("give {kind}")),
        }
    }

    /// The items of a list: written as one, as a JSON array in a text, or separated by commas.
    fn items(&self) -> Result<Vec<Value>, Wrongs> {
        match self {
            Raw::Written(Value::Array(items)) => Ok(items.clone()),
            Raw::Written(Value::String(text)) | Raw::Text(text) => items_of_text(text),
            Raw::Written(_) => wrong("is no list", "write it as a list: [\"…\", \"…\"]"),
        }
    }
}

fn items_of_text(text: &str) -> Result<Vec<Value>, Wrongs> {
    let text = text.trim();
    if text.starts_with('[') {
        return match serde_json::from_str(text) {
            Ok(Value::Array(items)) => Ok(items),
            // The parser's own message could repeat a secret; its position does not.
            Ok(_) => wrong("is no JSON array", "write it as [\"…\", \"…\"]"),
            Err(error) => wrong(
                format!("is no JSON array (column {})", error.column()),
                "write it as [\"…\", \"…\"], with double quotes",
            ),
        };
    }
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    Ok(parts.map(|part| Value::String(part.to_owned())).collect())
}

impl Parse for u64 {
    const KIND: &'static str = "whole number";
    fn parse(raw: &Raw) -> Result<u64, Wrongs> {
        let text = raw.text_as("a whole number")?;
        match text.replace('_', "").parse() {
            Ok(number) => Ok(number),
            Err(_) => wrong(format!("is {text:?}"), "give a whole number, such as 1000"),
        }
    }
}

impl Parse for bool {
    const KIND: &'static str = "true or false";
    fn parse(raw: &Raw) -> Result<bool, Wrongs> {
        match raw.text_as("true or false")?.as_str() {
            "true" | "on" | "yes" | "1" => Ok(true),
            "false" | "off" | "no" | "0" => Ok(false),
            other => wrong(format!("is {other:?}"), "give true or false"),
        }
    }
}

impl Parse for String {
    const KIND: &'static str = "text";
    fn parse(raw: &Raw) -> Result<String, Wrongs> {
        raw.text_as("a text in quotes")
    }
}

impl Parse for PathBuf {
    const KIND: &'static str = "path";
    fn parse(raw: &Raw) -> Result<PathBuf, Wrongs> {
        raw.text_as("a path in quotes").map(PathBuf::from)
    }
}

/// Nothing, or a value: an empty text is nothing.
impl<T: Parse> Parse for Option<T> {
    const KIND: &'static str = T::KIND;
    const SIGNS: bool = T::SIGNS;
    fn parse(raw: &Raw) -> Result<Option<T>, Wrongs> {
        match raw.text() {
            Some(text) if text.is_empty() => Ok(None),
            _ => T::parse(raw).map(Some),
        }
    }
}

impl Parse for SocketAddr {
    const KIND: &'static str = "address";
    fn parse(raw: &Raw) -> Result<SocketAddr, Wrongs> {
        let text = raw.text_as("an address")?;
        // A port alone is how the older relay's SERVER_PORT is given: it listened everywhere.
        if let Ok(port) = text.parse::<u16>() {
            return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port));
        }
        match text.replace("localhost:", "127.0.0.1:").parse() {
            Ok(address) => Ok(address),
            Err(_) => wrong(
                format!("is {text:?}, which is no address"),
                "give host and port, such as \"127.0.0.1:3000\"",
            ),
        }
    }
}

impl Parse for AccountId {
    const KIND: &'static str = "account id";
    fn parse(raw: &Raw) -> Result<AccountId, Wrongs> {
        let text = raw.text_as("an account id in quotes")?;
        text.parse().or_else(|error| {
            wrong(
                format!("is {text:?}, which is no NEAR account id ({error})"),
                "give one such as \"token.testnet\"",
            )
        })
    }
}

impl Parse for Vec<Url> {
    const KIND: &'static str = "list of URLs";
    fn parse(raw: &Raw) -> Result<Vec<Url>, Wrongs> {
        let remedy = "give addresses such as \"https://rpc.testnet.near.org\"";
        each(&raw.items()?, |number, item| match item.as_str().map(Url::parse) {
            Some(Ok(url)) => Ok(url),
            // The text is not repeated: providers put their keys into it.
            Some(Err(error)) => wrong(format!("item {number} {error}"), remedy),
            None => wrong(format!("item {number} is no text"), remedy),
        })
    }
}

impl Parse for Vec<String> {
    const KIND: &'static str = "list of texts";
    fn parse(raw: &Raw) -> Result<Vec<String>, Wrongs> {
        each(&raw.items()?, text_item)
    }
}

impl Parse for SigningKeys {
    const KIND: &'static str = "list of secrets";
    const SIGNS: bool = true;
    fn parse(raw: &Raw) -> Result<SigningKeys, Wrongs> {
        let keys = each(&raw.items()?, |number, item| text_item(number, item).map(Secret::new));
        keys.map(SigningKeys)
    }
}

impl Parse for SigningKeysFile {
    const KIND: &'static str = PathBuf::KIND;
    const SIGNS: bool = true;
    fn parse(raw: &Raw) -> Result<SigningKeysFile, Wrongs> {
        PathBuf::parse(raw).map(SigningKeysFile)
    }
}

fn text_item(number: usize, item: &Value) -> Result<String, Wrongs> {
    match item.as_str().map(str::trim) {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        _ => wrong(
            format!("item {number} is no text, or empty"),
            "give a list of texts in double quotes",
        ),
    }
}

/// Reads one of a few words.
pub fn choice<T: Copy>(raw: &Raw, choices: &[(&str, T)]) -> Result<T, Wrongs> {
    let words: Vec<String> = choices.iter().map(|(word, _)| format!("{word:?}")).collect();
    let remedy = format!("give {}", words.join(" or "));
    let text = raw.text_as(&words.join(" or "))?;
    match choices.iter().find(|(word, _)| *word == text) {
        Some((_, value)) => Ok(*value),
        None => wrong(format!("is {text:?}"), remedy),
    }
}

pub fn items(raw: &Raw) -> Result<Vec<Value>, Wrongs> {
    raw.items()
}

pub fn text(raw: &Raw, kind: &str) -> Result<String, Wrongs> {
    raw.text_as(kind)
}
