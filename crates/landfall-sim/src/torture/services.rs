//! The account services of a world: books behind the real routes, without sockets, and one
//! instance's way to them.
//!
//! The books keep the contract (docs/services.md), through crashes too; what is lost, late, garbled
//! or refused for a while is on the way to them.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use bytes::Bytes;
use landfall_core::Clock;
use landfall_core::internal::Order;
use landfall_ledger::{
    AccountId, Balance, Book, Contract, Entry, Kind, MemoryBook, Operation, Span, Terms,
};
use landfall_rail_internal::{HttpService, HttpSettings, InternalRail, ServiceAdapter};
use landfall_rpc::{HttpAnswer, HttpRequest, Method, Transport, TransportError, Url};

use super::seat::Seat;
use super::wire::{self, Deliver};

/// What every world has: a service that freezes what is withdrawn, and one that takes it at once.
pub const NAMES: [(&str, Kind); 2] = [("funding", Kind::Freeze), ("trading", Kind::Direct)];
/// The one asset that is moved.
pub const ASSET: u32 = 1;

/// The most lines or accounts that a world has.
const ALL: usize = 1_000_000;
/// Answers are short.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// One service.
struct Service {
    name: &'static str,
    book: Arc<MemoryBook>,
    routes: Router,
    down: AtomicBool,
}

/// The services of a world.
pub struct Services {
    all: Vec<Service>,
    /// Requests on their way whose senders have given up.
    pub late: Arc<AtomicUsize>,
}

/// A service's books at one moment.
pub struct Books {
    pub name: &'static str,
    pub kind: Kind,
    pub entries: Vec<Entry>,
    pub balances: Vec<Balance>,
}

impl Services {
    pub fn new(clock: &Arc<dyn Clock>) -> Services {
        let open = |(name, kind)| {
            let book = Arc::new(MemoryBook::new(Contract::new(name, kind)));
            let routes = landfall_ledger::router(book.clone(), clock.clone());
            Service { name, book, routes, down: AtomicBool::new(false) }
        };
        Services { all: NAMES.map(open).into(), late: Arc::default() }
    }

    /// Gives a user funds to begin with.
    pub fn fund(&self, service: usize, user_id: u64, amount: NonZeroU64) {
        let reference = format!("begin-{user_id}");
        let terms = Terms { account: AccountId { user_id, asset_id: ASSET }, amount };
        let given = self.all[service].book.apply_now(&[Operation::Fund { reference, terms }], 0);
        given.expect("a book in memory takes what it is given");
    }

    pub fn set_down(&self, service: usize, down: bool) {
        self.all[service].down.store(down, Ordering::Relaxed);
    }

    /// Ends the service's process and starts another on what it has committed.
    pub fn crash(&self, service: usize) {
        self.all[service].book.crash();
    }

    /// A blocked account takes no deposit and lets nothing be withdrawn.
    pub async fn block(&self, service: usize, user_id: u64, blocked: bool) {
        let account = AccountId { user_id, asset_id: ASSET };
        // There is nobody to block before the first funds.
        let _ = self.all[service].book.block(account, blocked).await;
    }

    pub async fn books(&self) -> Vec<Books> {
        let mut books = Vec::new();
        for Service { name, book, .. } in &self.all {
            let lines = book.statement(Span::after(0, ALL)).await;
            let accounts = book.balances(0, ALL).await;
            books.push(Books {
                name,
                kind: book.contract().kind,
                entries: lines.map(|lines| lines.entries).unwrap_or_default(),
                balances: accounts.map(|page| page.balances).unwrap_or_default(),
            });
        }
        books
    }

    fn named(&self, url: &Url) -> Option<usize> {
        let name = url.origin().trim_start_matches("http://");
        self.all.iter().position(|service| service.name == name)
    }

    /// One request, as a service that is up answers it.
    async fn serve(&self, asked: HttpRequest) -> Result<HttpAnswer, TransportError> {
        let none = || TransportError::NotSent("connection refused".to_owned());
        let service = &self.all[self.named(&asked.url).ok_or_else(none)?];
        if service.down.load(Ordering::Relaxed) {
            return Err(none());
        }
        let method = match asked.method {
            Method::Get => "GET",
            Method::Post => "POST",
        };
        let request = Request::builder().method(method).uri(path_of(&asked.url));
        let request = request.body(Body::from(asked.body)).expect("a well-formed path");
        let answer = landfall_ledger::server::handle(&service.routes, request).await;
        let status = answer.status().as_u16();
        let body = to_bytes(answer.into_body(), ANSWER_BYTES_MAX).await.unwrap_or_default();
        Ok(HttpAnswer { status, body })
    }
}

fn path_of(url: &Url) -> &str {
    url.expose().strip_prefix(url.origin()).unwrap_or_default()
}

/// An order of a world.
pub fn order(source: usize, user_id: u64, amount: u64) -> Order {
    Order {
        source: NAMES[source].0.to_owned(),
        target: NAMES[1 - source].0.to_owned(),
        user_id,
        asset_id: ASSET,
        asset: "USDT".to_owned(),
        decimals: 0,
        amount,
        client_key: None,
    }
}

/// The real rail in a seat.
pub fn rail(seat: &Arc<Seat>, services: &Arc<Services>, clock: &Arc<dyn Clock>) -> InternalRail {
    let line = Arc::new(FaultyLine { seat: seat.clone(), inner: services.clone() });
    let service = |(name, kind): (&str, Kind)| -> Arc<dyn ServiceAdapter> {
        let base = Url::parse(&format!("http://{name}")).expect("a well-formed address");
        let settings = HttpSettings::new(name, base, kind == Kind::Freeze, None);
        Arc::new(HttpService::new(settings, line.clone(), clock.clone()).expect("sound settings"))
    };
    InternalRail::new(NAMES.map(service).into(), clock.clone()).expect("names that differ")
}

/// One instance's way to the services.
struct FaultyLine {
    seat: Arc<Seat>,
    inner: Arc<Services>,
}

impl FaultyLine {
    /// Whether the service ends right after it has acted, before it has answered.
    async fn dies_acting(&self, asked: &HttpRequest) -> bool {
        if !self.seat.dice.strikes(self.seat.plan.service_crash) {
            return false;
        }
        let done = self.inner.serve(asked.clone()).await;
        if let (Ok(_), Some(service)) = (done, self.inner.named(&asked.url)) {
            self.seat.log("the service dies after acting");
            self.inner.crash(service);
        }
        true
    }
}

#[async_trait]
impl Transport for FaultyLine {
    async fn post(&self, _: &Url, _: Bytes, _: Duration) -> Result<HttpAnswer, TransportError> {
        Err(TransportError::NotSent("no node is reached by this line".to_owned()))
    }

    async fn call(
        &self,
        request: HttpRequest,
        timeout: Duration,
    ) -> Result<HttpAnswer, TransportError> {
        let (dice, plan) = (&self.seat.dice, &self.seat.plan);
        let path = path_of(&request.url);
        let name = format!("{}{path}", request.url.origin());
        let number = self.seat.before(&name).await;
        if path.ends_with("/rollback") && dice.strikes(plan.rollback_refused) {
            return Ok(wire::answer(200, "{\"error\":\"no rollbacks at the moment\"}"));
        }
        if self.dies_acting(&request).await {
            return Err(wire::lost("injected: the service ended"));
        }
        let inner = self.inner.clone();
        let deliver: Deliver = Arc::new(move |_| {
            let (inner, request) = (inner.clone(), request.clone());
            Box::pin(async move { inner.serve(request).await })
        });
        wire::carry(&self.seat, (&name, number), timeout, deliver, Some(&self.inner.late)).await
    }
}
