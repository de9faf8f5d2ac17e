//! A service behind HTTP.
//!
//! ```text
//!  POST {base}/withdraw, {base}/deposit    {"req_id", "user_id", "asset_id", "amount"}
//!  POST {base}/commit, {base}/rollback     {"req_id"}
//!  GET  {base}/operations/{req_id}/{operation}
//!  GET  {base}/contract, {base}/users/{user_id}    optional
//! ```
//!
//! **Invariant:** one call is one request; nothing here repeats anything.
//! **Invariant:** of the address only scheme, host and port are ever shown, of the credential
//! nothing.
//! Not here: what an answer says (`sort`), sockets (`landfall_rpc::HttpTransport`).

mod settings;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use landfall_core::Clock;
use landfall_core::rail::{EndpointHealth, RailError};
use landfall_rpc::{HttpAnswer, Service, Silence, Transport, Url};
use serde::{Deserialize, Serialize};

use crate::adapter::{Answer, Leg, Operation, ServiceAdapter, Standing};
use crate::sort;

pub use settings::{BadSettings, HttpSettings, Paths};

/// Patience for questions that somebody waits for and that need not be answered.
const OPTIONAL_TIMEOUT: Duration = Duration::from_millis(500);

/// One service, called over HTTP.
pub struct HttpService {
    settings: HttpSettings,
    /// In the order of [`Operation::ALL`].
    operations: [Url; 4],
    service: Service,
}

#[derive(Serialize)]
struct LegBody<'a> {
    req_id: &'a str,
    user_id: u64,
    asset_id: u32,
    amount: u64,
}

#[derive(Serialize)]
struct IdBody<'a> {
    req_id: &'a str,
}

/// What a service says of itself.
#[derive(Debug, Deserialize)]
struct Contract {
    name: String,
    freezes: bool,
    dedupe_window_s: Option<u64>,
}

#[derive(Deserialize)]
struct User {
    known: bool,
}

impl HttpService {
    pub fn new(
        settings: HttpSettings,
        transport: Arc<dyn Transport>,
        clock: Arc<dyn Clock>,
    ) -> Result<HttpService, BadSettings> {
        let operations = settings.checked()?;
        let HttpSettings { name, base, auth, timeout, breaker, .. } = settings.clone();
        let service = Service::new((name, base, auth), timeout, breaker, transport, clock);
        Ok(HttpService { settings, operations, service })
    }

    async fn operate(&self, operation: Operation, body: &impl Serialize) -> Answer {
        // Only a map with keys that are no strings can fail to serialize.
        let body = Bytes::from(serde_json::to_vec(body).unwrap_or_default());
        let url = self.operations[operation as usize].clone();
        let answer = self.service.post(url, body, |answer| {
            match sort::operation(answer.status, &answer.body) {
                Answer::Pending { kind, message } if is_trouble(kind) => Err((kind, message)),
                sorted => Ok(sorted),
            }
        });
        match answer.await {
            Ok(Answer::Refused(why)) => Answer::Refused(self.service.shown(&why)),
            Ok(Answer::Pending { kind, message }) => {
                Answer::Pending { kind, message: self.service.shown(&message) }
            }
            Ok(Answer::Done) => Answer::Done,
            Err((kind, message)) => Answer::Pending { kind, message },
        }
    }

    /// A question that a service need not answer: that it does not is no trouble.
    async fn ask_optional(&self, path: &str, timeout: Duration) -> Result<HttpAnswer, Silence> {
        let read = |answer: HttpAnswer| match sort::query(answer.status, &answer.body) {
            Standing::NoAnswer { kind, message } if is_outage(kind) => Err((kind, message)),
            _ => Ok(answer),
        };
        self.service.ask(path, timeout, read).await
    }

    /// Whether the service says the same of itself as the configuration does.
    fn agrees(&self, said: &Contract) -> Result<String, RailError> {
        let HttpSettings { name, freezes, dedupe_window_ms, .. } = &self.settings;
        let wrong = |what: String| Err(RailError::Misconfigured(format!("{name}: {what}")));
        if said.name != *name {
            let named = self.service.shown(&said.name);
            return wrong(format!(
                "the service there calls itself {named:?}; mend name or address"
            ));
        }
        if said.freezes != *freezes {
            let said = said.freezes;
            return wrong(format!("the service says freezes = {said}; set the same here"));
        }
        let window_ms = said.dedupe_window_s.map(|seconds| seconds.saturating_mul(1_000));
        let trusted_too_long = match (window_ms, dedupe_window_ms) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(said_ms), Some(set_ms)) => said_ms < *set_ms,
        };
        if trusted_too_long {
            let said_s = said.dedupe_window_s.unwrap_or_default();
            return wrong(format!("the service remembers only {said_s} s; set no more here"));
        }
        Ok(format!("{name} at {}: agrees with its contract", self.settings.base))
    }
}

/// Which doubts the breaker counts: all but those of a service that is well.
fn is_trouble(kind: &str) -> bool {
    ![sort::kind::IN_PROGRESS, sort::kind::CONFLICT].contains(&kind)
}

/// Those of them that a service gives whether it has the route or not.
fn is_outage(kind: &str) -> bool {
    use sort::kind::{RATE_LIMITED, SERVER_ERROR, TIMEOUT, UNAUTHORIZED};
    [UNAUTHORIZED, TIMEOUT, RATE_LIMITED, SERVER_ERROR].contains(&kind)
}

#[async_trait]
impl ServiceAdapter for HttpService {
    fn name(&self) -> &str {
        &self.settings.name
    }

    fn freezes(&self) -> bool {
        self.settings.freezes
    }

    fn commits(&self) -> bool {
        self.settings.freezes || self.settings.commits
    }

    fn dedupe_window_ms(&self) -> Option<u64> {
        self.settings.dedupe_window_ms
    }

    async fn withdraw(&self, Leg { req_id, user_id, asset_id, amount }: Leg<'_>) -> Answer {
        let body = LegBody { req_id, user_id, asset_id, amount };
        self.operate(Operation::Withdraw, &body).await
    }

    async fn deposit(&self, Leg { req_id, user_id, asset_id, amount }: Leg<'_>) -> Answer {
        let body = LegBody { req_id, user_id, asset_id, amount };
        self.operate(Operation::Deposit, &body).await
    }

    async fn commit(&self, req_id: &str) -> Answer {
        self.operate(Operation::Commit, &IdBody { req_id }).await
    }

    async fn rollback(&self, req_id: &str) -> Answer {
        self.operate(Operation::Rollback, &IdBody { req_id }).await
    }

    async fn query(&self, req_id: &str, operation: Operation) -> Standing {
        let path = self.settings.paths.query_of(req_id, operation);
        let standing = self.service.ask(&path, self.settings.timeout, |answer| {
            match sort::query(answer.status, &answer.body) {
                Standing::NoAnswer { kind, message } if is_trouble(kind) => Err((kind, message)),
                sorted => Ok(sorted),
            }
        });
        match standing.await {
            Ok(Standing::Refused(why)) => Standing::Refused(self.service.shown(&why)),
            Ok(Standing::NoAnswer { kind, message }) => {
                Standing::NoAnswer { kind, message: self.service.shown(&message) }
            }
            Ok(known) => known,
            Err((kind, message)) => Standing::NoAnswer { kind, message },
        }
    }

    async fn knows_user(&self, user_id: u64) -> Option<bool> {
        let path = self.settings.paths.user_of(user_id)?;
        let timeout = OPTIONAL_TIMEOUT.min(self.settings.timeout);
        let answer = self.ask_optional(&path, timeout).await.ok();
        let answer = answer.filter(|answer| answer.status == 200)?;
        serde_json::from_slice(&answer.body).ok().map(|User { known }| known)
    }

    fn health(&self) -> EndpointHealth {
        self.service.health()
    }

    async fn check(&self) -> Result<String, RailError> {
        let (name, base) = (&self.settings.name, &self.settings.base);
        let Some(path) = self.settings.paths.contract.clone() else {
            return Ok(format!("{name} at {base}: not asked, its contract has no path"));
        };
        let asked = self.ask_optional(&path, self.settings.timeout);
        let answer = asked.await.map_err(|(kind, message)| {
            let what = format!("{name} at {base}: {message}");
            match kind == sort::kind::UNAUTHORIZED {
                true => RailError::Misconfigured(format!("{what}; is the auth header right?")),
                false => RailError::Unavailable(what),
            }
        })?;
        match (answer.status, serde_json::from_slice::<Contract>(&answer.body)) {
            (200, Ok(said)) => self.agrees(&said),
            (404, _) => Ok(format!("{name} at {base}: answers, and publishes no contract")),
            (status, _) => Err(RailError::Unavailable(format!(
                "{name} at {base}: HTTP {status} and no contract; is the address right?"
            ))),
        }
    }
}

#[cfg(test)]
mod tests;
