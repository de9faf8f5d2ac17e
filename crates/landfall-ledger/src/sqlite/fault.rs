//! Failures inside the book, as a `BookError`, and numbers as the file keeps them.

use crate::book::BookError;

pub(crate) use landfall_sqlite::{Done, Fault, corrupt};

pub(crate) fn told(fault: Fault) -> BookError {
    match fault {
        Fault::Unavailable(message) => BookError::Unavailable(message),
        Fault::Corrupt(message) => BookError::Corrupt(message),
    }
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
