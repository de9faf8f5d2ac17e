//! The EVM chain of a trial: a simulated one, or a node of the user's own, and lines to try on it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use alloy_primitives::{Address, B256, U256, hex};
use landfall_rail_evm::Key;
use landfall_rail_evm::forward::{self, ForwardRequest, Forwarder};
use landfall_rpc::{Endpoints, HttpTransport, Url};
use landfall_sim_evm::ledger::natives::{COUNTER, FORWARDER, FORWARDER_NAME};
use landfall_sim_evm::server::CHAIN_ID;
use landfall_sim_evm::{SimConfig, SimEvm};
use serde_json::{Value, json};

use super::ground::Chosen;
use crate::failure::{Failure, Result};
use crate::wire;

/// The chain's own file in the data folder.
const CHAIN_FILE: &str = "evm.sim";
/// The node that was chosen instead.
const URL_FILE: &str = "evm.url";
/// Blocks for people who wait.
const BLOCK_MS: u64 = 500;
/// Signers of the relay: enough to see several at work.
const SIGNERS: usize = 3;
/// `increment()` of the counter.
const INCREMENT: &str = "0xd09de08a";
/// A user who owns nothing, and the relay's signers on a node of the user's own. All the world
/// knows these: they are for trials.
const USER: [u8; 32] = [0xa1; 32];
const SIGNER: u8 = 0xb0;
/// What each signer is given on a node of the user's own, in wei: 100 of the chain's coin.
const FUNDS: u128 = 100_000_000_000_000_000_000;
/// Until when a printed request counts: the end of the century.
const DEADLINE: u64 = 4_102_444_800;

/// The chain of a trial.
pub enum DevChain {
    Simulated { sim: SimEvm, user_nonce: u64 },
    Own { url: String, signers: Vec<String> },
}

impl DevChain {
    pub async fn lay(data: &Path, chosen: Chosen<'_>) -> Result<DevChain> {
        let kept = data.join(URL_FILE);
        let url = match chosen {
            Chosen::By(Some(url)) => Some(url.to_owned()),
            Chosen::By(None) => None,
            Chosen::Before => std::fs::read_to_string(&kept).ok(),
        };
        match url {
            Some(url) => {
                let signers = fund(&url).await?;
                std::fs::write(&kept, &url)?;
                Ok(DevChain::Own { url, signers })
            }
            None => {
                let _ = std::fs::remove_file(&kept);
                simulated(data).await
            }
        }
    }

    /// As the configuration has it.
    pub fn settings(&self) -> Value {
        match self {
            DevChain::Simulated { sim, .. } => {
                let said = sim.announcement();
                json!({
                    "name": "sim", "rpc_urls": said["rpc_urls"], "chain_id": said["chain_id"],
                    "signers": said["signers"], "forwarder": said["forwarder"], "pulse_ms": 100,
                })
            }
            DevChain::Own { url, signers } => json!({
                "name": "dev", "rpc_urls": [url], "signers": signers, "finality": "1",
                "pulse_ms": 100,
            }),
        }
    }

    pub fn kind(&self) -> &'static str {
        match self {
            DevChain::Simulated { .. } => "a simulated EVM chain",
            DevChain::Own { .. } => "an EVM chain of yours",
        }
    }

    pub fn shown(&self) -> String {
        match self {
            DevChain::Simulated { sim, .. } => {
                let url = &sim.rpc_urls()[0];
                format!("{url}  (simulated)\n  landed  {url}/sim/transactions")
            }
            DevChain::Own { url, .. } => url.clone(),
        }
    }

    /// Lines to try that work as printed.
    pub fn lines(&self, address: SocketAddr, key: &str) -> String {
        let post = |what: &str, body: &Value| {
            format!(
                "  curl -i http://{address}/api/v1/relay/{what} -H 'Idempotency-Key: {key}-{what}' \
                 -H 'Content-Type: application/json' -d '{body}'\n"
            )
        };
        let direct = match self {
            DevChain::Simulated { .. } => json!({"to": COUNTER, "data": INCREMENT}),
            DevChain::Own { .. } => json!({"to": user().address(), "value": "12345"}),
        };
        let what = match self {
            DevChain::Simulated { .. } => "Count one more in a contract",
            DevChain::Own { .. } => "Pay somebody on your chain",
        };
        let direct = format!("{what}:\n\n{}", post("direct", &direct));
        match self {
            DevChain::Simulated { user_nonce, .. } => {
                let gasless = post("gasless", &request(*user_nonce));
                let by = "and once more, by a user who owns nothing and has signed a request";
                format!("{direct}\n{by}:\n\n{gasless}")
            }
            DevChain::Own { .. } => direct,
        }
    }

    pub async fn shutdown(self) {
        if let DevChain::Simulated { sim, .. } = self {
            sim.shutdown().await;
        }
    }
}

async fn simulated(data: &Path) -> Result<DevChain> {
    let config = SimConfig {
        signers: SIGNERS,
        block_ms: BLOCK_MS,
        state: Some(data.join(CHAIN_FILE)),
        ..SimConfig::default()
    };
    let unable = |error: landfall_sim_evm::StartError| Failure::Unable(error.to_string());
    let sim = SimEvm::start(config).await.map_err(unable)?;
    let input = forward::nonce_question(user().address());
    let asked = json!([{"to": FORWARDER, "data": input}, "latest"]);
    let nonce = ask(&sim.rpc_urls()[0], "eth_call", asked).await?;
    let nonce: U256 = serde_json::from_value(nonce).unwrap_or_default();
    Ok(DevChain::Simulated { sim, user_nonce: nonce.saturating_to() })
}

fn user() -> Key {
    Key::parse(&hex::encode(USER)).expect("a key of this curve")
}

/// What the user has signed, as the API takes it.
fn request(nonce: u64) -> Value {
    let data = INCREMENT.parse().expect("hex digits");
    let asked = ForwardRequest {
        from: user().address(),
        to: COUNTER,
        value: U256::ZERO,
        gas: U256::from(100_000),
        nonce: U256::from(nonce),
        deadline: alloy_primitives::aliases::U48::from(DEADLINE),
        data,
    };
    let name = FORWARDER_NAME.to_owned();
    let forwarder = Forwarder { address: FORWARDER, chain_id: CHAIN_ID, name };
    let signature = user().sign(&forwarder.digest(&asked));
    json!({
        "request": {
            "from": asked.from, "to": asked.to, "value": "0", "gas": "100000",
            "nonce": nonce.to_string(), "deadline": DEADLINE.to_string(), "data": INCREMENT,
        },
        "signature": hex::encode_prefixed(signature.as_bytes()),
    })
}

/// Gives the relay's signers something to spend, from an account that the node itself holds.
async fn fund(url: &str) -> Result<Vec<String>> {
    let secrets = (0..SIGNERS as u8).map(|index| B256::repeat_byte(SIGNER + index));
    let secrets: Vec<String> = secrets.map(|secret| secret.to_string()).collect();
    let accounts = ask(url, "eth_accounts", json!([])).await?;
    for secret in &secrets {
        let key = Key::parse(secret).map_err(|error| Failure::Unable(error.to_string()))?;
        let balance = ask(url, "eth_getBalance", json!([key.address(), "latest"])).await?;
        let balance: U256 = serde_json::from_value(balance).unwrap_or_default();
        if balance >= U256::from(FUNDS / 2) {
            continue;
        }
        let from: Option<Address> = serde_json::from_value(accounts[0].clone()).ok();
        let Some(from) = from else {
            return Err(Failure::Unable(format!(
                "{url} holds no account to fund the relay's signers from: send some of the \
                 chain's coin to {} and start again",
                key.address()
            )));
        };
        let value = U256::from(FUNDS);
        let sent = json!([{"from": from, "to": key.address(), "value": value}]);
        ask(url, "eth_sendTransaction", sent).await?;
    }
    Ok(secrets)
}

async fn ask(url: &str, method: &str, params: Value) -> Result<Value> {
    let unable = |why: String| Failure::Unable(format!("{url}: {why}"));
    let parsed = Url::parse(url).map_err(|error| Failure::Mistaken(format!("--evm {error}")))?;
    let transport = Arc::new(HttpTransport::new());
    let endpoints = Endpoints::new(vec![parsed], transport, wire::clock(), Default::default());
    let endpoints = endpoints.map_err(|error| unable(error.to_string()))?;
    let answer = endpoints.call_on(0, method, &params).await;
    let answer = answer.map_err(|error| unable(format!("{method}: {error}")))?;
    serde_json::from_str(answer.get()).map_err(|error| unable(error.to_string()))
}
