//! JSON-RPC as geth speaks it, without a socket: single requests and batches.
//!
//! **Invariant:** field names, error codes and words are geth's; tests compare the fields with
//! those of a real node.
//!
//! | file | methods |
//! |---|---|
//! | `blocks` | eth_blockNumber, eth_getBlockByNumber, eth_getBlockByHash, fees |
//! | `transactions` | eth_sendRawTransaction, eth_getTransaction*, receipts, eth_getLogs |
//! | `state` | balances, nonces, code, eth_call, eth_estimateGas |

mod blocks;
mod state;
mod transactions;
mod words;

use landfall_sim_front::rpc::{Failure, answer};
use serde_json::Value;

use super::ledger::{Block, FINAL_BLOCKS, Ledger, SAFE_BLOCKS};

/// One node: the chain, and what is its own.
pub struct Node<'a> {
    pub ledger: &'a mut Ledger,
    pub index: usize,
    /// It sees the chain as it was so many blocks ago.
    pub lag_blocks: u64,
    /// Takes transactions and loses them.
    pub forgets: bool,
}

impl Node<'_> {
    fn head(&self) -> u64 {
        self.ledger.height().saturating_sub(self.lag_blocks)
    }

    /// The block that a tag or a number names; none if there is none yet.
    fn block_named(&self, name: &Value) -> Result<Option<&Block>, Failure> {
        let head = self.head();
        let name = match name {
            // EIP-1898.
            Value::Object(fields) => fields.get("blockNumber").unwrap_or(&Value::Null),
            other => other,
        };
        let number = match name.as_str() {
            None if name.is_null() => head,
            Some("latest" | "pending") => head,
            Some("safe") => head.saturating_sub(SAFE_BLOCKS),
            Some("finalized") => head.saturating_sub(FINAL_BLOCKS),
            Some("earliest") => 0,
            Some(number) => words::number(number)?,
            None => return Err(Failure::params("invalid argument: block number or tag expected")),
        };
        Ok(self.ledger.block(number).filter(|_| number <= head))
    }

    /// The same, where there is no answer without one.
    fn state_named(&self, name: &Value) -> Result<u64, Failure> {
        let block = self.block_named(name)?;
        block.map(Block::number).ok_or_else(|| Failure::new(-32000, "header not found"))
    }
}

/// Answers a request, or each of a batch.
pub fn handle(node: &mut Node<'_>, body: &Value) -> Value {
    answer(body, |method, params| {
        let params = match params {
            Value::Null => &[][..],
            Value::Array(params) => params,
            _ => return Err(Failure::params("non-array args")),
        };
        dispatch(node, method, Params(params))
    })
}

/// The arguments of a call, by place.
#[derive(Clone, Copy)]
struct Params<'a>(&'a [Value]);

impl<'a> Params<'a> {
    fn get(self, at: usize) -> Result<&'a Value, Failure> {
        let missing = || Failure::params(format!("missing value for required argument {at}"));
        self.0.get(at).ok_or_else(missing)
    }

    fn or_null(self, at: usize) -> &'a Value {
        self.0.get(at).unwrap_or(&Value::Null)
    }

    fn text(self, at: usize) -> Result<&'a str, Failure> {
        let text = self.get(at)?.as_str();
        text.ok_or_else(|| Failure::params(format!("invalid argument {at}: a string is expected")))
    }
}

fn dispatch(node: &mut Node<'_>, method: &str, params: Params<'_>) -> Result<Value, Failure> {
    match method {
        "eth_chainId" => Ok(words::quantity(node.ledger.genesis().chain_id)),
        "net_version" => Ok(Value::from(node.ledger.genesis().chain_id.to_string())),
        "web3_clientVersion" => Ok(Value::from("landfall-sim-evm")),
        "eth_syncing" => Ok(Value::Bool(false)),
        "eth_blockNumber" => Ok(words::quantity(node.head())),
        "eth_getBlockByNumber" => blocks::by_number(node, params),
        "eth_getBlockByHash" => blocks::by_hash(node, params),
        "eth_feeHistory" => blocks::fee_history(node, params),
        "eth_gasPrice" => Ok(blocks::gas_price(node)),
        "eth_maxPriorityFeePerGas" => Ok(words::quantity(blocks::SUGGESTED_TIP)),
        "eth_getTransactionCount" => state::transaction_count(node, params),
        "eth_getBalance" => state::balance(node, params),
        "eth_getCode" => state::code(node, params),
        "eth_call" => state::call(node, params),
        "eth_estimateGas" => state::estimate_gas(node, params),
        "eth_sendRawTransaction" => transactions::send(node, params),
        "eth_getTransactionByHash" => transactions::by_hash(node, params),
        "eth_getTransactionReceipt" => transactions::receipt(node, params),
        "eth_getBlockReceipts" => transactions::receipts(node, params),
        "eth_getLogs" => transactions::logs(node, params),
        other => {
            let message = format!("the method {other} does not exist/is not available");
            Err(Failure::new(-32601, message))
        }
    }
}
