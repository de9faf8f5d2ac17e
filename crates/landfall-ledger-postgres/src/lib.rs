//! The book of an account service on PostgreSQL: any number of instances serve it at once.
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
//! (`landfall_store_postgres::sessions`). Not here: what an operation does (`rules`).

mod migrations;
mod open;
mod rows;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use landfall_gather::{Gather, Options};
use landfall_ledger::book::Result;
use landfall_ledger::{
    AccountId, Answer, Balance, Balances, Book, BookError, Contract, Operation, Outcome, ReqId,
    Span, Statement, Verb,
};
use landfall_store_postgres::sessions::Connections;

use crate::open::broken;
use crate::writer::{Batch, Blocking, Job};

pub use crate::open::OpenError;

/// Operations in one commit: more gain nothing, and make everybody in it wait longer.
const BATCH_OPERATIONS: usize = 1_000;

/// How the book uses the server.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// The schema that holds the tables, those of all services in the database.
    pub schema: String,
    /// Most connections at once. One writes; the others read.
    pub connections: usize,
    /// How long one statement may take, and about how long a call that gets no answer.
    pub timeout: Duration,
}

impl Default for PostgresOptions {
    fn default() -> PostgresOptions {
        PostgresOptions {
            schema: "landfall_ledger".into(),
            connections: 4,
            timeout: Duration::from_secs(10),
        }
    }
}

/// What batches and reads share.
struct Shared {
    connections: Connections,
    contract: Contract,
    /// The service's number in this database.
    service: i32,
}

/// A book on a PostgreSQL server. Reconnects by itself.
pub struct PostgresBook {
    shared: Arc<Shared>,
    applying: Gather<Job, Result<Answer>, BookError>,
}

impl PostgresBook {
    /// Connects, checks the server, brings the schema up to date, and opens the book of that
    /// service, making it if there is none. Refuses a service of that name that is of another
    /// kind. Needs a runtime around it for as long as the book lives.
    pub async fn open(
        url: &str,
        contract: Contract,
        options: PostgresOptions,
    ) -> std::result::Result<PostgresBook, OpenError> {
        let (connections, service) = open::open(url, &contract, &options).await?;
        let shared = Arc::new(Shared { connections, contract, service });
        let batches = Options { batch_max: BATCH_OPERATIONS, flights: 1 };
        let of_batches = shared.clone();
        let applying = Gather::start(batches, move |jobs: Vec<Job>| {
            let shared = of_batches.clone();
            async move { together(&shared, jobs).await }
        });
        Ok(PostgresBook { shared, applying })
    }

    async fn query(
        &self,
        sql: &str,
        values: landfall_store_postgres::sessions::Values<'_>,
    ) -> Result<Vec<tokio_postgres::Row>> {
        self.shared.connections.query(sql, values).await.map_err(broken)
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
    let batch = Batch { jobs, service: shared.service, kind: shared.contract.kind };
    shared.connections.transact(&batch).await.map_err(broken)
}

fn lost() -> BookError {
    BookError::Unavailable("the book was closed, or a batch ended without an answer".into())
}

#[async_trait]
impl Book for PostgresBook {
    fn contract(&self) -> &Contract {
        &self.shared.contract
    }

    async fn apply(&self, operations: Vec<Operation>, at_ms: u64) -> Result<Vec<Answer>> {
        let jobs = operations.into_iter().map(|operation| Job { operation, at_ms }).collect();
        let answers = self.applying.call_now(jobs).await.map_err(|_| lost())??;
        answers.into_iter().collect()
    }

    async fn query(&self, req_id: ReqId, verb: Verb) -> Result<Option<Outcome>> {
        let id = rows::bytes(req_id);
        let found = self.query(rows::OUTCOME, &[&self.shared.service, &id, &verb.name()]).await?;
        found.first().map(|row| rows::outcome_at(row, 0)).transpose().map_err(|f| broken(f.into()))
    }

    async fn block(&self, account: AccountId, blocked: bool) -> Result<bool> {
        let work = Blocking { service: self.shared.service, account, blocked };
        self.shared.connections.transact(&work).await.map_err(broken)
    }

    async fn accounts(&self, user_id: u64) -> Result<Vec<Balance>> {
        let user = rows::bits(user_id);
        let found = self.query(rows::ACCOUNTS_OF, &[&self.shared.service, &user]).await?;
        let balances: std::result::Result<_, _> =
            found.iter().map(|row| rows::balance_at(row, 0)).collect();
        balances.map_err(|fault: rows::Fault| broken(fault.into()))
    }

    async fn balances(&self, after: u64, limit: usize) -> Result<Balances> {
        let (after, limit) = (rows::count(after), rows::count(limit as u64));
        let found = self.query(rows::BALANCES, &[&self.shared.service, &after, &limit]).await?;
        let page = rows::page(&found, rows::balance_at).map_err(|fault| broken(fault.into()))?;
        Ok(Balances { balances: page.lines, head: page.head })
    }

    async fn statement(&self, span: Span) -> Result<Statement> {
        let (after, until) = (rows::count(span.after), rows::count(span.until));
        let limit = rows::count(span.limit as u64);
        let service = &self.shared.service;
        let found = match span.account {
            None => self.query(rows::STATEMENT, &[service, &after, &until, &limit]).await?,
            Some(AccountId { user_id, asset_id }) => {
                let (user, asset) = (rows::bits(user_id), i64::from(asset_id));
                let values: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
                    [service, &after, &until, &limit, &user, &asset];
                self.query(rows::STATEMENT_OF, &values).await?
            }
        };
        let page = rows::page(&found, rows::entry_at).map_err(|fault| broken(fault.into()))?;
        Ok(Statement { entries: page.lines, head: page.head })
    }
}
