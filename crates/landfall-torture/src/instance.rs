//! One relay instance: the real engine and the real rails, in a seat.

use std::sync::Arc;
use std::time::Duration;

use landfall_core::Clock;
use landfall_core::rail::{Caught, Rail};
use landfall_engine::{Engine, Parts, Settings};
use landfall_lanes::HighWater;
use landfall_queue_ring::RingQueue;

use super::part::{Fitted, Part};
use super::past::Past;
use super::seat::{Seat, SeatClock};
use super::store::FaultyStore;
use super::wire::FaultyQueue;

/// How long a polite end may take.
const GRACE: Duration = Duration::from_secs(30);

/// A relay that can be started, crashed and started again.
pub struct Instance {
    pub seat: Arc<Seat>,
    past: Arc<Past>,
    /// Outlives crashes, as the file in the data folder does.
    high_water: Arc<HighWater>,
    engine: Option<Arc<Engine>>,
    /// The rails to ledgers of the engine's life.
    rails: Vec<Arc<dyn Rail>>,
}

impl Instance {
    pub fn new(seat: Arc<Seat>, past: Arc<Past>) -> Instance {
        let high_water = Arc::new(HighWater::in_memory());
        Instance { seat, past, high_water, engine: None, rails: Vec::new() }
    }

    pub fn engine(&self) -> Option<Arc<Engine>> {
        self.engine.clone()
    }

    /// Starts it; a start that fails is tried again by whoever asks.
    pub async fn start(&mut self, parts: &[Box<dyn Part>]) {
        if self.engine.is_some() {
            return;
        }
        self.seat.revive();
        self.seat.log("starts");
        let clock: Arc<dyn Clock> = Arc::new(SeatClock(self.seat.clone()));
        let (mut rails, mut couriers) = (Vec::new(), Vec::new());
        for fitted in parts.iter().filter_map(|part| part.fit(&self.seat, &clock)) {
            match fitted {
                Fitted::Rail(rail) => rails.push(rail),
                Fitted::Courier(courier) => couriers.push(courier),
            }
        }
        self.rails = rails.clone();
        let queue = FaultyQueue { seat: self.seat.clone(), inner: Arc::new(RingQueue::new(50)) };
        let started = Engine::start(Parts {
            store: Arc::new(FaultyStore::new(self.seat.clone(), self.past.clone())),
            queue: Arc::new(queue),
            rails,
            couriers,
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
        let endpoints = self.rails.iter().flat_map(|rail| rail.endpoints());
        endpoints.filter_map(|one| Some((one.endpoint, one.caught?))).collect()
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
