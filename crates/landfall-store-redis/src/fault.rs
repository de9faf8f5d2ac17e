//! Failures of the server and of what it keeps, as the caller's next action.

use landfall_core::store::StoreError;
use redis::RedisError;

pub(crate) type Done<T> = std::result::Result<T, StoreError>;

/// What `scripts/common.lua` says when the store is another one than was opened.
const REPLACED: &str = "REPLACED";

/// Errors that a script ends with when stored data is not what it must be.
const DAMAGED: [&str; 2] = ["ERR", "WRONGTYPE"];

/// How Redis marks an error that was raised inside a script.
const IN_A_SCRIPT: &str = "user_script";

/// A command that failed. Whatever does not prove that the data is wrong may pass by itself: a
/// server that is full, loading, busy or gone.
pub(crate) fn of(error: &RedisError) -> StoreError {
    let code = error.code().unwrap_or_default();
    let detail = error.detail().unwrap_or_default();
    let in_script = error.to_string().contains(IN_A_SCRIPT);
    if code == REPLACED || code == "WRONGTYPE" || (DAMAGED.contains(&code) && in_script) {
        return StoreError::Corrupt(format!("redis: {code} {detail}"));
    }
    StoreError::Unavailable(format!("redis: {error}"))
}

pub(crate) fn corrupt(message: impl Into<String>) -> StoreError {
    StoreError::Corrupt(message.into())
}

pub(crate) fn unavailable(message: impl Into<String>) -> StoreError {
    StoreError::Unavailable(message.into())
}

pub(crate) fn unreadable(error: serde_json::Error) -> StoreError {
    corrupt(format!("a stored record does not parse: {error}"))
}
