//! Reading what the server answers. Whatever has another shape than we wrote is corrupt.

use std::str::FromStr;

use redis::Value;

use crate::fault::{Done, corrupt};

pub(crate) fn list(value: Value) -> Done<Vec<Value>> {
    match value {
        Value::Array(items) | Value::Set(items) => Ok(items),
        other => Err(corrupt(format!("a list was expected, not {other:?}"))),
    }
}

pub(crate) fn bytes(value: Value) -> Done<Option<Vec<u8>>> {
    match value {
        Value::Nil => Ok(None),
        Value::BulkString(bytes) => Ok(Some(bytes)),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => {
            Ok(Some(text.into_bytes()))
        }
        Value::Int(number) => Ok(Some(number.to_string().into_bytes())),
        other => Err(corrupt(format!("a value was expected, not {other:?}"))),
    }
}

pub(crate) fn text(value: Value) -> Done<Option<String>> {
    let utf8 = |bytes| String::from_utf8(bytes).map_err(|_| corrupt("a stored text is not UTF-8"));
    bytes(value)?.map(utf8).transpose()
}

pub(crate) fn number(value: Value) -> Done<i64> {
    match value {
        Value::Int(number) => Ok(number),
        other => Err(corrupt(format!("a number was expected, not {other:?}"))),
    }
}

pub(crate) fn yes(value: Value) -> Done<bool> {
    number(value).map(|number| number == 1)
}

pub(crate) fn texts(value: Value) -> Done<Vec<String>> {
    list(value)?.into_iter().map(|item| required(text(item)?)).collect()
}

/// Ids of one kind, each written in decimal.
pub(crate) fn ids<T>(value: Value, id: impl Fn(u64) -> T) -> Done<Vec<T>> {
    texts(value)?.iter().map(|text| parsed(text).map(&id)).collect()
}

pub(crate) fn required<T>(found: Option<T>) -> Done<T> {
    found.ok_or_else(|| corrupt("a stored record lacks a value"))
}

pub(crate) fn parsed<T: FromStr>(text: &str) -> Done<T> {
    text.parse().map_err(|_| corrupt(format!("{text:?} is not a number of its kind")))
}

/// The fields of a hash, taken one after another in the order in which they were asked for.
pub(crate) struct Fields(std::vec::IntoIter<Value>);

impl Fields {
    pub(crate) fn of(value: Value) -> Done<Fields> {
        Ok(Fields(list(value)?.into_iter()))
    }

    pub(crate) fn bytes(&mut self) -> Done<Option<Vec<u8>>> {
        bytes(self.0.next().unwrap_or(Value::Nil))
    }

    /// None if the field is missing or empty.
    pub(crate) fn text(&mut self) -> Done<Option<String>> {
        let found = text(self.0.next().unwrap_or(Value::Nil))?;
        Ok(found.filter(|text| !text.is_empty()))
    }

    pub(crate) fn required(&mut self) -> Done<String> {
        required(self.text()?)
    }

    /// None if the field is missing or empty.
    pub(crate) fn parsed<T: FromStr>(&mut self) -> Done<Option<T>> {
        self.text()?.map(|text| parsed(&text)).transpose()
    }
}
