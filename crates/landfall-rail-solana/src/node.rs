//! The questions this rail asks nodes, over the shared endpoints.
//!
//! Every question is a read, and every answer is either what was asked or an error that decides
//! nothing.
//! Not here: who is asked, and what a quorum says (`landfall-rpc`), what the answers prove
//! (`look`), broadcasting (`rail`).

use std::ops::Deref;
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use landfall_core::clock::Clock;
use landfall_core::rail::RailError;
use landfall_rpc::{Endpoints, Introducer, Introduction, Peers, unavailable};
use serde_json::{Value, json};
use solana_address::Address;

use crate::answer::{self, Blockhash, Statuses};
use crate::fees;

/// Signatures that one question about statuses may name.
pub const STATUSES_MAX: usize = 256;
/// Transactions of an account that one answer may list.
pub const SIGNATURES_MAX: usize = 1_000;

/// A node's first block tells its network from any other; nodes do not name it.
struct Genesis {
    network: String,
}

#[async_trait]
impl Introducer for Genesis {
    async fn ask(&self, endpoints: &Endpoints, endpoint: usize) -> Result<Introduction, String> {
        let first = genesis_on(endpoints, endpoint).await.map_err(|error| error.to_string())?;
        Ok(Introduction { network: self.network.clone(), first_block: first })
    }
}

/// The hash of the node's first block.
pub async fn genesis_on(endpoints: &Endpoints, endpoint: usize) -> Result<String, RailError> {
    let answer = one(endpoints, endpoint, "getGenesisHash", &json!([])).await?;
    let hash = answer.as_str().map(str::to_owned);
    hash.ok_or_else(|| unavailable("getGenesisHash: no hash"))
}

async fn one(
    endpoints: &Endpoints,
    endpoint: usize,
    method: &str,
    params: &Value,
) -> Result<Value, RailError> {
    let answer = endpoints.call_on(endpoint, method, params).await.map_err(unavailable)?;
    serde_json::from_str(answer.get()).map_err(unavailable)
}

/// A transaction of an account, as nodes list them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub signature: String,
    pub slot: u64,
    pub failed: bool,
}

/// A transaction in a final block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Final {
    pub slot: u64,
    pub failed: bool,
    pub bytes: Vec<u8>,
}

/// The nodes of one network, and the questions that they are asked.
pub struct Nodes(Peers);

impl Deref for Nodes {
    type Target = Peers;

    fn deref(&self) -> &Peers {
        &self.0
    }
}

impl Nodes {
    /// See [`Peers::new`].
    pub fn new(
        endpoints: Endpoints,
        clock: Arc<dyn Clock>,
        network: &str,
        genesis: Option<String>,
    ) -> Nodes {
        let introducer = Genesis { network: network.to_owned() };
        Nodes(Peers::new(endpoints, clock, introducer, network.to_owned(), genesis))
    }

    async fn ask(&self, endpoint: usize, method: &str, params: Value) -> Result<Value, RailError> {
        one(&self.endpoints, endpoint, method, &params).await
    }

    async fn read<T>(
        &self,
        endpoint: usize,
        (method, params): (&str, Value),
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<T, RailError> {
        let answer = self.ask(endpoint, method, params).await?;
        read(&answer).ok_or_else(|| unavailable(format!("{method}: not an answer to it")))
    }

    /// A hash to sign on, of a block that is hardly ever taken back.
    pub async fn blockhash_on(&self, endpoint: usize) -> Result<Blockhash, RailError> {
        let asked = ("getLatestBlockhash", json!([{ "commitment": "confirmed" }]));
        self.read(endpoint, asked, answer::blockhash).await
    }

    pub async fn final_height_on(&self, endpoint: usize) -> Result<u64, RailError> {
        let asked = ("getBlockHeight", json!([{ "commitment": "finalized" }]));
        self.read(endpoint, asked, Value::as_u64).await
    }

    pub async fn final_slot_on(&self, endpoint: usize) -> Result<u64, RailError> {
        let asked = ("getSlot", json!([{ "commitment": "finalized" }]));
        self.read(endpoint, asked, Value::as_u64).await
    }

    /// The first slot whose transactions the node keeps.
    pub async fn first_slot_on(&self, endpoint: usize) -> Result<u64, RailError> {
        self.read(endpoint, ("getFirstAvailableBlock", json!([])), Value::as_u64).await
    }

    /// Of at most [`STATUSES_MAX`].
    pub async fn statuses_on(
        &self,
        endpoint: usize,
        signatures: &[String],
        history: bool,
    ) -> Result<Statuses, RailError> {
        let params = json!([signatures, { "searchTransactionHistory": history }]);
        let asked = ("getSignatureStatuses", params);
        self.read(endpoint, asked, |answer| answer::statuses(answer, signatures.len())).await
    }

    /// The data of an account, with the slot that it is of.
    pub async fn account_on(
        &self,
        endpoint: usize,
        account: &Address,
        commitment: &str,
    ) -> Result<(u64, Vec<u8>), RailError> {
        let options = json!({ "encoding": "base64", "commitment": commitment });
        let asked = ("getAccountInfo", json!([account.to_string(), options]));
        self.read(endpoint, asked, answer::account).await
    }

    /// Lamports at the newest block that is hardly ever taken back.
    pub async fn balance_on(&self, endpoint: usize, account: &Address) -> Result<u64, RailError> {
        let params = json!([account.to_string(), { "commitment": "confirmed" }]);
        self.read(endpoint, ("getBalance", params), |answer| answer["value"].as_u64()).await
    }

    /// What others paid lately to write to the account.
    pub async fn recent_fees_on(
        &self,
        endpoint: usize,
        account: &Address,
    ) -> Result<Vec<u64>, RailError> {
        let asked = ("getRecentPrioritizationFees", json!([[account.to_string()]]));
        self.read(endpoint, asked, fees::recent).await
    }

    /// Tries bytes that nobody has signed. The error that they would meet; null if none.
    pub async fn try_on(&self, endpoint: usize, bytes: &[u8]) -> Result<Value, RailError> {
        let options = json!({
            "encoding": "base64", "commitment": "confirmed", "sigVerify": false,
            "replaceRecentBlockhash": true,
        });
        let asked = ("simulateTransaction", json!([STANDARD.encode(bytes), options]));
        self.read(endpoint, asked, |answer| answer["value"].get("err").cloned()).await
    }

    /// Whether the final block of a slot holds the transaction. A slot without a final block holds
    /// nothing; that a node does not have the block says nothing.
    pub async fn holds_on(
        &self,
        endpoint: usize,
        slot: u64,
        signature: &str,
    ) -> Result<bool, RailError> {
        let asked = ("getBlocks", json!([slot, slot, { "commitment": "finalized" }]));
        let slots = self.read(endpoint, asked, |answer| answer.as_array().map(Vec::len)).await?;
        if slots == 0 {
            return Ok(false);
        }
        let options = json!({
            "commitment": "finalized", "transactionDetails": "signatures", "rewards": false,
            "maxSupportedTransactionVersion": 0,
        });
        let asked = ("getBlock", json!([slot, options]));
        let is_it = |one: &Value| one.as_str() == Some(signature);
        let holds = |answer: &Value| Some(answer["signatures"].as_array()?.iter().any(is_it));
        self.read(endpoint, asked, holds).await
    }

    /// Final transactions of an account, the newest first, below `before`.
    pub async fn listed_on(
        &self,
        endpoint: usize,
        account: &Address,
        before: Option<&str>,
    ) -> Result<Vec<Listed>, RailError> {
        let mut options = json!({ "commitment": "finalized", "limit": SIGNATURES_MAX });
        if let Some(before) = before {
            options["before"] = json!(before);
        }
        let listed = |one: &Value| {
            let (signature, slot) = (one["signature"].as_str()?.to_owned(), one["slot"].as_u64()?);
            Some(Listed { signature, slot, failed: !one.get("err")?.is_null() })
        };
        let asked = ("getSignaturesForAddress", json!([account.to_string(), options]));
        self.read(endpoint, asked, |answer| answer.as_array()?.iter().map(listed).collect()).await
    }

    /// None: in no final block that the node keeps.
    pub async fn transaction_on(
        &self,
        endpoint: usize,
        signature: &str,
    ) -> Result<Option<Final>, RailError> {
        let options = json!({
            "encoding": "base64", "commitment": "finalized", "maxSupportedTransactionVersion": 0,
        });
        let found = |answer: &Value| match answer.is_null() {
            true => Some(None),
            false => {
                let failed = !answer["meta"].get("err")?.is_null();
                let (slot, bytes) = (answer["slot"].as_u64()?, answer::bytes(answer)?);
                Some(Some(Final { slot, failed, bytes }))
            }
        };
        self.read(endpoint, ("getTransaction", json!([signature, options])), found).await
    }
}
