//! A service inside the test: a real book behind an adapter on which calls fail as the test says.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use landfall_core::Clock;
use landfall_core::rail::{EndpointHealth, RailError};
use landfall_ledger::{
    AccountId, Answer as Recorded, Book, Contract, Kind, MemoryBook, Operation as Asked, Outcome,
    ReqId, Terms, Verb,
};
use landfall_rail_internal::{Answer, Leg, Operation, ServiceAdapter, Standing};
use parking_lot::Mutex;

/// What becomes of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Open,
    /// Nothing gets there.
    Cut,
    /// It gets there and takes effect; the answer never comes.
    Silent,
    /// It gets there and is put off: the answer is "in progress", and so is every query's.
    PutsOff,
    /// It says no to whatever it has done already, instead of saying again that it is done.
    RefusesRepeats,
}

pub struct Branch {
    name: &'static str,
    pub book: MemoryBook,
    clock: Arc<dyn Clock>,
    way: Mutex<Way>,
    /// What was called and when, in milliseconds; queries with a question mark.
    calls: Mutex<Vec<(String, u64)>>,
    put_off: Mutex<Vec<Asked>>,
    /// How long the next calls are on their way, and their answers, in seconds.
    travel_s: Mutex<VecDeque<(u64, u64)>>,
}

impl Branch {
    pub fn new(name: &'static str, kind: Kind, clock: Arc<dyn Clock>) -> Arc<Branch> {
        let book = MemoryBook::new(Contract::new(name, kind));
        Arc::new(Branch {
            name,
            book,
            clock,
            way: Mutex::new(Way::Open),
            calls: Mutex::default(),
            put_off: Mutex::default(),
            travel_s: Mutex::default(),
        })
    }

    /// Holds the next calls back, and then their answers, for so many seconds.
    pub fn hold_back(&self, travel_s: impl IntoIterator<Item = (u64, u64)>) {
        self.travel_s.lock().extend(travel_s);
    }

    pub fn set(&self, way: Way) {
        *self.way.lock() = way;
    }

    /// Does what was put off, and goes on as if nothing had been.
    pub async fn catch_up(&self) {
        self.set(Way::Open);
        let late = std::mem::take(&mut *self.put_off.lock());
        self.book.apply(late, self.clock.now_ms()).await.expect("a book in memory");
    }

    /// Forgets what was put off, as a service does that crashes before it commits.
    pub fn crash(&self) {
        self.put_off.lock().clear();
        self.set(Way::Cut);
    }

    /// How often something was called.
    pub fn called(&self, what: &str) -> usize {
        self.calls.lock().iter().filter(|(call, _)| call == what).count()
    }

    /// When it was.
    pub fn times(&self, what: &str) -> Vec<u64> {
        let calls = self.calls.lock();
        calls.iter().filter(|(call, _)| call == what).map(|(_, at_ms)| *at_ms).collect()
    }

    pub async fn fund(&self, account: AccountId, amount: u64) {
        let amount = amount.try_into().expect("more than nothing");
        let terms = Terms { account, amount };
        let fund = Asked::Fund { reference: "opening".to_owned(), terms };
        assert_eq!(self.book.apply(vec![fund], 0).await, Ok(vec![Recorded::DONE]));
    }

    /// Available and frozen.
    pub async fn held(&self, account: AccountId) -> (u64, u64) {
        let accounts = self.book.accounts(account.user_id).await.expect("a book in memory");
        let found = accounts.iter().find(|one| one.account == account);
        found.map_or((0, 0), |one| (one.available, one.frozen))
    }

    async fn call(&self, asked: Asked) -> Answer {
        self.calls.lock().push((asked.verb().to_string(), self.clock.now_ms()));
        let (there_s, back_s) = self.travel_s.lock().pop_front().unwrap_or_default();
        self.clock.sleep(Duration::from_secs(there_s)).await;
        let answer = self.arrived(asked).await;
        self.clock.sleep(Duration::from_secs(back_s)).await;
        answer
    }

    async fn arrived(&self, asked: Asked) -> Answer {
        let way = *self.way.lock();
        match way {
            Way::Cut => pending("unreachable"),
            Way::PutsOff => {
                self.put_off.lock().push(asked);
                pending("in_progress")
            }
            Way::RefusesRepeats if self.is_done(&asked).await => {
                Answer::Refused("already done".to_owned())
            }
            Way::Open | Way::Silent | Way::RefusesRepeats => {
                let done = self.book.apply(vec![asked], self.clock.now_ms()).await;
                if way == Way::Silent {
                    std::future::pending::<()>().await;
                }
                match done.expect("a book in memory").pop().expect("one answer") {
                    Recorded::Recorded(Outcome::Done) => Answer::Done,
                    Recorded::Recorded(Outcome::Refused(why)) => Answer::Refused(why.to_string()),
                    Recorded::Conflict | Recorded::NotYet => pending("conflict"),
                }
            }
        }
    }
}

impl Branch {
    async fn is_done(&self, asked: &Asked) -> bool {
        let (Asked::Withdraw { req_id, .. }
        | Asked::Deposit { req_id, .. }
        | Asked::Commit { req_id }
        | Asked::Rollback { req_id }) = asked
        else {
            return false;
        };
        let known = self.book.query(*req_id, asked.verb()).await;
        known.expect("a book in memory") == Some(Outcome::Done)
    }
}

fn pending(kind: &'static str) -> Answer {
    Answer::Pending { kind, message: kind.to_owned() }
}

fn id(req_id: &str) -> ReqId {
    req_id.parse().expect("a UUID")
}

fn terms(leg: Leg<'_>) -> Terms {
    let account = AccountId { user_id: leg.user_id, asset_id: leg.asset_id };
    Terms { account, amount: leg.amount.try_into().expect("more than nothing") }
}

fn verb(operation: Operation) -> Verb {
    Verb::named(operation.name()).expect("the same names")
}

#[async_trait]
impl ServiceAdapter for Branch {
    fn name(&self) -> &str {
        self.name
    }

    fn freezes(&self) -> bool {
        self.book.contract().kind == Kind::Freeze
    }

    fn commits(&self) -> bool {
        true
    }

    fn dedupe_window_ms(&self) -> Option<u64> {
        None
    }

    async fn withdraw(&self, leg: Leg<'_>) -> Answer {
        self.call(Asked::Withdraw { req_id: id(leg.req_id), terms: terms(leg) }).await
    }

    async fn deposit(&self, leg: Leg<'_>) -> Answer {
        let (req_id, terms) = (id(leg.req_id), terms(leg));
        self.call(Asked::Deposit { req_id, terms, declined: false }).await
    }

    async fn commit(&self, req_id: &str) -> Answer {
        self.call(Asked::Commit { req_id: id(req_id) }).await
    }

    async fn rollback(&self, req_id: &str) -> Answer {
        self.call(Asked::Rollback { req_id: id(req_id) }).await
    }

    async fn query(&self, req_id: &str, operation: Operation) -> Standing {
        self.calls.lock().push((format!("{operation}?"), self.clock.now_ms()));
        let way = *self.way.lock();
        match way {
            Way::Cut | Way::Silent => {
                Standing::NoAnswer { kind: "unreachable", message: "unreachable".to_owned() }
            }
            Way::PutsOff => Standing::InProgress,
            Way::Open | Way::RefusesRepeats => {
                let known = self.book.query(id(req_id), verb(operation)).await;
                match known.expect("a book in memory") {
                    None => Standing::Unknown,
                    Some(Outcome::Done) => Standing::Done,
                    Some(Outcome::Refused(why)) => Standing::Refused(why.to_string()),
                }
            }
        }
    }

    async fn knows_user(&self, _: u64) -> Option<bool> {
        None
    }

    fn health(&self) -> EndpointHealth {
        EndpointHealth {
            endpoint: self.name.to_owned(),
            up: *self.way.lock() == Way::Open,
            detail: String::new(),
            calls: 0,
            errors: 0,
            breaker_open: false,
            mean_latency_ms: 0.0,
            caught: None,
        }
    }

    async fn check(&self) -> Result<String, RailError> {
        Ok(String::new())
    }
}
