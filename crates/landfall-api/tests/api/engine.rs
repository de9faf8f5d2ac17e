//! The real engine behind the API, with a memory store and a ledger that does as it is told, on
//! paused time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use landfall_api::{Api, ApiConfig, Pulse, api};
use landfall_core::attempt::Signed;
use landfall_core::claim::ClaimKey;
use landfall_core::ledger::{
    Broadcast, Later, Ledger, LedgerNonce, Look, Manner, Progress, RailError, Waiting,
};
use landfall_core::rail::{EndpointHealth, Funds, Rail};
use landfall_core::{Attempt, Clock, Landing, LaneId, Nonce, Outcome, Payload, Purpose, RailName};
use landfall_engine::{Engine, Parts, Settings};
use landfall_lanes::{HighWater, TimerClock};
use landfall_queue_ring::RingQueue;
use landfall_store_memory::MemoryStore;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::world::{ALICE, START_MS, request, terms};

/// A ledger where everything lands at once and everybody is registered.
struct Obliging {
    height: AtomicU64,
}

impl Obliging {
    fn lane() -> LaneId {
        LaneId::new("near:simnet:relay.near:key-1")
    }
}

#[async_trait]
impl Ledger for Obliging {
    fn name(&self) -> RailName {
        RailName::Near
    }

    fn lanes(&self) -> Vec<LaneId> {
        vec![Obliging::lane()]
    }

    fn owns(&self, _: &LaneId) -> bool {
        true
    }

    fn manner(&self) -> Manner {
        Manner::OVERTAKES
    }

    async fn broadcast(&self, attempt: &Attempt, _: u32) -> Broadcast {
        Broadcast::Sent(self.look(attempt, true).await.ok())
    }

    async fn look(&self, attempt: &Attempt, _: bool) -> Result<Look, RailError> {
        Ok(Look::Landed(Landing {
            hash: None,
            block_height: self.height.fetch_add(1, Ordering::Relaxed),
            block_hash: "block".into(),
            outcomes: attempt.members.iter().map(|_| Outcome::Done).collect(),
        }))
    }

    async fn inquest(&self, attempt: &Attempt, _: &[Later]) -> Result<Look, RailError> {
        self.look(attempt, true).await
    }

    async fn nonce(&self, _: &LaneId) -> Result<Option<LedgerNonce>, RailError> {
        Ok(Some(LedgerNonce { nonce: Nonce(7), final_height: 1 }))
    }

    async fn nonces(&self) -> Result<Vec<(LaneId, LedgerNonce)>, RailError> {
        Ok(vec![(Obliging::lane(), LedgerNonce { nonce: Nonce(7), final_height: 1 })])
    }

    async fn pulse(&self, _: &[Waiting]) -> Result<Vec<Progress>, RailError> {
        Ok(vec![])
    }
}

#[async_trait]
impl Rail for Obliging {
    fn stages(&self) -> landfall_core::AttemptStages {
        landfall_core::near::STAGES
    }

    fn preparation(&self, _: &Payload) -> Option<ClaimKey> {
        None
    }

    async fn prepared(&self, payloads: &[&Payload]) -> Vec<Result<bool, RailError>> {
        payloads.iter().map(|_| Ok(true)).collect()
    }

    fn fit(&self, _: Purpose, payloads: &[&Payload]) -> usize {
        payloads.len().min(100)
    }

    async fn sign(
        &self,
        _: Purpose,
        payloads: &[&Payload],
        _: &LaneId,
        nonce: Nonce,
    ) -> Result<Signed, RailError> {
        Ok(Signed {
            bytes: payloads.len().to_le_bytes().to_vec(),
            hash: format!("hash-{nonce}"),
            base: None,
            expires_height: None,
        })
    }

    async fn funds(&self, _: Option<&LaneId>) -> Result<Funds, RailError> {
        Ok(Funds { tokens: u128::MAX, native: u128::MAX, native_floor: 1 })
    }

    fn endpoints(&self) -> Vec<EndpointHealth> {
        vec![EndpointHealth {
            name: "node-1".into(),
            endpoint: "http://127.0.0.1:3030".into(),
            up: true,
            detail: String::new(),
            calls: 1,
            errors: 0,
            breaker_open: false,
            mean_latency_ms: 1.0,
            caught: None,
        }]
    }

    async fn check(&self) -> Result<String, RailError> {
        Ok("obliging".into())
    }
}

struct Relay {
    engine: Arc<Engine>,
    router: axum::Router,
    pulse: Arc<Pulse>,
}

impl Relay {
    async fn new(change: impl FnOnce(&mut Settings)) -> Relay {
        let clock: Arc<dyn Clock> = Arc::new(TimerClock::starting_at(START_MS));
        let mut settings = Settings::default();
        change(&mut settings);
        let engine = Engine::start(Parts {
            couriers: Vec::new(),
            store: Arc::new(MemoryStore::new(clock.clone())),
            queue: Arc::new(RingQueue::new(100)),
            rails: vec![Arc::new(Obliging { height: AtomicU64::new(10) })],
            clock: clock.clone(),
            high_water: Arc::new(HighWater::in_memory()),
            role: landfall_engine::Role::Both,
            settings,
            seed: 7,
        })
        .await
        .unwrap();
        let mut config = ApiConfig::new("1.2.3", clock);
        config.near = Some(terms());
        let Api { router, pulse, .. } = api(config, engine.clone());
        Relay { router, pulse, engine }
    }

    async fn send(&self, request: Request<Body>) -> (u16, Value) {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.pulse.look().await;
        let headers: [(&str, &str); 0] = [];
        self.send(request("GET", path, &headers, "")).await
    }

    async fn pay(&self, key: &str, body: &str) -> (u16, Value) {
        let headers = [("content-type", "application/json"), ("x-idempotency-key", key)];
        self.send(request("POST", "/transfer", &headers, body.to_owned())).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_payout_submitted_here_is_seen_to_complete() {
    let relay = Relay::new(|_| ()).await;
    let (status, body) = relay.pay("k", ALICE).await;
    assert_eq!((status, &body["status"]), (201, &json!("RECEIVED")));
    let (status, story) = relay.get("/transfer/k?wait=60s").await;
    assert_eq!((status, &story["status"]), (200, &json!("COMPLETED")), "{story:#}");
    assert_eq!(story["tx_hash"], "hash-8");
    let events: Vec<&str> = story["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .collect();
    assert_eq!(
        events,
        [
            "RECEIVED",
            "QUEUED_REGISTRATION",
            "REGISTERED",
            "QUEUED_TRANSFER",
            "SUBMITTED",
            "QUEUED_VERIFICATION",
            "COMPLETED",
        ]
    );
    assert_eq!(relay.pay("k", ALICE).await.0, 200);
    let other = r#"{"receiver_id": "alice.near", "amount": "2"}"#;
    assert_eq!(relay.pay("k", other).await.0, 409);
    let (_, page) = relay.get("/transfers?status=COMPLETED").await;
    assert_eq!(page["transfers"].as_array().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn many_submitted_here_are_seen_to_complete() {
    let relay = Relay::new(|_| ()).await;
    let one = |n: usize| {
        let key = format!("k{n}");
        json!({"idempotency_key": key, "receiver_id": "alice.near", "amount": "1"})
    };
    let body: Value = (0..250).map(one).collect();
    let headers = [("content-type", "application/json")];
    let (status, results) =
        relay.send(request("POST", "/transfers", &headers, body.to_string())).await;
    assert_eq!(status, 200);
    assert!(results.as_array().unwrap().iter().all(|result| result["status"] == 201));
    for n in 0..250 {
        let (_, story) = relay.get(&format!("/transfer/k{n}?wait=60s")).await;
        assert_eq!(story["status"], "COMPLETED");
    }
    let (_, page) = relay.get("/transfers?adrift=true").await;
    assert_eq!(page["transfers"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_running_engine_is_healthy_and_a_stopping_one_not_ready() {
    let relay = Relay::new(|_| ()).await;
    relay.pay("k", ALICE).await;
    relay.get("/transfer/k?wait=60s").await;
    let (status, health) = relay.get("/health").await;
    assert_eq!((status, &health["status"]), (200, &json!("healthy")), "{health:#}");
    assert_eq!(health["rpc"], "connected");
    assert_eq!(relay.get("/ready").await.0, 200);
    assert_eq!(relay.get("/metrics").await.0, 200);
    relay.engine.stop(Duration::from_secs(1)).await;
    assert_eq!(relay.get("/ready").await.0, 503);
    let (status, body) = relay.pay("l", ALICE).await;
    assert_eq!((status, body), (503, json!({"error": "shutting down; try again in 5 s"})));
}

#[tokio::test(start_paused = true)]
async fn a_full_intake_is_back_pressure() {
    let relay = Relay::new(|settings| settings.intake_max = 0).await;
    let (status, body) = relay.pay("k", ALICE).await;
    let busy = json!({"error": "too many transfers are waiting; try again in 1 s"});
    assert_eq!((status, body), (503, busy));
}
