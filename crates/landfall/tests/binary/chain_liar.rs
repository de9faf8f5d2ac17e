//! A node of an EVM chain that lies: an HTTP proxy before a simulated node, which reads JSON-RPC
//! and says what it likes.
//!
//! **Rule:** a lie is well-formed, and the liar sticks to it: whoever asks the same again, or in
//! another way, hears the same again.
//! Not here: what becomes of the calls (`chain_liars`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy_primitives::{hex, keccak256};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// How late the bytes are that were refused.
const LATER: Duration = Duration::from_millis(1_500);
/// What is added to nonces.
const NONCES_MORE: u64 = 5_000;
/// What is added to the heights of blocks.
const HEIGHTS_MORE: u64 = 10_000_000;
/// How many times dearer gas is said to be.
const FEES_TIMES: u64 = 10_000;
/// The fields in which a node tells a height.
const HEIGHTS: [&str; 3] = ["number", "blockNumber", "oldestBlock"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Every transaction is final and did what it was to do; nothing is passed on.
    Success,
    /// Every transaction was reverted.
    Revert,
    /// No block holds any transaction, whatever it is.
    Absence,
    /// The signers' nonces are 5,000 too high.
    NoncesMore,
    /// No signer has used a nonce.
    NoncesNone,
    /// Gas costs 10,000 times as much.
    Fees,
    /// Every transaction has an invalid sender; a while later the bytes are passed on.
    Refusal,
    /// No signer can pay for anything; nothing is passed on.
    Poverty,
    /// The blocks' heights are 10,000,000 too high.
    Heights,
}

/// Ends with its guard.
pub struct Liar {
    pub url: String,
    proxy: Arc<Proxy>,
    _runtime: Runtime,
}

#[derive(Clone)]
struct Forged {
    from: String,
    /// Of the block that is said to hold it.
    height: u64,
}

struct Proxy {
    node: String,
    lie: Lie,
    client: reqwest::Client,
    told: AtomicUsize,
    /// Transactions to be passed on later.
    held: AtomicUsize,
    /// The transactions that were never passed on, by hash.
    forged: Mutex<HashMap<String, Forged>>,
}

impl Liar {
    pub fn before(node: &str, lie: Lie) -> Liar {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let proxy = Arc::new(Proxy {
            node: node.to_owned(),
            lie,
            client: reqwest::Client::new(),
            told: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            forged: Mutex::default(),
        });
        let routes = Router::new().fallback(answer).with_state(proxy.clone());
        runtime.spawn(async move { axum::serve(listener, routes).await });
        Liar { url, proxy, _runtime: runtime }
    }

    /// How many of its answers were lies.
    pub fn told(&self) -> usize {
        self.proxy.told.load(Ordering::SeqCst)
    }

    /// How many transactions it will yet pass on.
    pub fn holds(&self) -> usize {
        self.proxy.held.load(Ordering::SeqCst)
    }
}

async fn answer(State(proxy): State<Arc<Proxy>>, body: Bytes) -> Response {
    let Ok(request) = serde_json::from_slice::<Value>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    match proxy.lie(request).await {
        Some(answer) => axum::Json(answer).into_response(),
        None => StatusCode::BAD_GATEWAY.into_response(),
    }
}

fn quantity(number: u64) -> Value {
    json!(format!("{number:#x}"))
}

fn number(quantity: &Value) -> Option<u64> {
    u64::from_str_radix(quantity.as_str()?.strip_prefix("0x")?, 16).ok()
}

fn result(request: &Value, result: Value) -> Option<Value> {
    Some(json!({"jsonrpc": "2.0", "result": result, "id": request["id"]}))
}

impl Proxy {
    async fn lie(self: Arc<Proxy>, request: Value) -> Option<Value> {
        let method = request["method"].as_str().unwrap_or_default().to_owned();
        match (self.lie, method.as_str()) {
            (Lie::Success, "eth_sendRawTransaction") => self.forge(&request).await,
            (Lie::Success, "eth_getTransactionReceipt") => self.forged_receipt(request).await,
            (Lie::Success, "eth_getBlockByNumber" | "eth_getBlockByHash") => {
                self.forged_block(request).await
            }
            (Lie::Success, "eth_getBlockReceipts") => self.forged_receipts(request).await,
            (Lie::Revert, "eth_getTransactionReceipt" | "eth_getBlockReceipts") => {
                self.change(request, |proxy, result| proxy.reverted(result)).await
            }
            (Lie::Absence, "eth_getTransactionReceipt" | "eth_getTransactionByHash") => {
                self.tell();
                result(&request, Value::Null)
            }
            (
                Lie::Absence,
                "eth_getBlockReceipts" | "eth_getBlockByNumber" | "eth_getBlockByHash",
            ) => self.change(request, |proxy, result| proxy.empty(result)).await,
            (Lie::NoncesMore, "eth_getTransactionCount") => {
                let more = |proxy: &Proxy, result: &mut Value| proxy.add(result, NONCES_MORE);
                self.change(request, more).await
            }
            (Lie::NoncesNone, "eth_getTransactionCount") => {
                self.tell();
                result(&request, quantity(0))
            }
            (Lie::Fees, "eth_feeHistory" | "eth_gasPrice" | "eth_maxPriorityFeePerGas") => {
                self.change(request, |proxy, result| proxy.dearer(result)).await
            }
            (Lie::Refusal, "eth_sendRawTransaction") => self.refuse(request).await,
            (Lie::Poverty, "eth_sendRawTransaction" | "eth_estimateGas" | "eth_call") => {
                self.tell();
                let message = "insufficient funds for gas * price + value";
                Some(error(&request, message))
            }
            (Lie::Heights, _) => self.heights(request).await,
            _ => self.pass_on(&request).await,
        }
    }

    /// What the node itself says.
    async fn pass_on(&self, request: &Value) -> Option<Value> {
        let answer = self.client.post(&self.node).json(request).send().await.ok()?;
        answer.json().await.ok()
    }

    /// What the node says, changed.
    async fn change(&self, request: Value, change: impl Fn(&Proxy, &mut Value)) -> Option<Value> {
        let mut answer = self.pass_on(&request).await?;
        if answer.get("result").is_some() {
            change(self, &mut answer["result"]);
        }
        Some(answer)
    }

    async fn refuse(self: Arc<Proxy>, request: Value) -> Option<Value> {
        let refusal = error(&request, "invalid sender");
        self.tell();
        self.held.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(async move {
            tokio::time::sleep(LATER).await;
            self.pass_on(&request).await;
            self.held.fetch_sub(1, Ordering::SeqCst);
        });
        Some(refusal)
    }

    fn reverted(&self, result: &mut Value) {
        let receipts = match result {
            Value::Array(receipts) => receipts.iter_mut().collect(),
            Value::Null => Vec::new(),
            receipt => vec![receipt],
        };
        for receipt in receipts {
            receipt["status"] = quantity(0);
            self.tell();
        }
    }

    fn empty(&self, result: &mut Value) {
        let held = match result {
            Value::Array(receipts) => Some(receipts),
            block => block["transactions"].as_array_mut(),
        };
        if let Some(held) = held.filter(|held| !held.is_empty()) {
            held.clear();
            self.tell();
        }
    }

    fn dearer(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                let fees = |name: &str| matches!(name, "baseFeePerGas" | "reward");
                let fields = fields.iter_mut().filter(|(name, _)| fees(name));
                fields.for_each(|(_, value)| self.dearer(value));
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.dearer(item)),
            fee => {
                if let Some(told) = number(fee) {
                    *fee = quantity(told.saturating_mul(FEES_TIMES));
                    self.tell();
                }
            }
        }
    }

    async fn heights(&self, mut request: Value) -> Option<Value> {
        // Asked of a block by the height it told, it gives the one it meant.
        for parameter in request["params"].as_array_mut().into_iter().flatten() {
            let digits = parameter.as_str().unwrap_or_default().len();
            // A hash is no height.
            let meant = number(parameter).filter(|_| digits < 20);
            if let Some(height) = meant.and_then(|height| height.checked_sub(HEIGHTS_MORE)) {
                *parameter = quantity(height);
            }
        }
        self.change(request, |proxy, result| proxy.higher(result)).await
    }

    fn higher(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match HEIGHTS.contains(&name.as_str()) {
                        true => self.add(value, HEIGHTS_MORE),
                        false => self.higher(value),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.higher(item)),
            _ => {}
        }
    }

    fn add(&self, quantity_told: &mut Value, more: u64) {
        if let Some(told) = number(quantity_told) {
            *quantity_told = quantity(told + more);
            self.tell();
        }
    }

    fn tell(&self) {
        self.told.fetch_add(1, Ordering::SeqCst);
    }
}

fn error(request: &Value, message: &str) -> Value {
    let error = json!({"code": -32_000, "message": message});
    json!({"jsonrpc": "2.0", "error": error, "id": request["id"]})
}

/// Of transactions that never left: each is in the block after the moment it was sent.
impl Proxy {
    async fn forge(&self, request: &Value) -> Option<Value> {
        let bytes = hex::decode(request["params"][0].as_str()?).ok()?;
        let from = landfall_rail_evm::encode::content(&bytes).ok()?.from.to_string();
        let hash = keccak256(bytes).to_string();
        let height = number(&self.block(json!("latest")).await?["number"])? + 1;
        let forged = Forged { from, height };
        self.forged.lock().expect("no panic").entry(hash.clone()).or_insert(forged);
        self.tell();
        result(request, json!(hash))
    }

    /// As the node has it, without its transactions' contents.
    async fn block(&self, at: Value) -> Option<Value> {
        let asked = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_getBlockByNumber",
            "params": [at, false]});
        Some(self.pass_on(&asked).await?["result"].take())
    }

    async fn forged_receipt(&self, request: Value) -> Option<Value> {
        let hash = request["params"][0].as_str().unwrap_or_default();
        let forged = self.forged.lock().expect("no panic").get(hash).cloned();
        let Some(forged) = forged else { return self.pass_on(&request).await };
        let block = self.block(quantity(forged.height)).await?;
        if block.is_null() {
            return result(&request, Value::Null);
        }
        self.tell();
        result(&request, success(hash, &forged.from, &block))
    }

    async fn forged_block(&self, request: Value) -> Option<Value> {
        if request["params"][1] == true {
            return self.pass_on(&request).await;
        }
        let hold = |proxy: &Proxy, block: &mut Value| {
            let held = proxy.forged_at(&block["number"]).into_iter();
            let held: Vec<Value> = held.map(|(hash, _)| Value::from(hash)).collect();
            if let Some(transactions) = block["transactions"].as_array_mut() {
                transactions.retain(|hash| !proxy.is_forged(hash));
                transactions.extend(held);
            }
        };
        self.change(request, hold).await
    }

    async fn forged_receipts(&self, request: Value) -> Option<Value> {
        let block = self.block(request["params"][0].clone()).await?;
        let add = |proxy: &Proxy, receipts: &mut Value| {
            let forged = proxy.forged_at(&block["number"]).into_iter();
            let forged: Vec<Value> =
                forged.map(|(hash, from)| success(&hash, &from, &block)).collect();
            if let Some(receipts) = receipts.as_array_mut() {
                forged.iter().for_each(|_| proxy.tell());
                receipts.retain(|receipt| !proxy.is_forged(&receipt["transactionHash"]));
                receipts.extend(forged);
            }
        };
        self.change(request, add).await
    }

    /// Whoever else has passed it on: to this one it is where it was said to be.
    fn is_forged(&self, hash: &Value) -> bool {
        let forged = self.forged.lock().expect("no panic");
        hash.as_str().is_some_and(|hash| forged.contains_key(hash))
    }

    /// Hash and sender of each.
    fn forged_at(&self, height: &Value) -> Vec<(String, String)> {
        let height = number(height);
        let forged = self.forged.lock().expect("no panic");
        let at = forged.iter().filter(|(_, one)| Some(one.height) == height);
        at.map(|(hash, one)| (hash.clone(), one.from.clone())).collect()
    }
}

/// What a node says of a transaction that did what it was to do.
fn success(hash: &str, from: &str, block: &Value) -> Value {
    json!({
        "transactionHash": hash, "blockHash": block["hash"], "blockNumber": block["number"],
        "transactionIndex": "0x0", "from": from, "status": "0x1", "gasUsed": "0x5208",
        "cumulativeGasUsed": "0x5208", "logs": [],
    })
}
