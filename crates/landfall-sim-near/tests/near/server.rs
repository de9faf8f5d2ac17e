//! The simulator over its sockets.

use landfall_sim_near::{SimConfig, SimNear, keys};
use near_crypto::SecretKey;
use serde_json::{Value, json};

use crate::captures::load;
use crate::support::{encode, id, pay};

const RELAY: &str = "relay.sim.near";
const TOKEN: &str = "token.sim.near";

pub struct Client {
    pub sim: SimNear,
    http: reqwest::Client,
    pub urls: Vec<String>,
}

impl Client {
    pub async fn start(config: SimConfig) -> Client {
        let sim = SimNear::start(config).await.expect("the simulator starts");
        let urls = sim.rpc_urls();
        Client { sim, http: reqwest::Client::new(), urls }
    }

    pub async fn fast() -> Client {
        Client::start(SimConfig { block_ms: 10, ..SimConfig::default() }).await
    }

    pub async fn rpc(&self, method: &str, params: Value) -> reqwest::Result<(u16, Value)> {
        self.rpc_at(0, method, params).await
    }

    pub async fn rpc_at(
        &self,
        node: usize,
        method: &str,
        params: Value,
    ) -> reqwest::Result<(u16, Value)> {
        let body = json!({ "jsonrpc": "2.0", "id": "cap", "method": method, "params": params });
        let response = self.http.post(&self.urls[node]).json(&body).send().await?;
        let status = response.status().as_u16();
        Ok((status, response.json().await?))
    }

    pub async fn get(&self, path: &str) -> Value {
        let url = format!("{}{path}", self.urls[0]);
        self.http.get(url).send().await.expect("an answer").json().await.expect("JSON")
    }

    pub async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        let url = format!("{}{path}", self.urls[0]);
        let response = self.http.post(url).json(&body).send().await.expect("an answer");
        let status = response.status().as_u16();
        (status, response.json().await.unwrap_or(Value::Null))
    }

    pub fn key(&self) -> SecretKey {
        self.sim.access_keys()[0].parse().expect("a secret key")
    }

    pub async fn signed_payment(&self, receiver: &str, amount: u128, nonce: u64) -> String {
        let (_, block) = self.rpc("block", json!({ "finality": "final" })).await.expect("a block");
        let hash = block["result"]["header"]["hash"].as_str().expect("a hash").parse();
        let actions = vec![pay(receiver, amount)];
        let hash = hash.expect("a hash");
        encode(&keys::sign(&id(RELAY), &self.key(), nonce, &id(TOKEN), hash, actions))
    }
}

#[tokio::test]
async fn a_payment_sent_over_http_is_final_and_shown_among_the_transfers() {
    let client = Client::fast().await;
    client.post("/sim/register", json!({ "account_ids": ["alice.near"] })).await;
    let signed = client.signed_payment("alice.near", 5, 1).await;
    let params = json!({ "signed_tx_base64": signed, "wait_until": "FINAL" });
    let (status, answer) = client.rpc("send_tx", params).await.expect("an answer");
    assert_eq!(status, 200);
    assert_eq!(answer["result"]["final_execution_status"], "FINAL", "{answer}");
    let transfers = client.get("/sim/transfers").await;
    assert_eq!(transfers[0]["receiver_id"], "alice.near");
    assert_eq!(transfers[0]["amount"], "5");
    assert_eq!(transfers[0]["nonce"], 1);
    assert_eq!(client.get("/sim/balances").await["tokens"]["alice.near"], "5");
    client.sim.shutdown().await;
}

#[tokio::test]
async fn every_node_serves_the_same_chain_and_is_announced() {
    let config = SimConfig { nodes: 3, keys: 2, block_ms: 10, ..SimConfig::default() };
    let client = Client::start(config).await;
    let announced = client.sim.announcement();
    assert_eq!(announced["rpc_url"], announced["rpc_urls"][0]);
    assert_eq!(announced["rpc_urls"].as_array().map(Vec::len), Some(3));
    assert_eq!(announced["token"], TOKEN);
    assert_eq!(announced["relay_account"], RELAY);
    assert!(announced["access_keys"][1].as_str().expect("a key").starts_with("ed25519:"));
    let mut hashes = Vec::new();
    for node in 0..3 {
        let (_, block) = client.rpc_at(node, "block", json!({ "block_id": 0 })).await.expect("one");
        hashes.push(block["result"]["header"]["hash"].clone());
    }
    assert_eq!(hashes[0], hashes[1]);
    assert_eq!(hashes[0], hashes[2]);
}

#[tokio::test]
async fn further_nodes_take_the_next_free_ports() {
    let probe = SimNear::start(SimConfig::default()).await.expect("a simulator");
    let taken: std::net::SocketAddr =
        probe.rpc_urls()[0].trim_start_matches("http://").parse().expect("an address");
    let busy = SimNear::start(SimConfig { listen: taken, ..SimConfig::default() }).await;
    assert!(busy.is_err(), "the first node wants the port it was given");
    probe.shutdown().await;
    let config = SimConfig { listen: taken, nodes: 2, ..SimConfig::default() };
    let sim = SimNear::start(config).await.expect("a simulator");
    assert_eq!(sim.rpc_urls()[0], format!("http://{taken}"));
    assert_ne!(sim.rpc_urls()[0], sim.rpc_urls()[1]);
}

#[tokio::test]
async fn a_lost_answer_took_effect_and_a_lost_request_did_not() {
    let client = Client::fast().await;
    client.post("/sim/register", json!({ "account_ids": ["alice.near"] })).await;
    let lost = client.signed_payment("alice.near", 5, 1).await;
    let taken = client.signed_payment("alice.near", 7, 2).await;
    client.post("/sim/faults", json!({ "lose_request": 1 })).await;
    let params = json!({ "signed_tx_base64": lost, "wait_until": "NONE" });
    assert!(client.rpc("send_tx", params).await.is_err());
    client.post("/sim/faults", json!({ "lose_request": 0, "lose_answer": 1.0 })).await;
    let params = json!({ "signed_tx_base64": taken.clone(), "wait_until": "NONE" });
    assert!(client.rpc("send_tx", params).await.is_err());
    client.post("/sim/faults", json!({ "lose_answer": 0 })).await;
    let params = json!({ "signed_tx_base64": taken, "wait_until": "FINAL" });
    let (_, answer) = client.rpc("tx", params).await.expect("an answer");
    assert_eq!(answer["result"]["final_execution_status"], "FINAL", "{answer}");
    let transfers = client.get("/sim/transfers").await;
    assert_eq!(transfers.as_array().map(Vec::len), Some(1), "{transfers}");
    assert_eq!(transfers[0]["amount"], "7");
}

#[tokio::test]
async fn faults_are_set_for_one_node_or_all_and_what_is_not_given_stays() {
    let config = SimConfig { nodes: 2, block_ms: 10, ..SimConfig::default() };
    let client = Client::start(config).await;
    client.post("/sim/faults", json!({ "slow_ms": 30, "garbage": 0.25 })).await;
    let (status, _) = client.post("/sim/faults", json!({ "node": 1, "down": true })).await;
    assert_eq!(status, 200);
    let faults = client.get("/sim/faults").await;
    assert_eq!(faults["nodes"][0]["down"], false);
    assert_eq!(faults["nodes"][1]["down"], true);
    assert_eq!(faults["nodes"][1]["garbage"], 0.25);
    assert_eq!(faults["nodes"][1]["slow_ms"], 30);
    assert!(client.rpc_at(1, "status", json!([])).await.is_err());
    for wrong in [json!({ "slow": 1.5 }), json!({ "node": 2, "slow": 0.5 })] {
        assert_eq!(client.post("/sim/faults", wrong).await.0, 400);
    }
    assert_eq!(client.post("/sim/faults", json!({ "sloow": 0.5 })).await.0, 422);
}

#[tokio::test]
async fn errors_garbage_and_slowness_come_as_asked() {
    let client = Client::fast().await;
    client.post("/sim/faults", json!({ "rate_limited": 1 })).await;
    let url = &client.urls[0];
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "health", "params": [] });
    let status = |answer: reqwest::Response| answer.status().as_u16();
    let post = || client.http.post(url).json(&body).send();
    assert_eq!(status(post().await.expect("an answer")), 429);
    client.post("/sim/faults", json!({ "rate_limited": 0, "server_error": 1 })).await;
    assert_eq!(status(post().await.expect("an answer")), 500);
    client.post("/sim/faults", json!({ "server_error": 0, "garbage": 1 })).await;
    let answer = post().await.expect("an answer");
    assert_eq!(answer.status().as_u16(), 200);
    assert!(answer.json::<Value>().await.is_err());
    client.post("/sim/faults", json!({ "garbage": 0, "slow": 1, "slow_ms": 60_000 })).await;
    let hurried = std::time::Duration::from_millis(50);
    assert!(tokio::time::timeout(hurried, post()).await.is_err());
    client.post("/sim/faults", json!({ "slow": 0 })).await;
    assert_eq!(status(post().await.expect("an answer")), 200);
}

#[tokio::test]
async fn a_lagging_node_is_behind_the_others() {
    let config = SimConfig { nodes: 2, block_ms: 10, ..SimConfig::default() };
    let client = Client::start(config).await;
    client.post("/sim/fund", json!({ "account_id": "bob.near", "amount": "5" })).await;
    client.post("/sim/faults", json!({ "node": 1, "lag_blocks": 1_000 })).await;
    let query = json!({
        "request_type": "view_account", "finality": "optimistic", "account_id": "bob.near",
    });
    let (_, seen) = client.rpc_at(0, "query", query.clone()).await.expect("an answer");
    assert_eq!(seen["result"]["amount"], "5");
    let (_, behind) = client.rpc_at(1, "query", query).await.expect("an answer");
    assert_eq!(behind["error"]["cause"]["name"], "UNKNOWN_ACCOUNT");
}

#[tokio::test]
async fn balances_can_be_set_from_outside() {
    let client = Client::fast().await;
    client.post("/sim/mint", json!({ "account_id": "alice.near", "amount": "12" })).await;
    client.post("/sim/register", json!({ "account_ids": ["bob.near", "carol.near"] })).await;
    client.post("/sim/unregister", json!({ "account_id": "bob.near" })).await;
    client.post("/sim/drain", json!({ "account_id": RELAY, "tokens": "3", "near": 4 })).await;
    let balances = client.get("/sim/balances").await;
    assert_eq!(balances["tokens"]["alice.near"], "12");
    assert_eq!(balances["registered"], json!(["alice.near", "carol.near", RELAY]));
    assert_eq!(balances["tokens"][RELAY], "3");
    assert_eq!(balances["near"][RELAY], "4");
    let query = json!({
        "request_type": "call_function", "finality": "final", "account_id": TOKEN,
        "method_name": "ft_total_supply", "args_base64": "e30=",
    });
    let (_, supply) = client.rpc("query", query).await.expect("an answer");
    assert_eq!(supply["result"]["result"], json!(b"\"15\"".to_vec()));
}

#[tokio::test]
async fn somebody_else_can_spend_the_next_nonce() {
    let client = Client::fast().await;
    let (_, foreign) = client.post("/sim/foreign", json!({ "key": 0 })).await;
    assert_eq!(foreign["nonce"], 1);
    assert_eq!(foreign["landed"], true, "{foreign}");
    let signed = client.signed_payment("alice.near", 5, 1).await;
    let params = json!({ "signed_tx_base64": signed });
    let (_, answer) = client.rpc("send_tx", params).await.expect("an answer");
    let error = &answer["error"]["data"]["TxExecutionError"]["InvalidTxError"]["InvalidNonce"];
    assert_eq!(error["ak_nonce"], 1);
}

#[tokio::test]
async fn a_batch_is_signed_and_pays_once_it_is_sent() {
    let client = Client::fast().await;
    let accounts = json!({ "account_ids": ["alice.near", "bob.near"] });
    client.post("/sim/register", accounts).await;
    let payouts = json!([
        { "receiver_id": "alice.near", "amount": "5" },
        { "receiver_id": "bob.near", "amount": 7 },
    ]);
    let asked = json!({ "key": 0, "nonce": 1, "payouts": payouts });
    let (_, signed) = client.post("/sim/sign", asked).await;
    assert_eq!(client.get("/sim/stats").await["pool"], 0, "nothing is sent yet");
    let params = json!({ "signed_tx_base64": signed["signed_tx_base64"] });
    client.rpc("send_tx", params).await.expect("an answer");
    let paid = client.get("/sim/transfers").await;
    let paid = |index: usize| (paid[index]["receiver_id"].clone(), paid[index]["amount"].clone());
    assert_eq!(paid(0), (json!("alice.near"), json!("5")));
    assert_eq!(paid(1), (json!("bob.near"), json!("7")));
    let unknown = json!({ "key": 9, "nonce": 2, "payouts": [] });
    let (status, _) = client.post("/sim/sign", unknown).await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn calls_are_counted_by_method() {
    let client = Client::fast().await;
    for _ in 0..3 {
        client.rpc("status", json!([])).await.expect("an answer");
    }
    client.rpc("health", json!([])).await.expect("an answer");
    let stats = client.get("/sim/stats").await;
    assert_eq!(stats["calls"], json!({ "status": 3, "health": 1 }));
    assert_eq!(stats["total"], 4);
}

#[tokio::test]
async fn http_is_as_strict_as_a_node() {
    let client = Client::fast().await;
    let url = client.urls[0].clone();
    let post = |body: &str, kind: &str| {
        let request = client.http.post(&url).body(body.to_string());
        if kind.is_empty() { request.send() } else { request.header("content-type", kind).send() }
    };
    let json_type = "application/json";
    for (name, body, kind) in [
        ("parse--not-json", "this is not json", json_type),
        (
            "parse--truncated-json",
            "{\"jsonrpc\":\"2.0\",\"id\":\"cap\",\"method\":\"sta",
            json_type,
        ),
        ("parse--empty-body", "", json_type),
        ("parse--wrong-content-type", "{}", "text/plain"),
        ("parse--no-content-type", "{}", ""),
    ] {
        let captured = load(name);
        let answer = post(body, kind).await.expect("an answer");
        assert_eq!(answer.status().as_u16(), captured.http_status, "{name}");
        assert_eq!(answer.text().await.ok(), captured.text, "{name}");
    }
    let large = format!("{{\"id\":\"{}\"}}", "x".repeat(2_097_152));
    let captured = load("parse--body-2097153-bytes");
    let answer = post(&large, json_type).await.expect("an answer");
    assert_eq!(answer.status().as_u16(), captured.http_status);
    assert_eq!(answer.text().await.ok(), captured.text);
    let get = |path: &str| client.http.get(format!("{url}{path}")).send();
    assert_eq!(get("/").await.expect("an answer").status().as_u16(), 405);
    assert_eq!(get("/nope").await.expect("an answer").status().as_u16(), 404);
    assert_eq!(get("/health").await.expect("an answer").text().await.expect("text"), "null");
    assert_eq!(client.get("/status").await["chain_id"], "simnet");
}

#[tokio::test]
async fn the_state_file_keeps_the_chain_over_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("near.state");
    let config = SimConfig { block_ms: 10, state: Some(path.clone()), ..SimConfig::default() };
    let client = Client::start(config.clone()).await;
    client.post("/sim/register", json!({ "account_ids": ["alice.near"] })).await;
    let signed = client.signed_payment("alice.near", 5, 1).await;
    let params = json!({ "signed_tx_base64": signed.clone(), "wait_until": "FINAL" });
    let (_, first) = client.rpc("send_tx", params.clone()).await.expect("an answer");
    client.post("/sim/reorg", json!({ "depth": 1 })).await;
    client.post("/sim/mint", json!({ "account_id": "alice.near", "amount": "1" })).await;
    drop(client);
    // A kill in the middle of a write leaves half a line.
    let mut bytes = std::fs::read(&path).expect("a state file");
    bytes.extend(b"{\"block\":{\"t\":17");
    std::fs::write(&path, bytes).expect("a state file");

    let client = Client::start(SimConfig { keys: 2, ..config }).await;
    let (_, again) = client.rpc("tx", params).await.expect("an answer");
    assert_eq!(again["result"]["transaction_outcome"], first["result"]["transaction_outcome"]);
    client.post("/sim/register", json!({ "account_ids": [] })).await;
    assert_eq!(client.get("/sim/balances").await["tokens"]["alice.near"], "6");
    assert_eq!(client.get("/sim/transfers").await.as_array().map(Vec::len), Some(1));
    let (_, foreign) = client.post("/sim/foreign", json!({ "key": 1 })).await;
    assert_eq!(foreign["landed"], true, "the key added at the restart works");
    let other_seed = SimConfig { seed: 9, state: Some(path), ..SimConfig::default() };
    assert!(SimNear::start(other_seed).await.is_err());
}

/// A copy of the file taken at any moment is what a kill -9 at that moment leaves.
#[tokio::test]
async fn a_block_that_was_seen_final_is_in_the_state_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, copy) = (folder.path().join("near.state"), folder.path().join("copy.state"));
    let config = SimConfig { block_ms: 5, state: Some(path.clone()), ..SimConfig::default() };
    let client = Client::start(config.clone()).await;
    for _ in 0..20 {
        client.post("/sim/mint", json!({ "account_id": "alice.near", "amount": "1" })).await;
        let (_, seen) = client.rpc("block", json!({ "finality": "final" })).await.expect("one");
        std::fs::copy(&path, &copy).expect("a copy");
        let config = SimConfig { state: Some(copy.clone()), block_ms: 60_000, ..config.clone() };
        let after = Client::start(config).await;
        let hash = &seen["result"]["header"]["hash"];
        let (_, kept) = after.rpc("block", json!({ "block_id": hash })).await.expect("one");
        assert_eq!(kept["result"], seen["result"]);
    }
}
