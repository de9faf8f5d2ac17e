//! Sessions for tables that are not the store's: whoever else keeps something on MySQL or MariaDB
//! uses a server in the same way, and refuses the same servers.
//!
//! A user of this has tables of its own, whose names begin with `landfall_`, and an identity in one
//! of them that tells its data from any other's.
//! Not here: the tables, and what is in them.

use std::future::Future;

use mysql_async::Conn;

pub use crate::connections::{
    Answer, Connections, Session, Tries, take, take_maybe_text, take_text,
};
pub use crate::fault::{Done, Fault, corrupt};
pub use crate::sql::{Row as Values, Script};

use crate::open::{MIGRATION_PATIENCE, Target, foreign_engine};
use crate::settings::Settings;
use crate::{MysqlOptions, OpenError};

/// A server that is fit, and where it is.
pub struct Reached {
    target: Target,
}

impl Reached {
    /// Connects and checks the server: what it is, and whether it keeps what it has answered.
    pub async fn new(url: &str, options: &MysqlOptions) -> Result<(Reached, Conn), OpenError> {
        let target = Target::new(url, options)?;
        let mut conn = target.connect().await?;
        let settings = target.within(target.timeout, Settings::read(&mut conn)).await?;
        settings.check(&options.accept_durability)?;
        Ok((Reached { target }, conn))
    }

    /// Server and database, without user and password.
    pub fn at(&self) -> String {
        self.target.at.clone()
    }

    /// Waits for work that changes tables, which takes its time.
    pub async fn patiently<T>(&self, work: impl Future<Output = Done<T>>) -> Result<T, OpenError> {
        self.target.within(MIGRATION_PATIENCE, work).await
    }

    /// As many sessions as are needed, each refused that is told another `identity`. Refuses tables
    /// of an engine that does not commit.
    pub async fn connections(
        self,
        mut conn: Conn,
        options: &MysqlOptions,
        (identity, told_by): (String, &'static str),
    ) -> Result<Connections, OpenError> {
        let foreign = self.target.within(self.target.timeout, foreign_engine(&mut conn)).await?;
        if let Some((table, engine, wanted)) = foreign {
            return Err(OpenError::Engine { table, engine, wanted });
        }
        // What was asked is answered; that the goodbye was heard does not matter.
        let _ = conn.disconnect().await;
        let accepted = options.accept_durability.clone();
        let connections =
            Connections::new(self.target.options, options.connections, options.lock_wait, accepted)
                .told_by(told_by);
        connections.insist_on(identity);
        Ok(connections)
    }
}
