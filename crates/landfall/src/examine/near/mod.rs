//! The NEAR rail, as operators' commands ask it.
//!
//! Not here: how an operator's word is held against it (`word`), how it is audited (`audit`).

mod audit;
mod word;

use std::sync::Arc;

use async_trait::async_trait;
use landfall_core::ledger::{Ledger as _, RailError};
use landfall_core::rail::Rail;
use landfall_core::store::Store;
use landfall_core::{Attempt, LaneId, Payload, RailName};
use landfall_rail_near::{Auditor, NearRail};
use serde_json::json;

use super::nodes::nodes;
use super::{Description, Examiner, Key, LedgerExaminer, Secrets, Shown, Words};
use crate::audit::Audited;
use crate::check::Finding;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::folder::Folder;
use crate::show::Show;
use crate::wire;

pub struct Near;

#[async_trait]
impl Examiner for Near {
    fn rail(&self) -> RailName {
        RailName::Near
    }

    fn is_configured(&self, config: &Config) -> bool {
        config.has_near()
    }

    fn secrets<'c>(&self, config: &'c Config) -> Secrets<'c> {
        Secrets {
            in_settings: !config.near.access_keys.is_empty(),
            files: config.near.access_keys_file.iter().map(|file| file.0.as_path()).collect(),
        }
    }

    async fn check(&self, config: &Config) -> Result<Vec<Finding>> {
        let agreement = wire::agreement(config)?;
        let tried = Finding::new("NEAR", try_ledger(config).await);
        Ok(vec![tried, nodes("NEAR nodes", "near", agreement)])
    }

    async fn audit(&self, config: &Config, store: &Arc<dyn Store>, show: &Show) -> Result<Audited> {
        audit::audit(config, store, show).await
    }

    async fn ledgers(
        &self,
        config: &Config,
        folder: &Folder,
    ) -> Result<Vec<Arc<dyn LedgerExaminer>>> {
        let network = network(config, Some(folder)).await.map_err(Failure::Unable)?;
        let clock = wire::clock();
        let rail = Arc::new(wire::near_rail(config, &network, clock.clone())?);
        let auditor = Auditor::new(wire::endpoints(config, clock.clone())?, clock, network.clone());
        let token = wire::terms(config, &network).token;
        Ok(vec![Arc::new(Network { name: network, token, rail, auditor })])
    }

    fn describe(&self, payload: &Payload) -> Description {
        let Some(payout) = payload.near() else { return Description::default() };
        let pays = format!("{} of {} to {}", payout.amount, payout.token, payout.receiver_id);
        let from = format!("{} on {}", payout.sender, payout.network);
        let memo = payout.memo.clone().map(|memo| ("memo", memo));
        Description {
            client_key: None,
            amount: payout.amount.to_string(),
            asset: payout.token.clone(),
            lines: [("pays", pays), ("from", from)].into_iter().chain(memo).collect(),
            fields: vec![("memo", json!(payout.memo))],
        }
    }
}

/// The network: as configured, as kept in the data folder, or as the nodes show.
async fn network(config: &Config, folder: Option<&Folder>) -> std::result::Result<String, String> {
    let known = || config.near.network.clone().or_else(|| folder.and_then(Folder::network));
    match known() {
        Some(network) => Ok(network),
        None => {
            let endpoints = wire::endpoints(config, wire::clock());
            let endpoints = endpoints.map_err(|failure| failure.to_string())?;
            wire::shown_network(&endpoints).await
        }
    }
}

async fn try_ledger(config: &Config) -> std::result::Result<String, String> {
    let network = network(config, None).await?;
    let rail = wire::near_rail(config, &network, wire::clock());
    let rail = rail.map_err(|failure| failure.to_string())?;
    rail.check().await.map_err(|error| match error {
        RailError::Unavailable(why) => format!("{why}; are near.rpc_urls right and reachable?"),
        error => error.to_string(),
    })
}

/// The network that is configured.
struct Network {
    name: String,
    token: String,
    rail: Arc<NearRail>,
    auditor: Auditor,
}

#[async_trait]
impl LedgerExaminer for Network {
    fn rail(&self) -> Arc<dyn Rail> {
        self.rail.clone()
    }

    fn words(&self) -> Words {
        Words { name: self.name.clone(), keys: "near.access_keys", coin: "NEAR" }
    }

    async fn keys(&self, lanes: &[LaneId]) -> std::result::Result<Vec<Key>, RailError> {
        let configured = self.rail.nonces().await?;
        let mut keys = Vec::with_capacity(lanes.len());
        for lane in lanes {
            let known = configured.iter().find(|(id, _)| id == lane);
            keys.push(match known {
                Some((_, at)) => Key::At(*at),
                None => match self.rail.nonce(lane).await {
                    Ok(at) => at.map_or(Key::Uncounted, Key::At),
                    // Of a lane that it owns there is no other reason.
                    Err(RailError::Misconfigured(_)) if self.rail.owns(lane) => Key::Gone,
                    Err(error) => return Err(error),
                },
            });
        }
        Ok(keys)
    }

    async fn shown(&self, attempt: &Attempt) -> std::result::Result<Shown, RailError> {
        word::shown(self, attempt).await
    }
}
