//! PostgreSQL as the store, and for the books of account services.

use std::sync::Arc;
use std::time::Duration;

use landfall_core::store::Store;
use landfall_ledger::{Book, Contract};
use landfall_ledger_postgres::PostgresBook;
use landfall_store_postgres::{OpenError, PostgresOptions, PostgresStore};

use crate::config::Config;
use crate::failure::{Failure, Result};

pub async fn store(config: &Config, url: &str, migrate: bool) -> Result<Arc<dyn Store>> {
    let options = PostgresOptions {
        connections: config.store.connections as usize,
        timeout: Duration::from_millis(config.store.timeout_ms),
        accept_durability: config.store.accept_durability.clone(),
        migrate,
        ..PostgresOptions::default()
    };
    let opened = PostgresStore::open(url, options).await;
    Ok(Arc::new(opened.map_err(|error| match error {
        OpenError::Unreachable { .. } | OpenError::Unavailable { .. } => {
            Failure::Unable(error.to_string())
        }
        _ => Failure::Mistaken(error.to_string()),
    })?))
}

pub async fn book(url: &str, contract: Contract) -> Result<Arc<dyn Book>> {
    let options = landfall_ledger_postgres::PostgresOptions::default();
    let opened = PostgresBook::open(url, contract, options).await;
    Ok(Arc::new(opened.map_err(|error| match error.may_pass() {
        true => Failure::Unable(error.to_string()),
        false => Failure::Mistaken(error.to_string()),
    })?))
}
