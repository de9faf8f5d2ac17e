//! JSON-RPC as a node of protocol 86 speaks it, without a socket.
//!
//! [`handle`] answers at once or says what it waits for; whoever drives it (the server, or a
//! world on simulated time) asks [`Waiting::poll`] again after each block and gives
//! [`Waiting::timeout`] after [`TIMEOUT_MS`].
//! **Invariant:** shapes, error names, texts and HTTP statuses are those of the captured answers.
//!
//! | file | methods |
//! |---|---|
//! | `transactions` | send_tx, broadcast_tx_async, broadcast_tx_commit, tx, its experimental kin |
//! | `query` | query, EXPERIMENTAL_view_access_key, EXPERIMENTAL_view_account |
//! | `blocks` | block, chunk, gas_price |
//! | `node` | status, health, genesis_config, EXPERIMENTAL_protocol_config |

mod answer;
mod blocks;
mod node;
mod query;
mod transactions;

use std::sync::Arc;

use near_primitives::transaction::SignedTransaction;
use near_primitives::types::AccountId;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use answer::{Answer, Body};
pub use landfall_sim_front::rpc::method_of;
pub use transactions::{Waiting, signed_in};

use super::ledger::{Ledger, View};
use answer::{Failure, Reason};

/// How long a node holds a request that waits for a transaction.
pub const TIMEOUT_MS: u64 = 10_000;
/// HTTP bodies beyond this are refused, whatever the node's settings say.
pub const MAX_BODY_BYTES: usize = 2_097_152;

/// One node: the chain, and what is its own.
pub struct Node<'a> {
    pub ledger: &'a mut Ledger,
    pub lag_blocks: u64,
    /// Takes transactions and loses them.
    pub forgets: bool,
    /// A pool of its own, which it passes on later; none: what it takes its peers have at once.
    pub held_back: Option<&'a mut Vec<Arc<SignedTransaction>>>,
    /// Has forgotten which transactions there were.
    pub amnesic: bool,
    /// Keeps no outcomes, as a node may be told to: what was in its blocks it knows.
    pub without_outcomes: bool,
    /// Keeps only so many blocks; none: all that there are.
    pub history_blocks: Option<u64>,
    pub rpc_addr: &'a str,
}

impl Node<'_> {
    fn view(&self) -> View<'_> {
        let view = self.ledger.view(self.lag_blocks).with_history(self.history_blocks);
        view.with_amnesia(self.amnesic).with_outcomes(!self.without_outcomes)
    }
}

pub enum Reply {
    Answer(Answer),
    /// Nothing to say until a block comes.
    Wait(Waiting),
}

/// A well-formed request.
struct Request {
    id: Value,
    method: String,
    params: Value,
}

/// What a method comes to.
enum Outcome {
    Result(Value),
    Wait(transactions::Wanted),
}

pub fn handle(node: &mut Node, body: &Value) -> Reply {
    let Some(request) = envelope(body) else {
        let failure = Failure::parse("JSON RPC Request format was expected");
        return Reply::Answer(failure.into_answer(Value::Null));
    };
    let id = request.id.clone();
    match dispatch(node, request) {
        Ok(Outcome::Result(result)) => Reply::Answer(Answer::result(id, result)),
        Ok(Outcome::Wait(wanted)) => Reply::Wait(Waiting::new(id, wanted)),
        Err(failure) => Reply::Answer(failure.into_answer(id)),
    }
}

fn dispatch(node: &mut Node, request: Request) -> Result<Outcome, Failure> {
    let params = request.params;
    let view = node.view();
    let result = match request.method.as_str() {
        "send_tx" | "broadcast_tx_async" | "broadcast_tx_commit" => {
            return transactions::send(node, &request.method, params);
        }
        "tx" | "EXPERIMENTAL_tx_status" => {
            let receipts = request.method != "tx";
            return transactions::status(view, params, receipts);
        }
        "query" => query::query(view, params)?,
        "EXPERIMENTAL_view_access_key" => query::access_key(view, params)?,
        "EXPERIMENTAL_view_account" => query::account(view, params)?,
        "block" => blocks::block(view, params)?,
        "chunk" => blocks::chunk(view, params)?,
        "gas_price" => blocks::gas_price(view, params)?,
        "status" => node::status(view, node.rpc_addr),
        "health" => node::health(view)?,
        "genesis_config" | "EXPERIMENTAL_genesis_config" => node::genesis_config(view),
        "EXPERIMENTAL_protocol_config" => node::protocol_config(view, params)?,
        other => return Err(Failure::of(Reason::MethodNotFound(other.to_string()))),
    };
    Ok(Outcome::Result(result))
}

/// The answer to `GET /status`: the bare object.
pub fn bare_status(node: &Node) -> Value {
    node::status(node.view(), node.rpc_addr)
}

/// Whether `GET /health` is well.
pub fn is_healthy(node: &Node) -> bool {
    node::health(node.view()).is_ok()
}

fn envelope(body: &Value) -> Option<Request> {
    let object = body.as_object()?;
    if object.get("jsonrpc")?.as_str()? != "2.0" {
        return None;
    }
    Some(Request {
        id: object.get("id")?.clone(),
        method: object.get("method")?.as_str()?.to_string(),
        params: object.get("params").cloned().unwrap_or(Value::Null),
    })
}

fn parse<T: DeserializeOwned>(params: Value) -> Result<T, Failure> {
    serde_json::from_value(params).map_err(|error| {
        // The node was built with an older base64, which calls a symbol a byte.
        let text = error.to_string().replace("Invalid symbol ", "Invalid byte ");
        Failure::parse(&format!("Failed parsing args: {text}"))
    })
}

/// Who makes all blocks.
fn validator() -> AccountId {
    "validator.sim.near".parse().expect("a well-formed account id")
}
