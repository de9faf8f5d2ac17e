//! Opening a file: whose it is, which schema it has, and that nobody else writes to it.
//!
//! Not here: what to do about a file that cannot be opened. Whoever keeps it says so, by its path.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::fault::{Done, Fault};

/// WAL pages between checkpoints: 40 MB. Measured: the best p99, since a checkpoint is a pause.
const CHECKPOINT_PAGES: i64 = 10_000;

/// Why a file cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unopened {
    /// Another process holds its lock.
    InUse,
    /// Its schema is of a later version than this build knows.
    Newer {
        found: i64,
        known: i64,
    },
    /// It is somebody else's: this.
    Foreign(&'static str),
    Damaged(String),
    Unavailable(String),
}

impl From<std::io::Error> for Unopened {
    fn from(error: std::io::Error) -> Unopened {
        Unopened::Unavailable(error.to_string())
    }
}

impl From<rusqlite::Error> for Unopened {
    fn from(error: rusqlite::Error) -> Unopened {
        if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) {
            return Unopened::Foreign("some other file");
        }
        Fault::from(error).into()
    }
}

impl From<Fault> for Unopened {
    fn from(fault: Fault) -> Unopened {
        match fault {
            Fault::Corrupt(cause) => Unopened::Damaged(cause),
            Fault::Unavailable(cause) => Unopened::Unavailable(cause),
        }
    }
}

/// A lock file, held for one writer until this is dropped.
pub struct Lock(File);

impl Lock {
    /// Makes the file, and its folder, if there is none.
    pub fn take(path: &Path) -> Result<Lock, Unopened> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Lock(file)),
            Err(TryLockError::WouldBlock) => Err(Unopened::InUse),
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing alone would leave it locked while a child that was just forked has the file too.
        let _ = self.0.unlock();
    }
}

/// One kind of file: its mark, its schema, and the memory of its connections.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// The file's `application_id`, which tells it from any other program's.
    pub application_id: i64,
    /// Step `i` leads the schema from version `i` to `i + 1`. The version is the file's own
    /// `user_version`.
    pub steps: &'static [&'static str],
    /// Memory for pages per connection, in KiB.
    pub page_cache_kib: i64,
    /// Statements kept prepared per connection.
    pub statements_kept: usize,
}

impl Layout {
    /// The schema this build reads and writes.
    pub const fn newest(&self) -> i64 {
        self.steps.len() as i64
    }

    /// The writer's connection, to a file with the newest schema. Its [`Lock`] must be held.
    pub fn writer(&self, path: &Path, busy: Duration) -> Result<Connection, Unopened> {
        let mut db = Connection::open(path)?;
        // Before anything is written: what is not ours stays as it is.
        let version = self.version(&db)?;
        self.prepare_writer(&db, busy)?;
        self.migrate(&mut db, version)?;
        Ok(db)
    }

    /// A connection that only reads.
    pub fn reader(&self, path: &Path, busy: Duration) -> Result<Connection, Unopened> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags)?;
        self.tune(&db, busy)?;
        Ok(db)
    }

    /// The schema version of a file that is ours, or new.
    pub fn version(&self, db: &Connection) -> Result<i64, Unopened> {
        let number = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0));
        let version = number("PRAGMA user_version")?;
        let owner = number("PRAGMA application_id")?;
        let tables = number("SELECT count(*) FROM sqlite_schema")?;
        let is_new = version == 0 && owner == 0 && tables == 0;
        if owner != self.application_id && !is_new {
            return Err(Unopened::Foreign("another program's database"));
        }
        if version > self.newest() {
            return Err(Unopened::Newer { found: version, known: self.newest() });
        }
        Ok(version)
    }

    fn prepare_writer(&self, db: &Connection, busy: Duration) -> rusqlite::Result<()> {
        self.tune(db, busy)?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        // Every commit is on the disk before it is answered.
        db.pragma_update(None, "synchronous", "FULL")?;
        db.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)
    }

    fn tune(&self, db: &Connection, busy: Duration) -> rusqlite::Result<()> {
        db.busy_timeout(busy)?;
        db.set_prepared_statement_cache_capacity(self.statements_kept);
        db.pragma_update(None, "temp_store", "MEMORY")?;
        db.pragma_update(None, "cache_size", -self.page_cache_kib)
    }

    /// Brings the file from `version` to the newest, each step in a transaction of its own.
    fn migrate(&self, db: &mut Connection, version: i64) -> Done<()> {
        for (step, sql) in self.steps.iter().enumerate().skip(version as usize) {
            let tx = db.transaction()?;
            tx.execute_batch(sql)?;
            tx.pragma_update(None, "application_id", self.application_id)?;
            tx.pragma_update(None, "user_version", step as i64 + 1)?;
            tx.commit()?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests;
