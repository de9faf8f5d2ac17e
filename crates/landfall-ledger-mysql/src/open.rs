//! Opening: the server, the tables in it, and the service in those.
//!
//! **Rule:** no message here holds a password, nor the URL it came in.

use landfall_ledger::Contract;
use landfall_store_mysql::MysqlOptions as SessionOptions;
use landfall_store_mysql::OpenError as Refused;
use landfall_store_mysql::sessions::{Connections, Reached};

use crate::MysqlOptions;
use crate::migrations::{self, IDENTITY, Opened, SCHEMA_VERSION};

/// Why a book cannot be opened, each with its remedy.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// As a store's, which uses servers in the same way.
    #[error("{0}")]
    Server(Refused),
    #[error(
        "{setting} is {value}; {remedy}. An account service that forgets makes money or loses it, \
         so there is no way around this"
    )]
    Forgetful { setting: &'static str, value: String, remedy: &'static str },
    #[error(
        "{at} has accounts of a newer Landfall (schema {found}, this one knows {known}); run the \
         newer version, or restore a backup made before the upgrade"
    )]
    Newer { at: String, found: i64, known: i64 },
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
        use Refused::{Migrating, Unavailable, Unreachable};
        let OpenError::Server(refused) = self else { return false };
        matches!(refused, Unreachable { .. } | Unavailable { .. } | Migrating { .. })
    }
}

impl From<Refused> for OpenError {
    fn from(refused: Refused) -> OpenError {
        match refused {
            Refused::Forgetful { setting, value, remedy } => {
                OpenError::Forgetful { setting, value, remedy }
            }
            Refused::Damaged { at, cause } => OpenError::Damaged { at, cause },
            other => OpenError::Server(other),
        }
    }
}

/// The sessions of the book, and its service's number.
pub(crate) async fn open(
    url: &str,
    contract: &Contract,
    options: &MysqlOptions,
) -> Result<(Connections, i64), OpenError> {
    let session = SessionOptions {
        connections: options.connections,
        timeout: options.timeout,
        lock_wait: options.timeout / 2,
        tls_ca: options.tls_ca.clone(),
        ..SessionOptions::default()
    };
    let (reached, mut conn) = Reached::new(url, &session).await?;
    let at = reached.at();
    let (service, kind, identity) =
        match reached.patiently(migrations::open(&mut conn, contract)).await? {
            Opened::Service { id, kind, identity } => (id, kind, identity),
            Opened::Newer(found) => {
                return Err(OpenError::Newer { at, found, known: SCHEMA_VERSION });
            }
            Opened::Locked => return Err(Refused::Migrating { at }.into()),
        };
    if kind != contract.kind.name() {
        return Err(OpenError::OtherKind {
            at,
            name: contract.name.clone(),
            found: kind,
            wanted: contract.kind.name(),
        });
    }
    Ok((reached.connections(conn, &session, (identity, IDENTITY)).await?, service))
}
