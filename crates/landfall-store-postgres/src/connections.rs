//! Connections: each set up before its first use, checked, and given up when it is in doubt.
//!
//! **Invariant:** a session whose commits the server might forget is never used, unless the options
//! accept that by name.
//! **Rule:** every call ends: the server cancels a statement after the timeout, and a server that
//! says nothing for a little longer than that is given up. A session that keeps others waiting in
//! the middle of a transaction (its process is stopped, its network is gone) is ended by the
//! server.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use deadpool::managed::{self, Metrics, Object, PoolError, RecycleError, RecycleResult, Timeouts};
use futures::FutureExt;
use futures::future::{BoxFuture, maybe_done};
use landfall_core::store::{Result, StoreError};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Row, SimpleQueryMessage, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::fault::{Done, Fault, corrupt, unavailable};
use crate::migrations::{IDENTITY, quoted};

/// How much longer than the server we wait, so that it is the server who cancels.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long a session may pause inside a transaction: between its two flights lies nothing but our
/// own thinking. Others wait for its rows meanwhile, a lane's next holder among them.
const IDLE_IN_TRANSACTION_MS: u64 = 3_000;

/// The oldest PostgreSQL with all that is used here, as it numbers itself, and as people do.
const VERSION_LEAST: u32 = 130_000;
const TOO_OLD: &str = "upgrade it to 13 or newer";
const NOT_UNICODE: &str = "create one with `createdb --encoding=UTF8 --template=template0`";

/// How often the same is tried when others are in the way. Rows are locked in one order, so it
/// happens seldom, and never to everybody.
const TRIES: usize = 20;

/// Parameters of a statement.
pub type Values<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A session with its prepared statements.
pub struct Connection {
    pub client: Client,
    statements: HashMap<String, Statement>,
    /// Something was begun that has not ended: nobody may use it after that.
    in_doubt: bool,
}

impl Connection {
    /// Prepared once per session.
    pub(crate) async fn prepare(&mut self, sql: &str) -> Done<Statement> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).await?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}

/// Several statements in one transaction, which they begin and commit themselves. May run twice.
pub trait Work: Send + Sync {
    type Answer: Send;

    fn run(&self, db: &mut Connection) -> impl Future<Output = Done<Self::Answer>> + Send;
}

/// What every session is.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub schema: String,
    pub timeout: Duration,
    pub accept_durability: Vec<String>,
}

/// Makes sessions.
pub(crate) struct Maker {
    pub config: Config,
    pub tls: MakeRustlsConnect,
    pub session: Session,
    /// The store that was opened; none until it is.
    pub identity: Arc<OnceLock<String>>,
}

/// A session that cannot be had.
#[derive(Debug)]
pub(crate) enum NoSession {
    Connect(tokio_postgres::Error),
    /// The server may forget what it answered: the setting and its value.
    Forgetful {
        setting: &'static str,
        value: String,
    },
    /// It follows another server and takes no writes.
    Replica,
    /// It is not one that we can work with: what it is, and what it should be.
    Unfit {
        found: String,
        remedy: &'static str,
    },
    Fault(Fault),
}

impl From<tokio_postgres::Error> for NoSession {
    fn from(error: tokio_postgres::Error) -> NoSession {
        NoSession::Fault(error.into())
    }
}

impl From<NoSession> for Fault {
    fn from(reason: NoSession) -> Fault {
        match reason {
            NoSession::Connect(error) => unavailable(crate::open::cause(&error)),
            NoSession::Forgetful { setting, value } => {
                unavailable(format!("the server now has {setting} = {value} and may forget"))
            }
            NoSession::Replica => unavailable("the server has become a replica"),
            NoSession::Unfit { found, .. } => unavailable(format!("the server now {found}")),
            NoSession::Fault(fault) => fault,
        }
    }
}

impl Maker {
    pub(crate) async fn connect(&self) -> std::result::Result<Connection, NoSession> {
        let connected = self.config.connect(self.tls.clone());
        let (client, driver) = connected.await.map_err(NoSession::Connect)?;
        tokio::spawn(async move {
            // Whoever waits for an answer hears of it; it ends when its client is dropped.
            if let Err(error) = driver.await {
                tracing::debug!(%error, "a connection to the store was lost");
            }
        });
        let commit = self.check_durability(&client).await?;
        client.batch_execute(&self.session.set_up(&commit)).await?;
        if let Some(identity) = self.identity.get() {
            let found: String = client.query_one(IDENTITY, &[]).await?.get(0);
            if found != *identity {
                let why = "the database holds another store than the one that was opened; restart \
                           to work on it";
                return Err(NoSession::Fault(corrupt(why)));
            }
        }
        Ok(Connection { client, statements: HashMap::new(), in_doubt: false })
    }

    /// Asked on every session: a server can be reconfigured, or another one take its place. Returns
    /// its `synchronous_commit`.
    async fn check_durability(&self, client: &Client) -> std::result::Result<String, NoSession> {
        let sql = "SELECT pg_is_in_recovery(), current_setting('fsync'),
            current_setting('full_page_writes'), current_setting('synchronous_commit'),
            current_setting('server_version_num'), current_setting('server_encoding')";
        let messages = client.simple_query(sql).await?;
        let row = messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let value = |column: usize| row.and_then(|row| row.get(column)).unwrap_or_default();
        if value(4).parse().is_ok_and(|version: u32| version < VERSION_LEAST) {
            let found = format!("is PostgreSQL {}", value(4));
            return Err(NoSession::Unfit { found, remedy: TOO_OLD });
        }
        if value(5) != "UTF8" {
            let found = format!("keeps text as {}", value(5));
            return Err(NoSession::Unfit { found, remedy: NOT_UNICODE });
        }
        if value(0) == "t" {
            return Err(NoSession::Replica);
        }
        let checks: [(&str, &str, &[&str]); 3] = [
            ("fsync", value(1), &["on"]),
            ("full_page_writes", value(2), &["on"]),
            ("synchronous_commit", value(3), &["on", "remote_apply"]),
        ];
        for (setting, value, good) in checks {
            let accepted = self.session.accept_durability.iter().any(|name| name == setting);
            if !good.contains(&value) && !accepted {
                return Err(NoSession::Forgetful { setting, value: value.to_owned() });
            }
        }
        Ok(value(3).to_owned())
    }
}

impl Session {
    /// Nothing is left to what the server, the database or the role may have as a default.
    ///
    /// Batches arrive as arrays whose length the planner does not know. Tables are new, then large,
    /// and statistics are late; a plan that reads a whole table is a disaster later. So joins
    /// follow the batch, row by row through an index, always, and are planned once.
    ///
    /// `synchronous_commit` is set to what it is. Whoever gave it a weaker default meant it, and is
    /// told rather than overruled; but once it was found good (or accepted by name), no reload of
    /// the configuration may weaken it under a session that lasts for days.
    fn set_up(&self, commit: &str) -> String {
        format!(
            "SET search_path = {};
             SET statement_timeout = {};
             SET idle_in_transaction_session_timeout = {IDLE_IN_TRANSACTION_MS};
             SET default_transaction_isolation = 'read committed';
             SET default_transaction_read_only = off;
             SET synchronous_commit = {commit};
             SET plan_cache_mode = force_generic_plan;
             SET enable_hashjoin = off; SET enable_mergejoin = off;
             SET enable_seqscan = off; SET enable_bitmapscan = off;
             SET jit = off",
            quoted(&self.schema),
            self.timeout.as_millis().max(1),
        )
    }
}

impl managed::Manager for Maker {
    type Type = Connection;
    type Error = NoSession;

    async fn create(&self) -> std::result::Result<Connection, NoSession> {
        self.connect().await
    }

    async fn recycle(&self, db: &mut Connection, _: &Metrics) -> RecycleResult<NoSession> {
        if db.in_doubt || db.client.is_closed() {
            return Err(RecycleError::message("in doubt"));
        }
        Ok(())
    }
}

/// All sessions of one store.
pub struct Connections {
    pool: managed::Pool<Maker>,
    timeout: Duration,
}

impl Connections {
    pub(crate) fn new(maker: Maker, size: usize) -> std::result::Result<Connections, String> {
        let timeout = maker.session.timeout;
        let timeouts = Timeouts { wait: Some(timeout), create: Some(timeout), recycle: None };
        let pool = managed::Pool::builder(maker)
            .max_size(size.max(1))
            .timeouts(timeouts)
            .runtime(deadpool::Runtime::Tokio1)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Connections { pool, timeout })
    }

    async fn get(&self) -> Result<Object<Maker>> {
        self.pool.get().await.map_err(|error| match error {
            PoolError::Backend(reason) => Fault::from(reason).into(),
            PoolError::Timeout(_) => StoreError::Unavailable("no connection in time".into()),
            _ => StoreError::Unavailable("the store was closed".into()),
        })
    }

    /// Runs the work, again while others are in its way.
    pub async fn transact<W: Work>(&self, work: &W) -> Result<W::Answer> {
        let mut last = String::new();
        for _ in 0..TRIES {
            let mut db = self.get().await?;
            db.in_doubt = true;
            let Ok(done) = tokio::time::timeout(self.timeout + PATIENCE, work.run(&mut db)).await
            else {
                return Err(given_up(db));
            };
            let fault = match done {
                Ok(answer) => {
                    db.in_doubt = false;
                    return Ok(answer);
                }
                Err(fault) => fault,
            };
            match tokio::time::timeout(PATIENCE, db.roll_back()).await {
                Ok(Ok(())) => db.in_doubt = false,
                _ => drop(given_up(db)),
            }
            match fault {
                Fault::Again(why) => last = why,
                Fault::Store(error) => return Err(error),
            }
        }
        Err(StoreError::Unavailable(last))
    }

    /// One statement, committed by itself.
    pub async fn query(&self, sql: &str, values: Values<'_>) -> Result<Vec<Row>> {
        let mut last = String::new();
        for _ in 0..TRIES {
            let mut db = self.get().await?;
            db.in_doubt = true;
            let asked = ask(&mut db, sql, values);
            let Ok(done) = tokio::time::timeout(self.timeout + PATIENCE, asked).await else {
                return Err(given_up(db));
            };
            db.in_doubt = false;
            match done {
                Ok(rows) => return Ok(rows),
                Err(Fault::Again(why)) => last = why,
                Err(Fault::Store(error)) => return Err(error),
            }
        }
        Err(StoreError::Unavailable(last))
    }
}

async fn ask(db: &mut Connection, sql: &str, values: Values<'_>) -> Done<Vec<Row>> {
    let statement = db.prepare(sql).await?;
    Ok(db.client.query(&statement, values).await?)
}

/// Ends the session at once: left in the pool it would keep its locks until somebody looks at it.
fn given_up(db: Object<Maker>) -> StoreError {
    drop(Object::take(db));
    StoreError::Unavailable("the database does not answer".into())
}

/// A statement of a flight; none where the batch does not need it.
pub type Ask<'a> = Option<(&'static str, Values<'a>)>;

/// A value that a write owns.
pub type Value = Box<dyn ToSql + Sync + Send>;

/// A statement of a last flight.
pub struct Write {
    pub sql: &'static str,
    pub values: Vec<Value>,
    /// How many rows it must change, if that is known.
    pub rows: Option<usize>,
}

impl Connection {
    /// Begins a transaction and asks, all in one flight. The rows of each, in order.
    pub async fn begin(&mut self, asks: &[Ask<'_>]) -> Done<Vec<Vec<Row>>> {
        let mut statements = Vec::with_capacity(asks.len());
        for ask in asks {
            statements.push(match ask {
                Some((sql, _)) => Some(self.prepare(sql).await?),
                None => None,
            });
        }
        let client = &self.client;
        let mut flight: Vec<BoxFuture<'_, Done<Vec<Row>>>> = vec![say(client, "BEGIN").boxed()];
        for (ask, statement) in asks.iter().zip(&statements) {
            let asked = async move {
                Ok(match (ask, statement) {
                    (Some((_, values)), Some(statement)) => client.query(statement, values).await?,
                    _ => Vec::new(),
                })
            };
            flight.push(asked.boxed());
        }
        let mut answers = in_order(flight).await?;
        Ok(answers.split_off(1))
    }

    /// Writes and commits, all in one flight. If a write fails, or changes other than so many rows,
    /// the commit after it undoes all.
    pub async fn commit(&mut self, writes: &[Write]) -> Done<()> {
        let mut statements = Vec::with_capacity(writes.len());
        for write in writes {
            statements.push(match write.rows {
                Some(_) => self.prepare(&counted(write.sql, write.values.len())).await?,
                None => self.prepare(write.sql).await?,
            });
        }
        let client = &self.client;
        let mut flight: Vec<BoxFuture<'_, Done<Vec<Row>>>> = Vec::with_capacity(writes.len() + 1);
        for (write, statement) in writes.iter().zip(&statements) {
            flight.push(write.send(client, statement).boxed());
        }
        flight.push(say(client, "COMMIT").boxed());
        in_order(flight).await.map(|_| ())
    }

    /// Ends a transaction that has nothing to keep.
    pub async fn roll_back(&self) -> Done<()> {
        say(&self.client, "ROLLBACK").await.map(|_| ())
    }
}

impl Write {
    async fn send(&self, client: &Client, statement: &Statement) -> Done<Vec<Row>> {
        let mut values: Vec<&(dyn ToSql + Sync)> =
            self.values.iter().map(|value| value.as_ref() as _).collect();
        let rows = self.rows.map(|rows| rows as i64);
        values.extend(rows.iter().map(|rows| rows as &(dyn ToSql + Sync)));
        client.execute(statement, &values).await?;
        Ok(Vec::new())
    }
}

/// The statement, and how many rows it must change as a value after its own.
///
/// The commit is on its way before the answer is: so it is the server that compares, and fails with
/// what it found. The rows are locked: that is a mistake of ours, or of the data.
fn counted(sql: &str, values: usize) -> String {
    let rows = format!("${}::bigint", values + 1);
    format!(
        "WITH written AS ({sql} RETURNING 1) SELECT CASE WHEN count(*) = {rows} THEN 0
         ELSE (count(*) || ' rows instead of ' || {rows})::int END FROM written"
    )
}

async fn say(client: &Client, word: &'static str) -> Done<Vec<Row>> {
    client.batch_execute(word).await?;
    Ok(Vec::new())
}

/// Sends all of them in their order before the first answer is awaited, and awaits them all.
async fn in_order<T>(flight: Vec<BoxFuture<'_, Done<T>>>) -> Done<Vec<T>> {
    let mut flight: Vec<_> = flight.into_iter().map(maybe_done).collect();
    poll_fn(|context| {
        let mut all = Poll::Ready(());
        for one in &mut flight {
            if Pin::new(one).poll(context).is_pending() {
                all = Poll::Pending;
            }
        }
        all
    })
    .await;
    // The first failure is the reason for those after it.
    let answers = flight.iter_mut().filter_map(|one| Pin::new(one).take_output());
    answers.collect()
}
