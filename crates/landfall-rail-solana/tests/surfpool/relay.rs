//! A relay with the Solana rail, on whatever nodes, whose broadcasts can be lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use landfall_core::rail::Backoff;
use landfall_core::store::{Accepted, Store};
use landfall_core::{Clock, Payload, RailName, Transfer, solana};
use landfall_engine::{Engine, Parts, Role, Settings, Submission};
use landfall_lanes::{HighWater, SystemClock};
use landfall_queue_ring::RingQueue;
use landfall_rail_solana::shield::{PROGRAM, Withdraw};
use landfall_rail_solana::{Key, SolanaRail, SolanaSettings, request};
use landfall_rpc::{Endpoints, HttpAnswer, HttpTransport, Transport, TransportError, Url};
use landfall_store_memory::MemoryStore;

/// Long beyond what anything here takes.
const PATIENCE: Duration = Duration::from_secs(90);
pub const NETWORK: &str = "trial";

/// Loses broadcasts on their way while it is told to.
#[derive(Default)]
pub struct Wire {
    inner: HttpTransport,
    pub loses: AtomicBool,
    pub lost: AtomicU64,
}

#[async_trait]
impl Transport for Wire {
    async fn post(
        &self,
        url: &Url,
        body: Bytes,
        timeout: Duration,
    ) -> Result<HttpAnswer, TransportError> {
        let is_sent = String::from_utf8_lossy(&body).contains("\"sendTransaction\"");
        if is_sent && self.loses.load(Ordering::Relaxed) {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return Err(TransportError::Unsure("lost on its way".into()));
        }
        self.inner.post(url, body, timeout).await
    }
}

pub struct Relay {
    pub engine: Arc<Engine>,
    pub store: Arc<MemoryStore>,
    pub wire: Arc<Wire>,
}

pub fn frozen(withdraw: &Withdraw) -> solana::Withdraw {
    request::frozen(withdraw, (NETWORK, &PROGRAM), solana::PRIORITY)
}

impl Relay {
    pub async fn start(urls: &[String], keys: Vec<Key>) -> Relay {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let urls = urls.iter().map(|url| Url::parse(url).unwrap()).collect();
        let wire = Arc::new(Wire::default());
        let endpoints = Endpoints::new(urls, wire.clone(), clock.clone(), Default::default());
        let mut settings = SolanaSettings::new(NETWORK, PROGRAM, keys);
        settings.manner.pulse_ms = 50;
        settings.manner.rebroadcast_ms = 200;
        settings.manner.rebroadcast_max_ms = 200;
        settings.manner.look_ms = 200;
        settings.fresh_ms = 100;
        settings.pace.backoff = Some(Backoff { first_ms: 100, max_ms: 400 });
        let rail = SolanaRail::new(settings, endpoints.unwrap(), clock.clone()).unwrap();
        let engine = Engine::start(Parts {
            store: store.clone(),
            queue: Arc::new(RingQueue::new(10_000)),
            rails: vec![Arc::new(rail)],
            couriers: Vec::new(),
            clock,
            high_water: Arc::new(HighWater::in_memory()),
            role: Role::Both,
            settings: Settings { aside_ms: 200, ..Settings::default() },
            seed: 1,
        });
        Relay { engine: engine.await.unwrap(), store, wire }
    }

    pub async fn submit(&self, key: &str, withdraw: solana::Withdraw) -> Accepted {
        let payload = Payload::Solana(withdraw);
        let submission = Submission { tenant: String::new(), key: key.into(), payload };
        self.engine.submit(vec![submission]).await.unwrap().remove(0)
    }

    async fn found(&self, key: &str) -> Transfer {
        self.store.by_key(RailName::Solana, "", key).await.unwrap().unwrap()
    }

    /// Waits until it is final.
    pub async fn settled(&self, key: &str) -> Transfer {
        let settled = self.engine.wait_final(self.found(key).await, PATIENCE).await.unwrap();
        assert!(settled.state.is_final(), "{settled:?}");
        settled
    }

    pub async fn in_state(&self, key: &str, name: &str) -> Transfer {
        for _ in 0..4_000 {
            let found = self.found(key).await;
            if found.state.name() == name {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{key} never became {name}");
    }

    /// The states that it went through, and the notes beside them.
    pub async fn trail(&self, key: &str) -> Vec<&'static str> {
        let trail = self.engine.trail(self.found(key).await.id).await.unwrap();
        trail.iter().map(|entry| entry.event.name()).collect()
    }
}
