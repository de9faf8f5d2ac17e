//! The store and the queue, as the configuration says.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use landfall_core::Clock;
use landfall_core::queue::Queue;
use landfall_core::store::Store;
use landfall_queue_ring::RingQueue;
use landfall_queue_store::StoreQueue;
use landfall_store_memory::MemoryStore;
use landfall_store_sqlite::{OpenError, SqliteOptions, SqliteStore};

use crate::cli::DEV_DATA;
use crate::config::{Config, QueueUrl, STORE_FILE, StoreUrl};
use crate::failure::{Failure, Result};

/// Pause before a database server that does not answer is tried again.
pub(super) const SERVER_RETRY: Duration = Duration::from_millis(500);

/// Opens the store to work on, waiting for a database server that does not answer yet.
pub async fn open_patiently(config: &Config, clock: &Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    let mut warned = false;
    loop {
        match open_store(config, clock.clone()).await {
            Err(Failure::Unable(why)) if config.store_url().is_shared() => {
                if !warned {
                    tracing::warn!(why, "waiting for the store");
                    warned = true;
                }
                clock.sleep(SERVER_RETRY).await;
            }
            opened => return opened,
        }
    }
}

/// Brings the store's schema up to date and makes the queues that are missing.
pub async fn migrate(config: &Config, clock: Arc<dyn Clock>) -> Result<Vec<String>> {
    let mut done = Vec::new();
    let store = match config.store_url() {
        StoreUrl::Postgres(url) => super::postgres::store(config, url.expose(), true).await?,
        StoreUrl::Mysql(url) => super::mysql::store(config, url.expose(), true).await?,
        _ => open_store(config, clock.clone()).await?,
    };
    done.push(format!("store {} is up to date", store.identity().await?.id));
    if let QueueUrl::Sqs(name) = config.queue_url() {
        super::sqs::migrate(&name, clock).await?;
        done.push(format!("queue {name} and its dead letter queue are there"));
    }
    Ok(done)
}

/// Opens the store to work on, making it if it is not there.
async fn open_store(config: &Config, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    let migrate = config.store.migrate;
    match config.store_url() {
        StoreUrl::Memory => Ok(Arc::new(MemoryStore::new(clock))),
        StoreUrl::Sqlite(path) => {
            let store = SqliteStore::open(&path, clock, SqliteOptions::default());
            Ok(Arc::new(store.map_err(unopened)?))
        }
        StoreUrl::Redis(url) => super::redis::store(config, url.expose()).await,
        StoreUrl::Postgres(url) => super::postgres::store(config, url.expose(), migrate).await,
        StoreUrl::Mysql(url) => super::mysql::store(config, url.expose(), migrate).await,
    }
}

/// Whether a file is there. One that may not be looked for is not missing.
pub fn is_there(path: &Path) -> Result<bool> {
    path.try_exists().map_err(|error| {
        let path = path.display();
        Failure::Unable(format!("{path} cannot be reached ({error}); who may read its folder?"))
    })
}

/// Opens a store that must be there, to read it beside a relay that may be writing.
pub async fn open_existing_store(config: &Config) -> Result<Arc<dyn Store>> {
    match config.store_url() {
        StoreUrl::Memory => Err(Failure::Mistaken(
            "a memory: store lives inside its relay and cannot be read from outside; ask the \
             relay's API instead"
                .into(),
        )),
        StoreUrl::Sqlite(path) if is_there(&path)? => {
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
pub async fn open_queue(
    config: &Config,
    store: &Arc<dyn Store>,
    instance: &str,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<dyn Queue>> {
    match config.queue_url() {
        QueueUrl::Ring => Ok(Arc::new(RingQueue::new(config.queue.capacity as usize))),
        QueueUrl::Store => {
            let settings = landfall_queue_store::Settings::default();
            Ok(Arc::new(StoreQueue::new(store.clone(), clock.clone(), settings)))
        }
        QueueUrl::Redis(url) => super::redis::queue(config, url.expose(), instance, clock.clone()),
        QueueUrl::Sqs(name) => super::sqs::queue(&name, clock.clone()).await,
    }
}
