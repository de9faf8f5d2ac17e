//! Connections: a bounded number, each prepared the same way, thrown away when in doubt.
//!
//! **Rule:** a connection goes back to the others only by [`Session::done`]. Whoever drops it in
//! the middle of something (a timeout, a caller that went away) closes it, and the server rolls
//! back.
//! **Rule:** one that turns out to be gone takes the idle ones with it: they were to the same
//! server. So the call after the failed one begins with a new connection.

use std::sync::Arc;
use std::time::Duration;

use mysql_async::prelude::{FromValue, Queryable};
use mysql_async::{Conn, Opts, Row};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::fault::{Done, Fault, corrupt};
use crate::life::Identity;
use crate::settings::{Flavour, Settings};
use crate::sql::Script;

/// How long a session may stand still in the middle of a transaction, in seconds. Between two of
/// its statements lies nothing but a round trip.
const STANDSTILL_S: u64 = 3;

/// How often a transaction that met others is begun again before it is given up.
const TRIES: usize = 50;

/// Does the work on a session until it meets nobody. The work MUST end with a commit, or have
/// written nothing. (A closure would do, if the futures of async closures could be told to be
/// `Send`.)
macro_rules! transaction {
    ($connections:expr, $session:ident => $work:expr) => {{
        let tries = $crate::connections::Tries::default();
        $crate::connections::transaction!($connections, tries, $session => $work)
    }};
    ($connections:expr, $tries:expr, $session:ident => $work:expr) => {{
        let mut tries = $tries;
        loop {
            let mut $session = $connections.session().await?;
            let done = $work.await;
            if let Some(answer) = $connections.end($session, done, &mut tries).await? {
                break Ok(answer);
            }
        }
    }};
}
pub(crate) use transaction;

/// What one statement answered.
#[derive(Debug, Default)]
pub struct Answer {
    pub rows: Vec<Row>,
    pub changed: u64,
    pub first_id: Option<u64>,
}

/// The connections of one store.
pub struct Connections {
    options: Opts,
    lock_wait: Duration,
    accepted: Vec<String>,
    idle: Arc<Mutex<Vec<Link>>>,
    room: Arc<Semaphore>,
    /// The store that every connection must lead to, once it is known.
    identity: Mutex<Option<String>>,
    /// How tables that are not the store's tell their identity.
    told_by: Option<&'static str>,
}

/// A connection that is ready to be used.
struct Link {
    conn: Conn,
    id_step: u64,
}

impl Connections {
    pub(crate) fn new(
        options: Opts,
        size: usize,
        lock_wait: Duration,
        accepted: Vec<String>,
    ) -> Connections {
        Connections {
            options,
            lock_wait,
            accepted,
            idle: Arc::default(),
            room: Arc::new(Semaphore::new(size.max(1))),
            identity: Mutex::new(None),
            told_by: None,
        }
    }

    /// For tables that are not the store's: the SQL by which they tell their identity.
    pub(crate) fn told_by(self, sql: &'static str) -> Connections {
        Connections { told_by: Some(sql), ..self }
    }

    /// From here on, connections that lead to another store are refused.
    pub(crate) fn insist_on(&self, identity: String) {
        *self.identity.lock() = Some(identity);
    }

    /// A connection, idle or new.
    pub async fn session(&self) -> Done<Session> {
        let permit = self.room.clone().acquire_owned().await;
        let permit = permit.map_err(|_| Fault::Lost("the store is closed".into()))?;
        let idle = self.idle.lock().pop();
        let link = match idle {
            Some(link) => link,
            None => self.connect(true).await?,
        };
        Ok(Session { link: Some(link), idle: self.idle.clone(), _permit: permit })
    }

    /// A new connection, to the store that the others lead to if it `insists` on that.
    async fn connect(&self, insists: bool) -> Done<Link> {
        let mut conn = Conn::new(self.options.clone()).await?;
        let settings = Settings::read(&mut conn).await?;
        settings.check(&self.accepted).map_err(|refusal| Fault::Refused(refusal.to_string()))?;
        prepare(&mut conn, &settings, self.lock_wait).await?;
        let expected = self.identity.lock().clone().filter(|_| insists);
        let found = match self.told_by {
            None => Identity::read(&mut conn).await?.map(|identity| identity.id),
            Some(sql) => conn.query_first(sql).await?,
        };
        if expected.is_some() && found != expected {
            return Err(corrupt(format!(
                "the server holds store {} where {} was; connect to the server that holds it, or \
                 restart and let an operator adopt the lanes",
                found.unwrap_or_default(),
                expected.unwrap_or_default(),
            )));
        }
        Ok(Link { conn, id_step: settings.id_step })
    }

    /// Who the store is now, whether or not that is who it was.
    pub(crate) async fn identity(&self) -> Done<Option<Identity>> {
        let _permit = self.room.acquire().await.map_err(|_| Fault::Lost("closed".into()))?;
        let idle = self.idle.lock().pop();
        let Some(mut link) = idle else {
            // Not given back: it may lead elsewhere.
            let mut link = self.connect(false).await?;
            return Identity::read(&mut link.conn).await;
        };
        let found = Identity::read(&mut link.conn).await;
        match &found {
            Ok(_) => self.idle.lock().push(link),
            Err(_) => self.idle.lock().clear(),
        }
        found
    }

    /// Ends a try: gives its answer, nothing if it is to be tried again, or why it failed.
    pub async fn end<T>(
        &self,
        mut session: Session,
        done: Done<T>,
        tries: &mut Tries,
    ) -> Done<Option<T>> {
        let fault = match done {
            Ok(answer) => {
                session.done();
                return Ok(Some(answer));
            }
            Err(fault) => fault,
        };
        if matches!(fault, Fault::Lost(_)) {
            self.idle.lock().clear();
            return Err(fault);
        }
        if let Err(lost) = session.roll_back().await {
            self.idle.lock().clear();
            return Err(lost);
        }
        session.done();
        if !tries.may_follow(&fault) {
            return Err(fault);
        }
        tracing::debug!(?fault, "a transaction met another; doing it again");
        Ok(None)
    }

    /// Runs a script that is whole in itself: it reads, or writes by one statement, or commits.
    pub async fn ask(&self, script: impl Fn() -> Script + Send + Sync) -> Done<Vec<Answer>> {
        transaction!(self, session => session.run(script()))
    }
}

/// How often a transaction has been tried.
pub struct Tries {
    left: usize,
    /// Whether a key that is taken is somebody who was faster, and not an answer.
    with_duplicates: bool,
}

impl Default for Tries {
    fn default() -> Tries {
        Tries { left: TRIES, with_duplicates: true }
    }
}

impl Tries {
    /// A key that is taken is for the caller to deal with.
    pub(crate) fn of_new_keys() -> Tries {
        Tries { left: TRIES, with_duplicates: false }
    }

    fn may_follow(&mut self, fault: &Fault) -> bool {
        self.left = self.left.saturating_sub(1);
        let met = match fault {
            Fault::Again(_) => true,
            Fault::Duplicate(_) => self.with_duplicates,
            _ => false,
        };
        met && self.left > 0
    }
}

/// What every connection is told. The isolation is `READ COMMITTED`: nothing here relies on a gap
/// being locked, and gaps that are locked make writers wait for each other.
async fn prepare(conn: &mut Conn, settings: &Settings, lock_wait: Duration) -> Done<()> {
    let mut script = format!(
        "SET NAMES utf8mb4;
         SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
         SET SESSION autocommit = 1, time_zone = '+00:00', wait_timeout = 31536000,
             sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',
             innodb_lock_wait_timeout = {}",
        lock_wait.as_secs().max(1)
    );
    if settings.flavour == Flavour::MariaDb {
        // Long lists of ids are looked up, never turned into joins that scan and lock the table.
        // And whoever stands still in the middle of a transaction loses it, and all it has locked.
        // (MySQL has no such limit: there its rows stay locked until it goes on or is gone.)
        script.push_str(&format!(
            ", in_predicate_conversion_threshold = 0, idle_transaction_timeout = {STANDSTILL_S}"
        ));
    }
    conn.query_drop(script).await?;
    Ok(())
}

/// A connection in use.
pub struct Session {
    link: Option<Link>,
    idle: Arc<Mutex<Vec<Link>>>,
    _permit: OwnedSemaphorePermit,
}

impl Session {
    fn link(&mut self) -> Done<&mut Link> {
        self.link.as_mut().ok_or_else(|| Fault::Lost("the connection was given back".into()))
    }

    /// What lies between two ids that the server gives to rows of one statement.
    pub(crate) fn id_step(&self) -> u64 {
        self.link.as_ref().map_or(1, |link| link.id_step)
    }

    /// Tells this connection from the others, for spreading what all of them count.
    pub(crate) fn number(&self) -> u32 {
        self.link.as_ref().map_or(0, |link| link.conn.id())
    }

    /// Sends the script and waits for all of its answers, one per statement.
    pub async fn run(&mut self, script: Script) -> Done<Vec<Answer>> {
        let link = self.link()?;
        let mut answers = Vec::new();
        for (text, statements) in script.messages() {
            let mut result = link.conn.query_iter(text).await?;
            for _ in 0..statements {
                let (changed, first_id) = (result.affected_rows(), result.last_insert_id());
                let rows = result.collect::<Row>().await?;
                answers.push(Answer { rows, changed, first_id });
            }
        }
        Ok(answers)
    }

    async fn roll_back(&mut self) -> Done<()> {
        let mut script = Script::default();
        script.say("ROLLBACK");
        self.run(script).await.map(|_| ())
    }

    /// Gives the connection back.
    pub(crate) fn done(mut self) {
        self.idle.lock().extend(self.link.take());
    }
}

/// A value of a row, of the type that its column has.
pub fn take<T: FromValue>(row: &mut Row, column: usize) -> Done<T> {
    match row.take_opt(column) {
        Some(Ok(value)) => Ok(value),
        Some(Err(error)) => Err(corrupt(format!("a stored value is of another type: {error}"))),
        None => Err(corrupt(format!("an answer has no column {column}"))),
    }
}

/// The text of a row.
pub fn take_text(row: &mut Row, column: usize) -> Done<String> {
    String::from_utf8(take(row, column)?).map_err(|_| corrupt("a stored text is not UTF-8"))
}

pub fn take_maybe_text(row: &mut Row, column: usize) -> Done<Option<String>> {
    let bytes: Option<Vec<u8>> = take(row, column)?;
    let text = bytes.map(String::from_utf8).transpose();
    text.map_err(|_| corrupt("a stored text is not UTF-8"))
}

pub(crate) fn take_digest(row: &mut Row, column: usize) -> Done<[u8; 32]> {
    let bytes: Vec<u8> = take(row, column)?;
    bytes.try_into().map_err(|_| corrupt("a stored digest is not 32 bytes long"))
}
