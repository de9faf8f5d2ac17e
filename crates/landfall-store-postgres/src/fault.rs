//! Failures inside the store, on their way to becoming a `StoreError`.

use landfall_core::store::StoreError;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::FromSql;
use tokio_postgres::{Error, Row};

/// What a statement or a row could not do.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Others were in the way and nothing was committed: the same again may succeed.
    Again(String),
    Store(StoreError),
}

pub type Done<T> = Result<T, Fault>;

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        let Some(code) = error.code() else { return unavailable(error.to_string()) };
        let what = message(&error);
        if *code == SqlState::T_R_DEADLOCK_DETECTED || *code == SqlState::T_R_SERIALIZATION_FAILURE
        {
            return Fault::Again(what);
        }
        // Somebody took the claim between our look and our writing it.
        let constraint = error.as_db_error().and_then(|error| error.constraint());
        if *code == SqlState::UNIQUE_VIOLATION && constraint == Some(CLAIMS_KEY) {
            return Fault::Again(what);
        }
        // Data (22), constraints (23), limits (54), names (42, 3F) and damage (XX001, XX002)
        // contradict the rules; all else is about the server, and passes.
        let class = &code.code()[..2];
        let damaged = matches!(code.code(), "XX001" | "XX002");
        if damaged || matches!(class, "22" | "23" | "54" | "42" | "3F") {
            return corrupt(what);
        }
        unavailable(what)
    }
}

/// The name that PostgreSQL gives to the primary key of `claims`.
const CLAIMS_KEY: &str = "claims_pkey";

/// What the server said. Its details, which may show values, are left out.
pub(crate) fn message(error: &Error) -> String {
    match error.as_db_error() {
        Some(said) => format!("{} ({})", said.message(), said.code().code()),
        None => error.to_string(),
    }
}

impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Fault {
        corrupt(format!("a stored record does not parse: {error}"))
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> StoreError {
        match fault {
            Fault::Again(why) => StoreError::Unavailable(why),
            Fault::Store(error) => error,
        }
    }
}

pub fn corrupt(message: impl Into<String>) -> Fault {
    Fault::Store(StoreError::Corrupt(message.into()))
}

pub(crate) fn unavailable(message: impl Into<String>) -> Fault {
    Fault::Store(StoreError::Unavailable(message.into()))
}

/// A column of a row.
pub fn get<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Done<T> {
    row.try_get(column)
        .map_err(|error| corrupt(format!("a stored value is of another type: {error}")))
}

/// A number as the database keeps it. Its integers have a sign; nothing we count comes near.
pub(crate) fn int(value: u64) -> Done<i64> {
    i64::try_from(value).map_err(|_| corrupt(format!("{value} is too large to be stored")))
}

/// A time as the database keeps it: beyond its range is "never", which sorts last.
pub(crate) fn time(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// A length of time that can be added to a moment: beyond that it is as good as for ever.
pub(crate) fn span(ms: u64) -> i64 {
    time(ms).min(i64::MAX / 4)
}

/// A number as it was before it was stored.
pub(crate) fn uint(value: i64) -> Done<u64> {
    u64::try_from(value).map_err(|_| corrupt(format!("{value} is below zero")))
}

/// Text as the database keeps it: it has no byte 0, which people may send us.
pub fn text(given: &str) -> String {
    if given.contains(['\0', '\\']) {
        return given.replace('\\', "\\\\").replace('\0', "\\0");
    }
    given.to_owned()
}

/// The reverse of [`text`].
pub fn given(text: &str) -> String {
    if !text.contains('\\') {
        return text.to_owned();
    }
    let mut given = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => given.push(if characters.next() == Some('0') { '\0' } else { '\\' }),
            other => given.push(other),
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_can_be_kept_and_comes_back() {
        for given_text in ["", "plain", "a\\0b", "a\0b", "\\\\\0\\", "\u{1f6a2}\\n"] {
            let kept = text(given_text);
            assert!(!kept.contains('\0'));
            assert_eq!(given(&kept), given_text);
        }
    }
}
