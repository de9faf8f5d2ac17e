//! Failures inside the book, on their way to becoming a `BookError`, and numbers as the file keeps
//! them.
//!
//! A [`Fault`] ends the transaction it happens in. A refusal is an answer, not a fault.

use rusqlite::ErrorCode;

use crate::book::BookError;

/// What a statement or a row could not do.
#[derive(Debug, Clone)]
pub(crate) struct Fault(pub BookError);

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
        Fault(if damaged { BookError::Corrupt(message) } else { BookError::Unavailable(message) })
    }
}

pub(crate) fn corrupt(message: impl Into<String>) -> Fault {
    Fault(BookError::Corrupt(message.into()))
}

/// An amount or an id, which may use all 64 bits; the file's integers have a sign.
pub(crate) fn bits(value: u64) -> i64 {
    value.cast_signed()
}

/// An amount or an id, as it was before it was stored.
pub(crate) fn unbits(value: i64) -> u64 {
    value.cast_unsigned()
}

/// A number that is compared in the file: beyond the file's range is its end.
pub(crate) fn count(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
