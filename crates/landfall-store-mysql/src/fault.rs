//! Failures inside the store, on their way to becoming a `StoreError`.
//!
//! A [`Fault`] ends the transaction it happens in. What a job refuses without having written
//! anything is an answer, not a fault.

use landfall_core::store::StoreError;
use mysql_async::Error;

/// Deadlock, lock wait timeout, and a row that changed under a snapshot: nothing was committed.
const MET_ANOTHER: [u16; 3] = [1213, 1205, 1020];
/// A unique key that somebody else has taken.
const DUPLICATE: u16 = 1062;
/// Columns, tables or values that are not as this build knows them.
const DAMAGED: [u16; 9] = [1048, 1054, 1146, 1264, 1265, 1292, 1366, 1406, 3140];

/// What a statement or a row could not do.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Somebody was in the way, and the transaction is undone. Do it again.
    Again(String),
    /// A unique key is taken. The transaction is open still.
    Duplicate(String),
    /// The connection is gone, or what it is in the middle of is not known.
    Lost(String),
    /// The server answered, and did not do it.
    Refused(String),
    /// The data contradicts the rules.
    Corrupt(String),
}

pub type Done<T> = Result<T, Fault>;

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        let Error::Server(refusal) = &error else { return Fault::Lost(error.to_string()) };
        let message = format!("{} ({})", refusal.message, refusal.code);
        match refusal.code {
            code if MET_ANOTHER.contains(&code) => Fault::Again(message),
            DUPLICATE => Fault::Duplicate(message),
            code if DAMAGED.contains(&code) => Fault::Corrupt(message),
            _ => Fault::Refused(message),
        }
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
            Fault::Corrupt(message) => StoreError::Corrupt(message),
            Fault::Again(message) | Fault::Duplicate(message) => {
                StoreError::Unavailable(format!("too many others were in the way: {message}"))
            }
            Fault::Lost(message) | Fault::Refused(message) => StoreError::Unavailable(message),
        }
    }
}

pub fn corrupt(message: impl Into<String>) -> Fault {
    Fault::Corrupt(message.into())
}

/// A number as the tables keep it. Their integers have a sign; nothing we count comes near.
pub(crate) fn int(value: u64) -> Done<i64> {
    i64::try_from(value).map_err(|_| corrupt(format!("{value} is too large to be stored")))
}

/// A time as the tables keep it: beyond their range is "never", which sorts last.
pub(crate) fn time(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// A number as it was before it was stored.
pub(crate) fn uint(value: i64) -> Done<u64> {
    u64::try_from(value).map_err(|_| corrupt(format!("{value} is below zero")))
}
