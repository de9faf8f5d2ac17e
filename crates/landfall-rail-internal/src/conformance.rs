//! What every service must pass before a cent is trusted to it: the contract of
//! [`ServiceAdapter`], as far as it can be seen from outside.
//!
//! [`exercise_service`] runs every check, each with accounts and ids of its own, and names all that
//! failed. It moves real amounts: run it on a test instance.
//! Not here: crashes of the service (its own tests), what a relay does with the answers.

mod checks;

use std::fmt;

use async_trait::async_trait;

use crate::adapter::{Answer, Leg, Operation, ServiceAdapter, Standing};

/// Times that an operation still in progress is asked for before the suite gives up.
const PATIENCE: u32 = 100;

/// One user's holding of one asset at the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    pub user_id: u64,
    pub asset_id: u32,
}

/// The service under test, and what the suite needs around it.
#[async_trait]
pub trait Ground: Send + Sync {
    fn service(&self) -> &dyn ServiceAdapter;

    /// A UUID never given before.
    fn req_id(&self) -> String;

    /// An account never given before that holds exactly this much.
    async fn account(&self, holds: u64) -> Account;

    /// Adds to what an account holds, by other means than a deposit under a request id.
    async fn fund(&self, account: Account, amount: u64);

    /// What the account's owner can spend now.
    async fn available(&self, account: Account) -> u64;

    /// Makes the service refuse deposits into an account, or take them again. False if it cannot
    /// be made to; then refused deposits are not checked.
    async fn refuse_deposits(&self, account: Account, refuse: bool) -> bool;

    /// Lets some time pass before an operation is asked for again.
    async fn pause(&self);
}

/// A check that failed, and what was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    pub check: &'static str,
    pub seen: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check, self.seen)
    }
}

/// Runs every check; all breaches are told, not only the first.
pub async fn exercise_service(ground: &dyn Ground) -> Result<(), Vec<Breach>> {
    let mut breaches = Vec::new();
    for (check, run) in checks::CHECKS {
        if let Err(seen) = run(Bench { ground }).await {
            breaches.push(Breach { check, seen });
        }
    }
    if breaches.is_empty() { Ok(()) } else { Err(breaches) }
}

/// How an operation ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Done,
    Refused,
}

/// What was expected and not seen.
type Checked<T = ()> = Result<T, String>;

/// One check's hands.
#[derive(Clone, Copy)]
struct Bench<'a> {
    ground: &'a dyn Ground,
}

/// One transfer's id and funds at the service.
#[derive(Debug, Clone)]
struct Job {
    req_id: String,
    account: Account,
    amount: u64,
}

impl Job {
    fn of(&self, amount: u64) -> Job {
        Job { amount, ..self.clone() }
    }
}

impl Bench<'_> {
    /// A new id for an account that holds `holds`.
    async fn job(&self, holds: u64, amount: u64) -> Job {
        let account = self.ground.account(holds).await;
        Job { req_id: self.ground.req_id(), account, amount }
    }

    async fn call(&self, operation: Operation, job: &Job) -> Answer {
        let Account { user_id, asset_id } = job.account;
        let leg = Leg { req_id: &job.req_id, user_id, asset_id, amount: job.amount };
        let service = self.ground.service();
        match operation {
            Operation::Withdraw => service.withdraw(leg).await,
            Operation::Deposit => service.deposit(leg).await,
            Operation::Commit => service.commit(leg.req_id).await,
            Operation::Rollback => service.rollback(leg.req_id).await,
        }
    }

    async fn query(&self, operation: Operation, job: &Job) -> Standing {
        let mut standing = self.ground.service().query(&job.req_id, operation).await;
        let mut tries = 0;
        while tries < PATIENCE && matches!(standing, Standing::NoAnswer { .. }) {
            tries += 1;
            self.ground.pause().await;
            standing = self.ground.service().query(&job.req_id, operation).await;
        }
        standing
    }

    /// Makes a call until it is known how it ended, as a relay would.
    async fn settled(&self, operation: Operation, job: &Job) -> Checked<Outcome> {
        for _ in 0..PATIENCE {
            match self.call(operation, job).await {
                Answer::Done => return Ok(Outcome::Done),
                Answer::Refused(_) => return Ok(Outcome::Refused),
                Answer::Pending { .. } => self.ground.pause().await,
            }
            match self.query(operation, job).await {
                Standing::Done => return Ok(Outcome::Done),
                Standing::Refused(_) => return Ok(Outcome::Refused),
                _ => self.ground.pause().await,
            }
        }
        Err(format!("{operation} is still not known after {PATIENCE} tries"))
    }

    async fn ends(&self, operation: Operation, job: &Job, expected: Outcome) -> Checked {
        let seen = self.settled(operation, job).await?;
        let amount = job.amount;
        same(&format!("{operation} of {amount}"), seen, expected)
    }

    async fn holds(&self, when: &str, job: &Job, expected: u64) -> Checked {
        same(&format!("available {when}"), self.ground.available(job.account).await, expected)
    }

    async fn stands(&self, operation: Operation, job: &Job, expected: &str) -> Checked {
        let seen = match self.query(operation, job).await {
            Standing::Done => "done",
            Standing::Refused(_) => "refused",
            Standing::InProgress => "in progress",
            Standing::Unknown => "unknown",
            Standing::NoAnswer { .. } => "no answer",
        };
        same(&format!("query of {operation}"), seen, expected)
    }
}

fn same<T: PartialEq + fmt::Debug>(what: &str, seen: T, expected: T) -> Checked {
    match seen == expected {
        true => Ok(()),
        false => Err(format!("{what} is {seen:?}, not {expected:?}")),
    }
}

#[cfg(test)]
mod tests;
