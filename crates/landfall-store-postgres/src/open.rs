//! Opening: the address, the server behind it, the schema in it.

use std::error::Error as _;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use landfall_core::store::StoreError;
use tokio_postgres::config::Host;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Error};

use crate::codes::Codes;
use crate::connections::{Connection, Maker, NoSession, Session};
use crate::fault::{Fault, message};
use crate::migrations::{self, Found, IDENTITY, SCHEMA_VERSION};
use crate::{PostgresOptions, tls};

/// Why a store cannot be opened, each with its remedy. None shows a password.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "the address of the store is wrong ({cause}); give it as \
         postgres://user:password@host:5432/database?sslmode=verify-full"
    )]
    Address { cause: String },
    #[error("{at} cannot be reached ({cause}); start PostgreSQL, or correct the address")]
    Unreachable { at: String, cause: String },
    #[error("{at} lets nobody in as this user ({cause}); correct user and password in the address")]
    Login { at: String, cause: String },
    #[error("{at} has no such database; create it with `createdb`, or correct the address")]
    NoDatabase { at: String },
    #[error("{at} cannot hold a store: it {found}; {remedy}")]
    Unfit { at: String, found: String, remedy: &'static str },
    #[error("{at} is a replica and takes no writes; give the address of the primary")]
    Replica { at: String },
    #[error(
        "{at} may forget what it has answered: its {setting} is {value}; {remedy}, or accept it by \
         the name {setting:?} in the store's accept_durability and expect halted lanes after a \
         crash"
    )]
    Forgetful { at: String, setting: &'static str, value: String, remedy: String },
    #[error(
        "{at} was written by a newer Landfall (schema {found}, this one knows {known}); run the \
         newer version, or restore a backup made before the upgrade"
    )]
    Newer { at: String, found: i64, known: i64 },
    #[error(
        "{at} has schema {found} and this Landfall needs {known}; run `landfall migrate` first"
    )]
    Older { at: String, found: i64, known: i64 },
    #[error(
        "{at} has tables in its schema {schema:?} that are not Landfall's; give another schema or \
         another database"
    )]
    Foreign { at: String, schema: String },
    #[error(
        "{at} does not let this user do it ({cause}); as its owner run \
         `GRANT CREATE ON DATABASE …`, \
         or run `landfall migrate` as a user who may"
    )]
    Forbidden { at: String, cause: String },
    #[error("{at} is damaged ({cause}); restore a backup, and adopt the lanes that halt")]
    Damaged { at: String, cause: String },
    #[error("{at} cannot be opened: {cause}")]
    Unavailable { at: String, cause: String },
}

/// What was found when the store was opened.
pub(crate) struct Opened {
    pub maker: Maker,
    pub codes: Codes,
}

/// Checks the address, the server and the schema, bringing the last up to date if it may.
pub(crate) async fn open(url: &str, options: &PostgresOptions) -> Result<Opened, OpenError> {
    let (maker, at, db) = reach(url, options).await?;
    let found = at.tried(migrations::look(&db.client, &options.schema).await)?;
    at.check(&found, options)?;
    let behind = match found {
        Found::Version(version) if version == SCHEMA_VERSION => {
            !at.tried(Codes::load(&db.client).await)?.are_complete()
        }
        _ => true,
    };
    if behind {
        let version = if let Found::Version(version) = found { version } else { 0 };
        if !options.migrate {
            return Err(OpenError::Older { at: at.0, found: version, known: SCHEMA_VERSION });
        }
        let migrated = at.tried(migrations::migrate(&db.client, &options.schema).await)?;
        at.check(&migrated, options)?;
    }
    let codes = at.tried(Codes::load(&db.client).await)?;
    let identity = at.tried(identity(&db.client).await)?;
    // It was not set before: the maker is new.
    let _ = maker.identity.set(identity);
    Ok(Opened { maker, codes })
}

/// A first session on a server that is fit to keep things.
pub(crate) async fn reach(
    url: &str,
    options: &PostgresOptions,
) -> Result<(Maker, At, Connection), OpenError> {
    let (maker, at) = maker(url, options)?;
    let connecting = tokio::time::timeout(options.timeout, maker.connect());
    match connecting.await {
        Ok(Ok(db)) => Ok((maker, at, db)),
        Ok(Err(reason)) => Err(at.refused(reason)),
        Err(_) => Err(at.unreachable("no answer in time".into())),
    }
}

async fn identity(db: &Client) -> Result<String, Fault> {
    Ok(db.query_one(IDENTITY, &[]).await?.get(0))
}

fn maker(url: &str, options: &PostgresOptions) -> Result<(Maker, At), OpenError> {
    let address = |cause: String| OpenError::Address { cause };
    let (url, wanted) = tls::split(url).map_err(address)?;
    let mut config = Config::from_str(&url).map_err(|error| address(cause(&error)))?;
    if config.get_hosts().is_empty() {
        return Err(address("it names no host".into()));
    }
    let at = At::of(&config);
    config.ssl_mode(wanted.mode).application_name("landfall");
    config.connect_timeout(options.timeout).tcp_user_timeout(options.timeout);
    let tls = tls::connector(&wanted).map_err(address)?;
    let session = Session {
        schema: options.schema.clone(),
        timeout: options.timeout,
        accept_durability: options.accept_durability.clone(),
    };
    Ok((Maker { config, tls, session, identity: Arc::new(OnceLock::new()) }, at))
}

/// The server and database of an address, without user and password; makes its errors.
pub(crate) struct At(pub String);

impl At {
    fn of(config: &Config) -> At {
        let hosts = config.get_hosts().iter().enumerate().map(|(number, host)| {
            let ports = config.get_ports();
            let port = ports.get(number).or(ports.first()).copied().unwrap_or(5432);
            match host {
                Host::Tcp(name) => format!("{name}:{port}"),
                Host::Unix(path) => format!("{}:{port}", path.display()),
            }
        });
        let hosts: Vec<String> = hosts.collect();
        At(format!("{}/{}", hosts.join(","), config.get_dbname().unwrap_or_default()))
    }

    fn unreachable(&self, cause: String) -> OpenError {
        OpenError::Unreachable { at: self.0.clone(), cause }
    }

    fn refused(&self, reason: NoSession) -> OpenError {
        let at = self.0.clone();
        match reason {
            NoSession::Replica => OpenError::Replica { at },
            NoSession::Unfit { found, remedy } => OpenError::Unfit { at, found, remedy },
            NoSession::Forgetful { setting, value } => {
                let remedy = format!(
                    "set {setting} = on in postgresql.conf (or by ALTER DATABASE or ALTER ROLE, \
                     wherever it was set)"
                );
                OpenError::Forgetful { at, setting, value, remedy }
            }
            NoSession::Fault(fault) => self.fault(fault),
            NoSession::Connect(error) => {
                let cause = cause(&error);
                match error.code() {
                    Some(code) if *code == SqlState::INVALID_CATALOG_NAME => {
                        OpenError::NoDatabase { at }
                    }
                    Some(code) if code.code().starts_with("28") => OpenError::Login { at, cause },
                    _ => self.unreachable(cause),
                }
            }
        }
    }

    fn tried<T>(&self, result: Result<T, Fault>) -> Result<T, OpenError> {
        result.map_err(|fault| self.fault(fault))
    }

    pub(crate) fn fault(&self, fault: Fault) -> OpenError {
        let at = self.0.clone();
        match StoreError::from(fault) {
            StoreError::Corrupt(cause) if cause.contains("(42501)") => {
                OpenError::Forbidden { at, cause }
            }
            StoreError::Corrupt(cause) => OpenError::Damaged { at, cause },
            StoreError::Unavailable(cause) => OpenError::Unavailable { at, cause },
        }
    }

    fn check(&self, found: &Found, options: &PostgresOptions) -> Result<(), OpenError> {
        let at = self.0.clone();
        match found {
            Found::Foreign => Err(OpenError::Foreign { at, schema: options.schema.clone() }),
            Found::Version(found) if *found > SCHEMA_VERSION => {
                Err(OpenError::Newer { at, found: *found, known: SCHEMA_VERSION })
            }
            _ => Ok(()),
        }
    }
}

/// What went wrong, with what was behind it: "error connecting to server" alone helps nobody.
pub(crate) fn cause(error: &Error) -> String {
    if error.as_db_error().is_some() {
        return message(error);
    }
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
