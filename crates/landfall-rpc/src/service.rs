//! A service over HTTP that is no JSON-RPC node: one request at a time, behind a breaker, counted.
//!
//! **Invariant:** one call is one request; nothing here repeats anything.
//! **Invariant:** of the address only scheme, host and port are ever shown, of the credential
//! nothing.
//! Not here: what an answer says (the rails), sockets ([`crate::HttpTransport`]).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use landfall_core::Clock;
use landfall_core::rail::EndpointHealth;
use parking_lot::Mutex;

use crate::{
    Breaker, BreakerSettings, BreakerState, Header, HttpAnswer, HttpRequest, Method, Transport,
    TransportError, Url,
};

/// Characters of a service's own words that are kept: they go into the trail of every transfer.
const WORDS_CHARS_MAX: usize = 300;

/// Kinds of doubt when there is no answer at all.
pub mod silence {
    /// Nothing left the process.
    pub const BREAKER_OPEN: &str = "breaker_open";
    /// Nothing left the process.
    pub const UNREACHABLE: &str = "unreachable";
    /// It may have arrived.
    pub const NO_ANSWER: &str = "no_answer";
}

/// No answer, with the kind and the words of it.
pub type Silence = (&'static str, String);

/// One service.
pub struct Service {
    name: String,
    base: Url,
    /// A credential for every request.
    auth: Option<Header>,
    /// Patience for one call, unless the call brings less.
    timeout: Duration,
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

impl Service {
    pub fn new(
        (name, base, auth): (String, Url, Option<Header>),
        timeout: Duration,
        breaker: BreakerSettings,
        transport: Arc<dyn Transport>,
        clock: Arc<dyn Clock>,
    ) -> Service {
        let state = State {
            breaker: Breaker::new(breaker),
            calls: 0,
            errors: 0,
            latency_total_ms: 0,
            trouble: None,
        };
        Service { name, base, auth, timeout, transport, clock, state: Mutex::new(state) }
    }

    /// A question below the base address.
    pub async fn ask<T>(
        &self,
        path: &str,
        timeout: Duration,
        read: impl FnOnce(HttpAnswer) -> Result<T, Silence>,
    ) -> Result<T, Silence> {
        let url = self.base.join(path);
        let url = url.map_err(|error| (silence::UNREACHABLE, format!("the path {error}")))?;
        self.exchange(self.request(Method::Get, url, Bytes::new()), timeout, read).await
    }

    /// A JSON body to one of its addresses.
    pub async fn post<T>(
        &self,
        url: Url,
        body: Bytes,
        read: impl FnOnce(HttpAnswer) -> Result<T, Silence>,
    ) -> Result<T, Silence> {
        self.exchange(self.request(Method::Post, url, body), self.timeout, read).await
    }

    fn request(&self, method: Method, url: Url, body: Bytes) -> HttpRequest {
        let headers: Vec<Header> = self.auth.iter().cloned().collect();
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
            return Err((silence::BREAKER_OPEN, message));
        }
        let mut admitted = Admitted { service: self, reported: false };
        let answer = match self.transport.call(request, timeout).await {
            Ok(answer) => read(answer),
            Err(TransportError::NotSent(why)) => Err((silence::UNREACHABLE, why)),
            Err(TransportError::Unsure(why)) => Err((silence::NO_ANSWER, why)),
        };
        let answer = answer.map_err(|(kind, message)| (kind, self.shown(&message)));
        if let Err((silence::NO_ANSWER, _)) = answer
            && timeout < self.timeout
        {
            // Our impatience says nothing of the service.
            return answer;
        }
        let trouble = answer.as_ref().err().map(|(_, message)| message.clone());
        if let Some(error) = &trouble {
            let (service, endpoint) = (&self.name, &self.base);
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

    /// Whether it is well, as far as its last calls tell.
    pub fn is_up(&self) -> bool {
        let state = self.state.lock();
        state.breaker.state() == BreakerState::Closed && state.trouble.is_none()
    }

    /// A service's own words as they may be kept: short, on one line, without the credential.
    pub fn shown(&self, words: &str) -> String {
        let words = match &self.auth {
            Some(auth) => auth.hide(words),
            None => words.to_owned(),
        };
        let plain = words.chars().map(|char| if char.is_control() { ' ' } else { char });
        plain.take(WORDS_CHARS_MAX).collect::<String>().trim().to_owned()
    }

    /// As its calls have shown it; makes none.
    pub fn health(&self) -> EndpointHealth {
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
            name: self.name.clone(),
            endpoint: self.base.origin().to_owned(),
            up: breaker == BreakerState::Closed && state.trouble.is_none(),
            detail: format!("{}: {how}{trouble}", self.name),
            calls: state.calls,
            errors: state.errors,
            breaker_open: breaker != BreakerState::Closed,
            mean_latency_ms: state.latency_total_ms as f64 / state.calls.max(1) as f64,
            caught: None,
        }
    }
}

/// A call that the breaker waits to hear of. Dropped with its future, it is reported as abandoned.
struct Admitted<'a> {
    service: &'a Service,
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use async_trait::async_trait;
    use futures::FutureExt;

    use super::*;

    #[derive(Default)]
    struct HandClock(AtomicU64);

    #[async_trait]
    impl Clock for HandClock {
        fn now_ms(&self) -> u64 {
            self.0.load(Ordering::SeqCst)
        }
        async fn sleep(&self, _: Duration) {}
    }

    /// Fails the first ten requests, and leaves all others without an end.
    #[derive(Default)]
    struct Wire(AtomicU64);

    #[async_trait]
    impl Transport for Wire {
        async fn post(&self, _: &Url, _: Bytes, _: Duration) -> Result<HttpAnswer, TransportError> {
            match self.0.fetch_add(1, Ordering::SeqCst) {
                0..10 => Err(TransportError::Unsure("lost".to_owned())),
                _ => std::future::pending().await,
            }
        }
    }

    #[tokio::test]
    async fn a_call_that_is_dropped_gives_its_place_back() {
        let (wire, clock) = (Arc::new(Wire::default()), Arc::new(HandClock::default()));
        let base = Url::parse("http://host").expect("a URL");
        let service = Service::new(
            ("bank".to_owned(), base.clone(), None),
            Duration::from_secs(10),
            BreakerSettings::default(),
            wire.clone(),
            clock.clone(),
        );
        for _ in 0..10 {
            assert!(service.post(base.clone(), Bytes::new(), |_| Ok(())).await.is_err());
        }
        assert!(service.health().breaker_open);
        clock.0.fetch_add(30_000, Ordering::SeqCst);
        for asked in 11..21 {
            // Each takes one of the few places that a breaker gives while it tests.
            let call = service.post(base.clone(), Bytes::new(), |_| Ok(()));
            assert!(call.now_or_never().is_none());
            assert_eq!(wire.0.load(Ordering::SeqCst), asked);
        }
    }
}
