//! The Solana rail, as the configuration says.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use landfall_core::Clock;
use landfall_core::ledger::Manner;
use landfall_core::rail::{Backoff, Pace};
use landfall_core::solana::Door;
use landfall_rail_solana::fees::Bounds;
use landfall_rail_solana::node::genesis_on;
use landfall_rail_solana::request::PoolDoor;
use landfall_rail_solana::settings::FREE;
use landfall_rail_solana::{Key, SolanaRail, SolanaSettings};
use landfall_rpc::{Endpoints, Said, shared};

use super::{Agreement, Fitted, Ground, nodes, number};
use crate::config::Config;
use crate::failure::{Failure, Result};

/// Pause before nodes are asked again which network they serve.
const NETWORK_RETRY: Duration = Duration::from_millis(500);

/// Public networks, by the hash of their first block.
const NETWORKS: [(&str, &str); 3] = [
    ("mainnet-beta", "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"),
    ("devnet", "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG"),
    ("testnet", "4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY"),
];

/// The longest wait between tries, as many times the first: it doubles twice.
const LONGEST: u64 = 4;

/// What the rail adds to a relay, where it is on.
pub async fn fit(ground: &Ground<'_>, fitted: &mut Fitted) -> Result<()> {
    let Ground { config, clock, .. } = ground;
    if config.has_solana() {
        let network = solana_network(config, clock).await?;
        fitted.rails.push(Arc::new(solana_rail(config, &network, clock.clone())?));
        fitted.api.solana = Some(solana_door(config, &network)).filter(|_| fitted.api.takes);
    }
    Ok(())
}

/// The waits between tries of a withdraw.
pub fn backoff(config: &Config) -> Backoff {
    let first_ms = config.solana.retry_ms;
    Backoff { first_ms, max_ms: first_ms.saturating_mul(LONGEST) }
}

/// A network: its name, and its first block where that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SolanaNetwork {
    pub name: String,
    genesis: Option<String>,
}

pub fn solana_endpoints(config: &Config, clock: Arc<dyn Clock>) -> Result<Endpoints> {
    let solana = &config.solana;
    nodes::endpoints(&solana.rpc_urls, &solana.nodes, clock)
        .map_err(|error| Failure::Mistaken(format!("solana.rpc_urls: {error}")))
}

pub fn solana_agreement(config: &Config) -> Result<Agreement> {
    let endpoints = solana_endpoints(config, super::clock())?;
    Ok(Agreement { nodes: endpoints.count(), quorum: endpoints.quorum() })
}

/// The network: as configured, or as a quorum of the nodes shows by its first block.
pub async fn solana_network(config: &Config, clock: &Arc<dyn Clock>) -> Result<SolanaNetwork> {
    if let Some(name) = config.solana.network.clone() {
        let known = NETWORKS.iter().find(|(known, _)| *known == name);
        let genesis = known.map(|(_, genesis)| (*genesis).to_owned());
        return Ok(SolanaNetwork { name, genesis });
    }
    let endpoints = solana_endpoints(config, clock.clone())?;
    let mut warned = false;
    loop {
        match shown_genesis(&endpoints).await {
            Ok(genesis) => {
                let known = NETWORKS.iter().find(|(_, known)| *known == genesis);
                let name = known.map_or_else(|| genesis.clone(), |(name, _)| (*name).to_owned());
                return Ok(SolanaNetwork { name, genesis: Some(genesis) });
            }
            Err(why) if !warned => {
                tracing::warn!(%why, "waiting for Solana nodes to show their first block");
                warned = true;
            }
            Err(_) => {}
        }
        clock.sleep(NETWORK_RETRY).await;
    }
}

async fn shown_genesis(endpoints: &Endpoints) -> std::result::Result<String, String> {
    let (mut said, mut errors) = (Vec::new(), Vec::new());
    for endpoint in 0..endpoints.count() {
        match genesis_on(endpoints, endpoint).await {
            Ok(fact) => said.push(Said { endpoint, fact }),
            Err(error) => errors.push(error.to_string()),
        }
    }
    let told = || {
        let told = said.iter().map(|one| one.fact.clone()).chain(errors);
        told.collect::<Vec<_>>().join("; ")
    };
    let agreed = shared(&said, endpoints.quorum()).cloned();
    let quorum = endpoints.quorum();
    agreed.ok_or_else(|| format!("no {quorum} nodes show the same first block ({})", told()))
}

/// Where clients' requests come in.
fn solana_door(config: &Config, network: &SolanaNetwork) -> Arc<dyn Door> {
    let program = config.solana.program.0;
    Arc::new(PoolDoor { network: network.name.clone(), program })
}

/// The rail, with such keypairs as there are: none where transfers are only taken.
pub fn solana_rail(
    config: &Config,
    network: &SolanaNetwork,
    clock: Arc<dyn Clock>,
) -> Result<SolanaRail> {
    let solana = &config.solana;
    let base = SolanaSettings::new(&network.name, solana.program.0, keys(config)?);
    let settings = SolanaSettings {
        genesis: network.genesis.clone(),
        bounds: Bounds {
            price_min: solana.price_min,
            price_max: solana.price_max,
            ..Bounds::default()
        },
        screens_roots: solana.screen_roots,
        manner: Manner {
            window: solana.window as usize,
            rebroadcast_ms: solana.rebroadcast_ms,
            rebroadcast_max_ms: solana.rebroadcast_ms,
            pulse_ms: solana.pulse_ms,
            look_ms: solana.pulse_ms.saturating_mul(5),
            ..FREE
        },
        pace: Pace {
            pay_retries: number(solana.retries).saturating_add(1),
            backoff: Some(backoff(config)),
            ..base.pace
        },
        ..base
    };
    SolanaRail::new(settings, solana_endpoints(config, clock.clone())?, clock)
        .map_err(|error| Failure::Mistaken(format!("solana.keypair_path: {error}")))
}

fn keys(config: &Config) -> Result<Vec<Key>> {
    let solana = &config.solana;
    let mut keys = Vec::new();
    for (index, secret) in solana.keypairs.iter().enumerate() {
        let key = Key::parse(secret.expose());
        keys.push(key.map_err(|error| {
            Failure::Mistaken(format!("solana.keypairs: item {} is {error}", index + 1))
        })?);
    }
    if let Some(path) = &solana.keypair_path {
        keys.extend(keys_at(&path.0)?);
    }
    Ok(keys)
}

/// That of a file, or those of all files of a folder, by name.
fn keys_at(path: &Path) -> Result<Vec<Key>> {
    let wrong = |path: &Path, why: &dyn std::fmt::Display| {
        Failure::Mistaken(format!("solana.keypair_path: {} {why}", path.display()))
    };
    if !path.is_dir() {
        return Ok(vec![Key::from_file(path).map_err(|error| wrong(path, &error))?]);
    }
    let entries = std::fs::read_dir(path).map_err(|error| wrong(path, &error))?;
    let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "json"));
    files.sort();
    if files.is_empty() {
        return Err(wrong(path, &"has no .json file: put keypairs of solana-keygen into it"));
    }
    let read =
        |file: &std::path::PathBuf| Key::from_file(file).map_err(|error| wrong(file, &error));
    files.iter().map(read).collect()
}
