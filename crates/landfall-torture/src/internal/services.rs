//! The account services of a world: books behind the real routes, without sockets, and one
//! instance's way to them.
//!
//! The books keep the contract (docs/services.md), through crashes too, and some forget requests
//! when their window has passed. Services have moods: they work on a call for long, or refuse for a
//! while what they must do in the end. What is lost, late or garbled is on the way to them.

use std::collections::BTreeMap;
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
    AccountId, Balance, Book, Contract, Entry, Kind, MemoryBook, Operation, Outcome, ReqId, Span,
    Terms, Verb,
};
use landfall_rail_internal::{HttpService, HttpSettings, InternalRail, ServiceAdapter};
use landfall_rpc::{HttpAnswer, HttpRequest, Method, Transport, TransportError, Url};
use parking_lot::Mutex;

use crate::plan::Plan;
use crate::seat::{Dice, Seat};
use crate::wire::{self, Deliver};

/// What every world has: a service that freezes what is withdrawn, and one that takes it at once.
pub const NAMES: [(&str, Kind); 2] = [("funding", Kind::Freeze), ("trading", Kind::Direct)];
/// The one asset that is moved.
pub const ASSET: u32 = 1;

/// The most lines or accounts that a world has.
const ALL: usize = 1_000_000;
/// Answers are short.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// What must be done in the end is refused for at most this long.
const REFUSES_MAX_MS: u64 = 20_000;

/// One service.
struct Service {
    name: &'static str,
    book: Arc<MemoryBook>,
    routes: Router,
    down: AtomicBool,
    /// It acts, and nobody hears it.
    mute: AtomicBool,
    moods: Mutex<BTreeMap<Subject, Mood>>,
}

/// An operation of a request.
type Subject = (ReqId, Verb);

/// What a service says of an operation that is not on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    /// It will do it, unless it ends before.
    Works {
        since_ms: u64,
    },
    Refuses {
        until_ms: u64,
    },
}

/// The services of a world.
pub struct Services {
    all: Vec<Service>,
    plan: Arc<Plan>,
    dice: Arc<Dice>,
    clock: Arc<dyn Clock>,
    /// Requests on their way, or worked on, whose senders have given up.
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
    pub fn new(plan: Arc<Plan>, dice: Arc<Dice>, clock: Arc<dyn Clock>) -> Services {
        let open = |(name, kind)| {
            let book = Arc::new(MemoryBook::new(Contract::new(name, kind)));
            let routes = landfall_ledger::router(book.clone(), clock.clone());
            let (down, mute) = (AtomicBool::new(false), AtomicBool::new(false));
            Service { name, book, routes, down, mute, moods: Mutex::default() }
        };
        Services { all: NAMES.map(open).into(), plan, dice, clock, late: Arc::default() }
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

    pub fn set_mute(&self, service: usize, mute: bool) {
        self.all[service].mute.store(mute, Ordering::Relaxed);
    }

    /// Ends the service's process and starts another on what it has committed.
    pub fn crash(&self, service: usize) {
        self.all[service].book.crash();
        self.all[service].moods.lock().clear();
    }

    /// Has a service do by hand what it was asked for in vain.
    pub fn mend(&self, name: &str, operation: Operation) {
        let service = self.all.iter().find(|service| service.name == name);
        let service = service.expect("orders name services of the world");
        let done = service.book.apply_now(&[operation], self.clock.now_ms());
        done.expect("a book in memory takes what it is given");
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
    async fn serve(
        self: &Arc<Services>,
        asked: HttpRequest,
        patience: Duration,
    ) -> Result<HttpAnswer, TransportError> {
        let none = || TransportError::NotSent("connection refused".to_owned());
        let index = self.named(&asked.url).ok_or_else(none)?;
        let service = &self.all[index];
        if service.down.load(Ordering::Relaxed) {
            return Err(none());
        }
        if let Some(window_ms) = self.plan.internal.dedupe_window_ms() {
            service.book.forget_before(self.clock.now_ms().saturating_sub(window_ms));
        }
        let answer = match self.moody(index, &asked).await {
            Some(answer) => answer,
            None => self.act(service, asked).await,
        };
        if service.mute.load(Ordering::Relaxed) {
            self.clock.sleep(patience).await;
            return Err(wire::lost("injected: the service is not heard"));
        }
        Ok(answer)
    }

    /// What the service's mood has it say, in place of what its book does.
    async fn moody(self: &Arc<Services>, index: usize, asked: &HttpRequest) -> Option<HttpAnswer> {
        let service = &self.all[index];
        let subject = subject_of(asked)?;
        let recorded = service.book.query(subject.0, subject.1).await.unwrap_or_default();
        let is_call = asked.method == Method::Post;
        if recorded.is_some() {
            let duplicate = is_call && recorded == Some(Outcome::Done);
            let refused = duplicate && self.dice.strikes(self.plan.internal.duplicate_refused);
            // Only what is asked for on the same terms: others are a conflict.
            let answer = self.act(service, asked.clone()).await;
            let done = answer.status == 200;
            return Some(match refused && done {
                true => wire::answer(200, "{\"error\":\"it was done before\"}"),
                false => answer,
            });
        }
        if is_call {
            self.change_mood(index, subject, asked);
        }
        let now_ms = self.clock.now_ms();
        let mut moods = service.moods.lock();
        moods.retain(|_, mood| !matches!(mood, Mood::Refuses { until_ms } if *until_ms < now_ms));
        let words = match (moods.get(&subject)?, is_call) {
            (Mood::Works { .. }, true) => return Some(wire::answer(202, "{}")),
            (Mood::Works { .. }, false) => "{\"status\":\"in_progress\"}",
            (Mood::Refuses { .. }, true) => "{\"error\":\"not at the moment\"}",
            (Mood::Refuses { .. }, false) => {
                "{\"status\":\"refused\",\"error\":\"not at the moment\"}"
            }
        };
        Some(wire::answer(200, words))
    }

    /// A call may put the service into a mood about it.
    fn change_mood(self: &Arc<Services>, index: usize, subject: Subject, asked: &HttpRequest) {
        let service = &self.all[index];
        if service.moods.lock().contains_key(&subject) {
            return;
        }
        let refused = match subject.1 {
            Verb::Commit => self.plan.internal.commit_refused,
            Verb::Rollback => self.plan.internal.rollback_refused,
            Verb::Fund | Verb::Withdraw | Verb::Deposit => 0.0,
        };
        let now_ms = self.clock.now_ms();
        if self.dice.strikes(refused) {
            // Half of them off the record: the query does not know of the refusal.
            let lasts_ms = self.dice.between(0, 1) * self.dice.between(1, REFUSES_MAX_MS);
            let mood = Mood::Refuses { until_ms: now_ms + lasts_ms };
            service.moods.lock().insert(subject, mood);
        } else if self.dice.strikes(self.plan.internal.works) {
            let mood = Mood::Works { since_ms: now_ms };
            service.moods.lock().insert(subject, mood);
            tokio::spawn(self.clone().work(index, subject, mood, asked.clone()));
        }
    }

    /// Does in the end what was taken, if the service has not ended meanwhile.
    async fn work(
        self: Arc<Services>,
        index: usize,
        subject: Subject,
        mood: Mood,
        asked: HttpRequest,
    ) {
        self.late.fetch_add(1, Ordering::Relaxed);
        let ms = self.dice.between(1, self.plan.internal.works_max_ms());
        self.clock.sleep(Duration::from_millis(ms)).await;
        let service = &self.all[index];
        let is_still = service.moods.lock().get(&subject) == Some(&mood);
        if is_still {
            service.moods.lock().remove(&subject);
            self.act(service, asked).await;
        }
        self.late.fetch_sub(1, Ordering::Relaxed);
    }

    /// What the service's book makes of a request.
    async fn act(&self, service: &Service, asked: HttpRequest) -> HttpAnswer {
        let method = match asked.method {
            Method::Get => "GET",
            Method::Post => "POST",
        };
        let request = Request::builder().method(method).uri(path_of(&asked.url));
        let request = request.body(Body::from(asked.body)).expect("a well-formed path");
        let answer = landfall_ledger::server::handle(&service.routes, request).await;
        let status = answer.status().as_u16();
        let body = to_bytes(answer.into_body(), ANSWER_BYTES_MAX).await.unwrap_or_default();
        HttpAnswer { status, body }
    }
}

/// The operation that a request calls or asks about, if it is about one.
fn subject_of(asked: &HttpRequest) -> Option<Subject> {
    let path = path_of(&asked.url);
    if asked.method == Method::Get {
        let (req_id, verb) = path.strip_prefix("/operations/")?.split_once('/')?;
        return Some((req_id.parse().ok()?, Verb::named(verb)?));
    }
    let body: serde_json::Value = serde_json::from_slice(&asked.body).ok()?;
    let req_id = body["req_id"].as_str()?.parse().ok()?;
    Some((req_id, Verb::named(path.strip_prefix('/')?)?))
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
    let window_ms = seat.plan.internal.dedupe_window_ms();
    let service = |(name, kind): (&str, Kind)| -> Arc<dyn ServiceAdapter> {
        let base = Url::parse(&format!("http://{name}")).expect("a well-formed address");
        let settings = HttpSettings::new(name, base, kind == Kind::Freeze, window_ms);
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
        if !self.seat.dice.strikes(self.seat.plan.internal.crash) {
            return false;
        }
        let done = self.inner.serve(asked.clone(), Duration::ZERO).await;
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
        let plan = &self.seat.plan;
        let name = format!("{}{}", request.url.origin(), path_of(&request.url));
        let number = self.seat.before(&name).await;
        if self.dies_acting(&request).await {
            return Err(wire::lost("injected: the service ended"));
        }
        let is_call = request.method == Method::Post;
        let (inner, twice) =
            (self.inner.clone(), self.seat.dice.strikes(plan.internal.request_twice));
        let deliver: Deliver = Arc::new(move |patience| {
            let (inner, request) = (inner.clone(), request.clone());
            Box::pin(async move {
                if twice {
                    // Whatever came of the first, the second is what is answered.
                    let _ = inner.serve(request.clone(), Duration::ZERO).await;
                }
                inner.serve(request, patience).await
            })
        });
        let late = Some(&self.inner.late);
        if is_call && self.seat.dice.strikes(plan.internal.called_late) {
            return Err(wire::arrive_late(&self.seat, timeout, deliver, late).await);
        }
        wire::carry(&self.seat, (&name, number), timeout, deliver, late).await
    }
}
