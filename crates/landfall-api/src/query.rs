//! Reading query strings: known names, each given once, with their values' formats.

use std::borrow::Cow;
use std::time::Duration;

use jiff::Timestamp;

use crate::error::ApiError;

/// Longest long poll: below the idle limits of common proxies.
pub const WAIT_MAX: Duration = Duration::from_secs(60);

/// The parameters of one request.
pub struct Query<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> Query<'a> {
    /// Refuses names that are not `known`: a filter with a slip in its name would show everything.
    pub fn parse(query: Option<&'a str>, known: &[&str]) -> Result<Query<'a>, ApiError> {
        let pairs: Vec<_> = form_urlencoded::parse(query.unwrap_or_default().as_bytes()).collect();
        for (position, (name, _)) in pairs.iter().enumerate() {
            if !known.contains(&name.as_ref()) {
                return Err(ApiError::Bad(format!(
                    "{:?}: is not a query parameter here; there is {}",
                    name.chars().take(40).collect::<String>(),
                    known.join(", ")
                )));
            }
            if pairs[..position].iter().any(|(before, _)| before == name) {
                return Err(ApiError::bad(name, "is given twice"));
            }
        }
        Ok(Query { pairs })
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_ref())
    }

    /// A point in time, as milliseconds since the Unix epoch; whatever was before it is its start.
    pub fn time_ms(&self, name: &str) -> Result<Option<u64>, ApiError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let wrong =
            || ApiError::bad(name, "must be a time such as 2025-10-10T10:00:00Z (RFC 3339)");
        let time: Timestamp = text.parse().map_err(|_| wrong())?;
        Ok(Some(u64::try_from(time.as_millisecond()).unwrap_or(0)))
    }

    pub fn is_true(&self, name: &str) -> Result<bool, ApiError> {
        match self.get(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(ApiError::bad(name, "must be true or false")),
        }
    }

    /// A patience such as `30s`, `500ms` or `30` (seconds).
    pub fn patience(&self, name: &str) -> Result<Duration, ApiError> {
        let Some(text) = self.get(name) else { return Ok(Duration::ZERO) };
        let (digits, unit_ms) = match text.strip_suffix("ms") {
            Some(digits) => (digits, 1),
            None => (text.strip_suffix('s').unwrap_or(text), 1_000),
        };
        let number = match digits.bytes().all(|byte| byte.is_ascii_digit()) {
            true => digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_ms)),
            false => None,
        };
        match number.map(Duration::from_millis) {
            Some(patience) if patience <= WAIT_MAX => Ok(patience),
            _ => Err(ApiError::bad(name, "must be a time such as 30s or 500ms, at most 60s")),
        }
    }
}
