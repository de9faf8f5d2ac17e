//! Puts the rooms together as the configuration says. Only here are they all named.
//!
//! Not here: what a command prints, signals (`serve`, `dev`).

mod api;
mod books;
mod evm;
mod internal;
mod near;
mod nodes;
mod solana;
mod stores;

// Backends with heavy crates are features; what a build lacks says so by name.
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(not(feature = "mysql"))]
#[path = "absent/mysql.rs"]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(not(feature = "postgres"))]
#[path = "absent/postgres.rs"]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
#[cfg(not(feature = "redis"))]
#[path = "absent/redis.rs"]
mod redis;
#[cfg(feature = "sqs")]
mod sqs;
#[cfg(not(feature = "sqs"))]
#[path = "absent/sqs.rs"]
mod sqs;

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::IsTerminal as _;
use std::sync::Arc;

use landfall_api::{Api, ApiConfig};
use landfall_core::Clock;
use landfall_core::courier::Courier;
use landfall_core::rail::{Backoff, Rail};
use landfall_engine::{Engine, Parts, Role, Settings as EngineSettings};
use landfall_lanes::{HighWater, LaneSettings, SystemClock};

pub use books::{book_in, book_on};
pub use evm::chains;
pub use internal::internal_rail;
pub use near::{Agreement, agreement, endpoints, near_rail, shown_network, terms};
pub use solana::{solana_agreement, solana_network, solana_rail};
pub use stores::{
    is_there, migrate, open_cache, open_existing_store, open_existing_store_to_write,
    open_patiently,
};

use crate::config::{Config, LogFormat, Retries, StoreUrl};
use crate::failure::Result;
use crate::folder::Folder;
use crate::show;

/// How often the store is asked for those who wait, in a process that does no work itself.
const API_RECHECK_MS: u64 = 100;

pub fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::default())
}

/// Sends log lines to standard error, as configured.
pub fn start_log(config: &Config) {
    let filter = tracing_subscriber::EnvFilter::new(&config.log.level);
    let colours = show::may_colour(std::io::stderr().is_terminal());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(|| show::LogWriter);
    let log = log.with_ansi(colours);
    match config.log.format {
        LogFormat::Json => log.json().init(),
        LogFormat::Pretty => log.init(),
    }
}

/// What a build without a feature says when it is wanted.
#[cfg(not(all(feature = "mysql", feature = "postgres", feature = "redis", feature = "sqs")))]
fn absent(feature: &str) -> crate::failure::Failure {
    crate::failure::Failure::Mistaken(format!(
        "this build has no {feature}; build it with `cargo build --release --features {feature}`"
    ))
}

/// Settings are checked against their ranges, which are far below.
fn number(setting: u64) -> u32 {
    u32::try_from(setting).unwrap_or(u32::MAX)
}

/// The backoff of a rail.
fn backoff(config: &Config, retries: &Retries) -> Backoff {
    let (first_ms, max_ms) = config.retries_of(retries);
    Backoff { first_ms, max_ms }
}

fn engine_settings(config: &Config, role: Role, instance: String) -> EngineSettings {
    let (engine, internal) = (&config.engine, &config.internal);
    let own = [&config.near.retries, &internal.retries, &config.evm.retries];
    let own = own.map(|retries| backoff(config, retries));
    let all = own.into_iter().chain([solana::backoff(config)]);
    let longest = all.map(|backoff| backoff.max_ms);
    let defaults = EngineSettings::default();
    EngineSettings {
        instance,
        sweep_ms: engine.sweep_ms,
        verification_retries: number(engine.verification_retries),
        backoff_ms: engine.retry_ms,
        backoff_max_ms: engine.retry_max_ms,
        rails_backoff_max_ms: longest.fold(0, u64::max),
        pause_max_ms: engine.pause_max_ms,
        aside_max_ms: engine.aside_max_ms,
        backlog_max: engine.backlog_max,
        waits_max: config.api.waits_max as usize,
        recheck_ms: match role {
            Role::Api => API_RECHECK_MS,
            Role::Both | Role::Worker => defaults.recheck_ms,
        },
        // Nobody here takes up what this process accepted: it is due for the others at once.
        hint_grace_ms: match role {
            Role::Api => 0,
            Role::Both | Role::Worker => defaults.hint_grace_ms,
        },
        calls_max: internal.concurrency as usize,
        alert_after_retries: number(internal.alert_after_retries),
        alert_after_ms: internal.alert_after_s.saturating_mul(1_000),
        lanes: LaneSettings {
            lease_ms: engine.lease_ms,
            renew_ms: engine.renew_ms,
            ..LaneSettings::default()
        },
        ..defaults
    }
}

/// A running relay, not yet listening.
pub struct Relay {
    pub engine: Arc<Engine>,
    pub api: Api,
    /// Of the NEAR rail, where it is on.
    pub network: Option<String>,
}

/// What the rails are fitted with.
struct Ground<'a> {
    config: &'a Config,
    role: Role,
    folder: &'a Folder,
    clock: Arc<dyn Clock>,
}

/// What each rail that is on adds to a relay: whoever does its work, and what the API is told of
/// it.
struct Fitted {
    rails: Vec<Arc<dyn Rail>>,
    couriers: Vec<Arc<dyn Courier>>,
    api: ApiConfig,
    /// Of the NEAR rail.
    network: Option<String>,
}

impl Ground<'_> {
    /// Every rail in its turn. A new one adds a line.
    async fn fit(&self) -> Result<Fitted> {
        let api = api::api_config(self.config, self.role, self.clock.clone())?;
        let (rails, couriers) = (Vec::new(), Vec::new());
        let mut fitted = Fitted { rails, couriers, api, network: None };
        near::fit(self, &mut fitted).await?;
        evm::fit(self, &mut fitted).await?;
        solana::fit(self, &mut fitted).await?;
        internal::fit(self, &mut fitted)?;
        Ok(fitted)
    }
}

/// Starts everything but the socket.
pub async fn start(
    config: &Config,
    role: Role,
    folder: &Folder,
    clock: Arc<dyn Clock>,
) -> Result<Relay> {
    let store = stores::open_patiently(config, &clock).await?;
    let instance = folder.instance_name(config.instance.name.as_deref())?;
    let settings = engine_settings(config, role, instance);
    let cache = stores::open_cache(config, &store, &clock).await?;
    let queue = stores::open_queue(config, &store, &settings, &clock).await?;
    let fitted = Ground { config, role, folder, clock: clock.clone() }.fit().await?;
    let Fitted { rails, couriers, mut api, network } = fitted;
    let high_water = match config.store_url() {
        // A store that is meant to forget cannot be told from one that did by accident.
        StoreUrl::Memory => HighWater::in_memory(),
        _ => HighWater::open(&folder.high_water())?,
    };
    let engine = Engine::start(Parts {
        store,
        queue,
        rails,
        couriers,
        clock,
        high_water: Arc::new(high_water),
        role,
        settings,
        seed: RandomState::new().build_hasher().finish(),
    })
    .await?;
    api.cache = cache;
    let api = landfall_api::api(api, engine.clone());
    api.pulse.look().await;
    Ok(Relay { api, engine, network })
}
