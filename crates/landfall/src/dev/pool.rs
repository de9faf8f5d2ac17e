//! The shield pool of a trial, on a simulated Solana, and lines to try on it.

use std::net::SocketAddr;
use std::path::Path;

use landfall_core::solana::request_id;
use landfall_sim_solana::{SimConfig, SimSolana};
use serde_json::{Value, json};

use crate::failure::{Failure, Result};

/// The chain's own file in the data folder, and the folder of its payers' keypairs.
const CHAIN_FILE: &str = "solana.sim";
const KEYPAIRS: &str = "solana-keypairs";
/// Slots for people who wait: final after seven seconds instead of thirteen.
const SLOT_MS: u64 = 200;
/// Fee payers of the relay: enough to see several at work.
const PAYERS: usize = 3;
/// Somebody to pay.
const RECIPIENT: &str = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g";

pub struct DevPool {
    sim: SimSolana,
}

impl DevPool {
    pub async fn lay(data: &Path) -> Result<DevPool> {
        // Named in the settings, which a command elsewhere may read.
        let data = std::path::absolute(data)?;
        let config = SimConfig {
            payers: PAYERS,
            slot_ms: SLOT_MS,
            state: Some(data.join(CHAIN_FILE)),
            keypairs: Some(data.join(KEYPAIRS)),
            ..SimConfig::default()
        };
        let sim = SimSolana::start(config).await;
        Ok(DevPool { sim: sim.map_err(|error| Failure::Unable(error.to_string()))? })
    }

    /// As the configuration has it.
    pub fn settings(&self) -> Value {
        let said = self.sim.announcement();
        let folder = self.sim.keypairs()[0].parent();
        json!({
            "rpc_urls": said["rpc_urls"], "program": said["program"], "network": "sim",
            "keypair_path": folder, "pulse_ms": 200,
        })
    }

    pub fn shown(&self) -> String {
        let url = &self.sim.rpc_urls()[0];
        format!("{url}  (simulated)\n  spent   {url}/sim/spent")
    }

    /// A withdraw that the simulated pool takes, made anew each time.
    pub fn lines(&self, address: SocketAddr, key: &str) -> String {
        let url = &self.sim.rpc_urls()[0];
        let id = request_id("", key);
        format!(
            "\
Withdraw 1 SOL from the shield pool (of the proof only the length is checked):

  curl -s {url}/sim/requests -H 'Content-Type: application/json' \
-d '{{\"outputs\":[{{\"recipient\":\"{RECIPIENT}\",\"amount\":1000000000}}]}}' | \
curl -i http://{address}/withdraw -H 'Idempotency-Key: {key}' \
-H 'Content-Type: application/json' -d @-

and see it paid:

  curl 'http://{address}/status/{id}?wait=60s'
"
        )
    }

    pub async fn shutdown(self) {
        self.sim.shutdown().await;
    }
}
