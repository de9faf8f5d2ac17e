//! The simulated relayer as its clients see it, in front of the simulated chain.

use std::time::Duration;

use alloy_primitives::Address;
use landfall_rpc::Url;
use landfall_sim_evm::ledger::natives::COUNTER;
use landfall_sim_evm::{SimConfig as ChainConfig, SimEvm};
use landfall_sim_relayer::{SimConfig, SimRelayer};
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};

/// `increment()`.
const INCREMENT: &str = "0xd09de08a";
/// Patience of these tests for what takes a few blocks of 20 ms.
const PATIENCE: Duration = Duration::from_secs(20);

struct World {
    chain: SimEvm,
    relayer: SimRelayer,
    client: Client,
}

impl World {
    async fn new(relayers: usize) -> World {
        let config = ChainConfig { signers: relayers, block_ms: 20, ..ChainConfig::default() };
        let chain = SimEvm::start(config).await.unwrap();
        let rpc = Url::parse(&chain.rpc_urls()[0]).unwrap();
        let config = SimConfig {
            round_ms: 10,
            resubmit_ms: 200,
            ..SimConfig::new(rpc, chain.signers().to_vec())
        };
        let relayer = SimRelayer::start(config).await.unwrap();
        World { chain, relayer, client: Client::new() }
    }

    async fn ask(&self, method: Method, path: &str, body: Value) -> (StatusCode, Value) {
        let url = format!("{}{path}", self.relayer.urls()[0]);
        let request = self.client.request(method, url).bearer_auth("landfall-sim-relayer");
        let answer = request.json(&body).send().await.unwrap();
        let status = answer.status();
        (status, answer.json().await.unwrap_or(Value::Null))
    }

    async fn post(&self, body: Value) -> (StatusCode, Value) {
        self.ask(Method::POST, "/api/v1/relayers/relayer-1/transactions", body).await
    }

    async fn get(&self, path: &str) -> Value {
        self.ask(Method::GET, path, Value::Null).await.1
    }

    async fn faults(&self, faults: Value) {
        let url = format!("{}/sim/faults", self.relayer.urls()[0]);
        let answer = self.client.post(url).json(&faults).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
    }

    async fn landed(&self) -> Vec<Value> {
        let url = format!("{}/sim/transactions", self.chain.rpc_urls()[0]);
        self.client.get(url).send().await.unwrap().json().await.unwrap()
    }

    async fn chain_faults(&self, faults: Value) {
        let url = format!("{}/sim/faults", self.chain.rpc_urls()[0]);
        self.client.post(url).json(&faults).send().await.unwrap();
    }

    /// The transaction, once it is in this state.
    async fn once(&self, id: &str, status: &str) -> Value {
        let path = format!("/api/v1/relayers/relayer-1/transactions/{id}");
        self.until(async || {
            let told = self.get(&path).await;
            (told["data"]["status"] == status).then(|| told["data"].clone())
        })
        .await
    }

    /// Asks, a request after the other, until there is an answer.
    async fn until<T>(&self, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
        let asking = async {
            loop {
                if let Some(answer) = ask().await {
                    return answer;
                }
            }
        };
        tokio::time::timeout(PATIENCE, asking).await.expect("it comes to that")
    }
}

fn call() -> Value {
    json!({ "to": COUNTER, "data": INCREMENT, "value": 0, "gas_limit": 100_000, "speed": "fast" })
}

fn id(told: &Value) -> String {
    told["data"]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_call_is_signed_by_the_relayer_and_lands() {
    let world = World::new(1).await;
    let (status, told) = world.post(call()).await;
    assert_eq!((status, &told["success"]), (StatusCode::OK, &json!(true)));
    assert_eq!(told["data"]["status"], "pending");
    let confirmed = world.once(&id(&told), "confirmed").await;
    let landed = world.landed().await;
    assert_eq!(landed.len(), 1);
    assert_eq!(landed[0]["hash"], confirmed["hash"]);
    let from: Address = landed[0]["from"].as_str().unwrap().parse().unwrap();
    assert_eq!(from, world.relayer.addresses()[0]);
    assert_eq!(confirmed["gas_limit"], 100_000);
}

#[tokio::test]
async fn the_older_paths_lead_to_the_same_book() {
    let world = World::new(1).await;
    let body = json!({ "to": COUNTER, "data": INCREMENT, "value": "0", "gas": "100000" });
    let (status, told) = world.ask(Method::POST, "/api/v1/relay/direct", body).await;
    assert_eq!(status, StatusCode::OK);
    let id = told["transactionId"].as_str().unwrap();
    world.once(id, "confirmed").await;
    let shown = world.get(&format!("/api/v1/txs/{id}")).await;
    assert!(shown["hash"].is_string() && shown["status"] == "confirmed", "{shown}");
}

#[tokio::test]
async fn the_same_post_twice_pays_twice() {
    let world = World::new(1).await;
    let (first, second) = (world.post(call()).await.1, world.post(call()).await.1);
    world.once(&id(&first), "confirmed").await;
    world.once(&id(&second), "confirmed").await;
    assert_eq!(world.landed().await.len(), 2);
    let listed = world.get("/api/v1/relayers/relayer-1/transactions?page=1&per_page=1").await;
    assert_eq!(listed["pagination"]["total_items"], 2);
    assert_eq!(listed["data"][0]["id"], json!(id(&second)), "newest first");
}

#[tokio::test]
async fn who_is_nobody_or_asks_for_nonsense_is_refused_at_the_door() {
    let world = World::new(1).await;
    let url = format!("{}/api/v1/relayers/relayer-1/transactions", world.relayer.urls()[0]);
    let stranger = world.client.post(url).json(&call()).send().await.unwrap();
    assert_eq!(stranger.status(), StatusCode::UNAUTHORIZED);
    let (status, told) = world.post(json!({ "to": COUNTER, "gas_limit": 1 })).await;
    assert_eq!((status, &told["success"]), (StatusCode::BAD_REQUEST, &json!(false)));
    world.faults(json!({ "paused": true })).await;
    assert_eq!(world.post(call()).await.0, StatusCode::FORBIDDEN);
    assert_eq!(world.relayer.taken(), 0);
}

#[tokio::test]
async fn what_hangs_is_taken_all_the_same() {
    let world = World::new(1).await;
    world.faults(json!({ "hang": 1 })).await;
    let hanging = tokio::time::timeout(Duration::from_millis(300), world.post(call()));
    assert!(hanging.await.is_err(), "no answer ever comes");
    let listed = world.get("/api/v1/relayers/relayer-1/transactions").await;
    let id = listed["data"][0]["id"].as_str().unwrap().to_owned();
    world.once(&id, "confirmed").await;
}

#[tokio::test]
async fn one_post_may_be_taken_or_signed_twice() {
    let world = World::new(1).await;
    world.faults(json!({ "duplicate": 1 })).await;
    world.post(call()).await;
    assert_eq!(world.relayer.taken(), 2);
    world.faults(json!({ "duplicate": 0, "signed_twice": 1 })).await;
    world.post(call()).await;
    world.until(async || (world.landed().await.len() == 4).then_some(())).await;
    assert_eq!(world.relayer.taken(), 3);
}

#[tokio::test]
async fn what_is_called_failed_expired_or_canceled_may_land() {
    let world = World::new(1).await;
    world.faults(json!({ "ends_falsely": 1 })).await;
    let told = world.post(call()).await.1;
    let path = format!("/api/v1/relayers/relayer-1/transactions/{}", id(&told));
    let ended = world
        .until(async || {
            let told = world.get(&path).await;
            told["data"]["status_reason"].is_string().then(|| told["data"].clone())
        })
        .await;
    let ends = ["failed", "expired", "canceled"];
    assert!(ends.contains(&ended["status"].as_str().unwrap()), "{ended}");
    world.until(async || (world.landed().await.len() == 1).then_some(())).await;
    world.faults(json!({ "ends_falsely": 0, "never_sent": 1 })).await;
    let told = world.post(call()).await.1;
    let failed = world.once(&id(&told), "failed").await;
    assert!(failed["hash"].is_null(), "it was never signed");
}

#[tokio::test]
async fn what_is_final_is_forgotten_after_a_while() {
    let world = World::new(1).await;
    let told = world.post(call()).await.1;
    world.once(&id(&told), "confirmed").await;
    world.faults(json!({ "forget_after_ms": 0 })).await;
    let path = format!("/api/v1/relayers/relayer-1/transactions/{}", id(&told));
    world.until(async || world.get(&path).await["data"].is_null().then_some(())).await;
}

#[tokio::test]
async fn what_a_node_lost_is_sent_again_for_more_under_its_nonce_and_another_hash() {
    let world = World::new(1).await;
    world.chain_faults(json!({ "forget": 1 })).await;
    let told = world.post(call()).await.1;
    let first = world.once(&id(&told), "submitted").await;
    world.chain_faults(json!({ "forget": 0 })).await;
    let confirmed = world.once(&id(&told), "confirmed").await;
    assert_eq!(first["nonce"], confirmed["nonce"]);
    assert_ne!(first["hash"], confirmed["hash"]);
    assert_eq!(world.landed().await.len(), 1);
}

#[tokio::test]
async fn each_relayer_has_an_address_and_faults_of_its_own() {
    let world = World::new(2).await;
    world.faults(json!({ "node": 1, "down": true })).await;
    let urls = world.relayer.urls();
    let health = |url: &str| world.client.get(format!("{url}/api/v1/health")).send();
    assert!(health(&urls[0]).await.is_ok_and(|answer| answer.status() == StatusCode::OK));
    assert!(health(&urls[1]).await.is_err());
    let announced = world.relayer.announcement();
    assert_eq!(announced["relayers"][1]["id"], "relayer-2");
    assert_ne!(announced["relayers"][0]["address"], announced["relayers"][1]["address"]);
}
