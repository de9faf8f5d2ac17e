//! A header of a request, which mostly carries a credential.
//!
//! **Rule:** its value can be had only by [`Header::expose`], for the transport; `Debug` shows the
//! name alone, and [`Header::hide`] takes the value out of what a service echoes.

use std::fmt;

use http::{HeaderName, HeaderValue};

/// Shorter words are no secrets, and would be found everywhere.
const SECRET_CHARS_MIN: usize = 4;
/// Stands where a secret was.
const HIDDEN: &str = "[hidden]";

/// A well-formed name and value.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    name: HeaderName,
    value: HeaderValue,
}

/// Why a text is no header. Never repeats the value: it may be a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHeader {
    #[error("is not a header's name")]
    Name,
    #[error("cannot be a header's value: only visible ASCII characters and spaces can")]
    Value,
}

impl Header {
    pub fn new(name: &str, value: &str) -> Result<Self, BadHeader> {
        let name = name.trim().parse().map_err(|_| BadHeader::Name)?;
        let value = value.trim();
        let mut value = HeaderValue::from_str(value).map_err(|_| BadHeader::Value)?;
        value.set_sensitive(true);
        match value.to_str() {
            Ok(text) if !text.is_empty() => Ok(Self { name, value }),
            _ => Err(BadHeader::Value),
        }
    }

    /// In lower case, as on the wire.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The value, for the transport alone.
    pub fn expose(&self) -> &str {
        self.value.to_str().unwrap_or_default()
    }

    pub(crate) fn parts(&self) -> (HeaderName, HeaderValue) {
        (self.name.clone(), self.value.clone())
    }

    /// A service's own words without the secret, whole or after its scheme (`Bearer`, `Basic`).
    pub fn hide(&self, text: &str) -> String {
        let whole = self.expose();
        let token = whole.rsplit(' ').next().unwrap_or(whole);
        [whole, token]
            .into_iter()
            .filter(|secret| secret.len() >= SECRET_CHARS_MIN)
            .fold(text.to_owned(), |text, secret| text.replace(secret, HIDDEN))
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Header({}: {HIDDEN})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_never_shows_its_value() {
        let header = Header::new("Authorization", "Bearer hunter2").expect("a header");
        assert_eq!(header.name(), "authorization");
        assert_eq!(header.expose(), "Bearer hunter2");
        assert!(!format!("{header:?}").contains("hunter2"));
        assert_eq!(header.hide("no hunter2, no Bearer hunter2"), "no [hidden], no [hidden]");
    }

    #[test]
    fn what_cannot_go_on_the_wire_is_refused() {
        assert_eq!(Header::new("a b", "x"), Err(BadHeader::Name));
        assert_eq!(Header::new("", "x"), Err(BadHeader::Name));
        for value in ["", "  ", "a\r\nb: c", "\u{1}", "ü"] {
            assert_eq!(Header::new("x-key", value), Err(BadHeader::Value), "{value:?}");
        }
    }
}
