//! An endpoint's address, which often carries a credential.
//!
//! Providers put their API keys into the path, the query or the user part. So the whole text can be
//! had only by [`Url::expose`], for the transport; `Debug` and `Display` show scheme, host and
//! port.

use std::fmt;

use http::Uri;

/// A well-formed `http` or `https` address.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    whole: String,
    origin: String,
}

/// Why a text is no address. Never repeats the text: it may hold a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    #[error("is not a URL")]
    Malformed,
    #[error("must begin with http:// or https://")]
    Scheme,
    #[error("has no host")]
    Host,
}

impl Url {
    pub fn parse(text: &str) -> Result<Self, BadUrl> {
        let text = text.trim();
        let uri: Uri = text.parse().map_err(|_| BadUrl::Malformed)?;
        let scheme = match uri.scheme_str() {
            Some(scheme @ ("http" | "https")) => scheme,
            _ => return Err(BadUrl::Scheme),
        };
        let host = uri.host().filter(|host| !host.is_empty()).ok_or(BadUrl::Host)?;
        let origin = match uri.port_u16() {
            Some(port) => format!("{scheme}://{host}:{port}"),
            None => format!("{scheme}://{host}"),
        };
        Ok(Self { whole: text.to_owned(), origin })
    }

    /// Scheme, host and port: what may be logged.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The whole text, credentials included. For the transport alone.
    pub fn expose(&self) -> &str {
        &self.whole
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin)
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Url({})", self.origin)
    }
}
