//! The shapes of answers: results, and each kind of error with its HTTP status.

use near_primitives::errors::InvalidTxError;
use near_primitives::hash::CryptoHash;
use near_primitives::types::{AccountId, BlockReference};
use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub http_status: u16,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    Json(Value),
    Text(String),
}

impl Answer {
    pub fn result(id: Value, result: Value) -> Answer {
        let body = json!({ "jsonrpc": "2.0", "result": result, "id": id });
        Answer { http_status: 200, body: Body::Json(body) }
    }

    /// A broadcast is refused.
    pub fn invalid_transaction(id: Value, error: InvalidTxError) -> Answer {
        Failure::of(Reason::InvalidTransaction(error)).into_answer(id)
    }

    /// A parameter cannot be read.
    pub fn parse_error(id: Value, message: &str) -> Answer {
        Failure::parse(message).into_answer(id)
    }

    pub fn unknown_transaction(id: Value, hash: CryptoHash) -> Answer {
        Failure::of(Reason::UnknownTransaction(hash)).into_answer(id)
    }

    pub fn unknown_block(id: Value, what: &str) -> Answer {
        let what = format!("BLOCK: {what} \n Cause: Unknown");
        let reason = Reason::UnknownBlock { reference: None, what, below_head: false };
        Failure::of(reason).into_answer(id)
    }

    /// The node has waited for as long as it will.
    pub fn timeout(id: Value) -> Answer {
        Failure::of(Reason::Timeout).into_answer(id)
    }

    /// The JSON body; `Null` when it is none.
    pub fn json(&self) -> &Value {
        match &self.body {
            Body::Json(value) => value,
            Body::Text(_) => &Value::Null,
        }
    }
}

/// Why a request has no result.
#[derive(Debug)]
pub enum Reason {
    Parse(String),
    MethodNotFound(String),
    InvalidTransaction(InvalidTxError),
    UnknownTransaction(CryptoHash),
    Timeout,
    /// `below_head` makes it HTTP 422: a height the node has passed.
    UnknownBlock {
        reference: Option<BlockReference>,
        what: String,
        below_head: bool,
    },
    GarbageCollected {
        height: u64,
        hash: CryptoHash,
    },
    UnknownAccount {
        account_id: AccountId,
        height: u64,
        hash: CryptoHash,
    },
    UnknownAccessKey {
        public_key: String,
        height: u64,
        hash: CryptoHash,
    },
    UnknownChunk(CryptoHash),
    InvalidShard(u64),
    NoNewBlocks {
        seconds: u64,
        nanos: u64,
    },
}

/// A request's failure. Boxed: it travels through `Result`s whose good side is small.
#[derive(Debug)]
pub struct Failure(Box<Reason>);

impl Failure {
    pub fn of(reason: Reason) -> Failure {
        Failure(Box::new(reason))
    }

    pub fn parse(message: &str) -> Failure {
        Failure::of(Reason::Parse(message.to_string()))
    }

    pub fn into_answer(self, id: Value) -> Answer {
        let (http_status, error) = match *self.0 {
            Reason::Parse(message) => (400, parse_error(&message)),
            Reason::MethodNotFound(method) => (400, method_not_found(&method)),
            Reason::Timeout => (408, timeout()),
            Reason::UnknownBlock { below_head: true, reference, what } => {
                (422, unknown_block(reference, &what))
            }
            reason => (200, handler_error(reason)),
        };
        let body = json!({ "jsonrpc": "2.0", "error": error, "id": id });
        Answer { http_status, body: Body::Json(body) }
    }
}

fn parse_error(message: &str) -> Value {
    json!({
        "name": "REQUEST_VALIDATION_ERROR",
        "cause": { "name": "PARSE_ERROR", "info": { "error_message": message } },
        "code": -32700,
        "message": "Parse error",
        "data": message,
    })
}

fn method_not_found(method: &str) -> Value {
    json!({
        "name": "REQUEST_VALIDATION_ERROR",
        "cause": { "name": "METHOD_NOT_FOUND", "info": { "method_name": method } },
        "code": -32601,
        "message": "Method not found",
        "data": method,
    })
}

/// The one cause without `info`.
fn timeout() -> Value {
    json!({
        "name": "HANDLER_ERROR",
        "cause": { "name": "TIMEOUT_ERROR" },
        "code": -32000,
        "message": "Server error",
        "data": "Timeout",
    })
}

fn unknown_block(reference: Option<BlockReference>, what: &str) -> Value {
    let info = match reference {
        Some(reference) => json!({ "block_reference": reference }),
        None => json!({}),
    };
    handler("UNKNOWN_BLOCK", info, json!(format!("DB Not Found Error: {what}")))
}

fn handler(name: &str, info: Value, data: Value) -> Value {
    json!({
        "name": "HANDLER_ERROR",
        "cause": { "info": info, "name": name },
        "code": -32000,
        "message": "Server error",
        "data": data,
    })
}

fn handler_error(reason: Reason) -> Value {
    match reason {
        Reason::InvalidTransaction(error) => {
            let data = json!({ "TxExecutionError": { "InvalidTxError": error } });
            handler("INVALID_TRANSACTION", json!({}), data)
        }
        Reason::UnknownTransaction(hash) => {
            let data = json!(format!("Transaction {hash} doesn't exist"));
            handler("UNKNOWN_TRANSACTION", json!({ "requested_transaction_hash": hash }), data)
        }
        Reason::UnknownBlock { reference, what, .. } => unknown_block(reference, &what),
        Reason::GarbageCollected { height, hash } => handler(
            "GARBAGE_COLLECTED_BLOCK",
            json!({ "block_hash": hash, "block_height": height }),
            json!(format!(
                "The data for block #{height} is garbage collected on this node, use an archival \
                 node to fetch historical data"
            )),
        ),
        Reason::UnknownAccount { account_id, height, hash } => handler(
            "UNKNOWN_ACCOUNT",
            json!({
                "block_hash": hash, "block_height": height, "requested_account_id": account_id,
            }),
            json!(format!("account {account_id} does not exist while viewing")),
        ),
        Reason::UnknownAccessKey { public_key, height, hash } => handler(
            "UNKNOWN_ACCESS_KEY",
            json!({ "block_hash": hash, "block_height": height, "public_key": public_key }),
            json!(format!("Access key for public key {public_key} does not exist while viewing")),
        ),
        Reason::UnknownChunk(hash) => handler(
            "UNKNOWN_CHUNK",
            json!({ "chunk_hash": hash }),
            json!(format!("Chunk Missing (unavailable on the node): ChunkHash(`{hash}`)")),
        ),
        Reason::InvalidShard(shard_id) => handler(
            "INVALID_SHARD_ID",
            json!({ "shard_id": shard_id }),
            json!(format!("Shard id {shard_id} does not exist")),
        ),
        Reason::NoNewBlocks { seconds, nanos } => {
            let info = json!({ "elapsed": [seconds, nanos] });
            let data = json!({ "info": info, "name": "NO_NEW_BLOCKS" });
            handler("NO_NEW_BLOCKS", info, data)
        }
        Reason::Parse(message) => parse_error(&message),
        Reason::MethodNotFound(method) => method_not_found(&method),
        Reason::Timeout => timeout(),
    }
}
