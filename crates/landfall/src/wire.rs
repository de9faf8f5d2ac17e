//! Puts the rooms together as the configuration says. The only file that names them all.
//!
//! Not here: what a command prints, signals (`serve`, `dev`).

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use landfall_api::{ApiConfig, router};
use landfall_core::Clock;
use landfall_core::near::Terms;
use landfall_core::queue::Queue;
use landfall_core::rail::Rail;
use landfall_core::store::Store;
use landfall_engine::{Engine, Parts, Settings as EngineSettings};
use landfall_lanes::{HighWater, LaneSettings, SystemClock};
use landfall_queue_ring::RingQueue;
use landfall_rail_near::{Key, Limits, NearRail, NearSettings, TGAS};
use landfall_rpc::{BreakerSettings, Endpoints, HttpTransport, Settings as RpcSettings};
use landfall_store_memory::MemoryStore;
use landfall_store_sqlite::{OpenError, SqliteOptions, SqliteStore};
use serde_json::{Value, json};

use crate::cli::DEV_DATA;
use crate::config::{
    ApiKey, Auth, Config, DIGEST_PREFIX, LogFormat, QueueUrl, STORE_FILE, Scope, StoreUrl,
};
use crate::failure::{Failure, Result};
use crate::folder::Folder;

/// Pause before nodes are asked again which network they serve.
const NETWORK_RETRY: Duration = Duration::from_millis(500);

pub fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::default())
}

/// Sends log lines to standard error, as configured.
pub fn start_log(config: &Config) {
    let filter = tracing_subscriber::EnvFilter::new(&config.log.level);
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match config.log.format {
        LogFormat::Json => log.json().init(),
        LogFormat::Pretty => log.init(),
    }
}

/// Opens the store to work on, making it if it is not there.
pub fn open_store(config: &Config, clock: Arc<dyn Clock>) -> Result<Arc<dyn Store>> {
    match config.store_url() {
        StoreUrl::Memory => Ok(Arc::new(MemoryStore::new(clock))),
        StoreUrl::Sqlite(path) => {
            let store = SqliteStore::open(&path, clock, SqliteOptions::default());
            Ok(Arc::new(store.map_err(unopened)?))
        }
    }
}

/// Opens a store that must be there, to read it beside a relay that may be writing.
pub fn open_existing_store(config: &Config) -> Result<Arc<dyn Store>> {
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
    }
}

/// Opens a store that must be there, to change it by an operator's word.
pub fn open_existing_store_to_write(
    config: &Config,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn Store>> {
    drop(open_existing_store(config)?);
    open_store(config, clock)
}

fn unopened(error: OpenError) -> Failure {
    Failure::Unable(error.to_string())
}

fn open_queue(config: &Config) -> Arc<dyn Queue> {
    match config.queue.url {
        QueueUrl::Ring => Arc::new(RingQueue::new(config.queue.capacity as usize)),
    }
}

/// The calls to the configured nodes.
pub fn endpoints(config: &Config, clock: Arc<dyn Clock>) -> Result<Endpoints> {
    let near = &config.near;
    let settings = RpcSettings {
        timeout: Duration::from_millis(near.rpc_timeout_ms),
        breaker: BreakerSettings {
            failures_to_open: number(near.breaker_failures),
            open_ms: near.breaker_open_ms,
            open_max_ms: near.breaker_open_max_ms,
            successes_to_close: number(near.breaker_successes),
            ..BreakerSettings::default()
        },
        quorum: near.quorum.map(|quorum| quorum as usize),
    };
    let transport = Arc::new(HttpTransport::new());
    Endpoints::new(near.rpc_urls.clone(), transport, clock, settings)
        .map_err(|error| Failure::Mistaken(format!("near.rpc_urls: {error}")))
}

/// Settings are checked against their ranges, which are far below.
fn number(setting: u64) -> u32 {
    u32::try_from(setting).unwrap_or(u32::MAX)
}

/// What every payout has in common: from the configuration, but for the network.
pub fn terms(config: &Config, network: &str) -> Terms {
    let text = |account: &Option<near_account_id::AccountId>| {
        account.as_ref().map(ToString::to_string).unwrap_or_default()
    };
    Terms {
        network: network.to_owned(),
        token: text(&config.near.token),
        sender: text(&config.near.relay_account),
    }
}

/// The network: as configured, as kept in the data folder, or as the nodes show on the first start.
pub async fn network(config: &Config, folder: &Folder, clock: &Arc<dyn Clock>) -> Result<String> {
    if let Some(network) = config.near.network.clone().or_else(|| folder.network()) {
        return Ok(network);
    }
    let endpoints = endpoints(config, clock.clone())?;
    let mut warned = false;
    loop {
        match shown_network(&endpoints).await {
            Ok(network) => return folder.keep_network(&network),
            Err(why) if !warned => {
                tracing::warn!(%why, "waiting for a node to show its network; set near.network");
                warned = true;
            }
            Err(_) => {}
        }
        clock.sleep(NETWORK_RETRY).await;
    }
}

/// The chain id that a node shows.
pub async fn shown_network(endpoints: &Endpoints) -> std::result::Result<String, String> {
    let answer = endpoints.call("status", &json!([])).await.map_err(|error| error.to_string())?;
    let status: Value = serde_json::from_str(answer.result.get()).unwrap_or_default();
    let network = status["chain_id"].as_str().filter(|network| !network.is_empty());
    network.map(str::to_owned).ok_or_else(|| "the node shows no chain_id".to_owned())
}

/// The NEAR rail.
pub fn near_rail(config: &Config, network: &str, clock: Arc<dyn Clock>) -> Result<NearRail> {
    let near = &config.near;
    let read = |(index, key): (usize, &crate::config::Secret)| {
        Key::parse(key.expose()).map_err(|error| {
            Failure::Mistaken(format!(
                "near.access_keys: item {} {error}; give the private key as NEAR's tools write it",
                index + 1
            ))
        })
    };
    let keys = near.access_keys.iter().enumerate().map(read).collect::<Result<Vec<Key>>>()?;
    let terms = terms(config, network);
    let settings = NearSettings {
        limits: Limits {
            actions: near.batch_max as usize,
            transfer_gas: near.gas_per_transfer_tgas * TGAS,
            deposit_gas: near.gas_per_registration_tgas * TGAS,
            transaction_gas: near.gas_per_transaction_tgas * TGAS,
            ..Limits::default()
        },
        broadcast_timeout: Duration::from_millis(near.rpc_timeout_ms),
        ..NearSettings::new(&terms.network, &terms.token, &terms.sender, keys)
    };
    NearRail::new(settings, endpoints(config, clock.clone())?, clock)
        .map_err(|error| Failure::Mistaken(format!("[near] {error}")))
}

fn engine_settings(config: &Config, instance: String) -> EngineSettings {
    let engine = &config.engine;
    EngineSettings {
        instance,
        linger_ms: config.near.linger_ms,
        batch_max: config.near.batch_max as usize,
        sweep_ms: engine.sweep_ms,
        registration_retries: number(engine.registration_retries),
        transfer_retries: number(engine.transfer_retries),
        verification_retries: number(engine.verification_retries),
        backoff_ms: engine.retry_ms,
        backoff_max_ms: engine.retry_max_ms,
        backlog_max: engine.backlog_max,
        lanes: LaneSettings {
            lease_ms: engine.lease_ms,
            renew_ms: engine.renew_ms,
            fence_after_ms: engine.fence_after_ms,
            rebroadcast_ms: engine.rebroadcast_ms,
            rebroadcast_max_ms: engine.rebroadcast_max_ms,
            ..LaneSettings::default()
        },
        ..EngineSettings::default()
    }
}

fn api_config(config: &Config, terms: Terms, clock: Arc<dyn Clock>) -> Result<ApiConfig> {
    let api = &config.api;
    let auth = match api.auth {
        Auth::Off => landfall_api::Auth::Off,
        Auth::Keys => {
            let keys: Result<Vec<_>> = api.keys.iter().map(api_key).collect();
            landfall_api::Auth::Keys(keys?)
        }
    };
    Ok(ApiConfig {
        near: Some(terms),
        auth,
        body_limit_bytes: api.body_limit_bytes as usize,
        many_limit_bytes: api.many_limit_bytes as usize,
        many_max: api.many_max as usize,
        rate_limit_per_s: Some(number(api.rate_limit_per_s)).filter(|rate| *rate > 0),
        adrift_after_ms: config.engine.fence_after_ms,
        ..ApiConfig::new(env!("CARGO_PKG_VERSION"), clock)
    })
}

fn api_key(key: &ApiKey) -> Result<landfall_api::ApiKey> {
    let scope = |scope: &Scope| match scope {
        Scope::Submit => landfall_api::Scope::Submit,
        Scope::Read => landfall_api::Scope::Read,
    };
    let scopes: Vec<landfall_api::Scope> = key.scopes.iter().map(scope).collect();
    match key.key.expose().strip_prefix(DIGEST_PREFIX) {
        Some(digest) => landfall_api::ApiKey::from_sha256_hex(digest, &key.tenant, &scopes)
            .map_err(|error| Failure::Mistaken(format!("api.keys: {error}"))),
        None => Ok(landfall_api::ApiKey::from_secret(key.key.expose(), &key.tenant, &scopes)),
    }
}

/// A running relay, not yet listening.
pub struct Relay {
    pub engine: Arc<Engine>,
    pub router: Router,
    pub network: String,
}

/// Starts everything but the socket.
pub async fn start(config: &Config, folder: &Folder, clock: Arc<dyn Clock>) -> Result<Relay> {
    let store = open_store(config, clock.clone())?;
    let network = network(config, folder, &clock).await?;
    let rail: Arc<dyn Rail> = Arc::new(near_rail(config, &network, clock.clone())?);
    let high_water = match config.store_url() {
        // A store that is meant to forget cannot be told from one that did by accident.
        StoreUrl::Memory => HighWater::in_memory(),
        StoreUrl::Sqlite(_) => HighWater::open(&folder.high_water())?,
    };
    let instance = folder.instance_name(config.instance.name.as_deref())?;
    let engine = Engine::start(Parts {
        couriers: Vec::new(),
        store,
        queue: open_queue(config),
        rails: vec![rail],
        clock: clock.clone(),
        high_water: Arc::new(high_water),
        settings: engine_settings(config, instance),
        seed: RandomState::new().build_hasher().finish(),
    })
    .await?;
    let api = api_config(config, terms(config, &network), clock)?;
    Ok(Relay { router: router(api, engine.clone()), engine, network })
}
