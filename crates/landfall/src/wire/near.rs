//! The NEAR rail, as the configuration says.

use std::sync::Arc;
use std::time::Duration;

use landfall_core::Clock;
use landfall_core::ledger::Manner;
use landfall_core::near::Terms;
use landfall_core::rail::Pace;
use landfall_engine::Role;
use landfall_rail_near::{Key, Limits, NearRail, NearSettings, TGAS};
use landfall_rpc::Endpoints;
use serde_json::{Value, json};

use super::{Fitted, Ground, backoff, nodes, number};
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::folder::Folder;

/// Pause before nodes are asked again which network they serve.
const NETWORK_RETRY: Duration = Duration::from_millis(500);

/// In yoctoNEAR.
const MILLINEAR: u128 = 1_000_000_000_000_000_000_000;

/// Adds the rail to a relay, if it is on.
pub async fn fit(ground: &Ground<'_>, fitted: &mut Fitted) -> Result<()> {
    let Ground { config, role, folder, clock } = ground;
    if !config.has_near() {
        return Ok(());
    }
    let network = network(config, folder, clock).await?;
    let near = match role {
        Role::Api => near_intake(config, &network, clock.clone())?,
        Role::Worker | Role::Both => near_rail(config, &network, clock.clone())?,
    };
    fitted.rails.push(Arc::new(near));
    fitted.api.near = fitted.api.takes.then(|| terms(config, &network));
    fitted.network = Some(network);
    Ok(())
}

/// The calls to the configured nodes.
pub fn endpoints(config: &Config, clock: Arc<dyn Clock>) -> Result<Endpoints> {
    let near = &config.near;
    nodes::endpoints(&near.rpc_urls, &near.nodes, clock)
        .map_err(|error| Failure::Mistaken(format!("near.rpc_urls: {error}")))
}

/// How many of the nodes must say the same before it is believed.
#[derive(Clone, Copy, Debug)]
pub struct Agreement {
    pub nodes: usize,
    pub quorum: usize,
}

pub fn agreement(config: &Config) -> Result<Agreement> {
    let endpoints = endpoints(config, super::clock())?;
    Ok(Agreement { nodes: endpoints.count(), quorum: endpoints.quorum() })
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

/// The chain id that a quorum of nodes shows.
pub async fn shown_network(endpoints: &Endpoints) -> std::result::Result<String, String> {
    let (mut shown, mut errors) = (Vec::new(), Vec::new());
    for (_, answer) in endpoints.call_each("status", &json!([])).await {
        let status = match answer {
            Ok(raw) => serde_json::from_str::<Value>(raw.get()).unwrap_or_default(),
            Err(error) => {
                errors.push(error.to_string());
                continue;
            }
        };
        let network = status["chain_id"].as_str().filter(|network| !network.is_empty());
        shown.extend(network.map(str::to_owned));
    }
    let showing = |network: &String| shown.iter().filter(|other| *other == network).count();
    let agreed = shown.iter().find(|network| showing(network) >= endpoints.quorum());
    agreed.cloned().ok_or_else(|| {
        let quorum = endpoints.quorum();
        let told = shown.into_iter().chain(errors).collect::<Vec<_>>().join("; ");
        format!("no {quorum} nodes show the same chain_id ({told})")
    })
}

/// The NEAR rail, with the keys to sign.
pub fn near_rail(config: &Config, network: &str, clock: Arc<dyn Clock>) -> Result<NearRail> {
    if config.near.access_keys.is_empty() {
        return Err(Failure::Mistaken("near.access_keys: nothing can be signed without".into()));
    }
    near_intake(config, network, clock)
}

/// The NEAR rail with such keys as there are: none where transfers are only taken.
fn near_intake(config: &Config, network: &str, clock: Arc<dyn Clock>) -> Result<NearRail> {
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
    let (terms, engine) = (terms(config, network), &config.engine);
    let settings = NearSettings {
        limits: Limits {
            actions: near.batch_max as usize,
            transfer_gas: near.gas_per_transfer_tgas * TGAS,
            deposit_gas: near.gas_per_registration_tgas * TGAS,
            transaction_gas: near.gas_per_transaction_tgas * TGAS,
            ..Limits::default()
        },
        deposit_max: u128::from(near.deposit_max_millinear) * MILLINEAR,
        broadcast_timeout: Duration::from_millis(near.nodes.rpc_timeout_ms),
        pace: Pace {
            batch_max: near.batch_max as usize,
            linger_ms: near.linger_ms,
            prepare_retries: number(engine.registration_retries),
            pay_retries: number(engine.transfer_retries),
            backoff: Some(backoff(config, &near.retries)),
        },
        manner: Manner {
            fence_after_ms: engine.fence_after_ms,
            finality_ms: engine.fence_after_ms,
            window: near.window as usize,
            rebroadcast_ms: engine.rebroadcast_ms,
            rebroadcast_max_ms: engine.rebroadcast_max_ms,
            ..Manner::OVERTAKES
        },
        ..NearSettings::new(&terms.network, &terms.token, &terms.sender, keys)
    };
    NearRail::with_or_without_keys(settings, endpoints(config, clock.clone())?, clock)
        .map_err(|error| Failure::Mistaken(format!("[near] {error}")))
}
