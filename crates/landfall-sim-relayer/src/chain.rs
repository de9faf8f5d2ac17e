//! The relayer's own client of a node: the few questions it has, and signing with its key.

use std::time::Duration;

use alloy_consensus::{SignableTransaction, TxEip1559, TxEnvelope};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, B256, Signature, TxKind, hex};
use k256::ecdsa::SigningKey;
use landfall_rpc::{HttpTransport, Transport, Url};
use serde_json::{Value, json};

use crate::book::OnChain;
use crate::request::Request;

/// Patience for one question.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The tip, in wei per unit of gas.
const TIP: u128 = 1_000_000_000;

/// Why a node gave no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoResult(String);

/// One node.
pub struct Chain {
    transport: HttpTransport,
    url: Url,
}

impl Chain {
    pub fn new(url: Url) -> Chain {
        Chain { transport: HttpTransport::new(), url }
    }

    async fn call(&self, method: &str, params: Value) -> Result<Value, NoResult> {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let answer = self.transport.post(&self.url, body.to_string().into(), TIMEOUT).await;
        let answer = answer.map_err(|error| NoResult(error.to_string()))?;
        let answer: Value = serde_json::from_slice(&answer.body)
            .map_err(|_| NoResult(format!("HTTP {} and no JSON", answer.status)))?;
        match (answer.get("result"), &answer["error"]["message"]) {
            (Some(result), _) => Ok(result.clone()),
            (None, message) => Err(NoResult(message.as_str().unwrap_or("no result").to_owned())),
        }
    }

    async fn number(&self, method: &str, params: Value) -> Result<u64, NoResult> {
        let result = self.call(method, params).await?;
        quantity(&result).ok_or_else(|| NoResult(format!("{method} gave no number")))
    }

    pub async fn chain_id(&self) -> Result<u64, NoResult> {
        self.number("eth_chainId", json!([])).await
    }

    pub async fn head(&self) -> Result<u64, NoResult> {
        self.number("eth_blockNumber", json!([])).await
    }

    /// What a unit of gas costs now, in wei.
    pub async fn price(&self) -> Result<u128, NoResult> {
        self.number("eth_gasPrice", json!([])).await.map(u128::from)
    }

    pub async fn next_nonce(&self, of: Address) -> Result<u64, NoResult> {
        self.number("eth_getTransactionCount", json!([of, "pending"])).await
    }

    /// Whether the node has it now.
    pub async fn send(&self, bytes: &[u8]) -> Result<(), NoResult> {
        match self.call("eth_sendRawTransaction", json!([hex::encode_prefixed(bytes)])).await {
            Err(NoResult(why)) if why.contains("already") => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// Where one of these is, if any is.
    pub async fn look(&self, hashes: &[B256], head: u64) -> Result<OnChain, NoResult> {
        for hash in hashes {
            let receipt = self.call("eth_getTransactionReceipt", json!([hash])).await?;
            if let Some(block) = quantity(&receipt["blockNumber"]) {
                let succeeded = receipt["status"] == "0x1";
                let confirmations = head.saturating_sub(block);
                return Ok(OnChain::In { hash: *hash, succeeded, confirmations });
            }
        }
        Ok(OnChain::Nowhere)
    }
}

fn quantity(value: &Value) -> Option<u64> {
    u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}

/// Signs a request: its hash and the bytes that a node takes.
pub fn sign(
    request: &Request,
    chain_id: u64,
    nonce: u64,
    fee: u128,
    key: &SigningKey,
) -> Result<(B256, Vec<u8>), NoResult> {
    let transaction = TxEip1559 {
        chain_id,
        nonce,
        gas_limit: request.gas_limit,
        max_fee_per_gas: fee,
        max_priority_fee_per_gas: TIP.min(fee),
        to: TxKind::Call(request.to),
        value: request.value,
        access_list: Default::default(),
        input: request.data.clone(),
    };
    let signature = key.sign_prehash_recoverable(transaction.signature_hash().as_slice());
    let signature = signature.map_err(|error| NoResult(error.to_string()))?;
    let envelope: TxEnvelope = transaction.into_signed(Signature::from(signature)).into();
    Ok((*envelope.tx_hash(), envelope.encoded_2718()))
}
