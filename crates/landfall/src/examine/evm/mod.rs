//! The EVM rail, as operators' commands ask it: one ledger for each chain.
//!
//! Not here: how it is audited (`audit`).

mod audit;

use std::sync::Arc;

use async_trait::async_trait;
use landfall_core::attempt::Outcome;
use landfall_core::evm::Work;
use landfall_core::ledger::{Look, RailError};
use landfall_core::rail::Rail;
use landfall_core::store::Store;
use landfall_core::{Attempt, LaneId, Payload, RailName};
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

pub struct Evm;

#[async_trait]
impl Examiner for Evm {
    fn rail(&self) -> RailName {
        RailName::Evm
    }

    fn is_configured(&self, config: &Config) -> bool {
        config.has_evm()
    }

    fn secrets<'c>(&self, config: &'c Config) -> Secrets<'c> {
        let evm = &config.evm;
        let of_chains = evm.chains.iter().filter_map(|chain| chain.signers_file.as_ref());
        let own = [&evm.signers_file, &evm.keystore, &evm.keystore_password_file];
        let files = own.into_iter().flatten().chain(of_chains);
        Secrets {
            in_settings: !evm.signers.is_empty()
                || evm.chains.iter().any(|chain| !chain.signers.is_empty()),
            files: files.map(|file| file.0.as_path()).collect(),
        }
    }

    async fn check(&self, config: &Config) -> Result<Vec<Finding>> {
        let mut findings = Vec::new();
        for chain in wire::chains(config) {
            let id = chain.id(config, &wire::clock()).await?;
            let rail = chain.executor(config, id, wire::clock())?;
            let tried = rail.check().await.map_err(|error| match error {
                RailError::Unavailable(why) => {
                    format!("{}: {why}; are its rpc_urls right and reachable?", chain.name)
                }
                error => format!("{}: {error}", chain.name),
            });
            findings.push(Finding::new("EVM", tried));
            findings.push(nodes("EVM nodes", "evm", chain.agreement(config)?));
        }
        Ok(findings)
    }

    async fn audit(&self, config: &Config, store: &Arc<dyn Store>, show: &Show) -> Result<Audited> {
        audit::audit(config, store, show).await
    }

    async fn ledgers(&self, config: &Config, _: &Folder) -> Result<Vec<Arc<dyn LedgerExaminer>>> {
        let mut ledgers: Vec<Arc<dyn LedgerExaminer>> = Vec::new();
        for chain in wire::chains(config) {
            let id = chain.id(config, &wire::clock()).await?;
            let rail = chain.executor(config, id, wire::clock())?;
            ledgers.push(Arc::new(Chain { name: chain.name.to_owned(), rail }));
        }
        Ok(ledgers)
    }

    fn describe(&self, payload: &Payload) -> Description {
        let Some(call) = payload.evm() else { return Description::default() };
        let calls = format!("{} on {} with {} wei", call.to(), call.chain, call.value());
        let by = match &call.work {
            Work::Direct(_) => None,
            Work::Gasless(request) => {
                Some(("by", format!("{} through {}", request.from, request.forwarder)))
            }
        };
        Description {
            client_key: None,
            amount: call.value().to_string(),
            asset: "wei".to_owned(),
            lines: std::iter::once(("calls", calls)).chain(by).collect(),
            fields: vec![("chain", json!(call.chain)), ("type", json!(call.kind()))],
        }
    }
}

/// A chain that is configured.
struct Chain {
    name: String,
    rail: Arc<dyn Rail>,
}

#[async_trait]
impl LedgerExaminer for Chain {
    fn rail(&self) -> Arc<dyn Rail> {
        self.rail.clone()
    }

    fn words(&self) -> Words {
        Words { name: self.name.clone(), keys: "evm.signers", coin: "the chain's own coin" }
    }

    /// An account's key cannot be taken from it.
    async fn keys(&self, lanes: &[LaneId]) -> std::result::Result<Vec<Key>, RailError> {
        let mut keys = Vec::with_capacity(lanes.len());
        for lane in lanes {
            keys.push(self.rail.nonce(lane).await?.map_or(Key::Uncounted, Key::At));
        }
        Ok(keys)
    }

    async fn shown(&self, attempt: &Attempt) -> std::result::Result<Shown, RailError> {
        // The nonce first: what used it is then on every node that has that block.
        let used = self.rail.nonce(&attempt.lane).await?;
        let look = match self.rail.look(attempt, true).await? {
            Look::Adrift { sightings, .. } if sightings.is_empty() => {
                self.rail.inquest(attempt, &[]).await?
            }
            look => look,
        };
        let waits = match used {
            Some(used) => format!(
                "the chain has used {} nonces of its signer up to final block {}, and it has the \
                 {}th; start the relay, which sends it again, outbids it or cancels it",
                used.nonce, used.final_height, attempt.nonce
            ),
            None => {
                "the relayer that it was handed to may have it, and send it when it likes; ask \
                     it for what it has"
                    .to_owned()
            }
        };
        let (seen, may_land, hash, told) = match &look {
            Look::Landed(landing) => {
                let paid = landing.outcomes.iter().all(|one| *one == Outcome::Done);
                let (seen, told) = match paid {
                    true => (Seen::Paid, "done"),
                    false => (Seen::Reverted, "reverted"),
                };
                (seen, None, landing.hash.clone(), told)
            }
            Look::Sunk(_) => (Seen::Unknown, None, None, "never lands"),
            Look::Foreign(foreign) if foreign.certificate.is_some() => {
                (Seen::Unknown, None, None, "its nonce was used by something else")
            }
            Look::Foreign(_) => (Seen::Unknown, Some(waits), None, "unknown"),
            Look::Adrift { sightings, .. } if sightings.is_empty() => {
                (Seen::Unknown, Some(waits), None, "in no block")
            }
            Look::Adrift { .. } => (Seen::Unsettled, Some(waits), None, "not final"),
        };
        let final_height = match &look {
            Look::Landed(landing) => landing.block_height,
            _ => used.map_or(0, |used| used.final_height),
        };
        let used = used.map(|used| used.nonce);
        let facts = json!({
            "transaction": told, "used_nonces": used, "final_height": final_height,
        });
        Ok(Shown { seen, may_land, sighted: None, hash, final_height, facts })
    }
}
