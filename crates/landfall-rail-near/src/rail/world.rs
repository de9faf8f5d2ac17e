//! Three nodes in memory, as far as the rail asks them: one chain, each with its own view of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use landfall_core::clock::Clock;
use landfall_core::near::Payout;
use landfall_core::rail::{Later, Look};
use landfall_core::{Attempt, AttemptId, Epoch, Nonce, Payload, Purpose, RailName, TransferId};
use landfall_rpc::{Endpoints, HttpAnswer, Settings, Transport, TransportError, Url};
use near_primitives::hash::CryptoHash;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;

const SECRET: &str = "ed25519:3HexfCJQ3TJZSpFytEshrWEoRySFfvfhZvUmTUqxPuG5V3UP8xTWwU4uSh85iA\
                      ffrtakKvSN5s5ytQ5xJ93eJyKu";
pub const TOKEN: &str = "ft.test.near";
pub const RELAY: &str = "relay.test.near";
pub const VALIDITY: u64 = 1_000;

/// One node's view of the chain.
#[derive(Clone)]
pub struct Node {
    pub chain_id: String,
    pub final_height: u64,
    /// Blocks below are collected.
    pub earliest: u64,
    /// (height, nonce): from that block on, the key's nonce.
    pub nonces: Vec<(u64, u64)>,
    /// Answers to `tx`, by hash.
    pub txs: HashMap<String, Value>,
    /// Transactions by the height of their block.
    pub chunks: HashMap<u64, String>,
    /// Blocks known beside the chain.
    pub orphans: HashMap<String, u64>,
    pub registered: Vec<String>,
    pub tokens: u128,
    /// The answer to `send_tx`; none loses it.
    pub send: Option<(u16, Value)>,
    pub down: bool,
    pub validity: u64,
    pub genesis: String,
    /// What the contract asks for a registration, in yoctoNEAR.
    pub deposit: u128,
    /// Changes its results.
    pub lie: Option<fn(&str, &mut Value)>,
}

pub struct Net {
    pub nodes: Mutex<Vec<Node>>,
    pub asked: Mutex<Vec<String>>,
}

pub struct HandClock(pub AtomicU64);

#[async_trait]
impl Clock for HandClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
    async fn sleep(&self, duration: Duration) {
        self.0.fetch_add(duration.as_millis() as u64, Ordering::SeqCst);
    }
}

pub struct World {
    pub net: Arc<Net>,
    pub clock: Arc<HandClock>,
    pub rail: NearRail,
}

pub fn block_hash(height: u64) -> String {
    CryptoHash::hash_bytes(&height.to_le_bytes()).to_string()
}

/// Three nodes at final block 100, the key's nonce 4.
pub fn world() -> World {
    world_of(3)
}

pub fn world_of(count: usize) -> World {
    let node = Node {
        chain_id: "localnet".into(),
        final_height: 100,
        earliest: 0,
        nonces: vec![(0, 4)],
        txs: HashMap::new(),
        chunks: HashMap::new(),
        orphans: HashMap::new(),
        registered: vec![RELAY.into(), "alice.near".into()],
        tokens: 1_000,
        send: None,
        down: false,
        validity: VALIDITY,
        genesis: "G".into(),
        deposit: 1_250,
        lie: None,
    };
    let net = Arc::new(Net { nodes: Mutex::new(vec![node; count]), asked: Mutex::default() });
    let clock = Arc::new(HandClock(AtomicU64::new(1_000_000)));
    let urls = (0..count).map(|n| Url::parse(&format!("http://n{n}")).unwrap()).collect();
    let endpoints = Endpoints::new(urls, net.clone(), clock.clone(), Settings::default()).unwrap();
    let settings = NearSettings::new("localnet", TOKEN, RELAY, vec![Key::parse(SECRET).unwrap()]);
    let rail = NearRail::new(settings, endpoints, clock.clone()).unwrap();
    World { net, clock, rail }
}

pub fn payout(receiver: &str, amount: u128) -> Payload {
    Payload::Near(Payout {
        network: "localnet".into(),
        token: TOKEN.into(),
        sender: RELAY.into(),
        receiver_id: receiver.into(),
        amount,
        memo: None,
    })
}

impl World {
    /// An attempt of nonce 5 that pays alice, bob and carol 10 each.
    pub async fn attempt(&self) -> Attempt {
        let payloads = ["alice.near", "bob.near", "carol.near"].map(|name| payout(name, 10));
        let payloads: Vec<&Payload> = payloads.iter().collect();
        let lane = self.rail.lanes().remove(0);
        let signed = self.rail.sign(Purpose::Pay, &payloads, &lane, Nonce(5)).await.unwrap();
        Attempt {
            id: AttemptId(1),
            rail: RailName::Near,
            lane,
            epoch: Epoch(1),
            nonce: Nonce(5),
            purpose: Purpose::Pay,
            hash: signed.hash,
            bytes: signed.bytes,
            seq: 1,
            base: signed.base,
            expires_height: signed.expires_height,
            variants: Vec::new(),
            members: vec![TransferId(1), TransferId(2), TransferId(3)],
            opened_ms: 0,
            sightings: Vec::new(),
            fate: None,
            decided_ms: None,
        }
    }

    pub fn each(&self, change: impl Fn(&mut Node)) {
        self.net.nodes.lock().iter_mut().for_each(change);
    }

    pub fn node(&self, index: usize, change: impl Fn(&mut Node)) {
        change(&mut self.net.nodes.lock()[index]);
    }

    /// A later attempt of ours, nonce 6, landed in block 120, which is final.
    pub fn fence_lands(&self) -> Vec<Later> {
        self.each(|node| {
            node.final_height = 130;
            node.nonces.push((120, 6));
        });
        vec![Later { nonce: Nonce(6), hash: "fence".into(), landed_height: Some(120) }]
    }

    pub async fn look(&self, attempt: &Attempt, later: &[Later]) -> Look {
        match self.rail.look(attempt, false).await.unwrap() {
            Look::Adrift { sightings, .. } if sightings.is_empty() => {
                self.rail.inquest(attempt, later).await.unwrap()
            }
            look => look,
        }
    }

    pub fn count(&self, method: &str) -> usize {
        self.net.asked.lock().iter().filter(|asked| *asked == method).count()
    }
}

/// A `tx` result at a stage; `receipt` is the status of its own receipt.
pub fn tx_result(hash: &str, stage: &str, block: &str, receipt: Value) -> Value {
    let overall = match receipt.get("Failure") {
        Some(_) => receipt.clone(),
        None => json!({"SuccessValue": ""}),
    };
    json!({
        "final_execution_status": stage,
        "status": overall,
        "transaction": {"hash": hash},
        "transaction_outcome": {"id": hash, "block_hash": block,
            "outcome": {"status": {"SuccessReceiptId": "R"}}},
        "receipts_outcome": [{"id": "R", "block_hash": block, "outcome": {"status": receipt}}],
    })
}

pub fn panic_at(index: u64, text: &str) -> Value {
    json!({"Failure": {"ActionError": {"index": index,
        "kind": {"FunctionCallError": {"ExecutionError": text}}}}})
}

fn handler_error(cause: &str, info: Value) -> (u16, Value) {
    let error = json!({"name": "HANDLER_ERROR", "cause": {"name": cause, "info": info},
        "code": -32000, "message": "Server error", "data": ""});
    (200, json!({"error": error}))
}

impl Node {
    fn answer(&self, method: &str, params: &Value) -> Option<(u16, Value)> {
        let result = |value: Value| Some((200, json!({"result": value})));
        match method {
            "status" => result(json!({"chain_id": self.chain_id, "genesis_hash": self.genesis,
                "sync_info": {"latest_block_height": self.final_height + 2, "syncing": false}})),
            "genesis_config" => result(json!({"transaction_validity_period": self.validity})),
            "block" => Some(match self.height_of(params) {
                Some(height) => (200, json!({"result": self.block(height, params)})),
                None => handler_error("UNKNOWN_BLOCK", json!({})),
            }),
            "chunk" => {
                let height: u64 = params["chunk_id"].as_str().unwrap().parse().unwrap();
                result(json!({"transactions": [{"hash": self.chunks[&height]}]}))
            }
            "tx" => {
                let hash = params["tx_hash"].as_str().unwrap();
                match self.txs.get(hash) {
                    Some(known) => result(known.clone()),
                    None => Some(handler_error(
                        "UNKNOWN_TRANSACTION",
                        json!({"requested_transaction_hash": hash}),
                    )),
                }
            }
            "send_tx" => self.send.clone(),
            "query" => Some(self.query(params)),
            other => panic!("{other} is not asked"),
        }
    }

    fn block(&self, height: u64, params: &Value) -> Value {
        let hash = params["block_id"].as_str().map_or(block_hash(height), str::to_owned);
        let prev_hash = block_hash(height.saturating_sub(1));
        let chunk = |included: u64| {
            let chunk_hash = included.to_string();
            json!({"chunk_hash": chunk_hash, "height_included": included, "tx_root": "T"})
        };
        let filled = self.chunks.contains_key(&height);
        let chunks = if filled { json!([chunk(height), chunk(height - 1)]) } else { json!([]) };
        json!({"header": {"height": height, "hash": hash, "prev_hash": prev_hash},
            "chunks": chunks})
    }

    fn height_of(&self, params: &Value) -> Option<u64> {
        let height = match &params["block_id"] {
            Value::String(hash) => (0..=self.final_height + 2)
                .find(|height| block_hash(*height) == *hash)
                .or(self.orphans.get(hash).copied()),
            Value::Number(height) => height.as_u64().filter(|h| *h <= self.final_height + 2),
            _ => Some(self.final_height),
        };
        height.filter(|height| *height >= self.earliest)
    }

    fn query(&self, params: &Value) -> (u16, Value) {
        let Some(height) = self.height_of(params) else {
            return handler_error("UNKNOWN_BLOCK", json!({}));
        };
        let nonce = self.nonces.iter().rfind(|(from, _)| *from <= height).unwrap().1;
        let mut result = json!({"block_height": height, "block_hash": block_hash(height)});
        match params["request_type"].as_str().unwrap() {
            "view_access_key" => {
                result["nonce"] = json!(nonce);
                result["permission"] = json!("FullAccess");
            }
            "view_access_key_list" => {
                let key = Key::parse(SECRET).unwrap().public().to_string();
                result["keys"] = json!([{"public_key": key,
                    "access_key": {"nonce": nonce, "permission": "FullAccess"}}]);
            }
            "view_account" => {
                result["amount"] = json!("5000000000000000000000000");
                result["storage_usage"] = json!(182);
            }
            _ => result["result"] = json!(self.view(params).to_string().into_bytes()),
        }
        (200, json!({"result": result}))
    }

    fn view(&self, params: &Value) -> Value {
        let args = STANDARD.decode(params["args_base64"].as_str().unwrap()).unwrap();
        let args: Value = serde_json::from_slice(&args).unwrap();
        match params["method_name"].as_str().unwrap() {
            "storage_balance_bounds" => {
                json!({"min": self.deposit.to_string(), "max": self.deposit.to_string()})
            }
            "ft_balance_of" => json!(self.tokens.to_string()),
            "storage_balance_of" => {
                let known = self.registered.iter().any(|name| args["account_id"] == **name);
                if known { json!({"total": "1250", "available": "0"}) } else { Value::Null }
            }
            other => panic!("{other} is not asked"),
        }
    }
}

#[async_trait]
impl Transport for Net {
    async fn post(
        &self,
        url: &Url,
        body: Bytes,
        _: Duration,
    ) -> Result<HttpAnswer, TransportError> {
        let index: usize = url.origin().trim_start_matches("http://n").parse().unwrap();
        let request: Value = serde_json::from_slice(&body).unwrap();
        let method = request["method"].as_str().unwrap();
        self.asked.lock().push(method.to_owned());
        let node = self.nodes.lock()[index].clone();
        if node.down {
            return Err(TransportError::NotSent("connection refused".into()));
        }
        let Some((status, mut body)) = node.answer(method, &request["params"]) else {
            return Err(TransportError::Unsure("timed out".into()));
        };
        if let (Some(lie), Some(result)) = (node.lie, body.get_mut("result")) {
            lie(method, result);
        }
        body["jsonrpc"] = json!("2.0");
        body["id"] = request["id"].clone();
        Ok(HttpAnswer { status, body: body.to_string().into() })
    }
}

/// The height of the block that the attempt was signed on.
pub fn base_height(attempt: &Attempt) -> u64 {
    attempt.base.as_ref().expect("everything signed here has one").height
}
