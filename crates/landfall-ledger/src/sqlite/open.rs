//! Opening the file: whose it is, which schema it has, and that nobody else writes to it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};

use super::fault::{Done, Fault, corrupt};
use super::migrations::{APPLICATION_ID, SCHEMA_VERSION, migrate};
use crate::words::{Contract, Kind};

/// WAL pages between checkpoints: 40 MB, so that the pause of one is rare.
const CHECKPOINT_PAGES: i64 = 10_000;

/// Memory for pages per connection, in KiB. Ids are random, so their index is read all over.
const PAGE_CACHE_KIB: i64 = 32 * 1024;

/// Statements kept prepared per connection; more than there are.
const STATEMENTS_KEPT: usize = 32;

/// Why a book cannot be opened, each with its remedy.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "{path} is in use by another Landfall process; stop that one first, or give this one a \
         data folder of its own"
    )]
    InUse { path: PathBuf },
    #[error(
        "{path} was written by a newer Landfall (schema {found}, this one knows {known}); run the \
         newer version, or restore a backup made before the upgrade"
    )]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error("{path} is the book of {found}, not of {asked}; name that service, or another folder")]
    Another { path: PathBuf, found: String, asked: String },
    #[error("{path} is not the book of an account service but {what}; give another folder")]
    Foreign { path: PathBuf, what: &'static str },
    #[error(
        "{path} is damaged ({cause}); restore a backup, and compare it with the other services"
    )]
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

/// The file's own lock, held for one writer until this is dropped.
pub(crate) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing alone would leave it locked while a child that was just forked has the file too.
        let _ = self.0.unlock();
    }
}

pub(crate) fn lock(path: &Path) -> Result<Lock, OpenError> {
    let at = At(path);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|error| at.io(error))?;
    }
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path.with_extension("lock"))
        .map_err(|error| at.io(error))?;
    match file.try_lock() {
        Ok(()) => Ok(Lock(file)),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: at.path() }),
        Err(TryLockError::Error(error)) => Err(at.io(error)),
    }
}

/// The writer's connection, to a file with the newest schema.
pub(crate) fn writer(path: &Path, busy: Duration) -> Result<Connection, OpenError> {
    let at = At(path);
    let mut db = Connection::open(path).map_err(|error| at.sql(error))?;
    let version = owned_version(&db, path)?;
    prepare_writer(&db, busy).map_err(|error| at.sql(error))?;
    migrate(&mut db, version).map_err(|fault| at.fault(fault))?;
    Ok(db)
}

/// A connection that only reads.
pub(crate) fn reader(path: &Path, busy: Duration) -> Result<Connection, OpenError> {
    let at = At(path);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).map_err(|error| at.sql(error))?;
    tune(&db, busy).map_err(|error| at.sql(error))?;
    Ok(db)
}

/// Writes whose book it is into a new one; refuses that of another.
pub(crate) fn check_contract(
    db: &Connection,
    path: &Path,
    asked: &Contract,
) -> Result<(), OpenError> {
    let at = At(path);
    match kept_contract(db).map_err(|fault| at.fault(fault))? {
        None => keep_contract(db, asked).map_err(|error| at.sql(error)),
        Some(found) if found == *asked => Ok(()),
        Some(found) => {
            let said =
                |contract: &Contract| format!("{} ({})", contract.name, contract.kind.name());
            let (found, asked) = (said(&found), said(asked));
            Err(OpenError::Another { path: at.path(), found, asked })
        }
    }
}

fn kept_contract(db: &Connection) -> Done<Option<Contract>> {
    let value = |name: &str| {
        let sql = "SELECT value FROM meta WHERE name = ?1";
        db.query_row(sql, [name], |row| row.get::<_, String>(0)).optional()
    };
    let Some((name, kind)) = value("service")?.zip(value("kind")?) else { return Ok(None) };
    let kind = Kind::named(&kind).ok_or_else(|| corrupt(format!("no kind is called {kind}")))?;
    Ok(Some(Contract { name, kind }))
}

fn keep_contract(db: &Connection, contract: &Contract) -> rusqlite::Result<()> {
    let sql = "INSERT INTO meta VALUES ('service', ?1), ('kind', ?2)";
    db.execute(sql, (&contract.name, contract.kind.name())).map(|_| ())
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
