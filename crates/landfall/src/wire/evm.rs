//! The EVM rail, as the configuration says: one rail for each chain.

use std::sync::Arc;
use std::time::Duration;

use landfall_api::EvmTerms;
use landfall_core::Clock;
use landfall_core::evm::Terms;
use landfall_core::ledger::Manner;
use landfall_core::rail::{Pace, Rail};
use landfall_rail_evm::fees::Caps;
use landfall_rail_evm::relayer::{HANDED_OVER, RelayerRail, RelayerSettings, Relayers, Routes};
use landfall_rail_evm::settings::QUEUES;
use landfall_rail_evm::{EvmRail, EvmSettings, Finality, Key};
use landfall_rpc::{Endpoints, HttpTransport, Transport, Url};
use serde_json::{Value, json};

use super::{Agreement, Fitted, Ground, backoff, nodes, number};
use crate::config::{Config, Executor, RelayerSpec, Secret};
use crate::failure::{Failure, Result};

/// Pause before nodes are asked again which chain they serve.
const CHAIN_RETRY: Duration = Duration::from_millis(500);
const GWEI: u128 = 1_000_000_000;

/// Adds the rail to a relay, a ledger for each chain, if it is on.
pub async fn fit(ground: &Ground<'_>, fitted: &mut Fitted) -> Result<()> {
    let Ground { config, clock, .. } = ground;
    let mut called = Vec::new();
    for chain in chains(config).into_iter().filter(|_| config.has_evm()) {
        let id = chain.id(config, clock).await?;
        fitted.rails.push(chain.executor(config, id, clock.clone())?);
        called.push(chain.terms(id));
    }
    fitted.api.evm = terms(called).filter(|_| fitted.api.takes);
    Ok(())
}

/// A chain as it is configured.
#[derive(Clone)]
pub struct Chain<'c> {
    pub name: &'c str,
    pub rpc_urls: &'c [Url],
    chain_id: Option<u64>,
    signers: &'c [Secret],
    /// Whether keystore and executor of the section are for this chain.
    is_first: bool,
    forwarder: Option<landfall_core::evm::Address>,
    finality: Finality,
    window: u64,
}

/// Every chain, the one that is meant by default first.
pub fn chains(config: &Config) -> Vec<Chain<'_>> {
    let evm = &config.evm;
    let first = Chain {
        name: &evm.name,
        rpc_urls: &evm.rpc_urls,
        chain_id: evm.chain_id,
        signers: &evm.signers,
        is_first: true,
        forwarder: evm.forwarder,
        finality: evm.finality,
        window: evm.window,
    };
    let others = evm.chains.iter().map(|chain| Chain {
        name: &chain.name,
        rpc_urls: &chain.rpc_urls,
        chain_id: chain.chain_id,
        signers: &chain.signers,
        is_first: false,
        forwarder: chain.forwarder,
        finality: chain.finality.unwrap_or(evm.finality),
        window: chain.window.unwrap_or(evm.window),
    });
    std::iter::once(first).chain(others).collect()
}

impl Chain<'_> {
    pub fn endpoints(&self, config: &Config, clock: Arc<dyn Clock>) -> Result<Endpoints> {
        nodes::endpoints(self.rpc_urls, &config.evm.nodes, clock)
            .map_err(|error| Failure::Mistaken(format!("rpc_urls of chain {}: {error}", self.name)))
    }

    pub fn agreement(&self, config: &Config) -> Result<Agreement> {
        let endpoints = self.endpoints(config, super::clock())?;
        Ok(Agreement { nodes: endpoints.count(), quorum: endpoints.quorum() })
    }

    pub fn terms(&self, chain_id: u64) -> Terms {
        Terms { chain: self.name.to_owned(), chain_id, forwarder: self.forwarder }
    }

    /// Its number: as configured, or as a quorum of its nodes shows.
    pub async fn id(&self, config: &Config, clock: &Arc<dyn Clock>) -> Result<u64> {
        if let Some(id) = self.chain_id {
            return Ok(id);
        }
        let endpoints = self.endpoints(config, clock.clone())?;
        let mut warned = false;
        loop {
            match shown_id(&endpoints).await {
                Ok(id) => return Ok(id),
                Err(why) if !warned => {
                    let chain = self.name;
                    tracing::warn!(chain, %why, "waiting for a node to show its chain id");
                    warned = true;
                }
                Err(_) => {}
            }
            clock.sleep(CHAIN_RETRY).await;
        }
    }

    fn keys(&self, config: &Config) -> Result<Vec<Key>> {
        let read = |(index, key): (usize, &Secret)| {
            let name = self.name;
            Key::parse(key.expose()).map_err(|error| {
                Failure::Mistaken(format!("signers of {name}: item {} is {error}", index + 1))
            })
        };
        let mut keys = self.signers.iter().enumerate().map(read).collect::<Result<Vec<Key>>>()?;
        let evm = &config.evm;
        let files = (&evm.keystore, &evm.keystore_password_file);
        if let ((Some(keystore), Some(password)), true) = (files, self.is_first) {
            let password = std::fs::read_to_string(&password.0).map_err(|error| {
                Failure::Mistaken(format!("evm.keystore_password_file cannot be read ({error})"))
            })?;
            let key = Key::from_keystore(&keystore.0, password.trim_end_matches(['\n', '\r']));
            keys.push(key.map_err(|error| Failure::Mistaken(format!("evm.keystore: {error}")))?);
        }
        Ok(keys)
    }

    /// Whoever executes its calls.
    pub fn executor(
        &self,
        config: &Config,
        chain_id: u64,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<dyn Rail>> {
        match config.evm.executor {
            Executor::OpenZeppelin if self.is_first => {
                Ok(Arc::new(self.relayed(config, chain_id, clock)?))
            }
            Executor::OpenZeppelin | Executor::Native => {
                Ok(Arc::new(self.rail(config, chain_id, clock)?))
            }
        }
    }

    /// Its calls handed over to relayers.
    fn relayed(
        &self,
        config: &Config,
        chain_id: u64,
        clock: Arc<dyn Clock>,
    ) -> Result<RelayerRail> {
        let mistaken =
            |error: &dyn std::fmt::Display| Failure::Mistaken(format!("evm.relayers: {error}"));
        let settings = |relayer: &RelayerSpec| {
            let routes = match relayer.bare {
                true => Routes::bare(),
                false => Routes::openzeppelin(&relayer.id),
            };
            let usual = RelayerSettings::new(&relayer.name, relayer.url.clone(), routes);
            let settings = RelayerSettings {
                address: relayer.address.map(landfall_rail_evm::rail::address),
                timeout: relayer.timeout_ms.map_or(usual.timeout, Duration::from_millis),
                ..usual
            };
            match &relayer.api_key {
                Some(key) => settings.with_key(key.expose()).map_err(|error| mistaken(&error)),
                None => Ok(settings),
            }
        };
        let relayers = config.evm.relayers.iter().map(settings).collect::<Result<Vec<_>>>()?;
        let transport: Arc<dyn Transport> = Arc::new(HttpTransport::new());
        let relayers = Relayers::new(relayers, &transport, &clock);
        let relayers = Arc::new(relayers.map_err(|error| mistaken(&error))?);
        let (settings, endpoints) =
            (self.settings(config, chain_id)?, self.endpoints(config, clock.clone())?);
        let manner = Manner { window: self.window as usize, ..HANDED_OVER };
        RelayerRail::new(settings, manner, endpoints, relayers, clock)
            .map_err(|error| Failure::Mistaken(format!("chain {}: {error}", self.name)))
    }

    /// Its rail, signed here, with such keys as there are: none where transfers are only taken.
    pub fn rail(&self, config: &Config, chain_id: u64, clock: Arc<dyn Clock>) -> Result<EvmRail> {
        let settings = self.settings(config, chain_id)?;
        EvmRail::with_or_without_keys(settings, self.endpoints(config, clock.clone())?, clock)
            .map_err(|error| Failure::Mistaken(format!("chain {}: {error}", self.name)))
    }

    fn settings(&self, config: &Config, chain_id: u64) -> Result<EvmSettings> {
        let (evm, engine) = (&config.evm, &config.engine);
        let base = EvmSettings::new(self.name, chain_id, self.keys(config)?);
        Ok(EvmSettings {
            forwarder: self.forwarder.map(landfall_rail_evm::rail::address),
            finality: self.finality,
            caps: Caps {
                fee_max: u128::from(evm.fee_max_gwei) * GWEI,
                tip_max: u128::from(evm.tip_max_gwei) * GWEI,
                ..base.caps
            },
            gas_margin_percent: evm.gas_margin_percent,
            preflight: evm.preflight,
            broadcast_timeout: Duration::from_millis(evm.nodes.rpc_timeout_ms),
            manner: Manner {
                window: self.window as usize,
                // What is in no block by then is sent again, to another node, or outbid.
                inclusion_ms: evm.replace_after_ms.saturating_mul(2),
                replace_after_ms: evm.replace_after_ms,
                pulse_ms: evm.pulse_ms,
                look_ms: evm.pulse_ms.saturating_mul(4),
                rebroadcast_ms: engine.rebroadcast_ms,
                rebroadcast_max_ms: engine.rebroadcast_max_ms,
                ..QUEUES
            },
            pace: Pace {
                pay_retries: number(engine.transfer_retries),
                backoff: Some(backoff(config, &evm.retries)),
                ..base.pace
            },
            ..base
        })
    }
}

/// The chain id that a quorum of nodes shows.
async fn shown_id(endpoints: &Endpoints) -> std::result::Result<u64, String> {
    let (mut shown, mut errors) = (Vec::new(), Vec::new());
    for (_, answer) in endpoints.call_each("eth_chainId", &json!([])).await {
        match answer {
            Ok(raw) => {
                let id = serde_json::from_str::<Value>(raw.get()).unwrap_or_default();
                let digits = id.as_str().and_then(|id| id.strip_prefix("0x"));
                shown.extend(digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()));
            }
            Err(error) => errors.push(error.to_string()),
        }
    }
    let showing = |id: &u64| shown.iter().filter(|other| *other == id).count();
    let agreed = shown.iter().find(|id| showing(id) >= endpoints.quorum()).copied();
    agreed.ok_or_else(|| {
        let told: Vec<String> = shown.iter().map(u64::to_string).chain(errors).collect();
        format!("no {} nodes show the same chain id ({})", endpoints.quorum(), told.join("; "))
    })
}

/// What the API is told of the chains; none where there are none.
fn terms(mut chains: Vec<Terms>) -> Option<EvmTerms> {
    match chains.is_empty() {
        true => None,
        false => Some(EvmTerms { default: chains.remove(0), others: chains }),
    }
}
