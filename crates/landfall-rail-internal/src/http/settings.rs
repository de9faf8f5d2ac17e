//! A service's settings, with the reason of each default.

use std::time::Duration;

use landfall_rpc::{BadUrl, BreakerSettings, Header, Url};

use crate::adapter::Operation;
use crate::verdict::margin_ms;

/// Calls that a repetition needs, one after the other: the query and the call itself.
const CALLS_OF_A_REPETITION: u32 = 2;

/// Where a service's routes are, below its base address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    pub withdraw: String,
    pub deposit: String,
    pub commit: String,
    pub rollback: String,
    /// With `{req_id}` and `{operation}` where they belong.
    pub query: String,
    /// What the service says of itself; none if it says nothing.
    pub contract: Option<String>,
    /// With `{user_id}` where it belongs; none if the service cannot tell who is known.
    pub user: Option<String>,
}

impl Default for Paths {
    fn default() -> Paths {
        Paths {
            withdraw: "/withdraw".to_owned(),
            deposit: "/deposit".to_owned(),
            commit: "/commit".to_owned(),
            rollback: "/rollback".to_owned(),
            query: "/operations/{req_id}/{operation}".to_owned(),
            contract: Some("/contract".to_owned()),
            user: Some("/users/{user_id}".to_owned()),
        }
    }
}

impl Paths {
    fn of(&self, operation: Operation) -> &str {
        match operation {
            Operation::Withdraw => &self.withdraw,
            Operation::Deposit => &self.deposit,
            Operation::Commit => &self.commit,
            Operation::Rollback => &self.rollback,
        }
    }

    pub(super) fn query_of(&self, req_id: &str, operation: Operation) -> String {
        self.query.replace("{req_id}", req_id).replace("{operation}", operation.name())
    }

    pub(super) fn user_of(&self, user_id: u64) -> Option<String> {
        Some(self.user.as_ref()?.replace("{user_id}", &user_id.to_string()))
    }
}

/// How one service is called, and what it promises.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// As in orders.
    pub name: String,
    pub base: Url,
    pub paths: Paths,
    /// A credential for every request.
    pub auth: Option<Header>,
    /// Patience for one call. Ten seconds: a service that commits to a database answers within one,
    /// or is in trouble.
    pub timeout: Duration,
    /// Whether it freezes what is withdrawn until the commit.
    pub freezes: bool,
    /// Whether it has a commit. A service that freezes must; the contract wants one of the others
    /// too, so that they know which withdrawals can no longer be undone.
    pub commits: bool,
    /// For how long it remembers operations; none: for ever. There is no default: an answer that is
    /// too long pays twice.
    pub dedupe_window_ms: Option<u64>,
    pub breaker: BreakerSettings,
}

/// A mistake in the settings, for the configuration to name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSettings {
    #[error("the path of {0} {1}")]
    Path(&'static str, BadUrl),
    #[error("the path of query must hold {{req_id}} and {{operation}}")]
    Query,
    #[error("the path of user must hold {{user_id}}")]
    User,
    #[error("a timeout must be more than 0")]
    Timeout,
    #[error(
        "a dedupe window of {window_ms} ms leaves no time to repeat a call of {timeout_ms} ms; \
         shorten the timeout, or lengthen the window at the service"
    )]
    Window { window_ms: u64, timeout_ms: u64 },
}

impl HttpSettings {
    pub fn new(
        name: impl Into<String>,
        base: Url,
        freezes: bool,
        dedupe_window_ms: Option<u64>,
    ) -> HttpSettings {
        HttpSettings {
            name: name.into(),
            base,
            paths: Paths::default(),
            auth: None,
            timeout: Duration::from_secs(10),
            freezes,
            commits: true,
            dedupe_window_ms,
            breaker: BreakerSettings::default(),
        }
    }

    /// The addresses of the operations, in the order of [`Operation::ALL`].
    pub(super) fn checked(&self) -> Result<[Url; 4], BadSettings> {
        let (paths, nobody) = (&self.paths, "00000000-0000-0000-0000-000000000000");
        if !paths.query.contains("{req_id}") || !paths.query.contains("{operation}") {
            return Err(BadSettings::Query);
        }
        if paths.user.as_ref().is_some_and(|path| !path.contains("{user_id}")) {
            return Err(BadSettings::User);
        }
        let join =
            |name, path: &str| self.base.join(path).map_err(|error| BadSettings::Path(name, error));
        join("query", &paths.query_of(nobody, Operation::Withdraw))?;
        if let Some(path) = &paths.contract {
            join("contract", path)?;
        }
        if let Some(path) = paths.user_of(0) {
            join("user", &path)?;
        }
        if self.timeout.is_zero() {
            return Err(BadSettings::Timeout);
        }
        // A repetition that begins at the last moment must arrive before the service forgets.
        if let Some(window_ms) = self.dedupe_window_ms {
            let timeout_ms = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
            let needed_ms = timeout_ms.saturating_mul(u64::from(CALLS_OF_A_REPETITION));
            let margin_ms = margin_ms(window_ms);
            if needed_ms > margin_ms || window_ms <= margin_ms {
                return Err(BadSettings::Window { window_ms, timeout_ms });
            }
        }
        let [withdraw, deposit, commit, rollback] =
            Operation::ALL.map(|operation| join(operation.name(), paths.of(operation)));
        Ok([withdraw?, deposit?, commit?, rollback?])
    }
}
