//! Opening the file: whose it is, which schema it has, and that nobody else writes to it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use landfall_sqlite::{Lock, Unopened};
use rusqlite::Connection;

use crate::codes::Codes;
use crate::fault::{Done, Fault};
use crate::migrations::LAYOUT;
use crate::views;

/// The file beside the store that its one writer keeps locked.
const LOCK_FILE: &str = "landfall.lock";

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

impl OpenError {
    pub(crate) fn at(path: &Path, unopened: Unopened) -> OpenError {
        let path = path.to_path_buf();
        match unopened {
            Unopened::InUse => OpenError::InUse { path },
            Unopened::Newer { found, known } => OpenError::Newer { path, found, known },
            Unopened::Foreign(what) => OpenError::Foreign { path, what },
            Unopened::Damaged(cause) => OpenError::Damaged { path, cause },
            Unopened::Unavailable(cause) => OpenError::Unavailable { path, cause },
        }
    }
}

/// The lock of the whole folder.
pub(crate) fn lock(path: &Path) -> Result<Lock, OpenError> {
    Lock::take(&path.with_file_name(LOCK_FILE)).map_err(|unopened| OpenError::at(path, unopened))
}

/// The writer's connection, to a file with the newest schema.
pub(crate) fn writer(path: &Path, busy: Duration) -> Result<Connection, OpenError> {
    let mut db = LAYOUT.writer(path, busy).map_err(|unopened| OpenError::at(path, unopened))?;
    let at = |fault: Fault| OpenError::at(path, fault.into());
    Codes::define(&db).map_err(at)?;
    views::make(&mut db).map_err(at)?;
    Ok(db)
}

/// A connection that only reads, to a file that has the newest schema already.
pub(crate) fn reader(path: &Path, busy: Duration) -> Result<Connection, OpenError> {
    let at = |unopened| OpenError::at(path, unopened);
    let db = LAYOUT.reader(path, busy).map_err(at)?;
    let (found, known) = (LAYOUT.version(&db).map_err(at)?, LAYOUT.newest());
    if found < known {
        return Err(OpenError::Older { path: path.to_path_buf(), found, known });
    }
    Ok(db)
}

/// What tells this store from any other.
pub(crate) fn identity(db: &Connection) -> Done<String> {
    let sql = "SELECT value FROM meta WHERE name = 'identity'";
    Ok(db.query_row(sql, [], |row| row.get(0))?)
}

/// Reads what every connection needs to know, as an error of opening.
pub(crate) fn facts(db: &Connection, path: &Path) -> Result<(String, Codes), OpenError> {
    let read = || Ok((identity(db)?, Codes::load(db)?));
    read().map_err(|fault: Fault| OpenError::at(path, fault.into()))
}
