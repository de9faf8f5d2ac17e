//! One engine, one memory store, one fake ledger, on paused time.

use std::sync::Arc;
use std::time::Duration;

use landfall_core::near::{Payout, Terms};
use landfall_core::rail::Rail;
use landfall_core::store::{
    Accepted, LaneStore, Leased, OpenAttempt, Opened, Settled, Settlement, Store,
};
use landfall_core::{Attempt, Clock, Fate, Payload, Purpose, RailName, Transfer};
use landfall_engine::{Engine, Parts, Settings, Submission};
use landfall_lanes::{HighWater, TimerClock};
use landfall_queue_ring::RingQueue;
use landfall_store_memory::MemoryStore;

use crate::ledger::FakeRail;

pub struct World {
    pub clock: Arc<dyn Clock>,
    pub store: Arc<MemoryStore>,
    pub rail: Arc<FakeRail>,
    pub high_water: Arc<HighWater>,
    pub settings: Settings,
    pub engine: Arc<Engine>,
}

impl World {
    pub async fn new(lanes: usize) -> World {
        World::with(lanes, |_| {}).await
    }

    pub async fn with(lanes: usize, change: impl FnOnce(&mut Settings)) -> World {
        World::on(FakeRail::new(lanes), change).await
    }

    pub async fn on(rail: FakeRail, change: impl FnOnce(&mut Settings)) -> World {
        let clock: Arc<dyn Clock> = Arc::new(TimerClock::starting_at(1_700_000_000_000));
        let store = Arc::new(MemoryStore::new(clock.clone()).shared());
        let rail = Arc::new(rail);
        let high_water = Arc::new(HighWater::in_memory());
        let mut settings = Settings::default();
        change(&mut settings);
        let engine = start(&clock, store.clone(), &rail, &high_water, &settings).await;
        World { clock, store, rail, high_water, settings, engine }
    }

    /// Another worker on the same store, with its own way to the ledger.
    pub async fn another(&self, instance: &str, rail: &Arc<FakeRail>) -> World {
        let (clock, store, rail) = (self.clock.clone(), self.store.clone(), rail.clone());
        let high_water = Arc::new(HighWater::in_memory());
        let settings = Settings { instance: instance.to_owned(), ..self.settings.clone() };
        let engine = start(&clock, store.clone(), &rail, &high_water, &settings).await;
        World { clock, store, rail, high_water, settings, engine }
    }

    /// kill -9 and start again on the same store.
    pub async fn crash(&mut self) {
        self.crash_and_reach(self.store.clone()).await;
    }

    /// The same, with another way to the store.
    pub async fn crash_and_reach(&mut self, store: Arc<dyn Store>) {
        self.engine.abort().await;
        self.engine = start(&self.clock, store, &self.rail, &self.high_water, &self.settings).await;
    }

    pub async fn submit(&self, key: &str, receiver: &str, amount: u128) -> Transfer {
        self.submit_from("relay", key, receiver, amount).await
    }

    /// Accepted while the relay paid from that account.
    pub async fn submit_from(
        &self,
        sender: &str,
        key: &str,
        receiver: &str,
        amount: u128,
    ) -> Transfer {
        let terms = Terms { network: "test".into(), token: "token".into(), sender: sender.into() };
        let payout = Payout::new(&terms, receiver, &amount.to_string(), None).unwrap();
        let submission = Submission {
            tenant: String::new(),
            key: key.to_owned(),
            payload: Payload::Near(payout),
        };
        match self.engine.submit(vec![submission]).await.unwrap().pop().unwrap() {
            Accepted::Created(transfer) | Accepted::Already(transfer) => transfer,
            other => panic!("{key} is refused: {other:?}"),
        }
    }

    /// A fence on the first lane, opened and decided while no engine holds it.
    pub async fn fence(&self, fate: Fate) -> Attempt {
        let fence = self.open_fence().await;
        let settlement = Settlement {
            attempt: fence.id,
            lane: fence.lane.clone(),
            epoch: fence.epoch,
            fate,
            moves: Vec::new(),
            now_ms: self.clock.now_ms(),
        };
        let settled = self.store.settle(settlement).await.unwrap();
        assert!(matches!(settled, Settled::Done { .. }), "{settled:?}");
        fence
    }

    /// A fence on the first lane, opened by somebody who takes the lane for it.
    pub async fn open_fence(&self) -> Attempt {
        let (lane, rail) = (&self.rail.lanes[0], RailName::Near);
        let leased = self.store.lease(lane, rail, "landfall", 1_000).await.unwrap();
        let Leased::Yours(held) = leased else { panic!("{leased:?}") };
        let nonce = held.next_nonce.unwrap();
        let open = OpenAttempt {
            rail,
            lane: lane.clone(),
            epoch: held.epoch,
            nonce,
            purpose: Purpose::Fence,
            signed: self.rail.sign(Purpose::Fence, &[], lane, nonce).await.unwrap(),
            moves: Vec::new(),
            marks: Vec::new(),
            incarnation: self.store.identity().await.unwrap().incarnation,
            now_ms: self.clock.now_ms(),
        };
        let opened = self.store.open_attempt(open).await.unwrap();
        let Opened::Stored(fence) = opened else { panic!("{opened:?}") };
        *fence
    }

    pub async fn sleep(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    pub async fn find(&self, key: &str) -> Transfer {
        self.store.by_key(RailName::Near, "", key).await.unwrap().unwrap()
    }

    pub async fn state(&self, key: &str) -> &'static str {
        self.find(key).await.state.name()
    }

    pub async fn trail(&self, key: &str) -> Vec<&'static str> {
        let id = self.find(key).await.id;
        self.store.trail(id).await.unwrap().iter().map(|entry| entry.event.name()).collect()
    }

    /// The kinds of all alerts that stand.
    pub async fn alerts(&self) -> Vec<String> {
        self.engine.status().await.alerts.into_iter().map(|alert| alert.kind).collect()
    }

    pub async fn metrics(&self) -> String {
        self.engine.render_metrics(&self.engine.snapshot().await)
    }

    /// How often the receiver was paid.
    pub fn paid(&self, receiver: &str) -> usize {
        self.rail.state.lock().paid.iter().filter(|paid| paid.0 == receiver).count()
    }
}

/// A process on the same store that only takes transfers.
pub async fn taker(world: &World) -> Arc<Engine> {
    let mut parts =
        parts(&world.clock, world.store.clone(), &world.rail, &world.high_water, &world.settings);
    parts.role = landfall_engine::Role::Api;
    Engine::start(parts).await.unwrap()
}

async fn start(
    clock: &Arc<dyn Clock>,
    store: Arc<dyn Store>,
    rail: &Arc<FakeRail>,
    high_water: &Arc<HighWater>,
    settings: &Settings,
) -> Arc<Engine> {
    Engine::start(parts(clock, store, rail, high_water, settings)).await.unwrap()
}

fn parts(
    clock: &Arc<dyn Clock>,
    store: Arc<dyn Store>,
    rail: &Arc<FakeRail>,
    high_water: &Arc<HighWater>,
    settings: &Settings,
) -> Parts {
    Parts {
        couriers: Vec::new(),
        store,
        queue: Arc::new(RingQueue::new(100)),
        rails: vec![rail.clone()],
        clock: clock.clone(),
        high_water: high_water.clone(),
        role: landfall_engine::Role::Both,
        settings: settings.clone(),
        seed: 7,
    }
}
