//! Opening the file: whose it is, which schema it has, and that nobody else writes to it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::codes::Codes;
use crate::fault::{Done, Fault};
use crate::migrations::{APPLICATION_ID, SCHEMA_VERSION, migrate};

/// The file beside the store that its one writer keeps locked.
const LOCK_FILE: &str = "landfall.lock";

/// WAL pages between checkpoints: 40 MB. Measured: the best p99, since a checkpoint is a pause.
const CHECKPOINT_PAGES: i64 = 10_000;

/// Memory for pages per connection, in KiB.
const PAGE_CACHE_KIB: i64 = 64 * 1024;

/// Statements kept prepared per connection; more than there are.
const STATEMENTS_KEPT: usize = 128;

/// Why a store cannot be opened, each with its remedy.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "{path} is in use by another Landfall process; stop that one first, or give this one a \
         data folder of its own (audits can open it read-only meanwhile)"
    )]
    InUse { path: PathBuf },
    #[error(
        "{path} was written by a newer Landfall (schema {found}, this one knows {known}); run the \
         newer version, or restore a backup made before the upgrade"
    )]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error(
        "{path} has schema {found} and reading needs {known}; start `landfall serve` once, which \
         brings it up to date"
    )]
    Older { path: PathBuf, found: i64, known: i64 },
    #[error("{path} is not a Landfall store but {what}; give another path")]
    Foreign { path: PathBuf, what: &'static str },
    #[error("{path} is damaged ({cause}); restore a backup, and adopt the lanes that halt")]
    Damaged { path: PathBuf, cause: String },
    #[error("{path} cannot be opened: {cause}")]
    Unavailable { path: PathBuf, cause: String },
}

/// Makes the errors of one file.
struct At<'a>(&'a Path);

impl At<'_> {
    fn path(&self) -> PathBuf {
        self.0.to_path_buf()
    }

    fn io(&self, error: std::io::Error) -> OpenError {
        OpenError::Unavailable { path: self.path(), cause: error.to_string() }
    }

    fn sql(&self, error: rusqlite::Error) -> OpenError {
        if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) {
            return OpenError::Foreign { path: self.path(), what: "some other file" };
        }
        self.fault(error.into())
    }

    fn fault(&self, fault: Fault) -> OpenError {
        match fault {
            Fault::Corrupt(cause) => OpenError::Damaged { path: self.path(), cause },
            Fault::Unavailable(cause) => OpenError::Unavailable { path: self.path(), cause },
        }
    }
}

/// The folder, locked for one writer until this is dropped.
pub(crate) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing alone would leave it locked while a child that was just forked has the file too.
        let _ = self.0.unlock();
    }
}

pub(crate) fn lock(path: &Path) -> Result<Lock, OpenError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(|error| At(path).io(error))?;
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(folder.join(LOCK_FILE))
        .map_err(|error| At(path).io(error))?;
    match file.try_lock() {
        Ok(()) => Ok(Lock(file)),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: path.to_path_buf() }),
        Err(TryLockError::Error(error)) => Err(At(path).io(error)),
    }
}

/// The writer's connection, to a file with the newest schema.
pub(crate) fn writer(path: &Path, busy: Duration) -> Result<Connection, OpenError> {
    let at = At(path);
    let mut db = Connection::open(path).map_err(|error| at.sql(error))?;
    let version = owned_version(&db, path)?;
    prepare_writer(&db, busy).map_err(|error| at.sql(error))?;
    migrate(&mut db, version).map_err(|fault| at.fault(fault))?;
    Codes::define(&db).map_err(|fault| at.fault(fault))?;
    Ok(db)
}

/// A connection that only reads, to a file that has the newest schema already.
pub(crate) fn reader(path: &Path, busy: Duration) -> Result<Connection, OpenError> {
    let at = At(path);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).map_err(|error| at.sql(error))?;
    tune(&db, busy).map_err(|error| at.sql(error))?;
    let found = owned_version(&db, path)?;
    if found < SCHEMA_VERSION {
        return Err(OpenError::Older { path: at.path(), found, known: SCHEMA_VERSION });
    }
    Ok(db)
}

/// The schema version of a file that is ours, or new.
fn owned_version(db: &Connection, path: &Path) -> Result<i64, OpenError> {
    let at = At(path);
    let number = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0));
    let version = number("PRAGMA user_version").map_err(|error| at.sql(error))?;
    let owner = number("PRAGMA application_id").map_err(|error| at.sql(error))?;
    let tables = number("SELECT count(*) FROM sqlite_schema").map_err(|error| at.sql(error))?;
    let is_new = version == 0 && owner == 0 && tables == 0;
    if owner != APPLICATION_ID && !is_new {
        let what = "another program's database";
        return Err(OpenError::Foreign { path: at.path(), what });
    }
    if version > SCHEMA_VERSION {
        let known = SCHEMA_VERSION;
        return Err(OpenError::Newer { path: at.path(), found: version, known });
    }
    Ok(version)
}

fn prepare_writer(db: &Connection, busy: Duration) -> rusqlite::Result<()> {
    tune(db, busy)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    // Every commit is on the disk before it is answered.
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)
}

fn tune(db: &Connection, busy: Duration) -> rusqlite::Result<()> {
    db.busy_timeout(busy)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    db.pragma_update(None, "temp_store", "MEMORY")?;
    db.pragma_update(None, "cache_size", -PAGE_CACHE_KIB)
}

/// What tells this store from any other.
pub(crate) fn identity(db: &Connection) -> Done<String> {
    let sql = "SELECT value FROM meta WHERE name = 'identity'";
    Ok(db.query_row(sql, [], |row| row.get(0))?)
}

/// Reads what every connection needs to know, as an error of opening.
pub(crate) fn facts(db: &Connection, path: &Path) -> Result<(String, Codes), OpenError> {
    let read = || Ok((identity(db)?, Codes::load(db)?));
    read().map_err(|fault| At(path).fault(fault))
}
