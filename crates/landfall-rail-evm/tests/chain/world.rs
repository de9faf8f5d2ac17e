//! A relay on a simulated chain.

use std::ops::Deref;

use landfall_core::evm::{Call, DirectFields};
use landfall_core::store::Store as _;
use landfall_core::{RailName, Transfer};
use landfall_rail_evm::Key;
use landfall_sim_evm::ledger::natives::{COUNTER, FORWARDER, FORWARDER_NAME};
use landfall_sim_evm::server::CHAIN_ID;
use landfall_sim_evm::{SimConfig, SimEvm};
use serde_json::{Value, json};

use crate::relay::{INCREMENT, Relay, Shape, terms};

pub struct World {
    pub sim: SimEvm,
    relay: Relay,
}

impl Deref for World {
    type Target = Relay;

    fn deref(&self) -> &Relay {
        &self.relay
    }
}

impl World {
    pub async fn new(shape: Shape) -> World {
        World::of(1, shape).await
    }

    /// With so many nodes.
    pub async fn of(nodes: usize, shape: Shape) -> World {
        let config = SimConfig { nodes, signers: 2, block_ms: 50, ..SimConfig::default() };
        let sim = SimEvm::start(config).await.unwrap();
        let keys = sim.signers().iter().map(|key| Key::parse(&key.to_string()).unwrap()).collect();
        let terms = terms(CHAIN_ID, &FORWARDER.to_string());
        let relay = Relay::start(&sim.rpc_urls(), keys, terms, &shape).await;
        World { sim, relay }
    }

    pub fn direct(&self, fields: DirectFields<'_>) -> Call {
        Call::direct(&self.terms, &fields).unwrap()
    }

    /// Waits until it is shown to operators.
    pub async fn set_aside(&self, key: &str) -> Transfer {
        for _ in 0..2_000 {
            let found = self.store.by_key(RailName::Evm, "", key).await.unwrap().unwrap();
            if found.aside.is_some() || found.state.is_final() {
                return found;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("{key} is not set aside");
    }

    /// One more on the counter.
    pub fn increment(&self) -> Call {
        let counter = COUNTER.to_string();
        self.direct(DirectFields { to: &counter, data: Some(INCREMENT), ..Default::default() })
    }

    /// The same, by a user who owns nothing.
    pub fn by_user(&self, user: &Key, nonce: u64) -> Call {
        self.relay.by_user(user, nonce, &COUNTER.to_string(), FORWARDER_NAME)
    }

    /// All that took effect on the chain and did what it was to do.
    pub async fn done(&self) -> Vec<Value> {
        self.with_status(1).await
    }

    /// All that is in blocks and was reverted.
    pub async fn reverted(&self) -> Vec<Value> {
        self.with_status(0).await
    }

    async fn with_status(&self, status: u64) -> Vec<Value> {
        let url = format!("{}/sim/transactions", self.sim.rpc_urls()[0]);
        let all: Vec<Value> = reqwest::get(url).await.unwrap().json().await.unwrap();
        all.into_iter().filter(|one| one["status"] == status).collect()
    }

    /// The time of the newest block, in seconds.
    pub async fn now(&self) -> u64 {
        let params = json!(["latest", false]);
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_getBlockByNumber",
            "params": params});
        let url = &self.sim.rpc_urls()[0];
        let answer = reqwest::Client::new().post(url).json(&body).send().await.unwrap();
        let answer: Value = answer.json().await.unwrap();
        let digits = answer["result"]["timestamp"].as_str().unwrap().trim_start_matches("0x");
        u64::from_str_radix(digits, 16).unwrap()
    }

    /// Up to this second.
    pub fn by_user_until(&self, deadline: u64, user: &Key, nonce: u64) -> Call {
        let counter = COUNTER.to_string();
        self.relay.by_user_until(deadline, user, nonce, (&counter, FORWARDER_NAME))
    }

    pub async fn tell(&self, route: &str, what: Value) {
        let url = format!("{}/sim/{route}", self.sim.rpc_urls()[0]);
        let answer = reqwest::Client::new().post(url).json(&what).send().await.unwrap();
        assert!(answer.status().is_success(), "{route}: {}", answer.text().await.unwrap());
    }

    pub async fn faults(&self, faults: Value) {
        self.tell("faults", faults).await;
    }

    /// How often nodes were asked this.
    pub async fn asked(&self, method: &str) -> u64 {
        let url = format!("{}/sim/stats", self.sim.rpc_urls()[0]);
        let stats: Value = reqwest::get(url).await.unwrap().json().await.unwrap();
        stats["calls"][method].as_u64().unwrap_or_default()
    }
}

pub fn fault(name: &str, rate: f64) -> Value {
    json!({ name: rate })
}
