//! Opening: where the server is, whose tables they are, which schema they have.
//!
//! **Rule:** no message here holds a password, nor the URL it came in.

use std::path::PathBuf;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Opts, OptsBuilder, SslOpts, UrlError};

use crate::MysqlOptions;
use crate::codes::Codes;
use crate::fault::{Done, Fault};
use crate::life::Identity;
use crate::migrations::{SCHEMA_VERSION, Schema};
use crate::settings::Settings;

/// Why a store cannot be opened, each with its remedy.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "the URL of the store is not understood ({why}); write \
         mysql://USER:PASSWORD@HOST:3306/DATABASE"
    )]
    Url { why: String },
    #[error("{path} cannot be read as PEM certificates; give the file of your authority ({cause})")]
    Certificates { path: PathBuf, cause: String },
    #[error("{at} cannot be reached ({cause}); is the server running, and is that its address?")]
    Unreachable { at: String, cause: String },
    #[error("{at} refuses the user ({cause}); check user, password and grants")]
    Denied { at: String, cause: String },
    #[error(
        "{at}: there is no such database; run CREATE DATABASE, and grant the user all privileges \
         on it"
    )]
    NoDatabase { at: String },
    #[error("the server is {found}, and {oldest} is the oldest that will do; upgrade it")]
    TooOld { found: String, oldest: String },
    #[error("the server takes no writes ({setting} is on); connect to the primary")]
    ReadOnly { setting: &'static str },
    #[error(
        "{setting} is {value}; {remedy} (or accept it by naming {setting}, and with it that \
         payments may be made twice after a crash)"
    )]
    Forgetful { setting: &'static str, value: String, remedy: &'static str },
    #[error(
        "table {table} is kept by {engine}; run ALTER TABLE {table} ENGINE = {wanted}, without \
         which commits are not safe"
    )]
    Engine { table: String, engine: String, wanted: String },
    #[error(
        "{at} was written by a newer Landfall (schema {found}, this one knows {known}); run the \
         newer version, or restore a backup made before the upgrade"
    )]
    Newer { at: String, found: i64, known: i64 },
    #[error("{at} has schema {found} and this Landfall needs {known}; run `landfall migrate`")]
    Older { at: String, found: i64, known: i64 },
    #[error("{at} is being migrated by somebody else; wait for that to end and start again")]
    Migrating { at: String },
    #[error("{at} is damaged ({cause}); restore a backup, and adopt the lanes that halt")]
    Damaged { at: String, cause: String },
    #[error("{at} cannot be opened: {cause}")]
    Unavailable { at: String, cause: String },
}

/// Where a store is, without its password.
pub(crate) struct Target {
    pub options: Opts,
    pub at: String,
    pub timeout: Duration,
}

/// Idle connections are asked for a sign of life, so that a dead peer is noticed.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// A step over large tables takes its time.
pub(crate) const MIGRATION_PATIENCE: Duration = Duration::from_secs(3_600);

const NO_SUCH_DATABASE: u16 = 1049;
const DENIED: [u16; 5] = [1044, 1045, 1142, 1227, 1698];

impl Target {
    pub(crate) fn new(url: &str, options: &MysqlOptions) -> Result<Target, OpenError> {
        let parsed = Opts::from_url(url).map_err(|error| OpenError::Url { why: why(&error) })?;
        let Some(database) = parsed.db_name().filter(|name| !name.is_empty()) else {
            return Err(OpenError::Url { why: "it names no database".into() });
        };
        let at = format!("{}:{}/{database}", parsed.ip_or_hostname(), parsed.tcp_port());
        let mut tls = parsed.ssl_opts().cloned();
        if let Some(path) = &options.tls_ca {
            // Read now, so that a mistake is told with its name.
            let pem = std::fs::read(path).map_err(|error| OpenError::Certificates {
                path: path.clone(),
                cause: error.to_string(),
            })?;
            tls = Some(tls.unwrap_or_default().with_root_certs(vec![pem.into()]));
        } else if options.tls {
            tls = Some(tls.unwrap_or_else(SslOpts::default));
        }
        // More than one provider may be built in; the first to be named is everybody's.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = OptsBuilder::from_opts(parsed)
            .ssl_opts(tls)
            // Rows that match count as changed, whether or not their values differ: a
            // compare-and-set asks who matched.
            .client_found_rows(true)
            .prefer_socket(false)
            .tcp_nodelay(true)
            .tcp_keepalive(Some(KEEPALIVE))
            .stmt_cache_size(0);
        Ok(Target { options: builder.into(), at, timeout: options.timeout })
    }

    /// A connection of its own.
    pub(crate) async fn connect(&self) -> Result<Conn, OpenError> {
        let connecting = Conn::new(self.options.clone());
        match tokio::time::timeout(self.timeout, connecting).await {
            Ok(Ok(conn)) => Ok(conn),
            Ok(Err(error)) => Err(self.refused(error)),
            Err(_) => Err(self.silent(self.timeout)),
        }
    }

    fn silent(&self, patience: Duration) -> OpenError {
        let cause = format!("no answer within {patience:?}");
        OpenError::Unreachable { at: self.at.clone(), cause }
    }

    fn refused(&self, error: Error) -> OpenError {
        let at = self.at.clone();
        match error {
            Error::Server(error) if error.code == NO_SUCH_DATABASE => OpenError::NoDatabase { at },
            Error::Server(error) if DENIED.contains(&error.code) => {
                OpenError::Denied { at, cause: error.message }
            }
            Error::Server(error) => OpenError::Unavailable { at, cause: error.message },
            error => OpenError::Unreachable { at, cause: error.to_string() },
        }
    }

    fn failed(&self, fault: Fault) -> OpenError {
        let at = self.at.clone();
        match fault {
            Fault::Corrupt(cause) => OpenError::Damaged { at, cause },
            Fault::Lost(cause) => OpenError::Unreachable { at, cause },
            Fault::Again(cause) | Fault::Duplicate(cause) | Fault::Refused(cause) => {
                OpenError::Unavailable { at, cause }
            }
        }
    }

    /// Brings the tables up to date, if `migrate`, and reads what every connection needs to know.
    pub(crate) async fn prepare(
        &self,
        accepted: &[String],
        migrate: bool,
    ) -> Result<(String, Codes), OpenError> {
        let mut conn = self.connect().await?;
        let settings = self.within(self.timeout, Settings::read(&mut conn)).await?;
        settings.check(accepted)?;
        if migrate {
            let migrating = crate::migrations::migrate(&mut conn);
            match self.within(MIGRATION_PATIENCE, migrating).await? {
                Schema::Current | Schema::Older(_) => {}
                Schema::Newer(found) => return Err(self.newer(found)),
                Schema::Locked => return Err(OpenError::Migrating { at: self.at.clone() }),
            }
        }
        let facts = self.facts(&mut conn).await?;
        // What was asked is answered; that the goodbye was heard does not matter.
        let _ = conn.disconnect().await;
        Ok(facts)
    }

    /// Waits for the server no longer than `patience`.
    pub(crate) async fn within<T>(
        &self,
        patience: Duration,
        work: impl Future<Output = Done<T>>,
    ) -> Result<T, OpenError> {
        match tokio::time::timeout(patience, work).await {
            Ok(done) => done.map_err(|fault| self.failed(fault)),
            Err(_) => Err(self.silent(patience)),
        }
    }

    fn newer(&self, found: i64) -> OpenError {
        OpenError::Newer { at: self.at.clone(), found, known: SCHEMA_VERSION }
    }

    async fn facts(&self, conn: &mut Conn) -> Result<(String, Codes), OpenError> {
        let found = self.within(self.timeout, crate::migrations::version(conn)).await?;
        if found > SCHEMA_VERSION {
            return Err(self.newer(found));
        }
        if found < SCHEMA_VERSION {
            let at = self.at.clone();
            return Err(OpenError::Older { at, found, known: SCHEMA_VERSION });
        }
        let foreign = self.within(self.timeout, foreign_engine(conn)).await?;
        if let Some((table, engine, wanted)) = foreign {
            return Err(OpenError::Engine { table, engine, wanted });
        }
        let identity = self.within(self.timeout, Identity::read(conn)).await?;
        let identity = identity.ok_or_else(|| OpenError::Damaged {
            at: self.at.clone(),
            cause: "it has no identity".into(),
        })?;
        Ok((identity.id, self.within(self.timeout, Codes::load(conn)).await?))
    }
}

/// What is wrong with a URL, without a part that could hold the password.
fn why(error: &UrlError) -> String {
    match error {
        UrlError::UnsupportedScheme { scheme } => format!("its scheme is {scheme}, not mysql"),
        UrlError::FeatureRequired { feature, .. } => format!("{feature} is not built in"),
        UrlError::InvalidParamValue { param, .. } => format!("{param} has a bad value"),
        UrlError::UnknownParameter { param } => format!("{param} is not known"),
        _ => "it is no such URL".into(),
    }
}

/// A table of ours that is kept by an engine without transactions.
pub(crate) async fn foreign_engine(conn: &mut Conn) -> Done<Option<(String, String, String)>> {
    // The sign of life is to be forgotten; everything else is not.
    let sql = "SELECT name, kept_by, wanted FROM (
            SELECT TABLE_NAME AS name, COALESCE(ENGINE, 'nothing') AS kept_by,
                IF(TABLE_NAME = 'landfall_life', 'MEMORY', 'InnoDB') AS wanted
            FROM information_schema.TABLES
            WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME LIKE 'landfall\\_%'
        ) AS ours WHERE kept_by <> wanted LIMIT 1";
    Ok(conn.query_first(sql).await?)
}
