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
use landfall_rpc::{
    Breaker, BreakerState, Header, HttpAnswer, HttpRequest, Method, Transport, TransportError, Url,
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::adapter::{Answer, Leg, Operation, ServiceAdapter, Standing};
use crate::sort;

pub use settings::{BadSettings, HttpSettings, Paths};

/// Characters of a service's own words that are kept: they go into the trail of every transfer.
const WORDS_CHARS_MAX: usize = 300;

/// Patience for questions that somebody waits for and that need not be answered.
const OPTIONAL_TIMEOUT: Duration = Duration::from_millis(500);

/// Kinds of doubt when there is no answer at all.
mod kind {
    pub const BREAKER_OPEN: &str = "breaker_open";
    pub const UNREACHABLE: &str = "unreachable";
    pub const NO_ANSWER: &str = "no_answer";
}

/// One service, called over HTTP.
pub struct HttpService {
    settings: HttpSettings,
    /// In the order of [`Operation::ALL`].
    operations: [Url; 4],
    transport: Arc<dyn Transport>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

struct State {
    breaker: Breaker,
    calls: u64,
    errors: u64,
    latency_total_ms: u64,
    /// Why the last call failed; none if it did not.
    trouble: Option<String>,
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

/// No answer, with the kind and the words of it.
type Silence = (&'static str, String);

impl HttpService {
    pub fn new(
        settings: HttpSettings,
        transport: Arc<dyn Transport>,
        clock: Arc<dyn Clock>,
    ) -> Result<HttpService, BadSettings> {
        let operations = settings.checked()?;
        let state = State {
            breaker: Breaker::new(settings.breaker),
            calls: 0,
            errors: 0,
            latency_total_ms: 0,
            trouble: None,
        };
        Ok(HttpService { settings, operations, transport, clock, state: Mutex::new(state) })
    }

    async fn operate(&self, operation: Operation, body: &impl Serialize) -> Answer {
        // Only a map with keys that are no strings can fail to serialize.
        let body = Bytes::from(serde_json::to_vec(body).unwrap_or_default());
        let url = self.operations[operation as usize].clone();
        let request = self.request(Method::Post, url, body);
        let answer =
            self.exchange(request, self.settings.timeout, |answer| {
                match sort::operation(answer.status, &answer.body) {
                    Answer::Pending { kind, message } if is_trouble(kind) => Err((kind, message)),
                    sorted => Ok(sorted),
                }
            });
        match answer.await {
            Ok(Answer::Refused(why)) => Answer::Refused(self.shown(&why)),
            Ok(Answer::Pending { kind, message }) => {
                Answer::Pending { kind, message: self.shown(&message) }
            }
            Ok(Answer::Done) => Answer::Done,
            Err((kind, message)) => Answer::Pending { kind, message },
        }
    }

    /// A question below the base address.
    async fn ask<T>(
        &self,
        path: &str,
        timeout: Duration,
        read: impl FnOnce(HttpAnswer) -> Result<T, Silence>,
    ) -> Result<T, Silence> {
        let url = self.settings.base.join(path);
        let url = url.map_err(|error| (kind::UNREACHABLE, format!("the path {error}")))?;
        self.exchange(self.request(Method::Get, url, Bytes::new()), timeout, read).await
    }

    /// A question that a service need not answer: that it does not is no trouble.
    async fn ask_optional(&self, path: &str, timeout: Duration) -> Result<HttpAnswer, Silence> {
        let read = |answer: HttpAnswer| match sort::query(answer.status, &answer.body) {
            Standing::NoAnswer { kind, message } if is_outage(kind) => Err((kind, message)),
            _ => Ok(answer),
        };
        self.ask(path, timeout, read).await
    }

    fn request(&self, method: Method, url: Url, body: Bytes) -> HttpRequest {
        let headers: Vec<Header> = self.settings.auth.iter().cloned().collect();
        HttpRequest { method, url, headers, body }
    }

    /// One request, if the breaker lets it through. What `read` calls an error is one of the
    /// service's to the breaker.
    async fn exchange<T>(
        &self,
        request: HttpRequest,
        timeout: Duration,
        read: impl FnOnce(HttpAnswer) -> Result<T, Silence>,
    ) -> Result<T, Silence> {
        let begun_ms = self.clock.monotonic_ms();
        if !self.admitted(begun_ms) {
            let message = "not called: it failed too often a moment ago".to_owned();
            return Err((kind::BREAKER_OPEN, message));
        }
        let mut admitted = Admitted { service: self, reported: false };
        let answer = match self.transport.call(request, timeout).await {
            Ok(answer) => read(answer),
            Err(TransportError::NotSent(why)) => Err((kind::UNREACHABLE, why)),
            Err(TransportError::Unsure(why)) => Err((kind::NO_ANSWER, why)),
        };
        let answer = answer.map_err(|(kind, message)| (kind, self.shown(&message)));
        if let Err((kind::NO_ANSWER, _)) = answer
            && timeout < self.settings.timeout
        {
            // Our impatience says nothing of the service.
            return answer;
        }
        let trouble = answer.as_ref().err().map(|(_, message)| message.clone());
        if let Some(error) = &trouble {
            let (service, endpoint) = (&self.settings.name, &self.settings.base);
            tracing::debug!(service, %endpoint, error, "a service did not answer");
        }
        admitted.report(trouble, begun_ms, self.clock.monotonic_ms());
        answer
    }

    fn admitted(&self, now_ms: u64) -> bool {
        let mut state = self.state.lock();
        // There is nobody else to ask: single calls find out when the service is back.
        state.breaker.admit(now_ms) || state.breaker.probe(now_ms)
    }

    /// A service's own words as they may be kept: short, on one line, without the credential.
    fn shown(&self, words: &str) -> String {
        let words = match &self.settings.auth {
            Some(auth) => auth.hide(words),
            None => words.to_owned(),
        };
        let plain = words.chars().map(|char| if char.is_control() { ' ' } else { char });
        plain.take(WORDS_CHARS_MAX).collect::<String>().trim().to_owned()
    }

    /// Whether the service says the same of itself as the configuration does.
    fn agrees(&self, said: &Contract) -> Result<String, RailError> {
        let HttpSettings { name, freezes, dedupe_window_ms, .. } = &self.settings;
        let wrong = |what: String| Err(RailError::Misconfigured(format!("{name}: {what}")));
        if said.name != *name {
            let named = self.shown(&said.name);
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

/// A call that the breaker waits to hear of. Dropped with its future, it is reported as abandoned.
struct Admitted<'a> {
    service: &'a HttpService,
    reported: bool,
}

impl Admitted<'_> {
    fn report(&mut self, trouble: Option<String>, begun_ms: u64, now_ms: u64) {
        self.reported = true;
        let mut state = self.service.state.lock();
        state.calls += 1;
        let latency_ms = now_ms.saturating_sub(begun_ms);
        state.latency_total_ms = state.latency_total_ms.saturating_add(latency_ms);
        match trouble {
            Some(_) => {
                state.errors += 1;
                state.breaker.failed(now_ms);
            }
            None => state.breaker.succeeded(),
        }
        state.trouble = trouble;
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        if !self.reported {
            self.service.state.lock().breaker.abandoned();
        }
    }
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
        let standing = self.ask(&path, self.settings.timeout, |answer| {
            match sort::query(answer.status, &answer.body) {
                Standing::NoAnswer { kind, message } if is_trouble(kind) => Err((kind, message)),
                sorted => Ok(sorted),
            }
        });
        match standing.await {
            Ok(Standing::Refused(why)) => Standing::Refused(self.shown(&why)),
            Ok(Standing::NoAnswer { kind, message }) => {
                Standing::NoAnswer { kind, message: self.shown(&message) }
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
        let state = self.state.lock();
        let breaker = state.breaker.state();
        let how = match (breaker, &state.trouble) {
            (BreakerState::Open, _) => "breaker open",
            (BreakerState::HalfOpen, _) => "breaker half open",
            (BreakerState::Closed, Some(_)) => "failed a moment ago",
            (BreakerState::Closed, None) => "ok",
        };
        let trouble = state.trouble.as_ref().map_or(String::new(), |why| format!(": {why}"));
        EndpointHealth {
            endpoint: self.settings.base.origin().to_owned(),
            up: breaker == BreakerState::Closed && state.trouble.is_none(),
            detail: format!("{}: {how}{trouble}", self.settings.name),
            calls: state.calls,
            errors: state.errors,
            breaker_open: breaker == BreakerState::Open,
            mean_latency_ms: state.latency_total_ms as f64 / state.calls.max(1) as f64,
            caught: None,
        }
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
