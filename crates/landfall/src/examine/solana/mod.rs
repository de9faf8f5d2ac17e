//! The Solana rail, as operators' commands ask it.
//!
//! Not here: how it is audited (`audit`).

mod audit;

use std::sync::Arc;

use async_trait::async_trait;
use landfall_core::attempt::Outcome;
use landfall_core::ledger::{Ledger as _, Look, RailError};
use landfall_core::rail::Rail;
use landfall_core::store::Store;
use landfall_core::{Attempt, LaneId, Payload, RailName};
use landfall_rail_solana::SolanaRail;
use serde_json::json;

use super::nodes::nodes;
use super::{Description, Examiner, Key, LedgerExaminer, Secrets, Seen, Shown, Words};
use crate::audit::Audited;
use crate::check::Finding;
use crate::config::Config;
use crate::failure::Result;
use crate::folder::Folder;
use crate::show::Show;
use crate::wire;

pub struct Solana;

async fn rail_of(config: &Config) -> Result<SolanaRail> {
    let clock = wire::clock();
    let network = wire::solana_network(config, &clock).await?;
    wire::solana_rail(config, &network, clock)
}

#[async_trait]
impl Examiner for Solana {
    fn rail(&self) -> RailName {
        RailName::Solana
    }

    fn is_configured(&self, config: &Config) -> bool {
        config.has_solana()
    }

    fn secrets<'c>(&self, config: &'c Config) -> Secrets<'c> {
        let solana = &config.solana;
        Secrets {
            in_settings: !solana.keypairs.is_empty(),
            files: solana.keypair_path.iter().map(|file| file.0.as_path()).collect(),
        }
    }

    async fn check(&self, config: &Config) -> Result<Vec<Finding>> {
        let tried = rail_of(config).await?.check().await.map_err(|error| match error {
            RailError::Unavailable(why) => {
                format!("{why}; are solana.rpc_urls right and reachable?")
            }
            error => error.to_string(),
        });
        let agreement = wire::solana_agreement(config)?;
        Ok(vec![Finding::new("Solana", tried), nodes("Solana nodes", "solana", agreement)])
    }

    async fn audit(&self, config: &Config, store: &Arc<dyn Store>, show: &Show) -> Result<Audited> {
        audit::audit(&rail_of(config).await?, store, show).await
    }

    async fn ledgers(&self, config: &Config, _: &Folder) -> Result<Vec<Arc<dyn LedgerExaminer>>> {
        Ok(vec![Arc::new(Pool { rail: Arc::new(rail_of(config).await?) })])
    }

    fn describe(&self, payload: &Payload) -> Description {
        let Some(withdraw) = payload.solana() else { return Description::default() };
        let outputs = withdraw.outputs.iter();
        let pays =
            outputs.map(|output| ("pays", format!("{} {}", output.amount, output.recipient)));
        let spends = ("nullifier", withdraw.nullifier.clone());
        Description {
            client_key: None,
            amount: withdraw.amount.to_string(),
            asset: "lamports".to_owned(),
            lines: std::iter::once(spends).chain(pays).collect(),
            fields: vec![
                ("network", json!(withdraw.network)),
                ("program", json!(withdraw.program)),
                ("nullifier", json!(withdraw.nullifier)),
                ("outputs", json!(withdraw.outputs)),
                ("priority", json!(withdraw.priority)),
            ],
        }
    }
}

/// The pool that is configured.
struct Pool {
    rail: Arc<SolanaRail>,
}

#[async_trait]
impl LedgerExaminer for Pool {
    fn rail(&self) -> Arc<dyn Rail> {
        self.rail.clone()
    }

    fn words(&self) -> Words {
        let name = format!("Solana {}", self.rail.network());
        Words { name, keys: "solana.keypair_path", coin: "SOL" }
    }

    async fn keys(&self, lanes: &[LaneId]) -> std::result::Result<Vec<Key>, RailError> {
        Ok(lanes.iter().map(|_| Key::Uncounted).collect())
    }

    async fn shown(&self, attempt: &Attempt) -> std::result::Result<Shown, RailError> {
        let look = match self.rail.look(attempt, true).await? {
            Look::Adrift { sightings, .. } if sightings.is_empty() => {
                self.rail.inquest(attempt, &[]).await?
            }
            look => look,
        };
        let (seen, may_land, told) = match &look {
            Look::Landed(landing) => {
                match landing.outcomes.iter().all(|one| *one == Outcome::Done) {
                    true => (Seen::Paid, None, "done".to_owned()),
                    false => (Seen::Reverted, None, "failed".to_owned()),
                }
            }
            Look::Sunk(certificate) => (Seen::Unknown, None, certificate.summary.clone()),
            Look::Foreign(foreign) => {
                (Seen::Unknown, Some(foreign.reason.clone()), "unknown".to_owned())
            }
            Look::Adrift { why, sightings } => {
                let seen = if sightings.is_empty() { Seen::Unknown } else { Seen::Unsettled };
                (seen, Some(format!("{why}; start the relay, which decides it")), why.clone())
            }
        };
        let final_height = match &look {
            Look::Landed(landing) => landing.block_height,
            _ => 0,
        };
        let facts = json!({ "transaction": told, "expires_height": attempt.expires_height });
        Ok(Shown { seen, may_land, sighted: None, hash: None, final_height, facts })
    }
}
