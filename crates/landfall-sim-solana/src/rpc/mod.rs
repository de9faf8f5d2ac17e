//! JSON-RPC as a node of Agave speaks it, without a socket: single requests and batches.
//!
//! **Invariant:** field names, error codes and words are Agave's; tests compare the fields with
//! those of a real machine.
//!
//! | file | methods |
//! |---|---|
//! | `chain` | slots, heights, blocks and their hashes, recent fees, the node itself |
//! | `accounts` | balances and accounts |
//! | `transactions` | sent, tried, looked up |
//! | `lies` | what a node says that is not to be believed |

mod accounts;
mod chain;
mod lies;
mod transactions;
mod words;

use landfall_sim_front::rpc::{Failure, answer};
use serde_json::{Value, json};

use super::ledger::{Block, CONFIRMED_BLOCKS, Ledger};

/// The release whose answers these are.
const VERSION: &str = "4.1.2";

/// One node: the chain, and what is its own.
pub struct Node<'a> {
    pub ledger: &'a mut Ledger,
    pub index: usize,
    /// It sees the chain as it was so many blocks ago.
    pub lag_blocks: u64,
    /// Blocks behind its head of which it keeps transactions; 0: all of them.
    pub history_blocks: u64,
    /// Takes transactions and loses them.
    pub forgets: bool,
    /// Says what is not so.
    pub lies: bool,
}

/// How sure a client wants to be of what it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Commitment {
    Processed,
    Confirmed,
    Finalized,
}

impl Commitment {
    fn read(options: &Value) -> Result<Commitment, Failure> {
        match options["commitment"].as_str() {
            None if options["commitment"].is_null() => Ok(Commitment::Finalized),
            Some("processed") => Ok(Commitment::Processed),
            Some("confirmed") => Ok(Commitment::Confirmed),
            Some("finalized") => Ok(Commitment::Finalized),
            _ => Err(Failure::params("Invalid params: unknown commitment")),
        }
    }

    /// For methods that know nothing of what is merely processed.
    fn at_least_confirmed(options: &Value) -> Result<Commitment, Failure> {
        match Commitment::read(options)? {
            Commitment::Processed => {
                Err(Failure::params("Method does not support commitment below `confirmed`"))
            }
            other => Ok(other),
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Commitment::Processed => "processed",
            Commitment::Confirmed => "confirmed",
            Commitment::Finalized => "finalized",
        }
    }
}

impl Node<'_> {
    /// The height of the newest block that it is so sure of.
    fn height(&self, commitment: Commitment) -> u64 {
        let finalized = self.ledger.final_height().saturating_sub(self.lag_blocks);
        let head = self.ledger.height().saturating_sub(self.lag_blocks).max(finalized);
        match commitment {
            Commitment::Processed => head,
            Commitment::Confirmed => head.saturating_sub(CONFIRMED_BLOCKS).max(finalized),
            Commitment::Finalized => finalized,
        }
    }

    fn block(&self, commitment: Commitment) -> &Block {
        let height = self.height(commitment);
        self.ledger.block(height).unwrap_or_else(|| self.ledger.head())
    }

    /// The block that the options ask about, if the node has come as far as they want.
    fn block_asked(&self, options: &Value) -> Result<&Block, Failure> {
        let block = self.block(Commitment::read(options)?);
        match options["minContextSlot"].as_u64() {
            Some(wanted) if wanted > block.slot => {
                let failure = Failure::new(-32016, "Minimum context slot has not been reached");
                Err(failure.with_data(json!({ "contextSlot": block.slot })))
            }
            _ => Ok(block),
        }
    }

    /// How sure it is of a block that it has seen.
    fn surety(&self, height: u64) -> Commitment {
        let levels = [Commitment::Finalized, Commitment::Confirmed];
        let reached = levels.into_iter().find(|level| height <= self.height(*level));
        reached.unwrap_or(Commitment::Processed)
    }

    /// The oldest block whose transactions it still has.
    fn oldest(&self) -> u64 {
        let head = self.height(Commitment::Processed);
        match self.history_blocks {
            0 => 0,
            kept => head.saturating_sub(kept),
        }
    }
}

/// A result with the slot that it is of.
fn in_context(slot: u64, value: Value) -> Value {
    json!({ "context": { "apiVersion": VERSION, "slot": slot }, "value": value })
}

/// Answers a request, or each of a batch.
pub fn handle(node: &mut Node<'_>, body: &Value) -> Value {
    answer(body, |method, params| {
        let params = match params {
            Value::Null => Params(&[]),
            Value::Array(params) => Params(params),
            _ => return Err(Failure::params("Invalid params: a list is expected")),
        };
        let result = dispatch(node, method, params);
        match node.lies {
            true => lies::instead(node, method, params, result),
            false => result,
        }
    })
}

/// The arguments of a call, by place.
#[derive(Clone, Copy)]
struct Params<'a>(&'a [Value]);

impl<'a> Params<'a> {
    fn get(self, at: usize) -> Result<&'a Value, Failure> {
        let least = at + 1;
        let missing = || format!("`params` should have at least {least} argument(s)");
        self.0.get(at).ok_or_else(|| Failure::params(missing()))
    }

    fn or_null(self, at: usize) -> &'a Value {
        self.0.get(at).unwrap_or(&Value::Null)
    }

    fn text(self, at: usize) -> Result<&'a str, Failure> {
        let text = self.get(at)?.as_str();
        text.ok_or_else(|| Failure::params("Invalid params: invalid type, expected a string."))
    }

    fn number(self, at: usize) -> Result<u64, Failure> {
        let number = self.get(at)?.as_u64();
        number.ok_or_else(|| Failure::params("Invalid params: invalid type, expected u64."))
    }

    fn list(self, at: usize) -> Result<&'a [Value], Failure> {
        let list = self.get(at)?.as_array();
        let list = list.map(Vec::as_slice);
        list.ok_or_else(|| Failure::params("Invalid params: invalid type, expected a sequence."))
    }
}

fn dispatch(node: &mut Node<'_>, method: &str, params: Params<'_>) -> Result<Value, Failure> {
    match method {
        "getHealth" => chain::health(node),
        "getVersion" => Ok(json!({ "feature-set": 0, "solana-core": VERSION })),
        "getGenesisHash" => Ok(json!(node.ledger.blocks()[0].hash.to_string())),
        "getSlot" => Ok(json!(node.block_asked(params.or_null(0))?.slot)),
        "getBlockHeight" => Ok(json!(node.block_asked(params.or_null(0))?.height)),
        "getLatestBlockhash" => chain::latest_blockhash(node, params),
        "isBlockhashValid" => chain::is_blockhash_valid(node, params),
        "getEpochInfo" => chain::epoch_info(node, params),
        "getBlock" => chain::block(node, params),
        "getBlocks" => chain::blocks(node, params),
        "getFirstAvailableBlock" => Ok(chain::first_available(node)),
        "getRecentPrioritizationFees" => chain::recent_fees(node, params),
        "getBalance" => accounts::balance(node, params),
        "getAccountInfo" => accounts::info(node, params),
        "getMultipleAccounts" => accounts::several(node, params),
        "getMinimumBalanceForRentExemption" => accounts::rent(params),
        "sendTransaction" => transactions::send(node, params),
        "simulateTransaction" => transactions::simulate(node, params),
        "getSignatureStatuses" => transactions::statuses(node, params),
        "getSignaturesForAddress" => transactions::signatures_for(node, params),
        "getTransaction" => transactions::by_signature(node, params),
        "getFeeForMessage" => transactions::fee_for(node, params),
        _ => Err(Failure::new(-32601, "Method not found")),
    }
}
