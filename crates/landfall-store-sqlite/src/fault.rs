//! Failures inside the store, on their way to becoming a `StoreError`.
//!
//! A [`Fault`] ends the transaction it happens in. What a job refuses without having written
//! anything is an answer, not a fault.

use landfall_core::store::StoreError;
use rusqlite::ErrorCode;

/// What a statement or a row could not do.
#[derive(Debug, Clone)]
pub(crate) struct Fault(pub StoreError);

pub(crate) type Done<T> = Result<T, Fault>;

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Fault {
        let damaged = matches!(
            error.sqlite_error_code(),
            Some(
                ErrorCode::DatabaseCorrupt
                    | ErrorCode::NotADatabase
                    | ErrorCode::ConstraintViolation
                    | ErrorCode::TypeMismatch
            )
        ) || matches!(
            error,
            rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::IntegralValueOutOfRange(..)
                | rusqlite::Error::InvalidColumnType(..)
        );
        let message = error.to_string();
        Fault(if damaged { StoreError::Corrupt(message) } else { StoreError::Unavailable(message) })
    }
}

impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Fault {
        corrupt(format!("a stored record does not parse: {error}"))
    }
}

pub(crate) fn corrupt(message: impl Into<String>) -> Fault {
    Fault(StoreError::Corrupt(message.into()))
}

/// A number as the file keeps it. Its integers have a sign; nothing we count comes near.
pub(crate) fn int(value: u64) -> Done<i64> {
    i64::try_from(value).map_err(|_| corrupt(format!("{value} is too large to be stored")))
}

/// A time as the file keeps it: beyond the file's range is "never", which sorts last.
pub(crate) fn time(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// A number as it was before it was stored.
pub(crate) fn uint(value: i64) -> Done<u64> {
    u64::try_from(value).map_err(|_| corrupt(format!("{value} is below zero")))
}
