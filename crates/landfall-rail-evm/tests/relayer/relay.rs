//! A whole relay that hands over to simulated relayers.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::hex;
use landfall_core::evm::{Address, Call, DirectFields, GaslessFields, Terms, Work};
use landfall_core::store::{Accepted, Store};
use landfall_core::{
    Attempt, Certificate, CertificateKind, Clock, Fate, Payload, RailName, Transfer,
};
use landfall_engine::{Engine, Parts, Role, Settings, Submission};
use landfall_lanes::{HighWater, SystemClock};
use landfall_queue_ring::RingQueue;
use landfall_rail_evm::encode::{self, Draft};
use landfall_rail_evm::fees::Offer;
use landfall_rail_evm::forward::Forwarder;
use landfall_rail_evm::relayer::{HANDED_OVER, RelayerRail};
use landfall_rail_evm::{EvmSettings, Finality, Key};
use landfall_rpc::{Endpoints, HttpTransport, Url};
use landfall_sim_evm::ledger::natives::{COUNTER, FORWARDER, FORWARDER_NAME};
use landfall_sim_evm::server::CHAIN_ID;
use landfall_store_memory::MemoryStore;
use serde_json::Value;

use crate::world::{World, until};

/// Long beyond what anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);
const INCREMENT: &str = "0xd09de08a";

pub struct Relay {
    pub world: World,
    pub engine: Arc<Engine>,
    store: Arc<MemoryStore>,
    high_water: Arc<HighWater>,
    terms: Terms,
}

impl Relay {
    pub async fn new(relayers: usize) -> Relay {
        let world = World::new(relayers).await;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let high_water = Arc::new(HighWater::in_memory());
        let engine = start(&world, &store, &high_water).await;
        let forwarder = Some(Address::parse(&FORWARDER.to_string()).unwrap());
        let terms = Terms { chain: "sim".into(), chain_id: CHAIN_ID, forwarder };
        Relay { world, engine, store, high_water, terms }
    }

    /// As kill -9 leaves it, and a start.
    pub async fn crash(&mut self) {
        self.engine.abort().await;
        self.engine = start(&self.world, &self.store, &self.high_water).await;
    }

    pub async fn submit(&self, key: &str, call: Call) {
        let payload = Payload::Evm(call);
        let submission = Submission { tenant: String::new(), key: key.into(), payload };
        let accepted = self.engine.submit(vec![submission]).await.unwrap().remove(0);
        assert!(matches!(accepted, Accepted::Created(_)), "{accepted:?}");
    }

    /// One more on the counter, by a relayer.
    pub fn increment(&self) -> Call {
        let counter = COUNTER.to_string();
        let fields = DirectFields { to: &counter, data: Some(INCREMENT), ..Default::default() };
        Call::direct(&self.terms, &fields).unwrap()
    }

    /// The same, by a user who owns nothing.
    pub fn by_user(&self, user: &Key, nonce: u64) -> Call {
        let fields = |signature: &str| {
            let (from, to) = (user.address().to_string(), COUNTER.to_string());
            let nonce = nonce.to_string();
            let fields = GaslessFields {
                from: &from,
                to: &to,
                value: "0",
                gas: "100000",
                nonce: &nonce,
                deadline: "99999999999",
                data: INCREMENT,
                signature,
                ..Default::default()
            };
            Call::gasless(&self.terms, &fields).unwrap()
        };
        let unsigned = fields(&format!("0x{}", "00".repeat(65)));
        let Work::Gasless(request) = &unsigned.work else { panic!("a request") };
        let (asked, _) = landfall_rail_evm::rail::forward_request(request);
        let name = FORWARDER_NAME.to_owned();
        let forwarder = Forwarder { address: FORWARDER, chain_id: CHAIN_ID, name };
        let signature = user.sign(&forwarder.digest(&asked));
        fields(&format!("0x{}", hex::encode(signature.as_bytes())))
    }

    /// Somebody else pays for a user's request; gives the hash.
    pub async fn submit_by_another(&self, call: &Call) -> String {
        let Work::Gasless(request) = &call.work else { panic!("a request") };
        let (asked, signature) = landfall_rail_evm::rail::forward_request(request);
        let draft = Draft {
            chain_id: CHAIN_ID,
            nonce: 0,
            to: FORWARDER,
            value: Default::default(),
            input: landfall_rail_evm::forward::execution(&asked, &signature),
            gas: 300_000,
            offer: Offer::Base { fee_max: 100_000_000_000, tip_max: 1_000_000_000 },
        };
        // Of the relayer's own key, which it has not used.
        let key = Key::parse(&self.world.chain.signers()[0].to_string()).unwrap();
        let (bytes, hash) = encode::sign(&draft, &key);
        let params = [hex::encode_prefixed(bytes)];
        let body = serde_json::json!({
            "jsonrpc": "2.0", "id": 1, "method": "eth_sendRawTransaction", "params": params,
        });
        let url = &self.world.chain.rpc_urls()[0];
        let answer = reqwest::Client::new().post(url).json(&body).send().await.unwrap();
        let answer: Value = answer.json().await.unwrap();
        assert_eq!(answer["result"], hash.to_string(), "{answer}");
        hash.to_string()
    }

    pub async fn find(&self, key: &str) -> Transfer {
        self.store.by_key(RailName::Evm, "", key).await.unwrap().unwrap()
    }

    /// Waits until it is final.
    pub async fn settled(&self, key: &str) -> Transfer {
        let settled = self.engine.wait_final(self.find(key).await, PATIENCE).await.unwrap();
        assert!(settled.state.is_final(), "{settled:?}");
        settled
    }

    /// Its attempt, once it is handed over and has had the time for looks.
    pub async fn adrift(&self, key: &str, looks: u64) -> Attempt {
        let lists = || self.world.sim.gets();
        let before = until(async || (self.world.sim.posts() > 0).then(lists)).await;
        until(async || (lists() >= before + looks).then_some(())).await;
        let transfer = self.find(key).await;
        assert_eq!(transfer.state.name(), "submitted", "{transfer:?}");
        let open = self.store.open_attempts_of(RailName::Evm).await.unwrap();
        let mine = |attempt: &Attempt| attempt.members == [transfer.id];
        open.into_iter().find(mine).expect("it is open")
    }

    pub async fn decide(&self, attempt: &Attempt, fate: Fate) {
        self.engine.decide(attempt.id, fate).await.unwrap();
    }

    /// All that took effect on the chain and did what it was to do.
    pub async fn done(&self) -> Vec<Value> {
        let url = format!("{}/sim/transactions", self.world.chain.rpc_urls()[0]);
        let all: Vec<Value> = reqwest::get(url).await.unwrap().json().await.unwrap();
        all.into_iter().filter(|one| one["status"] == 1).collect()
    }
}

pub fn sunk() -> Fate {
    Fate::Sunk(Certificate {
        kind: CertificateKind::Operator,
        summary: "by an operator's word".to_owned(),
        evidence: Value::Null,
    })
}

async fn start(
    world: &World,
    store: &Arc<MemoryStore>,
    high_water: &Arc<HighWater>,
) -> Arc<Engine> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let urls = world.chain.rpc_urls().iter().map(|url| Url::parse(url).unwrap()).collect();
    let transport = Arc::new(HttpTransport::new());
    let endpoints = Endpoints::new(urls, transport, clock.clone(), Default::default()).unwrap();
    let mut settings = EvmSettings::new("sim", CHAIN_ID, Vec::new());
    settings.finality = Finality::Finalized;
    let mut manner = HANDED_OVER;
    manner.pulse_ms = 40;
    manner.rebroadcast_ms = 50;
    manner.rebroadcast_max_ms = 200;
    manner.inclusion_ms = 1_000;
    manner.look_ms = 50;
    let relayers = world.fresh_relayers();
    let rail = RelayerRail::new(settings, manner, endpoints, relayers, clock.clone()).unwrap();
    Engine::start(Parts {
        store: store.clone(),
        queue: Arc::new(RingQueue::new(10_000)),
        rails: vec![Arc::new(rail)],
        couriers: Vec::new(),
        clock,
        high_water: high_water.clone(),
        role: Role::Both,
        settings: Settings::default(),
        seed: 1,
    })
    .await
    .unwrap()
}
