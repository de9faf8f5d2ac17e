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

    /// The address of a path below this one. A query stays at the end.
    pub fn join(&self, path: &str) -> Result<Self, BadUrl> {
        let (base, query) = match self.whole.split_once('?') {
            Some((base, query)) => (base, Some(query)),
            None => (self.whole.as_str(), None),
        };
        let (base, path) = (base.trim_end_matches('/'), path.trim_start_matches('/'));
        match query {
            Some(query) => {
                let mark = if path.contains('?') { '&' } else { '?' };
                Self::parse(&format!("{base}/{path}{mark}{query}"))
            }
            None => Self::parse(&format!("{base}/{path}")),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_goes_below_the_base_and_before_its_query() {
        let check = |base: &str, path: &str, whole: &str| {
            let joined = Url::parse(base).and_then(|base| base.join(path)).expect("a URL");
            assert_eq!(joined.expose(), whole);
        };
        check("http://host:1", "/withdraw", "http://host:1/withdraw");
        check("http://host:1/", "withdraw", "http://host:1/withdraw");
        check("http://u:p@host/v1/", "/a/b", "http://u:p@host/v1/a/b");
        check("https://host/v1?key=1", "/a", "https://host/v1/a?key=1");
        check("https://host/v1?key=1", "/a?b=2", "https://host/v1/a?b=2&key=1");
        let base = Url::parse("http://host").expect("a URL");
        assert_eq!(base.join("/a b"), Err(BadUrl::Malformed));
    }
}
