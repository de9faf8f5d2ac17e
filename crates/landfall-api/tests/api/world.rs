//! A small world: the router over a relay that remembers what it was given and can be told to fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use landfall_api::{Api, ApiConfig, EvmTerms, Gateway, Pulse, Relay, api};
use landfall_core::cache::StatusCache;
use landfall_core::near::Terms;
use landfall_core::store::{Accepted, ListFilter, StoreError};
use landfall_core::{
    BadField, Clock, Event, Move, NewTransfer, Payload, RailName, Stage, State, TrailEntry,
    Transfer, TransferId, evm, internal,
};
use landfall_engine::dead::{Replay, ReplayError};
use landfall_engine::{Snapshot, Status, Submission, SubmitError};
use landfall_lanes::SystemClock;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;
use tower::ServiceExt;

/// 2025-10-10T10:00:00Z.
pub const START_MS: u64 = 1_760_090_400_000;

/// A clock that stands still until it is moved.
pub struct HandClock(pub AtomicU64);

#[async_trait]
impl Clock for HandClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    async fn sleep(&self, duration: Duration) {
        SystemClock::default().sleep(duration).await;
    }
}

#[derive(Default)]
pub struct Book {
    pub transfers: Vec<(Transfer, Vec<TrailEntry>)>,
    /// Sizes of the batches submitted.
    pub batches: Vec<usize>,
    pub filters: Vec<ListFilter>,
    pub refusal: Option<SubmitError>,
    pub store_error: Option<StoreError>,
    pub status: Option<Status>,
    /// How often the relay was looked at.
    pub looks: usize,
    /// The key at which the relay panics.
    pub trap: Option<String>,
    /// What operators wished for.
    pub replays: Vec<Replay>,
    /// What is wrong with every payload.
    pub screened: Option<BadField>,
}

impl Book {
    fn by_key(&self, tenant: &str, key: &str) -> Option<&(Transfer, Vec<TrailEntry>)> {
        self.transfers.iter().find(|(known, _)| known.tenant == tenant && known.key == key)
    }

    fn accept(&mut self, submission: Submission, now_ms: u64) -> Accepted {
        let fingerprint = submission.payload.fingerprint();
        if let Some((known, _)) = self.by_key(&submission.tenant, &submission.key) {
            return match known.fingerprint == fingerprint {
                true => Accepted::Already(known.clone()),
                false => Accepted::Conflict(known.clone()),
            };
        }
        let claims = submission.payload.claims();
        let taken = |(known, _): &&(Transfer, _)| {
            !known.state.is_failed()
                && known.payload.claims().iter().any(|key| claims.contains(key))
        };
        if let Some((owner, _)) = self.transfers.iter().find(taken) {
            return Accepted::Claimed { key: claims[0].clone(), owner: Some(owner.id) };
        }
        let rail = submission.payload.rail();
        let (first, events) = (State::all(rail)[0], State::first_events(rail, false));
        let scope = (submission.tenant, submission.key);
        let fresh =
            NewTransfer::begin(scope, fingerprint, submission.payload, first, events, now_ms)
                .unwrap();
        let transfer = Transfer {
            id: TransferId(self.transfers.len() as u64 + 1),
            tenant: fresh.tenant,
            key: fresh.key,
            fingerprint,
            payload: fresh.payload,
            state: fresh.state,
            version: 1,
            attempt: None,
            stage_retries: 0,
            retry_count: 0,
            due_ms: None,
            aside: None,
            confirmed: false,
            tx_hash: None,
            error: None,
            created_ms: now_ms,
            updated_ms: now_ms,
            completed_ms: None,
        };
        self.transfers.push((transfer.clone(), fresh.trail));
        Accepted::Created(transfer)
    }
}

pub struct StubRelay {
    pub book: Mutex<Book>,
    pub moved: Notify,
    pub clock: Arc<HandClock>,
}

impl StubRelay {
    fn check(&self) -> Result<(), StoreError> {
        self.book.lock().store_error.clone().map_or(Ok(()), Err)
    }
}

#[async_trait]
impl Relay for StubRelay {
    async fn submit(&self, batch: Vec<Submission>) -> Result<Vec<Accepted>, SubmitError> {
        self.check()?;
        let mut book = self.book.lock();
        if let Some(refusal) = &book.refusal {
            return Err(refusal.clone());
        }
        let trap = book.trap.clone();
        assert!(batch.iter().all(|one| Some(&one.key) != trap.as_ref()), "fell into the trap");
        book.batches.push(batch.len());
        let now_ms = self.clock.now_ms();
        Ok(batch.into_iter().map(|one| book.accept(one, now_ms)).collect())
    }

    async fn screen(&self, _: &Payload) -> Result<(), BadField> {
        self.book.lock().screened.clone().map_or(Ok(()), Err)
    }

    async fn find(
        &self,
        _rail: RailName,
        tenant: &str,
        key: &str,
    ) -> Result<Option<Transfer>, StoreError> {
        self.check()?;
        Ok(self.book.lock().by_key(tenant, key).map(|(transfer, _)| transfer.clone()))
    }

    async fn trail(&self, id: TransferId) -> Result<Vec<TrailEntry>, StoreError> {
        let book = self.book.lock();
        Ok(book.transfers.iter().find(|(known, _)| known.id == id).unwrap().1.clone())
    }

    async fn wait_final(
        &self,
        transfer: Transfer,
        patience: Duration,
    ) -> Result<Transfer, StoreError> {
        let _ = tokio::time::timeout(patience, self.moved.notified()).await;
        let book = self.book.lock();
        Ok(book.by_key(&transfer.tenant, &transfer.key).unwrap().0.clone())
    }

    async fn list(&self, filter: ListFilter) -> Result<Vec<Transfer>, StoreError> {
        self.check()?;
        let mut book = self.book.lock();
        let page = book.transfers.iter().rev().map(|(transfer, _)| transfer).filter(|transfer| {
            Some(&transfer.tenant) == filter.tenant.as_ref()
                && filter.rail.is_none_or(|rail| rail == transfer.payload.rail())
                && filter.state.is_none_or(|state| state == transfer.state)
                && filter.receiver.as_deref().is_none_or(|name| name == transfer.payload.receiver())
                && filter.before.is_none_or(|before| transfer.id < before)
        });
        let page = page.take(filter.limit).cloned().collect();
        book.filters.push(filter);
        Ok(page)
    }

    async fn dead(
        &self,
        rail: Option<RailName>,
        before: Option<TransferId>,
        limit: usize,
    ) -> Result<Vec<Transfer>, StoreError> {
        self.check()?;
        let book = self.book.lock();
        let dead = book.transfers.iter().rev().map(|(transfer, _)| transfer).filter(|transfer| {
            transfer.state.is_failed()
                && rail.is_none_or(|rail| rail == transfer.payload.rail())
                && before.is_none_or(|before| transfer.id < before)
        });
        Ok(dead.take(limit).cloned().collect())
    }

    async fn dead_letter(
        &self,
        id: TransferId,
    ) -> Result<Option<(Transfer, Vec<Transfer>)>, StoreError> {
        let book = self.book.lock();
        let dead = book.transfers.iter().map(|(transfer, _)| transfer);
        let dead = dead.filter(|transfer| transfer.state.is_failed() && transfer.id == id).cloned();
        let likes = |dead: &Transfer| -> Vec<Transfer> {
            let others = book.transfers.iter().map(|(transfer, _)| transfer);
            let same =
                others.filter(|other| other.id != dead.id && other.fingerprint == dead.fingerprint);
            same.cloned().collect()
        };
        Ok(dead.map(|dead| (dead.clone(), likes(&dead))).next())
    }

    async fn replay(
        &self,
        cache: Option<&dyn StatusCache>,
        id: TransferId,
        wish: &Replay,
    ) -> Result<Transfer, ReplayError> {
        let found = self.book.lock().transfers.iter().position(|(known, _)| known.id == id);
        let place = found.ok_or(ReplayError::NoSuchTransfer(id))?;
        let transfer = self.book.lock().transfers[place].0.clone();
        if !transfer.state.is_failed() {
            return Err(ReplayError::NotDead { id, state: transfer.state });
        }
        if let Some(cache) = cache {
            cache.forget(&transfer.key, transfer.version).await?;
        }
        let mut book = self.book.lock();
        book.replays.push(wish.clone());
        let step = Move::of(&transfer, self.clock.now_ms()).fire(Event::Replayed).unwrap();
        let reopened = step.applied_to(&transfer);
        book.transfers[place].0 = reopened.clone();
        Ok(reopened)
    }

    async fn snapshot(&self) -> Snapshot {
        let mut book = self.book.lock();
        book.looks += 1;
        let quiet = Status { store_error: None, rails: vec![], alerts: vec![], ready: true };
        let mut status = book.status.clone().unwrap_or(quiet);
        status.store_error = book.store_error.as_ref().map(ToString::to_string);
        let depths = Stage::ALL.map(|stage| (stage, stage.0.len())).to_vec();
        Snapshot { status, counts: vec![], depths, put_aside: 0 }
    }

    fn render_metrics(&self, _: &Snapshot) -> String {
        "# TYPE landfall_accepted counter\nlandfall_accepted_total 3\n# EOF\n".to_owned()
    }
}

/// An answer, whole.
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    #[track_caller]
    pub fn check_error(&self, status: u16, message: &str) {
        assert_eq!(self.json(), serde_json::json!({ "error": message }));
        assert_eq!(self.status.as_u16(), status, "{message}");
    }
}

pub struct World {
    pub relay: Arc<StubRelay>,
    pub clock: Arc<HandClock>,
    pub router: Router,
    pub metrics: Router,
    pub pulse: Arc<Pulse>,
}

pub fn terms() -> Terms {
    Terms { network: "simnet".into(), token: "token.near".into(), sender: "relay.near".into() }
}

fn gateway() -> Gateway {
    let asset = internal::Asset { id: 1, symbol: "BTC".into(), decimals: 8 };
    let services = vec!["funding".into(), "trading".into()];
    let terms = internal::Terms { services, assets: vec![asset] };
    Gateway { terms, key_required: false, patience: Duration::from_millis(500) }
}

pub const FORWARDER: &str = "0xe7f1725e7734ce288f8367e1bb143e90bb3f0512";

fn chains() -> EvmTerms {
    let forwarder = evm::Address::parse(FORWARDER).ok();
    let chain = |name: &str, chain_id| evm::Terms { chain: name.into(), chain_id, forwarder };
    EvmTerms {
        default: chain("sim", 31_337),
        others: vec![evm::Terms { forwarder: None, ..chain("base", 8_453) }],
    }
}

impl World {
    pub fn new() -> World {
        World::with(|_| ())
    }

    pub fn with(set: impl FnOnce(&mut ApiConfig)) -> World {
        let clock = Arc::new(HandClock(AtomicU64::new(START_MS)));
        let mut config = ApiConfig::new("1.2.3", clock.clone());
        config.near = Some(terms());
        config.internal = Some(gateway());
        config.evm = Some(chains());
        config.solana = Some(Arc::new(crate::withdraws::StubDoor));
        set(&mut config);
        let book = Mutex::new(Book::default());
        let relay = Arc::new(StubRelay { book, moved: Notify::new(), clock: clock.clone() });
        let Api { router, metrics, pulse } = api(config, relay.clone());
        World { router, metrics, pulse, relay, clock }
    }

    pub async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Answer { status: parts.status, headers: parts.headers, text }
    }

    /// As it is answered after the next look at the relay.
    pub async fn get(&self, path: &str) -> Answer {
        self.pulse.look().await;
        let headers: [(&str, &str); 0] = [];
        self.send(request("GET", path, &headers, "")).await
    }

    /// A well-formed `POST /transfer`.
    pub async fn pay(&self, key: &str, body: &str) -> Answer {
        let headers = [("content-type", "application/json"), ("x-idempotency-key", key)];
        self.send(request("POST", "/transfer", &headers, body.to_owned())).await
    }

    /// Pays one token to Alice, and insists that it is new.
    pub async fn pay_alice(&self, key: &str) {
        let answer = self.pay(key, ALICE).await;
        assert_eq!(answer.status, 201, "{}", answer.text);
    }

    /// Moves a transfer by `events`, letting `fill` change the move before it is applied.
    pub fn advance(&self, key: &str, events: &[Event], fill: impl FnOnce(Move) -> Move) {
        let now_ms = self.clock.now_ms();
        let mut book = self.relay.book.lock();
        let (transfer, trail) =
            book.transfers.iter_mut().find(|(known, _)| known.key == key).unwrap();
        let mut step = Move::of(transfer, now_ms);
        for event in events {
            step = step.fire(*event).unwrap();
        }
        let step = fill(step);
        *transfer = step.applied_to(transfer);
        trail.extend(step.trail);
        drop(book);
        self.relay.moved.notify_waiters();
    }

    /// The same for a move between services; `confirmed` before the last event.
    pub fn advance_order(&self, key: &str, events: &[Event], confirmed: bool) {
        let (last, before) = events.split_last().unwrap();
        self.advance(key, before, |step| {
            let step = if confirmed { step.confirm() } else { step };
            step.fire(*last).unwrap()
        });
    }

    pub fn pass_ms(&self, ms: u64) {
        self.clock.0.fetch_add(ms, Ordering::Relaxed);
    }

    pub fn stored(&self) -> usize {
        self.relay.book.lock().transfers.len()
    }
}

pub const ALICE: &str = r#"{"receiver_id": "alice.near", "amount": "1"}"#;

/// Everything between acceptance and a landed payment.
pub const TO_COMPLETED: [Event; 5] =
    [Event::Prepared, Event::Enqueued, Event::AttemptStored, Event::Enqueued, Event::Landed];

/// A request with headers as bytes, so that broken ones can be sent.
pub fn request(
    method: &str,
    path: &str,
    headers: &[(&str, impl AsRef<[u8]>)],
    body: impl Into<Body>,
) -> Request<Body> {
    let method: Method = method.parse().unwrap();
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, HeaderValue::from_bytes(value.as_ref()).unwrap());
    }
    request.body(body.into()).unwrap()
}
