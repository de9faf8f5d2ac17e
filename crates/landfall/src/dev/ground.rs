//! What a trial stands on: a simulated NEAR, an EVM chain, a shield pool on a simulated Solana and
//! two account services, kept in its data folder, and the configuration that names them, written
//! there on every start.
//!
//! `landfall dev` lays it. A command that is given the same folder by `--data` finds it laid while
//! dev runs, and lays it for itself when dev has left: the ledger is in the folder, too.
//! **Rule:** on a trial's folder nothing is read from `landfall.toml` elsewhere, and of the
//! environment only `LANDFALL_ENGINE__…` and `LANDFALL_LOG__…`, so that a trial never reaches a
//! real network. `--config` beats the folder: whoever gives it has said what they want.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use landfall_ledger::{AccountId, Faults, Operation, SimServices, Terms};
use landfall_sim_near::{SimConfig, SimNear};
use serde_json::{Value, json};

use super::chain::DevChain;
use super::pool::DevPool;
use crate::config::{DEFAULT_FILE, Sources};
use crate::failure::{Failure, Result};
use crate::folder::Folder;
use crate::serve::listen;
use crate::{ledger as accounts, sim, wire};

/// A user with something to move, and what: 10 BTC and 50,000 USDT.
pub const USER: u64 = 4001;
const FUNDS: [(u32, NonZeroU64); 2] =
    [(1, NonZeroU64::new(1_000_000_000).unwrap()), (2, NonZeroU64::new(50_000_000_000).unwrap())];
/// Lanes of the relay: enough to see several at work.
const KEYS: usize = 5;
/// Half of NEAR's own, for people who wait.
const BLOCK_MS: u64 = 300;
/// The ledger's own file in the data folder. No other folder has it.
const LEDGER_FILE: &str = "near.sim";
/// Settings that may come from the environment.
const VARIABLES: [&str; 2] = ["LANDFALL_ENGINE__", "LANDFALL_LOG__"];
const LOOPBACK: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// Ends when it is dropped. What was paid is in the folder by then.
pub struct Ground {
    pub folder: Folder,
    pub ledger: SimNear,
    pub services: SimServices,
    pub chain: DevChain,
    pub pool: DevPool,
}

/// Which EVM chain a trial has.
pub enum Chosen<'a> {
    /// A node of the user's own, or the simulated one.
    By(Option<&'a str>),
    /// Whatever it had before.
    Before,
}

impl Ground {
    /// Takes the folder for this process, and writes down what is where.
    pub async fn lay(folder: Folder, data: &Path, chosen: Chosen<'_>) -> Result<Ground> {
        let ledger = sim::start(SimConfig {
            listen: LOOPBACK,
            keys: KEYS,
            block_ms: BLOCK_MS,
            state: Some(data.join(LEDGER_FILE)),
            ..SimConfig::default()
        })
        .await?;
        let services = services(data).await?;
        let chain = DevChain::lay(data, chosen).await?;
        let pool = DevPool::lay(data).await?;
        let ground = Ground { folder, ledger, services, chain, pool };
        let settings = toml::to_string(&ground.settings());
        let settings = settings.map_err(|error| Failure::Unable(error.to_string()))?;
        let text = format!("# Written anew on every start of `landfall dev`.\n{settings}");
        std::fs::write(data.join(DEFAULT_FILE), text)?;
        Ok(ground)
    }

    fn settings(&self) -> Value {
        let said = self.ledger.announcement();
        let urls = &self.services.announcement()["services"];
        json!({
            "api": {"auth": "off"},
            "near": {
                "rpc_urls": said["rpc_urls"],
                "token": said["token"],
                "relay_account": said["relay_account"],
                "access_keys": said["access_keys"],
            },
            "evm": self.chain.settings(),
            "solana": self.pool.settings(),
            "internal": {
                "services": [
                    {"name": "funding", "url": urls["funding"], "freezes": true,
                        "dedupe_window_s": "forever"},
                    {"name": "trading", "url": urls["trading"], "freezes": false,
                        "dedupe_window_s": "forever"},
                ],
                "assets": [
                    {"id": 1, "symbol": "BTC", "decimals": 8},
                    {"id": 2, "symbol": "USDT", "decimals": 6},
                ],
            },
        })
    }

    pub async fn shutdown(self) {
        self.ledger.shutdown().await;
        self.services.shutdown().await;
        self.chain.shutdown().await;
        self.pool.shutdown().await;
    }
}

/// Two account services, and a user with something to move. Funded once: the reference is the same
/// on every start.
async fn services(data: &Path) -> Result<SimServices> {
    let clock = wire::clock();
    let books = accounts::both(data).await?;
    let fund = |(asset_id, amount): (u32, NonZeroU64)| Operation::Fund {
        reference: format!("dev-{USER}-{asset_id}"),
        terms: Terms { account: AccountId { user_id: USER, asset_id }, amount },
    };
    let funds = FUNDS.map(fund).to_vec();
    let funded = books[0].apply(funds, clock.now_ms()).await;
    funded.map_err(|error| Failure::Unable(error.to_string()))?;
    let listener = listen(LOOPBACK).await?;
    Ok(SimServices::start(listener, books, clock, Faults::default(), 1)?)
}

/// Where the settings of a trial come from.
pub fn sources(data: &Path) -> Sources {
    let mut sources = Sources::surroundings(None);
    sources.folder = None;
    sources.file = Some(data.join(DEFAULT_FILE)).filter(|path| path.exists());
    sources.variables.retain(|name, _| VARIABLES.iter().any(|prefix| name.starts_with(prefix)));
    sources.with_flag("instance.data", "--data", Some(data.display().to_string()))
}

/// Where the settings of a command that only reads the store come from.
pub fn store_sources(config: &Option<PathBuf>, data: &Option<PathBuf>) -> Result<Sources> {
    let chosen = Sources::surroundings(config.clone());
    match data {
        Some(data) if chosen.file.is_none() && is_trial(data)? => Ok(sources(data)),
        _ => {
            let data = data.as_ref().map(|path| path.display().to_string());
            Ok(chosen.with_flag("instance.data", "--data", data))
        }
    }
}

/// The same for one that asks the ledger, too, and what has to live as long as the command.
pub async fn ledger_sources(
    config: &Option<PathBuf>,
    data: &Option<PathBuf>,
) -> Result<(Sources, Option<Ground>)> {
    let chosen = store_sources(config, data)?;
    let Some(data) = data.as_ref().filter(|_| chosen.folder.is_none()) else {
        return Ok((chosen, None));
    };
    match Folder::take(data) {
        Ok(folder) => {
            let ground = Ground::lay(folder, data, Chosen::Before).await?;
            Ok((sources(data), Some(ground)))
        }
        // Whoever has it has laid it.
        Err(_) => Ok((chosen, None)),
    }
}

fn is_trial(data: &Path) -> Result<bool> {
    wire::is_there(&data.join(LEDGER_FILE))
}
