//! A node that lies: an HTTP proxy before a simulated node, which reads JSON-RPC and says what it
//! likes.
//!
//! **Rule:** a lie is well-formed, and the liar sticks to it: whoever asks the same again, or in
//! another way, hears the same again.
//! Not here: what becomes of the payouts (`liars`).

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use near_primitives::hash::CryptoHash;
use near_primitives::transaction::SignedTransaction;
use near_primitives::views::SignedTransactionView;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// How late the bytes are that were refused.
const LATER: Duration = Duration::from_millis(1_500);
/// What is added to the nonces of keys.
const NONCES_MORE: u64 = 5_000;
/// What is added to the heights of blocks.
const HEIGHTS_MORE: u64 = 10_000_000;
/// The fields in which a node tells a height.
const HEIGHTS: [&str; 8] = [
    "block_height",
    "earliest_block_height",
    "epoch_start_height",
    "height",
    "height_created",
    "height_included",
    "latest_block_height",
    "prev_height",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Every transaction has an invalid signature; a while later the bytes are passed on.
    Refusal,
    /// Every transaction is final and did what it was to do; nothing is passed on.
    Success,
    /// The keys' nonces are 5,000 too high.
    Nonces,
    /// The blocks' heights are 10,000,000 too high.
    Heights,
}

/// Ends with its guard.
pub struct Liar {
    pub url: String,
    proxy: Arc<Proxy>,
    _runtime: Runtime,
}

struct Proxy {
    node: String,
    lie: Lie,
    /// The share of answers that nobody hears.
    lost: f64,
    client: reqwest::Client,
    told: AtomicUsize,
    /// Transactions to be passed on later.
    held: AtomicUsize,
    /// The answers about transactions that were never passed on, by hash.
    forged: Mutex<HashMap<String, Value>>,
}

impl Liar {
    pub fn before(node: &str, lie: Lie, lost: f64) -> Liar {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let proxy = Arc::new(Proxy {
            node: node.to_owned(),
            lie,
            lost,
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

/// An answer as HTTP has it. None: there is none.
type Answer = Option<(u16, Value)>;

async fn answer(State(proxy): State<Arc<Proxy>>, body: Bytes) -> Response {
    let Ok(request) = serde_json::from_slice::<Value>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let answer = match (proxy.lie, request["method"].as_str()) {
        (Lie::Refusal, Some("send_tx")) => proxy.clone().refuse(request).await,
        (Lie::Success, Some("send_tx")) => proxy.forge(&request).await,
        (Lie::Success, Some("tx")) => proxy.repeat(request).await,
        (Lie::Nonces, Some("query")) => proxy.more_nonces(request).await,
        (Lie::Heights, Some("block" | "chunk" | "query" | "status")) => {
            proxy.more_heights(request).await
        }
        _ => proxy.pass_on(request).await,
    };
    match answer.filter(|_| rand::random::<f64>() >= proxy.lost) {
        Some((status, answer)) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
            (status, axum::Json(answer)).into_response()
        }
        None => StatusCode::BAD_GATEWAY.into_response(),
    }
}

impl Proxy {
    /// What the node itself says.
    async fn pass_on(&self, request: Value) -> Answer {
        let answer = self.client.post(&self.node).json(&request).send().await.ok()?;
        let status = answer.status().as_u16();
        Some((status, answer.json().await.ok()?))
    }

    async fn refuse(self: Arc<Proxy>, request: Value) -> Answer {
        let data = json!({"TxExecutionError": {"InvalidTxError": "InvalidSignature"}});
        let error = json!({
            "name": "HANDLER_ERROR",
            "cause": {"info": {}, "name": "INVALID_TRANSACTION"},
            "code": -32000,
            "message": "Server error",
            "data": data,
        });
        let refusal = json!({"jsonrpc": "2.0", "error": error, "id": request["id"]});
        self.tell();
        self.held.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(async move {
            tokio::time::sleep(LATER).await;
            self.pass_on(request).await;
            self.held.fetch_sub(1, Ordering::SeqCst);
        });
        Some((200, refusal))
    }

    async fn forge(&self, request: &Value) -> Answer {
        let bytes = request["params"]["signed_tx_base64"].clone();
        let signed: SignedTransaction = serde_json::from_value(bytes).expect("a transaction");
        let hash = signed.get_hash().to_string();
        let known = self.forged.lock().expect("no panic").get(&hash).cloned();
        let result = match known {
            Some(result) => result,
            None => success(signed, &self.final_block().await?),
        };
        self.forged.lock().expect("no panic").insert(hash, result.clone());
        self.tell();
        Some((200, json!({"jsonrpc": "2.0", "result": result, "id": request["id"]})))
    }

    /// The hash of a block that is final, and honest.
    async fn final_block(&self) -> Option<String> {
        let params = json!({"finality": "final"});
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "block", "params": params});
        let (_, answer) = self.pass_on(request).await?;
        answer["result"]["header"]["hash"].as_str().map(str::to_owned)
    }

    async fn repeat(&self, request: Value) -> Answer {
        let hash = request["params"]["tx_hash"].as_str().unwrap_or_default();
        let forged = self.forged.lock().expect("no panic").get(hash).cloned();
        let Some(result) = forged else { return self.pass_on(request).await };
        self.tell();
        Some((200, json!({"jsonrpc": "2.0", "result": result, "id": request["id"]})))
    }

    async fn more_nonces(&self, request: Value) -> Answer {
        let (status, mut answer) = self.pass_on(request).await?;
        let result = &mut answer["result"];
        if !result["nonce"].is_null() {
            self.raise(&mut result["nonce"], NONCES_MORE);
        }
        for key in result["keys"].as_array_mut().into_iter().flatten() {
            self.raise(&mut key["access_key"]["nonce"], NONCES_MORE);
        }
        Some((status, answer))
    }

    async fn more_heights(&self, mut request: Value) -> Answer {
        // Asked for a block by the height it told, it gives the one it meant.
        if let Some(height) = request["params"]["block_id"].as_u64() {
            request["params"]["block_id"] = json!(height.saturating_sub(HEIGHTS_MORE));
        }
        let (status, mut answer) = self.pass_on(request).await?;
        self.raise_heights(&mut answer["result"]);
        Some((status, answer))
    }

    fn raise_heights(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match HEIGHTS.contains(&name.as_str()) {
                        true => self.raise(value, HEIGHTS_MORE),
                        false => self.raise_heights(value),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.raise_heights(item)),
            _ => {}
        }
    }

    fn raise(&self, value: &mut Value, by: u64) {
        if let Some(number) = value.as_u64() {
            *value = json!(number + by);
            self.tell();
        }
    }

    fn tell(&self) {
        self.told.fetch_add(1, Ordering::SeqCst);
    }
}

/// What a node says of a transaction that is final and did what it was to do.
fn success(signed: SignedTransaction, block: &str) -> Value {
    let hash = signed.get_hash();
    let receipt = CryptoHash::hash_bytes(hash.as_bytes());
    let signer = signed.transaction.signer_id().clone();
    let receiver = signed.transaction.receiver_id().clone();
    let outcome = |id: CryptoHash, executor: &str, status: Value| {
        json!({
            "proof": [],
            "block_hash": block,
            "id": id,
            "outcome": {
                "logs": [],
                "receipt_ids": if id == hash { vec![receipt] } else { vec![] },
                "gas_burnt": 308_066_207_802_u64,
                "tokens_burnt": "30806620780200000000",
                "executor_id": executor,
                "status": status,
                "metadata": {"version": 1, "gas_profile": null},
            },
        })
    };
    json!({
        "final_execution_status": "FINAL",
        "status": {"SuccessValue": ""},
        "transaction": SignedTransactionView::from(signed),
        "transaction_outcome": outcome(hash, signer.as_str(), json!({"SuccessReceiptId": receipt})),
        "receipts_outcome": [outcome(receipt, receiver.as_str(), json!({"SuccessValue": ""}))],
    })
}
