//! The book in one file, the default: no server.
//!
//! One thread writes ([`Writer`]): operations of many callers go into one transaction, so one fsync
//! answers them all. Others read beside it ([`Readers`]). No file is touched on a caller's thread
//! once the book is open.
//! **Invariant:** one process writes; a lock file beside the book refuses a second.
//! Not here: what an operation does (`rules`).

mod fault;
mod migrations;
mod open;
mod rows;
mod writer;

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use landfall_sqlite::{Keeper, Load, Readers, Writer};
use rusqlite::Connection;

use crate::book::{Balances, Book, Result, Span, Statement};
use crate::words::{AccountId, Answer, Balance, Contract, Operation, Outcome, ReqId, Verb};

use fault::{Done, Fault, told};
use writer::{BookKeeper, Tx};

pub use open::OpenError;

/// Every caller waits for an answer, and one is about as much work as another.
const OPERATION: Load = Load::Urgent(1);

/// How the book uses the machine.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// Threads that read beside the writer, each with a connection of its own.
    pub readers: usize,
    /// How long a connection waits for another process (a backup) to let go.
    pub busy_timeout: Duration,
}

impl Default for SqliteOptions {
    fn default() -> SqliteOptions {
        SqliteOptions { readers: 1, busy_timeout: Duration::from_secs(5) }
    }
}

/// A book in one file. Dropping it waits until what was asked is written and the file is closed.
pub struct SqliteBook {
    contract: Contract,
    // Before the writer, so that it goes first: the writer's close then empties the WAL.
    readers: Readers<()>,
    writer: Writer<BookKeeper>,
}

impl SqliteBook {
    /// Opens the book of that service, making the file if there is none and bringing its schema up
    /// to date. Refuses the book of another service or kind. Blocks.
    pub fn open(
        path: impl AsRef<Path>,
        contract: Contract,
        options: SqliteOptions,
    ) -> std::result::Result<SqliteBook, OpenError> {
        let path = path.as_ref();
        let unavailable = |fault: Fault| OpenError::Unavailable {
            path: path.to_path_buf(),
            cause: told(fault).to_string(),
        };
        let lock = open::lock(path)?;
        let db = open::writer(path, options.busy_timeout)?;
        open::check_contract(&db, path, &contract)?;
        let connections = (0..options.readers.max(1))
            .map(|_| open::reader(path, options.busy_timeout))
            .collect::<std::result::Result<Vec<_>, OpenError>>()?;
        let readers = Readers::start(BookKeeper::NAME, connections, &()).map_err(unavailable)?;
        let keeper = BookKeeper::new(db, contract.kind).map_err(unavailable)?;
        let writer = Writer::start(keeper, lock).map_err(unavailable)?;
        Ok(SqliteBook { contract, readers, writer })
    }

    async fn write<T: Send + 'static>(
        &self,
        job: impl FnMut(&mut Tx<'_>) -> Done<T> + Send + 'static,
    ) -> Result<T> {
        self.writer.call(OPERATION, job).await.map_err(told)
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Done<T> + Send + 'static,
    ) -> Result<T> {
        self.readers.call(move |db, ()| read(db)).await.map_err(told)
    }
}

#[async_trait]
impl Book for SqliteBook {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    async fn apply(&self, operations: Vec<Operation>, at_ms: u64) -> Result<Vec<Answer>> {
        let all = move |tx: &mut Tx<'_>| {
            operations.iter().map(|operation| tx.apply(operation, at_ms)).collect()
        };
        self.write(all).await
    }

    async fn query(&self, req_id: ReqId, verb: Verb) -> Result<Option<Outcome>> {
        self.read(move |db| rows::outcome(db, req_id, verb)).await
    }

    async fn block(&self, account: AccountId, blocked: bool) -> Result<bool> {
        self.write(move |tx| rows::block(tx.db, account, blocked)).await
    }

    async fn accounts(&self, user_id: u64) -> Result<Vec<Balance>> {
        self.read(move |db| rows::accounts(db, user_id)).await
    }

    async fn balances(&self, after: u64, limit: usize) -> Result<Balances> {
        let page = move |db: &_| {
            Ok(Balances { balances: rows::balances(db, after, limit)?, head: rows::head(db)? })
        };
        self.read(page).await
    }

    async fn statement(&self, span: Span) -> Result<Statement> {
        let page = move |db: &_| {
            Ok(Statement { entries: rows::entries(db, &span)?, head: rows::head(db)? })
        };
        self.read(page).await
    }
}
