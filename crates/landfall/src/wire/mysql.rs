//! MySQL or MariaDB as the store, and for the books of account services.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use landfall_core::store::Store;
use landfall_ledger::{Book, Contract};
use landfall_ledger_mysql::MysqlBook;
use landfall_store_mysql::{MysqlOptions, MysqlStore, OpenError};

use crate::config::Config;
use crate::failure::{Failure, Result};

pub async fn store(config: &Config, url: &str, migrate: bool) -> Result<Arc<dyn Store>> {
    let options = MysqlOptions {
        connections: config.store.connections as usize,
        timeout: Duration::from_millis(config.store.timeout_ms),
        tls: config.store.tls || config.store.tls_ca.is_some(),
        tls_ca: config.store.tls_ca.clone(),
        accept_durability: config.store.accept_durability.clone(),
        migrate,
        ..MysqlOptions::default()
    };
    let opened = MysqlStore::open(url, options).await;
    Ok(Arc::new(opened.map_err(|error| match error {
        OpenError::Unreachable { .. }
        | OpenError::Unavailable { .. }
        | OpenError::Migrating { .. } => Failure::Unable(error.to_string()),
        _ => Failure::Mistaken(error.to_string()),
    })?))
}

pub async fn book(url: &str, ca: Option<&Path>, contract: Contract) -> Result<Arc<dyn Book>> {
    let tls_ca = ca.map(Path::to_path_buf);
    let options = landfall_ledger_mysql::MysqlOptions { tls_ca, ..Default::default() };
    let opened = MysqlBook::open(url, contract, options).await;
    Ok(Arc::new(opened.map_err(|error| match error.may_pass() {
        true => Failure::Unable(error.to_string()),
        false => Failure::Mistaken(error.to_string()),
    })?))
}
