//! Opening: the server, the schema in it, and the service in that.

use landfall_core::store::StoreError;
use landfall_ledger::{BookError, Contract};
use landfall_store_postgres::OpenError as Refused;
use landfall_store_postgres::PostgresOptions as SessionOptions;
use landfall_store_postgres::sessions::{Connections, Done, Reached, get};
use tokio_postgres::Client;

use crate::PostgresOptions;
use crate::migrations::{self, Found, SCHEMA_VERSION};

/// Why a book cannot be opened, each with its remedy. None shows a password.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// As a store's, which uses servers in the same way.
    #[error("{0}")]
    Server(Refused),
    #[error(
        "{at} may forget what it has answered: its {setting} is {value}; {remedy}. An account \
         service that forgets makes money or loses it, so there is no way around this"
    )]
    Forgetful { at: String, setting: &'static str, value: String, remedy: String },
    #[error(
        "{at} has accounts of a newer Landfall (schema {found}, this one knows {known}); run the \
         newer version, or restore a backup made before the upgrade"
    )]
    Newer { at: String, found: i64, known: i64 },
    #[error(
        "{at} has tables in its schema {schema:?} that are not an account service's; give another \
         database"
    )]
    Foreign { at: String, schema: String },
    #[error(
        "{at} has the book of {name} ({found}), not of {name} ({wanted}); start it with --kind \
         {found}, or give the service another name"
    )]
    OtherKind { at: String, name: String, found: String, wanted: &'static str },
    #[error("{at} is damaged ({cause}); restore a backup")]
    Damaged { at: String, cause: String },
}

impl OpenError {
    /// Whether the same may succeed later, without anybody's doing.
    pub fn may_pass(&self) -> bool {
        matches!(self, OpenError::Server(Refused::Unreachable { .. } | Refused::Unavailable { .. }))
    }
}

impl From<Refused> for OpenError {
    fn from(refused: Refused) -> OpenError {
        match refused {
            Refused::Forgetful { at, setting, value, remedy } => {
                OpenError::Forgetful { at, setting, value, remedy }
            }
            Refused::Damaged { at, cause } => OpenError::Damaged { at, cause },
            other => OpenError::Server(other),
        }
    }
}

/// What a session said, in the words of books.
pub(crate) fn broken(error: StoreError) -> BookError {
    match error {
        StoreError::Unavailable(why) => BookError::Unavailable(why),
        StoreError::Corrupt(why) => BookError::Corrupt(why),
    }
}

/// The sessions of the book, and its service's number.
pub(crate) async fn open(
    url: &str,
    contract: &Contract,
    options: &PostgresOptions,
) -> Result<(Connections, i32), OpenError> {
    let session = SessionOptions {
        schema: options.schema.clone(),
        timeout: options.timeout,
        ..SessionOptions::default()
    };
    let reached = Reached::new(url, &session).await?;
    let db = reached.client();
    let mut found = reached.tried(migrations::look(db, &options.schema).await)?;
    if matches!(found, Found::Nothing) || matches!(found, Found::Version(v) if v < SCHEMA_VERSION) {
        found = reached.tried(migrations::migrate(db, &options.schema).await)?;
    }
    match found {
        Found::Version(version) if version == SCHEMA_VERSION => {}
        Found::Version(found) => {
            return Err(OpenError::Newer { at: reached.at(), found, known: SCHEMA_VERSION });
        }
        Found::Nothing | Found::Foreign => {
            let schema = options.schema.clone();
            return Err(OpenError::Foreign { at: reached.at(), schema });
        }
    }
    let (service, kind) = reached.tried(service(db, contract).await)?;
    if kind != contract.kind.name() {
        return Err(OpenError::OtherKind {
            at: reached.at(),
            name: contract.name.clone(),
            found: kind,
            wanted: contract.kind.name(),
        });
    }
    let identity = reached.tried(migrations::identity(db).await)?;
    Ok((reached.connections(identity, options.connections)?, service))
}

/// The number and the kind of the service, which is made if there is none of its name.
async fn service(db: &Client, contract: &Contract) -> Done<(i32, String)> {
    let make = "INSERT INTO services (name, kind) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
    let look = "SELECT id, kind FROM services WHERE name = $1";
    if let Some(row) = db.query_opt(look, &[&contract.name]).await? {
        return Ok((get(&row, 0)?, get(&row, 1)?));
    }
    db.execute(make, &[&contract.name, &contract.kind.name()]).await?;
    let row = db.query_one(look, &[&contract.name]).await?;
    Ok((get(&row, 0)?, get(&row, 1)?))
}
