//! The store and the queue, as the configuration says.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use landfall_core::Clock;
use landfall_core::cache::StatusCache;
use landfall_core::queue::Queue;
use landfall_core::store::Store;
use landfall_engine::Settings as EngineSettings;
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

/// What is kept at hand before the store, if anything is.
pub async fn open_cache(
    config: &Config,
    store: &Arc<dyn Store>,
    clock: &Arc<dyn Clock>,
) -> Result<Option<Arc<dyn StatusCache>>> {
    let Some(url) = config.cache_url() else { return Ok(None) };
    let id = store.identity().await?.id;
    super::redis::cache(url.expose(), &id, clock.clone()).map(Some)
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
    engine: &EngineSettings,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<dyn Queue>> {
    match config.queue_url() {
        QueueUrl::Ring => Ok(Arc::new(RingQueue::new(config.queue.capacity as usize))),
        QueueUrl::Store => {
            let (push_ms, horizon_ms) = (engine.sweep_push_ms, engine.horizon_ms());
            let settings = landfall_queue_store::Settings::beside_sweeper(push_ms, horizon_ms);
            Ok(Arc::new(StoreQueue::new(store.clone(), clock.clone(), settings)))
        }
        QueueUrl::Redis(url) => {
            super::redis::queue(config, url.expose(), &engine.instance, clock.clone())
        }
        QueueUrl::Sqs(name) => super::sqs::queue(&name, clock.clone()).await,
    }
}

#[cfg(test)]
mod tests {
    use landfall_core::near::{self, Payout, Terms};
    use landfall_core::{Event, NewTransfer, Payload, State};
    use landfall_engine::Role;

    use super::*;
    use crate::config::{Need, Sources, load};
    use crate::wire::engine_settings;

    const HOUR_MS: u64 = 3_600_000;

    fn waiting(key: &str, due_ms: u64) -> NewTransfer {
        let terms = Terms { network: "simnet".into(), token: "t".into(), sender: "s".into() };
        let payout = Payout::new(&terms, "alice.near", "1", None).expect("a payout");
        let payload = Payload::Near(payout);
        let (scope, first) = ((String::new(), key.to_owned()), State::Near(near::State::Received));
        let (fingerprint, events) = (payload.fingerprint(), &[Event::Enqueued]);
        let fresh = NewTransfer::begin(scope, fingerprint, payload, first, events, 0);
        NewTransfer { due_ms: Some(due_ms), ..fresh.expect("legal") }
    }

    #[tokio::test]
    async fn the_store_as_a_queue_leaves_a_retry_alone_for_the_longest_backoff() {
        let settings = [
            ("LANDFALL_STORE__URL", "memory:"),
            ("LANDFALL_QUEUE__URL", "store:"),
            ("LANDFALL_ENGINE__RETRY_MAX_MS", "3600000"),
        ];
        let variables = settings.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
        let sources = Sources { variables, ..Sources::default() };
        let config = load(&sources, Need::Store).expect("no mistakes");
        let clock = crate::wire::clock();
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new(clock.clone()));
        let engine = engine_settings(&config, Role::Both, "a".to_owned());
        let queue = open_queue(&config, &store, &engine, &clock).await.expect("a queue");

        let now_ms = clock.now_ms();
        store.accept(vec![waiting("retried", now_ms + HOUR_MS)]).await.expect("accept");
        let mut pull = queue.pull(near::REGISTRATION, 10);
        assert!(futures::poll!(&mut pull).is_pending(), "it is not due for an hour");
        drop(pull);
        store.accept(vec![waiting("never meant", now_ms + 9 * HOUR_MS)]).await.expect("accept");
        assert_eq!(queue.pull(near::REGISTRATION, 10).await.expect("a pull").len(), 1);
    }
}
