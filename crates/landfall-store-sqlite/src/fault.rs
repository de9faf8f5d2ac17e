//! Failures inside the store, as a `StoreError`, and numbers as the file keeps them.

use landfall_core::store::StoreError;

pub(crate) use landfall_sqlite::{Done, Fault, corrupt};

pub(crate) fn told(fault: Fault) -> StoreError {
    match fault {
        Fault::Unavailable(message) => StoreError::Unavailable(message),
        Fault::Corrupt(message) => StoreError::Corrupt(message),
    }
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
