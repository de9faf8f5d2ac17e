//! The store and the queue, as the configuration says.

use std::path::Path;
use std::sync::Arc;

use landfall_core::Clock;
use landfall_core::queue::Queue;
use landfall_core::store::Store;
use landfall_queue_ring::RingQueue;
use landfall_store_memory::MemoryStore;
use landfall_store_sqlite::{OpenError, SqliteOptions, SqliteStore};

use crate::cli::DEV_DATA;
use crate::config::{Config, QueueUrl, STORE_FILE, StoreUrl};
use crate::failure::{Failure, Result};

/// Opens the store to work on, making it if it is not there.
pub async fn open_store(config: &Config, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    match config.store_url() {
        StoreUrl::Memory => Ok(Arc::new(MemoryStore::new(clock))),
        StoreUrl::Sqlite(path) => {
            let store = SqliteStore::open(&path, clock, SqliteOptions::default());
            Ok(Arc::new(store.map_err(unopened)?))
        }
        _ => Err(Failure::Mistaken("not yet".into())),
    }
}

/// Opens a store that must be there, to read it beside a relay that may be writing.
pub async fn open_existing_store(config: &Config) -> Result<Arc<dyn Store>> {
    match config.store_url() {
        StoreUrl::Memory => Err(Failure::Mistaken(
            "a memory: store lives inside its relay and cannot be read from outside; ask the \
             relay's API instead"
                .into(),
        )),
        StoreUrl::Sqlite(path) if path.exists() => {
            let store = SqliteStore::open_read_only(&path, SqliteOptions::default());
            Ok(Arc::new(store.map_err(unopened)?))
        }
        StoreUrl::Sqlite(path) => {
            let dev = Path::new(DEV_DATA);
            let remedy = match dev.join(STORE_FILE).exists() {
                true => format!("for that of `landfall dev`, add --data {DEV_DATA}"),
                false => "name its configuration by --config, or its folder by --data".into(),
            };
            Err(Failure::No(format!("there is no store at {}; {remedy}", path.display())))
        }
        _ => open_store(config, super::clock()).await,
    }
}

/// Opens a store that must be there, to change it by an operator's word.
pub async fn open_existing_store_to_write(
    config: &Config,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn Store>> {
    drop(open_existing_store(config).await?);
    open_store(config, clock).await
}

fn unopened(error: OpenError) -> Failure {
    Failure::Unable(error.to_string())
}

/// The way hints go.
pub async fn open_queue(config: &Config) -> Result<Arc<dyn Queue>> {
    match config.queue_url() {
        QueueUrl::Ring => Ok(Arc::new(RingQueue::new(config.queue.capacity as usize))),
        _ => Err(Failure::Mistaken("not yet".into())),
    }
}
