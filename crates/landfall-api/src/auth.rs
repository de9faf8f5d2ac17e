//! Who is calling, and what they may do.
//!
//! **Rule:** keys are compared by digest, in constant time, with every key there is.
//! Not here: how often they may call (`limit`).

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use crate::config::{Auth, Scope};
use crate::error::ApiError;

const API_KEY: &str = "x-api-key";

/// Somebody who was let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller<'a> {
    /// Empty where no API keys are in use.
    pub tenant: &'a str,
    /// Position of the key in the configuration; 0 where no API keys are in use.
    pub key_index: usize,
}

/// Lets the sender of `headers` in, if it may do `scope`.
pub fn admit<'a>(
    auth: &'a Auth,
    headers: &HeaderMap,
    scope: Scope,
) -> Result<Caller<'a>, ApiError> {
    let keys = match auth {
        Auth::Off => return Ok(Caller { tenant: "", key_index: 0 }),
        Auth::Keys(keys) => keys,
    };
    let digest: [u8; 32] = Sha256::digest(presented(headers)?).into();
    let mut found = Choice::from(0);
    let mut index = 0u64;
    for (position, key) in keys.iter().enumerate() {
        let same = key.digest.ct_eq(&digest);
        index.conditional_assign(&(position as u64), same);
        found |= same;
    }
    if !bool::from(found) {
        return Err(ApiError::Unauthorized("the API key is not known here".into()));
    }
    let key_index = index as usize;
    let key = &keys[key_index];
    if !key.scopes.contains(&scope) {
        let name = scope.name();
        return Err(ApiError::Forbidden(format!("the API key lacks the scope \"{name}\"")));
    }
    Ok(Caller { tenant: &key.tenant, key_index })
}

/// The key as sent: by `X-API-Key`, or as a bearer token.
fn presented(headers: &HeaderMap) -> Result<&[u8], ApiError> {
    let plain = headers.get(API_KEY).map(|value| value.as_bytes());
    let bearer = headers.get(AUTHORIZATION).map(|value| bearer_token(value.as_bytes()));
    match (plain, bearer) {
        (None, Some(None)) => Err(ApiError::Unauthorized(
            "Authorization: must be \"Bearer\" and an API key".to_owned(),
        )),
        (Some(plain), Some(Some(bearer))) if plain != bearer => Err(ApiError::Unauthorized(
            "X-API-Key and Authorization name different API keys; send one".to_owned(),
        )),
        (Some(key), _) | (None, Some(Some(key))) => Ok(key),
        (None, None) => Err(ApiError::Unauthorized(
            "an API key is needed; send it as X-API-Key or as Authorization: Bearer".to_owned(),
        )),
    }
}

fn bearer_token(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked("Bearer ".len())?;
    let token = token.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"Bearer ") && !token.is_empty()).then_some(token)
}
