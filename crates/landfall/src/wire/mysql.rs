//! MySQL or MariaDB as the store.

use std::sync::Arc;
use std::time::Duration;

use landfall_core::store::Store;
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
