//! Several nodes of one ledger, and which of them to ask.
//!
//! ```text
//!  call       one read, failing over on technical errors     any endpoint
//!  call_on    one question to one endpoint                   the one named
//!  call_each  one question to all of them at once            every answer, with who gave it
//!  send_once  one broadcast, one POST                        chosen by the rotation number
//! ```
//!
//! **Rule:** `send_once` goes on to the next endpoint only when nothing can have left the process.
//! **Rule:** the first choice is among the healthy, round robin; endpoints that failed a moment ago
//! come after them, those that were caught contradicting a quorum last, and endpoints whose breaker
//! is open not at all.
//! Not here: sockets ([`crate::Transport`]), thresholds ([`crate::Breaker`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use landfall_core::clock::Clock;
use landfall_core::guard::{self, Guard};
use landfall_core::rail::Caught;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::breaker::{Breaker, BreakerSettings, BreakerState};
use crate::{RpcError, Transport, Url, error};

/// How long an endpoint is asked last after a failure, in milliseconds: long enough that the next
/// calls go elsewhere, short enough that it is tried again soon.
const COOLING_MS: u64 = 2_000;

/// How long an endpoint is asked last after it was caught, in milliseconds: it may have been mended
/// since, but whoever serves lies is not asked first again within minutes.
const CAUGHT_MS: u64 = 600_000;

/// Settings of a set of endpoints.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Patience for one call, unless the call brings its own.
    pub timeout: Duration,
    pub breaker: BreakerSettings,
    /// Answers that must agree before they prove anything. None: a majority of the endpoints.
    pub quorum: Option<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(10), breaker: BreakerSettings::default(), quorum: None }
    }
}

/// A result and the endpoint that gave it.
#[derive(Clone, Debug)]
pub struct Answer {
    pub endpoint: usize,
    pub result: Box<RawValue>,
}

/// One endpoint's figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSnapshot {
    /// Scheme, host and port.
    pub origin: String,
    pub breaker: BreakerState,
    /// False while its breaker is not closed or its last call failed a moment ago.
    pub healthy: bool,
    /// Why it is not used at all.
    pub excluded: Option<String>,
    pub calls: u64,
    /// Calls that failed for technical reasons.
    pub errors: u64,
    /// Time spent in calls, in milliseconds, failed ones included.
    pub latency_total_ms: u64,
    pub latency_last_ms: u64,
    pub caught: Option<Caught>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at least one endpoint is needed, each given once, and a quorum of one to all of them")]
pub struct NoEndpoints;

struct Endpoint {
    url: Url,
    state: Mutex<State>,
}

struct State {
    breaker: Breaker,
    excluded: Option<String>,
    cooling_until_ms: u64,
    calls: u64,
    errors: u64,
    latency_total_ms: u64,
    latency_last_ms: u64,
    /// The newest contradiction, and until when it is asked last.
    caught: Option<(Caught, u64)>,
}

/// The nodes of one ledger.
pub struct Endpoints {
    all: Vec<Endpoint>,
    transport: Arc<dyn Transport>,
    clock: Arc<dyn Clock>,
    settings: Settings,
    next_id: AtomicU64,
    next_start: AtomicU64,
}

impl Endpoints {
    pub fn new(
        urls: Vec<Url>,
        transport: Arc<dyn Transport>,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Result<Self, NoEndpoints> {
        let quorum_fits = settings.quorum.is_none_or(|n| (1..=urls.len()).contains(&n));
        // A node given twice would bear witness twice.
        let twice = urls.iter().enumerate().any(|(index, url)| urls[..index].contains(url));
        if urls.is_empty() || twice || !quorum_fits {
            return Err(NoEndpoints);
        }
        let all = urls.into_iter().map(|url| Endpoint::new(url, settings.breaker)).collect();
        Ok(Self {
            all,
            transport,
            clock,
            settings,
            next_id: AtomicU64::new(1),
            next_start: AtomicU64::new(0),
        })
    }

    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// How many distinct endpoints must agree before their answers prove anything.
    pub fn quorum(&self) -> usize {
        self.settings.quorum.unwrap_or(self.all.len() / 2 + 1)
    }

    /// What may be shown of an endpoint's address.
    pub fn origin(&self, endpoint: usize) -> &str {
        self.all.get(endpoint).map_or("", |one| one.url.origin())
    }

    /// A read, repeated elsewhere after technical errors. Never for anything that has an effect.
    pub async fn call<P>(&self, method: &str, params: &P) -> Result<Answer, RpcError>
    where
        P: Serialize + Sync + ?Sized,
    {
        let (id, body) = self.body(method, params);
        let start = self.next_start.fetch_add(1, Ordering::Relaxed);
        let mut last = closed_to_all();
        for endpoint in self.order(start) {
            match self.attempt(endpoint, id, body.clone(), self.settings.timeout).await {
                Ok(result) => return Ok(Answer { endpoint, result }),
                Err(error) if error.is_technical() => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    /// One question to one endpoint.
    pub async fn call_on<P>(
        &self,
        endpoint: usize,
        method: &str,
        params: &P,
    ) -> Result<Box<RawValue>, RpcError>
    where
        P: Serialize + Sync + ?Sized,
    {
        let (id, body) = self.body(method, params);
        self.attempt(endpoint, id, body, self.settings.timeout).await
    }

    /// The same question to every endpoint at once, in the order of the endpoints.
    pub async fn call_each<P>(
        &self,
        method: &str,
        params: &P,
    ) -> Vec<(usize, Result<Box<RawValue>, RpcError>)>
    where
        P: Serialize + Sync + ?Sized,
    {
        let (id, body) = self.body(method, params);
        let calls = (0..self.all.len()).map(|endpoint| {
            let body = body.clone();
            async move {
                if let Some(why) = self.excluded(endpoint) {
                    return (endpoint, Err(RpcError::Unreachable(why)));
                }
                (endpoint, self.attempt(endpoint, id, body, self.settings.timeout).await)
            }
        });
        join_all(calls).await
    }

    /// A broadcast: one POST that may take effect. `rotation` chooses the endpoint, so that the
    /// next broadcast of the same bytes goes elsewhere; those `but` are passed over. Returns also
    /// the endpoint it was sent to.
    pub async fn send_once<P>(
        &self,
        rotation: u64,
        but: &[usize],
        (method, params): (&str, &P),
        timeout: Duration,
    ) -> (Option<usize>, Result<Box<RawValue>, RpcError>)
    where
        P: Serialize + Sync + ?Sized,
    {
        let (id, body) = self.body(method, params);
        let mut last = closed_to_all();
        for endpoint in self.order(rotation).into_iter().filter(|one| !but.contains(one)) {
            match self.attempt(endpoint, id, body.clone(), timeout).await {
                Err(error @ RpcError::Unreachable(_)) => last = error,
                answer => return (Some(endpoint), answer),
            }
        }
        (None, Err(last))
    }

    /// An endpoint said what a quorum contradicts: it is asked last from now on, and shown.
    pub fn catch(&self, endpoint: usize, said: String, quorum_says: String) {
        let Some(one) = self.all.get(endpoint) else { return };
        guard::met(Guard::NodeCaught);
        tracing::warn!(endpoint = %one.url, said, quorum_says, "a node contradicts a quorum");
        let mut state = one.state.lock();
        let times = state.caught.as_ref().map_or(0, |(caught, _)| caught.times) + 1;
        let at_ms = self.clock.now_ms();
        let until_ms = self.clock.monotonic_ms().saturating_add(CAUGHT_MS);
        let caught = Caught { times, said, quorum_says, at_ms, asked_last: true };
        state.caught = Some((caught, until_ms));
    }

    /// Asks this endpoint last for a while: it answers, but is behind or strange.
    pub fn distrust(&self, endpoint: usize, for_ms: u64) {
        if let Some(one) = self.all.get(endpoint) {
            let until_ms = self.clock.monotonic_ms().saturating_add(for_ms);
            let mut state = one.state.lock();
            state.cooling_until_ms = state.cooling_until_ms.max(until_ms);
        }
    }

    /// Takes an endpoint out of use (or back into it): another network, or not yet known to be
    /// ours. [`Endpoints::call_on`] still asks it; nothing else does.
    pub fn exclude(&self, endpoint: usize, why: Option<String>) {
        if let Some(one) = self.all.get(endpoint) {
            one.state.lock().excluded = why;
        }
    }

    /// The figures of every endpoint, for metrics and health.
    pub fn snapshot(&self) -> Vec<EndpointSnapshot> {
        let now_ms = self.clock.monotonic_ms();
        self.all.iter().map(|one| one.snapshot(now_ms)).collect()
    }

    fn body<P>(&self, method: &str, params: &P) -> (u64, Bytes)
    where
        P: Serialize + ?Sized,
    {
        #[derive(Serialize)]
        struct Request<'a, P: ?Sized> {
            jsonrpc: &'static str,
            id: u64,
            method: &'a str,
            params: &'a P,
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let request = Request { jsonrpc: "2.0", id, method, params };
        // Only a map with keys that are no strings can fail; an empty body is refused by any node.
        (id, serde_json::to_vec(&request).unwrap_or_default().into())
    }

    /// Endpoints to try: the healthy first, each group turned round by `start`. If every breaker is
    /// open, whoever may be probed.
    pub fn order(&self, start: u64) -> Vec<usize> {
        let now_ms = self.clock.monotonic_ms();
        let (mut healthy, mut cooling, mut caught) = (Vec::new(), Vec::new(), Vec::new());
        for (index, one) in self.all.iter().enumerate() {
            let state = one.state.lock();
            if state.excluded.is_some() {
                continue;
            }
            let group = match () {
                () if !state.breaker.admits(now_ms) => continue,
                () if state.is_caught(now_ms) => &mut caught,
                () if now_ms < state.cooling_until_ms => &mut cooling,
                () => &mut healthy,
            };
            group.push(index);
        }
        for group in [&mut healthy, &mut cooling, &mut caught] {
            if !group.is_empty() {
                let turn = (start % group.len() as u64) as usize;
                group.rotate_left(turn);
            }
        }
        healthy.append(&mut cooling);
        healthy.append(&mut caught);
        if healthy.is_empty() {
            healthy = (0..self.all.len()).filter(|one| self.excluded(*one).is_none()).collect();
        }
        healthy
    }

    fn excluded(&self, endpoint: usize) -> Option<String> {
        self.all.get(endpoint)?.state.lock().excluded.clone()
    }

    /// One POST to one endpoint, counted.
    async fn attempt(
        &self,
        endpoint: usize,
        id: u64,
        body: Bytes,
        timeout: Duration,
    ) -> Result<Box<RawValue>, RpcError> {
        let Some(one) = self.all.get(endpoint) else {
            return Err(RpcError::Unreachable(format!("no endpoint {endpoint}")));
        };
        if !self.admit(one) {
            return Err(RpcError::Unreachable(format!("{}: breaker open", one.url)));
        }
        let begun_ms = self.clock.monotonic_ms();
        let mut admitted = Admitted { endpoint: one, reported: false };
        let answer = match self.transport.post(&one.url, body, timeout).await {
            Ok(answer) => error::read(&answer, id),
            Err(error) => Err(error.into()),
        };
        let failed = answer.as_ref().is_err_and(RpcError::is_technical);
        admitted.report(failed, begun_ms, self.clock.monotonic_ms());
        if let Err(error) = &answer
            && failed
        {
            tracing::debug!(endpoint = %one.url, %error, "rpc call failed");
        }
        answer.map_err(|error| name_endpoint(&one.url, error))
    }

    fn admit(&self, one: &Endpoint) -> bool {
        let now_ms = self.clock.monotonic_ms();
        if one.state.lock().breaker.admit(now_ms) {
            return true;
        }
        let all_open =
            self.all.iter().all(|other| other.state.lock().breaker.state() == BreakerState::Open);
        all_open && one.state.lock().breaker.probe(now_ms)
    }
}

/// A call that the breaker waits to hear of. Dropped with its future, it is reported as abandoned.
struct Admitted<'a> {
    endpoint: &'a Endpoint,
    reported: bool,
}

impl Admitted<'_> {
    fn report(&mut self, failed: bool, begun_ms: u64, now_ms: u64) {
        self.reported = true;
        let mut state = self.endpoint.state.lock();
        state.calls += 1;
        state.latency_last_ms = now_ms.saturating_sub(begun_ms);
        state.latency_total_ms = state.latency_total_ms.saturating_add(state.latency_last_ms);
        if failed {
            state.errors += 1;
            state.breaker.failed(now_ms);
            state.cooling_until_ms = state.cooling_until_ms.max(now_ms + COOLING_MS);
        } else {
            state.breaker.succeeded();
        }
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        if !self.reported {
            self.endpoint.state.lock().breaker.abandoned();
        }
    }
}

impl State {
    fn is_caught(&self, now_ms: u64) -> bool {
        self.caught.as_ref().is_some_and(|(_, until_ms)| now_ms < *until_ms)
    }
}

impl Endpoint {
    fn new(url: Url, settings: BreakerSettings) -> Self {
        let state = State {
            breaker: Breaker::new(settings),
            excluded: None,
            cooling_until_ms: 0,
            calls: 0,
            errors: 0,
            latency_total_ms: 0,
            latency_last_ms: 0,
            caught: None,
        };
        Self { url, state: Mutex::new(state) }
    }

    fn snapshot(&self, now_ms: u64) -> EndpointSnapshot {
        let state = self.state.lock();
        let breaker = state.breaker.state();
        EndpointSnapshot {
            origin: self.url.origin().to_owned(),
            breaker,
            healthy: breaker == BreakerState::Closed
                && state.excluded.is_none()
                && now_ms >= state.cooling_until_ms,
            excluded: state.excluded.clone(),
            calls: state.calls,
            errors: state.errors,
            latency_total_ms: state.latency_total_ms,
            latency_last_ms: state.latency_last_ms,
            caught: state.caught.as_ref().map(|(caught, _)| {
                let asked_last = state.is_caught(now_ms);
                Caught { asked_last, ..caught.clone() }
            }),
        }
    }
}

fn closed_to_all() -> RpcError {
    RpcError::Unreachable("no endpoint is open to calls".to_owned())
}

fn name_endpoint(url: &Url, error: RpcError) -> RpcError {
    match error {
        RpcError::Unreachable(why) => RpcError::Unreachable(format!("{url}: {why}")),
        RpcError::Unsure(why) => RpcError::Unsure(format!("{url}: {why}")),
        answered @ RpcError::Answered(_) => answered,
    }
}
