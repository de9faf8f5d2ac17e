//! Keys and claims that another request has: what its sender is told.

use landfall_core::ClaimKey;

use crate::error::ApiError;

/// A part of a request, and what stands in it.
pub type Part = (&'static str, Option<String>);

/// Says what of the request another one has.
pub fn claimed(key: &ClaimKey) -> ApiError {
    ApiError::Conflict(format!("{} {:?} is taken by another request", key.space, key.key))
}

/// Says which parameters are others than those stored under the key.
pub fn conflict(key: &str, stored: Vec<Part>, asked: Vec<Part>) -> ApiError {
    let both = stored.into_iter().zip(asked);
    let differing: Vec<&str> = both.filter(|(old, new)| old != new).map(|(old, _)| old.0).collect();
    ApiError::Conflict(format!(
        "idempotency key {key:?} was used for a transfer with another {}; \
         a new transfer needs a new key",
        differing.join(" and ")
    ))
}
