//! A relayer's settings, with the reason of each default.

use std::time::Duration;

use alloy_primitives::Address;
use landfall_rpc::{BadUrl, BreakerSettings, Header, Url};

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
