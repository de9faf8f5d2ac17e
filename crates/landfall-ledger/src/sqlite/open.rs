//! Opening the file: whose it is, which schema it has, and that nobody else writes to it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use landfall_sqlite::{Lock, Unopened};
use rusqlite::{Connection, OptionalExtension};

use super::fault::{Done, corrupt};
use super::migrations::LAYOUT;
use crate::words::{Contract, Kind};

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

/// The file's own lock: other books may be in its folder.
pub(crate) fn lock(path: &Path) -> Result<Lock, OpenError> {
    Lock::take(&path.with_extension("lock")).map_err(|unopened| OpenError::at(path, unopened))
}

/// The writer's connection, to a file with the newest schema.
pub(crate) fn writer(path: &Path, busy: Duration) -> Result<Connection, OpenError> {
    LAYOUT.writer(path, busy).map_err(|unopened| OpenError::at(path, unopened))
}

/// A connection that only reads.
pub(crate) fn reader(path: &Path, busy: Duration) -> Result<Connection, OpenError> {
    LAYOUT.reader(path, busy).map_err(|unopened| OpenError::at(path, unopened))
}

/// Writes whose book it is into a new one; refuses that of another.
pub(crate) fn check_contract(
    db: &Connection,
    path: &Path,
    asked: &Contract,
) -> Result<(), OpenError> {
    match kept_contract(db).map_err(|fault| OpenError::at(path, fault.into()))? {
        None => keep_contract(db, asked).map_err(|error| OpenError::at(path, error.into())),
        Some(found) if found == *asked => Ok(()),
        Some(found) => {
            let said =
                |contract: &Contract| format!("{} ({})", contract.name, contract.kind.name());
            let (found, asked) = (said(&found), said(asked));
            Err(OpenError::Another { path: path.to_path_buf(), found, asked })
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
