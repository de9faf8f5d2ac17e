//! The questions this rail asks nodes, over the shared endpoints.
//!
//! Every question is a read, and every answer is either what was asked or an error that decides
//! nothing.
//! Not here: who is asked, and what a quorum says (`landfall-rpc`), what the answers prove
//! (`look`), broadcasting (`rail`).

use std::ops::Deref;
use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U64, U128, U256, hex};
use async_trait::async_trait;
use landfall_core::clock::Clock;
use landfall_core::rail::RailError;
use landfall_rpc::{
    Endpoints, Introducer, Introduction, JsonRpcError, Peers, RpcError, unavailable,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::answer::{self, FeeHistory, FullBlock, Header, Included, Receipt};
use crate::encode::Draft;
use crate::executed::Log;
use crate::refusal::{self, Meaning};
use crate::revert;

/// JSON-RPC's own code for a method that a node does not have.
const NO_SUCH_METHOD: i64 = -32_601;
/// The code that most clients give a revert.
const REVERTED: i64 = 3;
/// How clients begin to say that a call cannot succeed, whatever it is offered.
const FAILS: [&str; 7] = [
    "execution reverted",
    "vm exception",
    "vm execution error",
    "gas required exceeds",
    "out of gas",
    "invalid opcode",
    "transaction execution fails",
];

/// At which block a question is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    Latest,
    Safe,
    Finalized,
    Number(u64),
}

impl At {
    fn word(self) -> String {
        match self {
            At::Latest => "latest".to_owned(),
            At::Safe => "safe".to_owned(),
            At::Finalized => "finalized".to_owned(),
            At::Number(number) => format!("{number:#x}"),
        }
    }
}

/// What one node says of a call that is tried without being made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried {
    /// It would take so much gas; 0 where that was not asked.
    Works {
        gas: u64,
    },
    Fails {
        why: String,
    },
    /// The signer cannot pay what it is to send.
    Short {
        why: String,
    },
}

/// A node's chain id and first block.
struct ChainId;

#[async_trait]
impl Introducer for ChainId {
    async fn ask(&self, endpoints: &Endpoints, endpoint: usize) -> Result<Introduction, String> {
        let id = one::<U64>(endpoints, endpoint, "eth_chainId", &json!([])).await;
        let first = json!(["0x0", false]);
        let first = one::<Header>(endpoints, endpoint, "eth_getBlockByNumber", &first).await;
        let told = |error: RailError| error.to_string();
        let id = id.map_err(told)?.ok_or("no chain id")?;
        // Nodes that were synced from a snapshot may not have it.
        let first = first.map_err(told)?.map_or(B256::ZERO, |first| first.hash);
        Ok(Introduction { network: id.to::<u64>().to_string(), first_block: first.to_string() })
    }
}

/// The nodes of one chain, and the questions that they are asked.
pub struct Nodes(Peers);

impl Deref for Nodes {
    type Target = Peers;

    fn deref(&self) -> &Peers {
        &self.0
    }
}

async fn one<T: DeserializeOwned>(
    endpoints: &Endpoints,
    endpoint: usize,
    method: &str,
    params: &Value,
) -> Result<Option<T>, RailError> {
    let answer = endpoints.call_on(endpoint, method, params).await.map_err(unavailable)?;
    answer::read(&answer).map_err(unavailable)
}

impl Nodes {
    /// See [`Peers::new`].
    pub fn new(endpoints: Endpoints, clock: Arc<dyn Clock>, chain_id: u64) -> Self {
        Self(Peers::new(endpoints, clock, ChainId, chain_id.to_string(), None))
    }

    async fn one<T: DeserializeOwned>(
        &self,
        endpoint: usize,
        method: &str,
        params: Value,
    ) -> Result<Option<T>, RailError> {
        one(&self.endpoints, endpoint, method, &params).await
    }

    async fn found<T: DeserializeOwned>(
        &self,
        endpoint: usize,
        method: &str,
        params: Value,
    ) -> Result<T, RailError> {
        let found = self.one(endpoint, method, params).await?;
        found.ok_or_else(|| unavailable(format!("{method}: the node does not have it")))
    }

    pub async fn header_on(&self, endpoint: usize, at: At) -> Result<Header, RailError> {
        self.found(endpoint, "eth_getBlockByNumber", json!([at.word(), false])).await
    }

    pub async fn header_by_hash_on(
        &self,
        endpoint: usize,
        hash: B256,
    ) -> Result<Header, RailError> {
        self.found(endpoint, "eth_getBlockByHash", json!([hash, false])).await
    }

    pub async fn full_block_on(
        &self,
        endpoint: usize,
        number: u64,
    ) -> Result<FullBlock, RailError> {
        let params = json!([At::Number(number).word(), true]);
        self.found(endpoint, "eth_getBlockByNumber", params).await
    }

    /// Every receipt of a block of the node's chain; none where the node cannot tell them all at
    /// once. Asked by number, which every client takes: whose receipts they are, they say.
    pub async fn receipts_on(
        &self,
        endpoint: usize,
        number: u64,
    ) -> Result<Option<Vec<Receipt>>, RailError> {
        let params = json!([At::Number(number).word()]);
        match self.endpoints.call_on(endpoint, "eth_getBlockReceipts", &params).await {
            Ok(answer) => match answer::read(&answer).map_err(unavailable)? {
                Some(receipts) => Ok(Some(receipts)),
                None => Err(unavailable("the node has lost the block")),
            },
            Err(RpcError::Answered(error)) if error.code == NO_SUCH_METHOD => Ok(None),
            Err(error) => Err(unavailable(error)),
        }
    }

    /// None: in no block of the node's chain.
    pub async fn receipt_on(
        &self,
        endpoint: usize,
        hash: B256,
    ) -> Result<Option<Receipt>, RailError> {
        let receipt: Option<Receipt> =
            self.one(endpoint, "eth_getTransactionReceipt", json!([hash])).await?;
        match receipt {
            Some(other) if other.transaction_hash != hash => {
                Err(unavailable("the receipt of another transaction"))
            }
            receipt => Ok(receipt),
        }
    }

    /// A transaction that the node has, in a block or not.
    pub async fn transaction_on(&self, endpoint: usize, hash: B256) -> Result<Included, RailError> {
        self.found(endpoint, "eth_getTransactionByHash", json!([hash])).await
    }

    /// Events, by the parameters of `eth_getLogs`.
    pub async fn logs_on(&self, endpoint: usize, params: Value) -> Result<Vec<Log>, RailError> {
        self.found(endpoint, "eth_getLogs", params).await
    }

    /// How many transactions of the account are in blocks up to this one.
    pub async fn count_on(
        &self,
        endpoint: usize,
        account: Address,
        at: At,
    ) -> Result<u64, RailError> {
        let params = json!([account, at.word()]);
        let count: U64 = self.found(endpoint, "eth_getTransactionCount", params).await?;
        Ok(count.to())
    }

    pub async fn balance_on(&self, endpoint: usize, account: Address) -> Result<U256, RailError> {
        self.found(endpoint, "eth_getBalance", json!([account, At::Latest.word()])).await
    }

    /// What others paid in the last blocks; none on a chain without a base fee.
    pub async fn fee_history_on(
        &self,
        endpoint: usize,
        blocks: u64,
        percentiles: &[u8],
    ) -> Result<Option<FeeHistory>, RailError> {
        let params = json!([format!("{blocks:#x}"), At::Latest.word(), percentiles]);
        match self.endpoints.call_on(endpoint, "eth_feeHistory", &params).await {
            Ok(answer) => answer::read(&answer).map_err(unavailable),
            Err(RpcError::Answered(error)) if error.code == NO_SUCH_METHOD => Ok(None),
            Err(error) => Err(unavailable(error)),
        }
    }

    pub async fn gas_price_on(&self, endpoint: usize) -> Result<u128, RailError> {
        let price: U128 = self.found(endpoint, "eth_gasPrice", json!([])).await?;
        Ok(price.to())
    }

    /// Tries a call without making it; asks what gas it takes, unless it has some.
    pub async fn try_on(
        &self,
        endpoint: usize,
        from: Address,
        draft: &Draft,
        gas: Option<u64>,
    ) -> Result<Tried, RailError> {
        let mut call = json!({
            "from": from, "to": draft.to, "value": draft.value, "data": draft.input,
        });
        let answer = match gas {
            Some(gas) => {
                call["gas"] = json!(format!("{gas:#x}"));
                let params = json!([call, At::Latest.word()]);
                self.endpoints.call_on(endpoint, "eth_call", &params).await
            }
            None => self.endpoints.call_on(endpoint, "eth_estimateGas", &json!([call])).await,
        };
        match (answer, gas) {
            (Ok(_), Some(_)) => Ok(Tried::Works { gas: 0 }),
            (Ok(answer), None) => {
                let gas: Option<U64> = answer::read(&answer).map_err(unavailable)?;
                let gas = gas.ok_or_else(|| unavailable("no estimate"))?;
                Ok(Tried::Works { gas: gas.to() })
            }
            (Err(RpcError::Answered(error)), _) => tried(&error),
            (Err(error), _) => Err(unavailable(error)),
        }
    }

    /// What a contract gives back to a question, or why it does not.
    pub async fn call_on(
        &self,
        endpoint: usize,
        (from, to, value): (Address, Address, U256),
        input: &Bytes,
        at: At,
    ) -> Result<Result<Bytes, String>, RailError> {
        let call = json!({"from": from, "to": to, "value": value, "data": input});
        match self.endpoints.call_on(endpoint, "eth_call", &json!([call, at.word()])).await {
            Ok(answer) => {
                let data: Option<Bytes> = answer::read(&answer).map_err(unavailable)?;
                Ok(Ok(data.unwrap_or_default()))
            }
            Err(RpcError::Answered(error)) => match tried(&error)? {
                Tried::Fails { why } | Tried::Short { why } => Ok(Err(why)),
                Tried::Works { .. } => Ok(Ok(Bytes::new())),
            },
            Err(error) => Err(unavailable(error)),
        }
    }
}

/// What an error says of a call that was tried. Anything strange says nothing.
fn tried(error: &JsonRpcError) -> Result<Tried, RailError> {
    if error.is_technical() {
        return Err(unavailable(error));
    }
    if refusal::meaning(&error.message) == Meaning::Short {
        return Ok(Tried::Short { why: landfall_core::plain(&error.message).to_string() });
    }
    let said = error.message.trim().to_ascii_lowercase();
    let fails = error.code == REVERTED || FAILS.iter().any(|begin| said.starts_with(begin));
    match fails {
        true => Ok(Tried::Fails { why: why_reverted(error) }),
        false => Err(unavailable(error)),
    }
}

/// The contract's own reason, where the node tells it; hardhat wraps it once more.
fn why_reverted(error: &JsonRpcError) -> String {
    let data = error.data.as_str().or_else(|| error.data["data"].as_str());
    match data.and_then(|data| hex::decode(data).ok()) {
        Some(data) => revert::reason(&data.into()),
        None => landfall_core::plain(&error.message).chars().take(300).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: i64, message: &str, data: Value) -> JsonRpcError {
        JsonRpcError { status: 200, code, message: message.into(), data, ..Default::default() }
    }

    #[test]
    fn a_revert_is_known_by_its_code_or_words_and_nothing_else_is_one() {
        let reverted = alloy_sol_types::Revert { reason: "no".into() };
        let reverted = hex::encode_prefixed(alloy_sol_types::SolError::abi_encode(&reverted));
        let said = [
            error(3, "execution reverted: no", json!(reverted)),
            error(-32_000, "Execution reverted", json!(reverted)),
            error(-32_603, "VM Exception while processing transaction", json!({"data": reverted})),
        ];
        for said in said {
            let fails = Tried::Fails { why: "reverted: no".into() };
            assert_eq!(tried(&said), Ok(fails), "{said:?}");
        }
        let dry = tried(&error(-32_000, "gas required exceeds allowance (21000)", Value::Null));
        assert!(matches!(dry, Ok(Tried::Fails { .. })));
        for strange in ["header not found", "missing trie node", "internal error", ""] {
            assert!(tried(&error(-32_000, strange, Value::Null)).is_err(), "{strange}");
        }
    }

    #[test]
    fn who_cannot_pay_is_short_and_not_at_fault() {
        let short = error(-32_000, "insufficient funds for transfer", Value::Null);
        assert!(matches!(tried(&short), Ok(Tried::Short { .. })));
    }
}
