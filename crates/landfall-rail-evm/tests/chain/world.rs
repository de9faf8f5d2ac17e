//! A relay on a simulated chain.

use std::sync::Arc;
use std::time::Duration;

use landfall_core::evm::{Address, Call, DirectFields, GaslessFields, Terms};
use landfall_core::store::{Accepted, Store};
use landfall_core::{Clock, Payload, RailName, Transfer};
use landfall_engine::{Engine, Parts, Role, Settings, Submission};
use landfall_lanes::{HighWater, SystemClock};
use landfall_queue_ring::RingQueue;
use landfall_rail_evm::forward::Forwarder;
use landfall_rail_evm::{EvmRail, EvmSettings, Finality, Key};
use landfall_rpc::{Endpoints, HttpTransport, Url};
use landfall_sim_evm::ledger::natives::{COUNTER, FORWARDER, FORWARDER_NAME};
use landfall_sim_evm::server::CHAIN_ID;
use landfall_sim_evm::{SimConfig, SimEvm};
use landfall_store_memory::MemoryStore;
use serde_json::{Value, json};

/// Long beyond what anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// `increment()` of the counter.
pub const INCREMENT: &str = "0xd09de08a";

pub struct World {
    pub sim: SimEvm,
    pub engine: Arc<Engine>,
    pub store: Arc<MemoryStore>,
    pub terms: Terms,
}

pub struct Shape {
    pub nodes: usize,
    pub signers: usize,
    pub finality: Finality,
    pub replace_after_ms: u64,
    /// In wei.
    pub fee_max: u128,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            nodes: 1,
            signers: 2,
            finality: Finality::Finalized,
            replace_after_ms: 30_000,
            fee_max: 500_000_000_000,
        }
    }
}

impl World {
    pub async fn new(shape: Shape) -> World {
        let (nodes, signers) = (shape.nodes, shape.signers);
        let config = SimConfig { nodes, signers, block_ms: 50, ..SimConfig::default() };
        let sim = SimEvm::start(config).await.unwrap();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let engine = start(&sim, &store, &shape, clock).await;
        let forwarder = Some(Address::parse(&FORWARDER.to_string()).unwrap());
        let terms = Terms { chain: "sim".into(), chain_id: CHAIN_ID, forwarder };
        World { sim, engine, store, terms }
    }

    pub async fn submit(&self, key: &str, call: Call) -> Accepted {
        let payload = Payload::Evm(call);
        let submission = Submission { tenant: String::new(), key: key.into(), payload };
        self.engine.submit(vec![submission]).await.unwrap().remove(0)
    }

    pub fn direct(&self, fields: DirectFields<'_>) -> Call {
        Call::direct(&self.terms, &fields).unwrap()
    }

    /// One more on the counter.
    pub fn increment(&self) -> Call {
        let counter = COUNTER.to_string();
        self.direct(DirectFields { to: &counter, data: Some(INCREMENT), ..Default::default() })
    }

    /// The same, by a user who owns nothing.
    pub fn by_user(&self, user: &Key, nonce: u64) -> Call {
        let fields = |signature: &str| {
            let (from, to) = (user.address().to_string(), COUNTER.to_string());
            let nonce = nonce.to_string();
            Call::gasless(
                &self.terms,
                &GaslessFields {
                    from: &from,
                    to: &to,
                    value: "0",
                    gas: "100000",
                    nonce: &nonce,
                    deadline: "99999999999",
                    data: INCREMENT,
                    signature,
                    forwarder: None,
                    speed: Some("fast"),
                },
            )
        };
        let unsigned = fields(&format!("0x{}", "00".repeat(65))).unwrap();
        let landfall_core::evm::Work::Gasless(request) = &unsigned.work else {
            panic!("a request")
        };
        let (asked, _) = landfall_rail_evm::rail::forward_request(request);
        let name = FORWARDER_NAME.to_owned();
        let forwarder = Forwarder { address: FORWARDER, chain_id: CHAIN_ID, name };
        let signature = user.sign(&forwarder.digest(&asked));
        fields(&format!("0x{}", alloy_primitives::hex::encode(signature.as_bytes()))).unwrap()
    }

    /// Waits until it is final.
    pub async fn settled(&self, key: &str) -> Transfer {
        let found = self.store.by_key(RailName::Evm, "", key).await.unwrap().unwrap();
        let settled = self.engine.wait_final(found, PATIENCE).await.unwrap();
        assert!(settled.state.is_final(), "{settled:?}");
        settled
    }

    pub async fn in_state(&self, key: &str, name: &str) -> Transfer {
        for _ in 0..2_000 {
            let found = self.store.by_key(RailName::Evm, "", key).await.unwrap().unwrap();
            if found.state.name() == name {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{key} never became {name}");
    }

    /// All that took effect on the chain and did what it was to do.
    pub async fn done(&self) -> Vec<Value> {
        let url = format!("{}/sim/transactions", self.sim.rpc_urls()[0]);
        let all: Vec<Value> = reqwest::get(url).await.unwrap().json().await.unwrap();
        all.into_iter().filter(|one| one["status"] == 1 || one["status"] == "0x1").collect()
    }

    pub async fn tell(&self, route: &str, what: Value) {
        let url = format!("{}/sim/{route}", self.sim.rpc_urls()[0]);
        let answer = reqwest::Client::new().post(url).json(&what).send().await.unwrap();
        assert!(answer.status().is_success(), "{route}: {}", answer.text().await.unwrap());
    }

    pub async fn faults(&self, faults: Value) {
        self.tell("faults", faults).await;
    }

    /// How often nodes were asked, in all.
    pub async fn calls(&self) -> u64 {
        let url = format!("{}/sim/stats", self.sim.rpc_urls()[0]);
        let stats: Value = reqwest::get(url).await.unwrap().json().await.unwrap();
        let calls = stats["calls"].as_object().cloned().unwrap_or_default();
        calls.values().filter_map(Value::as_u64).sum()
    }
}

async fn start(
    sim: &SimEvm,
    store: &Arc<MemoryStore>,
    shape: &Shape,
    clock: Arc<dyn Clock>,
) -> Arc<Engine> {
    let urls = sim.rpc_urls().iter().map(|url| Url::parse(url).unwrap()).collect();
    let transport = Arc::new(HttpTransport::new());
    let endpoints = Endpoints::new(urls, transport, clock.clone(), Default::default()).unwrap();
    let keys = sim.signers().iter().map(|key| Key::parse(&key.to_string()).unwrap()).collect();
    let mut settings = EvmSettings::new("sim", CHAIN_ID, keys);
    settings.finality = shape.finality;
    settings.caps.fee_max = shape.fee_max;
    settings.manner.pulse_ms = 40;
    settings.manner.replace_after_ms = shape.replace_after_ms;
    settings.manner.rebroadcast_ms = 200;
    settings.manner.rebroadcast_max_ms = 1_000;
    settings.manner.inclusion_ms = 2_000;
    settings.manner.look_ms = 100;
    settings.market_ms = 100;
    let rail = EvmRail::new(settings, endpoints, clock.clone()).unwrap();
    Engine::start(Parts {
        store: store.clone(),
        queue: Arc::new(RingQueue::new(10_000)),
        rails: vec![Arc::new(rail)],
        couriers: Vec::new(),
        clock,
        high_water: Arc::new(HighWater::in_memory()),
        role: Role::Both,
        settings: Settings::default(),
        seed: 1,
    })
    .await
    .unwrap()
}

pub fn fault(name: &str, rate: f64) -> Value {
    json!({ name: rate })
}
