//! A relayer's settings, with the reason of each default.

use std::time::Duration;

use alloy_primitives::Address;
use landfall_rpc::{BadHeader, BadUrl, BreakerSettings, Header, Url};

/// Where a relayer's routes are, below its base address, and how its answers look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routes {
    pub submit: String,
    /// With `{id}` where the transaction's belongs.
    pub transaction: String,
    /// Where its transactions are listed by `page` and `per_page`; none if it lists none: then
    /// nothing can be adopted after an answer that was lost.
    pub list: Option<String>,
    pub health: String,
    /// Where it tells its own address on the chain; none if it does not.
    pub about: Option<String>,
    pub shape: Shape,
}

/// What bodies and answers look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// `{success, data, error}`, as OpenZeppelin Relayer has it since 1.0.
    Enveloped,
    /// `{transactionId, hash, status}`, as services in front of it have it.
    Bare,
}

impl Routes {
    /// Those of OpenZeppelin Relayer 1.8, of one of the relayers that it holds.
    pub fn openzeppelin(relayer_id: &str) -> Routes {
        let about = format!("/api/v1/relayers/{relayer_id}");
        let base = format!("{about}/transactions");
        Routes {
            about: Some(about),
            transaction: format!("{base}/{{id}}"),
            list: Some(base.clone()),
            submit: base,
            health: "/api/v1/health".to_owned(),
            shape: Shape::Enveloped,
        }
    }

    /// Those of a service in front of it, which lists nothing.
    pub fn bare() -> Routes {
        Routes {
            submit: "/api/v1/relay/direct".to_owned(),
            transaction: "/api/v1/txs/{id}".to_owned(),
            list: None,
            health: "/api/v1/health".to_owned(),
            about: None,
            shape: Shape::Bare,
        }
    }
}

/// How one relayer is reached.
#[derive(Debug, Clone)]
pub struct RelayerSettings {
    /// By which stored attempts name it: MUST stay the same for the same relayer.
    pub name: String,
    pub base: Url,
    pub routes: Routes,
    /// A credential for every request.
    pub auth: Option<Header>,
    /// From which it signs, where it does not tell: calls are tried in its name.
    pub address: Option<Address>,
    /// Patience for one call. Half a minute: a relayer that waits for its own node answers later
    /// than one that is well, and whoever gives up too early has to search.
    pub timeout: Duration,
    pub breaker: BreakerSettings,
}

impl RelayerSettings {
    pub fn new(name: impl Into<String>, base: Url, routes: Routes) -> RelayerSettings {
        RelayerSettings {
            name: name.into(),
            base,
            routes,
            auth: None,
            address: None,
            timeout: Duration::from_secs(30),
            breaker: BreakerSettings::default(),
        }
    }

    /// The same with its API key, in the header in which it wants it.
    pub fn with_key(self, key: &str) -> Result<RelayerSettings, BadHeader> {
        let auth = match self.routes.shape {
            Shape::Enveloped => Header::new("authorization", &format!("Bearer {key}")),
            Shape::Bare => Header::new("x-api-key", key),
        };
        Ok(RelayerSettings { auth: Some(auth?), ..self })
    }

    /// The address of the POST, once all paths are known to be such.
    pub(super) fn checked(&self) -> Result<Url, BadRelayer> {
        let Routes { submit, transaction, list, health, about, .. } = &self.routes;
        if !transaction.contains("{id}") {
            return Err(BadRelayer::Transaction);
        }
        if self.timeout.is_zero() {
            return Err(BadRelayer::Timeout);
        }
        let join =
            |name, path: &str| self.base.join(path).map_err(|error| BadRelayer::Path(name, error));
        join("transaction", &transaction.replace("{id}", "0"))?;
        join("health", health)?;
        if let Some(list) = list {
            join("list", list)?;
        }
        if let Some(about) = about {
            join("about", about)?;
        }
        join("submit", submit)
    }
}

/// A mistake in the settings, for the configuration to name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRelayer {
    #[error("the path of {0} {1}")]
    Path(&'static str, BadUrl),
    #[error("the path of transaction must hold {{id}}")]
    Transaction,
    #[error("a timeout must be more than 0")]
    Timeout,
    #[error("at least one relayer is needed, each under a name of its own")]
    Names,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(routes: Routes) -> RelayerSettings {
        RelayerSettings::new("one", Url::parse("http://host").expect("a URL"), routes)
    }

    #[test]
    fn a_key_is_shown_in_the_header_in_which_it_is_wanted() {
        let header = |routes| {
            let auth = settings(routes).with_key("hunter2").expect("a key").auth;
            auth.map(|auth| (auth.name().to_owned(), auth.expose().to_owned()))
        };
        let bearer = ("authorization".to_owned(), "Bearer hunter2".to_owned());
        assert_eq!(header(Routes::openzeppelin("one")), Some(bearer));
        assert_eq!(header(Routes::bare()), Some(("x-api-key".to_owned(), "hunter2".to_owned())));
        assert!(settings(Routes::bare()).with_key("").is_err());
    }

    #[test]
    fn a_path_that_is_none_is_told_by_its_name() {
        let check = |change: fn(&mut Routes), expected: BadRelayer| {
            let mut routes = Routes::openzeppelin("one");
            change(&mut routes);
            assert_eq!(settings(routes).checked(), Err(expected));
        };
        let malformed = |name| BadRelayer::Path(name, BadUrl::Malformed);
        check(|routes| routes.submit = "/a b".to_owned(), malformed("submit"));
        check(|routes| routes.list = Some("/a b".to_owned()), malformed("list"));
        check(|routes| routes.about = Some("/a b".to_owned()), malformed("about"));
        check(|routes| routes.health = "/a b".to_owned(), malformed("health"));
        check(|routes| routes.transaction = "/txs".to_owned(), BadRelayer::Transaction);
        let hasty = RelayerSettings { timeout: Duration::ZERO, ..settings(Routes::bare()) };
        assert_eq!(hasty.checked(), Err(BadRelayer::Timeout));
    }
}
