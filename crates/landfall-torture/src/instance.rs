//! One relay instance: the real engine and the real rails, in a seat.

use std::sync::Arc;
use std::time::Duration;

use landfall_core::Clock;
use landfall_core::courier::Courier;
use landfall_core::rail::{Caught, Pace, Rail};
use landfall_engine::{Engine, Parts, Settings};
use landfall_lanes::HighWater;
use landfall_queue_ring::RingQueue;
use landfall_rail_near::{Key, NearRail, NearSettings};
use landfall_rpc::{Endpoints, Url};
use near_crypto::SecretKey;

use super::past::Past;
use super::plan::Plan;
use super::seat::{Seat, SeatClock};
use super::store::FaultyStore;
use super::wire::{FaultyQueue, FaultyWire};
use crate::internal::services::{self, Services};
use crate::near::network::Network;
use landfall_sim_near::server::{CHAIN_ID, RELAY, TOKEN};

/// How long a polite end may take.
const GRACE: Duration = Duration::from_secs(30);

/// A relay that can be started, crashed and started again.
pub struct Instance {
    pub seat: Arc<Seat>,
    past: Arc<Past>,
    network: Arc<Network>,
    services: Arc<Services>,
    keys: Vec<SecretKey>,
    /// Outlives crashes, as the file in the data folder does.
    high_water: Arc<HighWater>,
    engine: Option<Arc<Engine>>,
    /// The rail to the ledger of the engine's life, where there is one.
    near: Option<Arc<dyn Rail>>,
}

impl Instance {
    pub fn new(
        seat: Arc<Seat>,
        past: Arc<Past>,
        network: Arc<Network>,
        services: Arc<Services>,
        keys: Vec<SecretKey>,
    ) -> Instance {
        let high_water = Arc::new(HighWater::in_memory());
        Instance { seat, past, network, services, keys, high_water, engine: None, near: None }
    }

    pub fn engine(&self) -> Option<Arc<Engine>> {
        self.engine.clone()
    }

    /// Starts it; a start that fails is tried again by whoever asks.
    pub async fn start(&mut self) {
        if self.engine.is_some() {
            return;
        }
        self.seat.revive();
        self.seat.log("starts");
        let clock: Arc<dyn Clock> = Arc::new(SeatClock(self.seat.clone()));
        self.near = self.near_rail(&clock);
        let queue = FaultyQueue { seat: self.seat.clone(), inner: Arc::new(RingQueue::new(50)) };
        let started = Engine::start(Parts {
            store: Arc::new(FaultyStore::new(self.seat.clone(), self.past.clone())),
            queue: Arc::new(queue),
            rails: self.near.iter().cloned().collect(),
            couriers: self.couriers(&clock),
            clock,
            high_water: self.high_water.clone(),
            role: landfall_engine::Role::Both,
            settings: settings_of(&self.seat.name),
            seed: self.seat.plan.seed,
        });
        // A start can fail, or die in the middle; either way it is simply not running then.
        tokio::select! {
            biased;
            _ = self.seat.dying.notified() => {}
            engine = started => self.engine = engine.ok(),
        }
    }

    /// Which nodes it says were caught lying, each with the two answers.
    pub fn caught(&self) -> Vec<(String, Caught)> {
        let endpoints = self.near.iter().flat_map(|rail| rail.endpoints());
        endpoints.filter_map(|one| Some((one.endpoint, one.caught?))).collect()
    }

    /// The rail to the ledger, in worlds that pay anybody there.
    fn near_rail(&self, clock: &Arc<dyn Clock>) -> Option<Arc<dyn Rail>> {
        if self.seat.plan.transfers == 0 {
            return None;
        }
        let wire = FaultyWire { seat: self.seat.clone(), inner: self.network.clone() };
        let nodes = self.seat.plan.nodes;
        let urls = (0..nodes)
            .map(|node| Url::parse(&format!("http://node{node}")).expect("a well-formed address"));
        let endpoints =
            Endpoints::new(urls.collect(), Arc::new(wire), clock.clone(), Default::default())
                .expect("a world has nodes");
        let keys = self.keys.iter();
        let keys = keys.map(|key| Key::parse(&key.to_string()).expect("a well-formed key"));
        let mut settings = NearSettings::new(CHAIN_ID, TOKEN, RELAY, keys.collect());
        (settings.manner.fence_after_ms, settings.manner.finality_ms) = (15_000, 15_000);
        settings.manner.window = self.seat.plan.window;
        settings.pace = pace_of(&self.seat.plan);
        let rail = NearRail::new(settings, endpoints, clock.clone()).expect("a sound rail");
        Some(Arc::new(rail))
    }

    /// The rail between the services, in worlds that move anything there.
    fn couriers(&self, clock: &Arc<dyn Clock>) -> Vec<Arc<dyn Courier>> {
        match self.seat.plan.moves {
            0 => Vec::new(),
            _ => vec![Arc::new(services::rail(&self.seat, &self.services, clock))],
        }
    }

    /// A polite end: what is being stored is stored, and the lanes are given back.
    pub async fn stop(&mut self) {
        if let Some(engine) = self.engine.take() {
            self.seat.log("leaves");
            tokio::select! {
                biased;
                _ = self.seat.dying.notified() => {}
                _ = engine.stop(GRACE) => {}
            }
            engine.abort().await;
        }
    }

    /// kill -9.
    pub async fn crash(&mut self) {
        if let Some(engine) = self.engine.take() {
            self.seat.log("crashes");
            engine.abort().await;
        }
    }
}

/// Small batches, where many are to be on their way at once, and few retries for receivers that can
/// never be registered.
fn pace_of(plan: &Plan) -> Pace {
    let batch_max = match plan.window {
        1 => 100,
        _ if plan.bursts_ms > 0 => 2,
        _ => 8,
    };
    Pace { batch_max, prepare_retries: 4, ..Pace::default() }
}

/// Short fences, waits and pauses, so that a storm of minutes sees many of them.
fn settings_of(name: &str) -> Settings {
    Settings {
        instance: name.to_owned(),
        pool_capacity: 200,
        backoff_max_ms: 20_000,
        hint_grace_ms: 500,
        aside_ms: 2_000,
        aside_max_ms: 20_000,
        pause_max_ms: 20_000,
        sweep_push_ms: 5_000,
        ..Settings::default()
    }
}
