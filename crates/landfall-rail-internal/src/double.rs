//! A service in memory, correct unless told to break a rule. For tests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use landfall_core::rail::{EndpointHealth, RailError};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::adapter::{Answer, Leg, Operation, ServiceAdapter, Standing};
use crate::conformance::{Account, Ground};

/// A rule to break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    NoDedupe,
    RefusalNotRecorded,
    QuerySaysRefusedForUnknown,
    RollbackAfterCommit,
}

#[derive(Default)]
struct Kept {
    available: HashMap<(u64, u32), u64>,
    shut: HashMap<(u64, u32), bool>,
    /// By id and operation: what was asked for, and why it was refused if it was.
    records: HashMap<(String, Operation), (Asked, Option<String>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Asked {
    account: (u64, u32),
    amount: u64,
}

/// The service.
pub struct Double {
    pub name: &'static str,
    pub freezes: bool,
    broken: Option<Broken>,
    /// Throws the dice for what becomes of a call; none: all arrive and are answered.
    storm: Option<Mutex<StdRng>>,
    /// Calls that are still on their way.
    late: Mutex<Vec<(String, Operation, Option<Asked>)>>,
    calls: AtomicU64,
    ids: AtomicU64,
    kept: Mutex<Kept>,
}

impl Double {
    pub fn new(broken: Option<Broken>) -> Double {
        Double {
            name: "double",
            freezes: true,
            broken,
            storm: None,
            late: Mutex::default(),
            calls: AtomicU64::new(0),
            ids: AtomicU64::new(0),
            kept: Mutex::default(),
        }
    }

    /// Calls are lost before they act or after, or arrive long after their sender gave up.
    pub fn in_a_storm(seed: u64) -> Double {
        let storm = Some(Mutex::new(StdRng::seed_from_u64(seed)));
        Double { storm, ..Double::new(None) }
    }

    /// A number below six that decides about a call; six in fair weather.
    fn dice(&self) -> u8 {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.storm.as_ref().map_or(6, |storm| storm.lock().random_range(0..6))
    }

    fn apply(&self, req_id: &str, operation: Operation, asked: Option<Asked>) -> Answer {
        let silence = || Answer::Pending { kind: "lost", message: "no answer".to_owned() };
        match self.dice() {
            0 => silence(),
            1 => {
                self.decide(req_id, operation, asked);
                silence()
            }
            2 => {
                self.late.lock().push((req_id.to_owned(), operation, asked));
                silence()
            }
            3 => {
                self.deliver_late();
                self.decide(req_id, operation, asked)
            }
            _ => self.decide(req_id, operation, asked),
        }
    }

    /// What was on its way arrives.
    pub fn deliver_late(&self) {
        for (req_id, operation, asked) in std::mem::take(&mut *self.late.lock()) {
            self.decide(&req_id, operation, asked);
        }
    }

    /// What is on record; none if nothing is.
    pub fn is_done(&self, req_id: &str, operation: Operation) -> Option<bool> {
        let kept = self.kept.lock();
        kept.records.get(&(req_id.to_owned(), operation)).map(|(_, refusal)| refusal.is_none())
    }

    fn decide(&self, req_id: &str, operation: Operation, asked: Option<Asked>) -> Answer {
        let mut kept = self.kept.lock();
        let pending = |message: &str| Answer::Pending { kind: "conflict", message: message.into() };
        let record =
            |kept: &Kept, operation| kept.records.get(&(req_id.to_owned(), operation)).cloned();
        if let Some((before, refusal)) = record(&kept, operation)
            && self.broken != Some(Broken::NoDedupe)
        {
            return match (asked.is_none_or(|asked| asked == before), refusal) {
                (false, _) => pending("another amount"),
                (true, None) => Answer::Done,
                (true, Some(why)) => Answer::Refused(why),
            };
        }
        let withdrawal = record(&kept, Operation::Withdraw);
        let Some(asked) = asked.or(withdrawal.as_ref().map(|(asked, _)| *asked)) else {
            return pending("no such withdrawal yet");
        };
        let is_done = |operation| matches!(record(&kept, operation), Some((_, None)));
        let held = kept.available.get(&asked.account).copied().unwrap_or(0);
        let shut = kept.shut.get(&asked.account).copied().unwrap_or(false);
        let careless = self.broken == Some(Broken::RollbackAfterCommit);
        let refusal = match operation {
            Operation::Withdraw => (held < asked.amount).then_some("insufficient funds"),
            Operation::Deposit => shut.then_some("account shut"),
            _ if !is_done(Operation::Withdraw) => Some("not withdrawn"),
            Operation::Commit => is_done(Operation::Rollback).then_some("rolled back"),
            Operation::Rollback => (is_done(Operation::Commit) && !careless).then_some("committed"),
        };
        let after = match (refusal, operation) {
            (Some(_), _) | (None, Operation::Commit) => held,
            (None, Operation::Withdraw) => held - asked.amount,
            (None, Operation::Deposit | Operation::Rollback) => held + asked.amount,
        };
        kept.available.insert(asked.account, after);
        let refusal = refusal.map(str::to_owned);
        if refusal.is_none() || self.broken != Some(Broken::RefusalNotRecorded) {
            kept.records.insert((req_id.to_owned(), operation), (asked, refusal.clone()));
        }
        refusal.map_or(Answer::Done, Answer::Refused)
    }
}

fn asked(leg: Leg<'_>) -> Option<Asked> {
    Some(Asked { account: (leg.user_id, leg.asset_id), amount: leg.amount })
}

#[async_trait]
impl ServiceAdapter for Double {
    fn name(&self) -> &str {
        self.name
    }

    fn freezes(&self) -> bool {
        self.freezes
    }

    fn commits(&self) -> bool {
        self.freezes
    }

    fn dedupe_window_ms(&self) -> Option<u64> {
        None
    }

    async fn withdraw(&self, leg: Leg<'_>) -> Answer {
        self.apply(leg.req_id, Operation::Withdraw, asked(leg))
    }

    async fn deposit(&self, leg: Leg<'_>) -> Answer {
        self.apply(leg.req_id, Operation::Deposit, asked(leg))
    }

    async fn commit(&self, req_id: &str) -> Answer {
        self.apply(req_id, Operation::Commit, None)
    }

    async fn rollback(&self, req_id: &str) -> Answer {
        self.apply(req_id, Operation::Rollback, None)
    }

    async fn query(&self, req_id: &str, operation: Operation) -> Standing {
        if self.dice() == 0 {
            return Standing::NoAnswer { kind: "lost", message: "no answer".to_owned() };
        }
        let kept = self.kept.lock();
        match kept.records.get(&(req_id.to_owned(), operation)) {
            None if self.broken == Some(Broken::QuerySaysRefusedForUnknown) => {
                Standing::Refused("no such request".to_owned())
            }
            None => Standing::Unknown,
            Some((_, None)) => Standing::Done,
            Some((_, Some(why))) => Standing::Refused(why.clone()),
        }
    }

    async fn knows_user(&self, user_id: u64) -> Option<bool> {
        Some(self.kept.lock().available.keys().any(|(user, _)| *user == user_id))
    }

    fn health(&self) -> EndpointHealth {
        EndpointHealth {
            endpoint: "http://double".to_owned(),
            up: true,
            detail: "ok".to_owned(),
            calls: self.calls.load(Ordering::SeqCst),
            errors: 0,
            breaker_open: false,
            mean_latency_ms: 0.0,
            caught: None,
        }
    }

    async fn check(&self) -> Result<String, RailError> {
        Ok("double: ok".to_owned())
    }
}

#[async_trait]
impl Ground for Double {
    fn service(&self) -> &dyn ServiceAdapter {
        self
    }

    fn req_id(&self) -> String {
        let number = self.ids.fetch_add(1, Ordering::SeqCst);
        format!("00000000-0000-0000-0000-{number:012}")
    }

    async fn account(&self, holds: u64) -> Account {
        let user_id = 1 + self.ids.fetch_add(1, Ordering::SeqCst);
        self.kept.lock().available.insert((user_id, 1), holds);
        Account { user_id, asset_id: 1 }
    }

    async fn fund(&self, Account { user_id, asset_id }: Account, amount: u64) {
        *self.kept.lock().available.entry((user_id, asset_id)).or_default() += amount;
    }

    async fn available(&self, Account { user_id, asset_id }: Account) -> u64 {
        self.kept.lock().available.get(&(user_id, asset_id)).copied().unwrap_or(0)
    }

    async fn refuse_deposits(&self, Account { user_id, asset_id }: Account, refuse: bool) -> bool {
        self.kept.lock().shut.insert((user_id, asset_id), refuse);
        true
    }

    async fn pause(&self) {}
}
