//! The simulator over its sockets.

use landfall_sim::near::{SimConfig, SimNear};
use near_crypto::SecretKey;
use serde_json::{Value, json};

use crate::support::{encode, id, pay};
use landfall_sim::near::keys;

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
