//! Sessions for tables that are not the store's: whoever else keeps something on PostgreSQL uses a
//! server in the same way, and refuses the same servers.
//!
//! A user of this has a schema of its own ([`PostgresOptions::schema`]) with a table `meta (name,
//! value)` in it, whose row `identity` tells its data from any other's.
//! Not here: the tables, and what is in them.

use tokio_postgres::Client;

pub use crate::connections::{Ask, Connection, Connections, Value, Values, Work, Write};
pub use crate::fault::{Done, Fault, corrupt, get, given, text};
pub use crate::migrations::quoted;

use crate::connections::Maker;
use crate::open::{At, reach};
use crate::{OpenError, PostgresOptions};

/// A server that is fit, and a first session on it.
pub struct Reached {
    maker: Maker,
    at: At,
    first: Connection,
}

impl Reached {
    /// Connects and checks the server: what it is, and whether it keeps what it has answered.
    pub async fn new(url: &str, options: &PostgresOptions) -> Result<Reached, OpenError> {
        let (maker, at, first) = reach(url, options).await?;
        Ok(Reached { maker, at, first })
    }

    pub fn client(&self) -> &Client {
        &self.first.client
    }

    /// Server and database, without user and password.
    pub fn at(&self) -> String {
        self.at.0.clone()
    }

    pub fn tried<T>(&self, result: Done<T>) -> Result<T, OpenError> {
        result.map_err(|fault| self.at.fault(fault))
    }

    /// As many sessions as are needed, each refused that finds another `identity`.
    pub fn connections(self, identity: String, size: usize) -> Result<Connections, OpenError> {
        // It was not set before: the maker is new.
        let _ = self.maker.identity.set(identity);
        Connections::new(self.maker, size).map_err(|cause| OpenError::Address { cause })
    }
}
