//! A whole relay and its ledger in one thread, on paused time, without sockets.
//!
//! The real engine, the real NEAR rail and the reference store; only the wire is ours
//! ([`Network`]), with a switch per node for what goes wrong. Run it under tokio's paused time:
//! hours pass in milliseconds, and the same calls give the same history.

use std::sync::Arc;
use std::time::Duration;

use landfall_core::near::{Payout, Terms};
use landfall_core::rail::Rail;
use landfall_core::store::{Accepted, LaneStore, Store};
use landfall_core::{Clock, Payload, RailName, TrailEntry, Transfer};
use landfall_engine::{Engine, Parts, Settings, Submission};
use landfall_lanes::{HighWater, TimerClock};
use landfall_queue_ring::RingQueue;
use landfall_rail_near::{Key, NearRail, NearSettings};
use landfall_rpc::{Endpoints, Url};
use landfall_sim_near::keys;
use landfall_sim_near::ledger::{Decree, Genesis, Ledger};
use landfall_sim_near::server::{CHAIN_ID, RELAY, TOKEN};
use landfall_store_memory::MemoryStore;
use near_crypto::SecretKey;

use super::RELAY_NEAR;
use super::network::Network;
use crate::run::START_MS;

/// What a world begins with.
#[derive(Debug, Clone)]
pub struct WorldConfig {
    pub nodes: usize,
    pub keys: usize,
    /// Attempts of one key on their way at once.
    pub window: usize,
    pub block_ms: u64,
    pub relay_tokens: u128,
    pub ledger: landfall_sim_near::ledger::Settings,
    pub engine: Settings,
}

impl Default for WorldConfig {
    fn default() -> WorldConfig {
        WorldConfig {
            nodes: 3,
            keys: 2,
            window: 1,
            block_ms: 600,
            relay_tokens: 10u128.pow(30),
            ledger: Default::default(),
            engine: Settings::default(),
        }
    }
}

/// The relay, its store and its ledger.
pub struct World {
    pub config: WorldConfig,
    pub clock: Arc<dyn Clock>,
    pub network: Arc<Network>,
    pub store: Arc<MemoryStore>,
    pub high_water: Arc<HighWater>,
    pub keys: Vec<SecretKey>,
    pub engine: Arc<Engine>,
    blocks: tokio::task::JoinHandle<()>,
}

impl World {
    /// MUST be called under paused time.
    pub async fn start(config: WorldConfig) -> World {
        let clock: Arc<dyn Clock> = Arc::new(TimerClock::starting_at(START_MS));
        let keys: Vec<SecretKey> =
            (0..config.keys).map(|index| keys::secret_key(0, index)).collect();
        let ledger = Ledger::new(Genesis {
            chain_id: CHAIN_ID.to_owned(),
            timestamp_ns: START_MS * 1_000_000,
            token: TOKEN.parse().expect("a well-formed account id"),
            relay: RELAY.parse().expect("a well-formed account id"),
            relay_keys: keys.iter().map(SecretKey::public_key).collect(),
            relay_near: RELAY_NEAR,
            relay_tokens: config.relay_tokens,
            settings: config.ledger.clone(),
        });
        let network = Arc::new(Network::new(ledger, config.nodes, clock.clone()));
        let blocks = tokio::spawn(network.clone().make_blocks(config.block_ms));
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let high_water = Arc::new(HighWater::in_memory());
        let engine = launch(&config, &clock, &network, &store, &high_water, &keys).await;
        World { config, clock, network, store, high_water, keys, engine, blocks }
    }

    /// kill -9, then a new start on the same store.
    pub async fn crash(&mut self) {
        self.engine.abort().await;
        let (config, clock, network) = (&self.config, &self.clock, &self.network);
        self.engine =
            launch(config, clock, network, &self.store, &self.high_water, &self.keys).await;
    }

    pub async fn pay(&self, key: &str, receiver: &str, amount: u128) -> Transfer {
        let payout = Payout::new(&terms(), receiver, &amount.to_string(), Some(key))
            .expect("worlds pay well-formed accounts");
        let payload = Payload::Near(payout);
        let submission = Submission { tenant: String::new(), key: key.to_owned(), payload };
        let answers = self.engine.submit(vec![submission]).await.expect("the store is in memory");
        match answers.into_iter().next() {
            Some(Accepted::Created(transfer) | Accepted::Already(transfer)) => transfer,
            other => panic!("{key} was not taken: {other:?}"),
        }
    }

    pub async fn run_ms(&self, ms: u64) {
        self.clock.sleep(Duration::from_millis(ms)).await;
    }

    /// Runs until all of the keys are final, at most `limit_ms`.
    pub async fn run_until_final(&self, keys: &[String], limit_ms: u64) {
        let until_ms = self.clock.now_ms() + limit_ms;
        while self.clock.now_ms() < until_ms {
            let mut open = 0;
            for key in keys {
                open += usize::from(!self.find(key).await.state.is_final());
            }
            if open == 0 {
                return;
            }
            self.run_ms(500).await;
        }
    }

    pub async fn find(&self, key: &str) -> Transfer {
        let found = self.store.by_key(RailName::Near, "", key).await;
        found.ok().flatten().unwrap_or_else(|| panic!("{key} is not stored"))
    }

    pub async fn state(&self, key: &str) -> &'static str {
        self.find(key).await.state.name()
    }

    pub async fn trail(&self, key: &str) -> Vec<TrailEntry> {
        let id = self.find(key).await.id;
        self.store.trail(id).await.unwrap_or_default()
    }

    /// How often the ledger paid for this key: payouts carry their key as memo.
    pub fn times_paid(&self, key: &str) -> usize {
        let ledger = self.network.ledger.lock();
        ledger.transfers().iter().filter(|paid| paid.memo.as_deref() == Some(key)).count()
    }

    pub fn decree(&self, decree: Decree) {
        self.network.ledger.lock().decree(decree);
    }

    pub async fn lanes_halted(&self) -> bool {
        let lanes = self.store.lanes().await.unwrap_or_default();
        !lanes.is_empty() && lanes.iter().all(|lane| lane.halted.is_some())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.blocks.abort();
    }
}

/// What every payout of a world is frozen with.
pub fn terms() -> Terms {
    Terms { network: CHAIN_ID.to_owned(), token: TOKEN.to_owned(), sender: RELAY.to_owned() }
}

async fn launch(
    config: &WorldConfig,
    clock: &Arc<dyn Clock>,
    network: &Arc<Network>,
    store: &Arc<MemoryStore>,
    high_water: &Arc<HighWater>,
    keys: &[SecretKey],
) -> Arc<Engine> {
    let urls = (0..config.nodes)
        .map(|node| Url::parse(&format!("http://node{node}")).expect("a well-formed address"));
    let endpoints =
        Endpoints::new(urls.collect(), network.clone(), clock.clone(), Default::default())
            .expect("a world has nodes");
    let keys = keys.iter().map(|key| Key::parse(&key.to_string()).expect("a well-formed key"));
    let mut settings = NearSettings::new(CHAIN_ID, TOKEN, RELAY, keys.collect());
    settings.manner.window = config.window;
    let rail = NearRail::new(settings, endpoints, clock.clone()).expect("a world's rail is sound");
    let rail: Arc<dyn Rail> = Arc::new(rail);
    let started = Engine::start(Parts {
        store: store.clone(),
        queue: Arc::new(RingQueue::new(landfall_queue_ring::DEFAULT_CAPACITY)),
        rails: vec![rail],
        couriers: Vec::new(),
        clock: clock.clone(),
        high_water: high_water.clone(),
        role: landfall_engine::Role::Both,
        settings: config.engine.clone(),
        seed: 1,
    });
    started.await.expect("the store is in memory")
}
