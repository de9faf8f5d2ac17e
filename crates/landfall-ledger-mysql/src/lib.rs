//! The book of an account service on MySQL 8 or MariaDB: any number of instances serve it at once.
//!
//! Operations of many callers go together ([`landfall_gather`]): a batch locks the service's head,
//! reads what it is about, is decided in memory ([`landfall_ledger::sheet`]), and is written and
//! committed: two round trips and one sync, however many there are.
//! **Invariant:** the head is locked from before the first read until the commit. So operations of
//! all instances are done one batch after the other, their numbers have no gaps, and whoever reads
//! a line can read all before it.
//! **Invariant:** a server that can forget a commit is refused, with no exception: a service that
//! forgets what it has answered breaks the promise that everything else stands on.
//! Sessions, encryption and what a server must be are those of the store
//! (`landfall_store_mysql::sessions`). Not here: what an operation does (`rules`).

mod migrations;
mod open;
mod rows;
mod writer;

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use landfall_gather::{Gather, Options};
use landfall_ledger::book::Result;
use landfall_ledger::{
    AccountId, Answer, Balance, Balances, Book, BookError, Contract, Operation, Outcome, ReqId,
    Span, Statement, Verb,
};
use landfall_store_mysql::sessions::{Connections, Done, Fault};

use crate::rows::Rows;
use crate::writer::Job;

pub use crate::open::OpenError;

/// Operations in one commit: more gain nothing, and make everybody in it wait longer.
const BATCH_OPERATIONS: usize = 500;

/// How the book uses the server.
#[derive(Debug, Clone)]
pub struct MysqlOptions {
    /// Most connections at once. One writes; the others read.
    pub connections: usize,
    /// Longest that a batch or a read waits for its answer.
    pub timeout: Duration,
    /// Encrypt, and check the server against the authorities in this file as well (PEM).
    pub tls_ca: Option<PathBuf>,
}

impl Default for MysqlOptions {
    fn default() -> MysqlOptions {
        MysqlOptions { connections: 4, timeout: Duration::from_secs(10), tls_ca: None }
    }
}

/// What batches and reads share.
struct Shared {
    connections: Connections,
    contract: Contract,
    /// The service's number in this database.
    service: i64,
    timeout: Duration,
}

impl Shared {
    /// Gives up on what takes too long; a connection that it was using is closed.
    async fn within<T>(&self, work: impl Future<Output = Done<T>>) -> Result<T> {
        match tokio::time::timeout(self.timeout, work).await {
            Ok(done) => done.map_err(broken),
            Err(_) => Err(BookError::Unavailable(format!("no answer within {:?}", self.timeout))),
        }
    }
}

/// What a session met, in the words of books.
fn broken(fault: Fault) -> BookError {
    match fault {
        // Keys are given under a lock: one that is taken contradicts the rules.
        Fault::Corrupt(why) | Fault::Duplicate(why) => BookError::Corrupt(why),
        Fault::Again(why) | Fault::Lost(why) | Fault::Refused(why) => BookError::Unavailable(why),
    }
}

/// A book on a server. Reconnects by itself.
pub struct MysqlBook {
    shared: Arc<Shared>,
    applying: Gather<Job, Result<Answer>, BookError>,
}

impl MysqlBook {
    /// Connects, checks the server, brings the tables up to date, and opens the book of that
    /// service in the database that `url` names, making it if there is none. Refuses a service of
    /// that name that is of another kind. Needs a runtime around it for as long as the book lives.
    pub async fn open(
        url: &str,
        contract: Contract,
        options: MysqlOptions,
    ) -> std::result::Result<MysqlBook, OpenError> {
        let (connections, service) = open::open(url, &contract, &options).await?;
        let timeout = options.timeout;
        let shared = Arc::new(Shared { connections, contract, service, timeout });
        let batches = Options { batch_max: BATCH_OPERATIONS, flights: 1 };
        let of_batches = shared.clone();
        let applying = Gather::start(batches, move |jobs: Vec<Job>| {
            let shared = of_batches.clone();
            async move { together(&shared, jobs).await }
        });
        Ok(MysqlBook { shared, applying })
    }

    fn rows(&self) -> Rows<'_> {
        Rows { connections: &self.shared.connections, service: self.shared.service }
    }
}

/// One commit for all. An operation that contradicts what is kept must not spoil it for the others:
/// then each is done alone.
async fn together(shared: &Shared, jobs: Vec<Job>) -> Result<Vec<Result<Answer>>> {
    match run(shared, &jobs).await {
        Ok(answers) => Ok(answers.into_iter().map(Ok).collect()),
        Err(BookError::Corrupt(error)) if jobs.len() > 1 => {
            tracing::warn!(%error, jobs = jobs.len(), "a batch failed; doing each alone");
            let mut answers = Vec::with_capacity(jobs.len());
            for job in &jobs {
                let alone = run(shared, std::slice::from_ref(job)).await;
                answers.push(alone.and_then(|mut answers| answers.pop().ok_or_else(lost)));
            }
            Ok(answers)
        }
        Err(error) => Err(error),
    }
}

async fn run(shared: &Shared, jobs: &[Job]) -> Result<Vec<Answer>> {
    let (kind, service) = (shared.contract.kind, shared.service);
    shared.within(writer::apply(&shared.connections, service, kind, jobs)).await
}

fn lost() -> BookError {
    BookError::Unavailable("the book was closed, or a batch ended without an answer".into())
}

#[async_trait]
impl Book for MysqlBook {
    fn contract(&self) -> &Contract {
        &self.shared.contract
    }

    async fn apply(&self, operations: Vec<Operation>, at_ms: u64) -> Result<Vec<Answer>> {
        let jobs = operations.into_iter().map(|operation| Job { operation, at_ms }).collect();
        let answers = self.applying.call_now(jobs).await.map_err(|_| lost())??;
        answers.into_iter().collect()
    }

    async fn query(&self, req_id: ReqId, verb: Verb) -> Result<Option<Outcome>> {
        self.shared.within(self.rows().outcome(req_id, verb)).await
    }

    async fn block(&self, account: AccountId, blocked: bool) -> Result<bool> {
        let Shared { connections, service, .. } = self.shared.as_ref();
        self.shared.within(writer::block(connections, *service, account, blocked)).await
    }

    async fn accounts(&self, user_id: u64) -> Result<Vec<Balance>> {
        self.shared.within(self.rows().accounts(user_id)).await
    }

    async fn balances(&self, after: u64, limit: usize) -> Result<Balances> {
        self.shared.within(self.rows().balances(after, limit)).await
    }

    async fn statement(&self, span: Span) -> Result<Statement> {
        self.shared.within(self.rows().statement(&span)).await
    }
}
