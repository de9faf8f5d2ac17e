//! `GET /live`, `/health`, `/ready`, `/metrics`.

use landfall_core::rail::EndpointHealth;
use landfall_core::store::StoreError;
use landfall_core::{RailName, Stage};
use landfall_engine::Status;
use landfall_engine::status::{Alert, RailStatus};
use serde_json::{Map, Value, json};

use crate::access::{fetch, with_keys};
use crate::world::{START_MS, World, request};

fn endpoint(up: bool) -> EndpointHealth {
    EndpointHealth {
        name: "node-1".into(),
        endpoint: "http://127.0.0.1:3030".into(),
        up,
        detail: "fine".into(),
        calls: 10,
        errors: 1,
        breaker_open: !up,
        mean_latency_ms: 2.5,
        caught: None,
    }
}

fn status(endpoints: Vec<EndpointHealth>) -> Status {
    let rail = RailStatus {
        rail: RailName::Near,
        endpoints,
        paused: None,
        lanes_held: 2,
        lanes_halted: 0,
        adrift: 1,
        aside: 3,
        stuck: 2,
    };
    Status { store_error: None, rails: vec![rail], alerts: vec![], ready: true }
}

#[tokio::test]
async fn a_healthy_relay_says_so_in_every_detail() {
    let world = World::new();
    world.relay.book.lock().status = Some(status(vec![endpoint(true)]));
    let answer = world.get("/health").await;
    // As the world tells them.
    let depth = |stage: Stage| (stage.0.to_owned(), json!(stage.0.len()));
    let queue: Map<String, Value> = Stage::ALL.into_iter().map(depth).collect();
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.json(),
        json!({
            "status": "healthy",
            "redis": "connected",
            "rpc": "connected",
            "version": "1.2.3",
            "ready": true,
            "store": {"status": "connected"},
            "queue": queue,
            "rails": [{
                "rail": "near",
                "rpc": "connected",
                "paused": null,
                "endpoints": [{
                    "name": "node-1",
                    "endpoint": "http://127.0.0.1:3030",
                    "up": true,
                    "detail": "fine",
                    "calls": 10,
                    "errors": 1,
                    "breaker": "closed",
                    "mean_latency_ms": 2.5,
                    "caught": null,
                }],
                "lanes": {"held": 2, "halted": 0},
                "adrift": 1,
                "aside": 3,
        "stuck": 2,
            }],
            "lanes": {"held": 2, "halted": 0},
            "adrift": 1,
            "aside": 3,
        "stuck": 2,
            "alerts": [],
        })
    );
}

#[tokio::test]
async fn what_is_wrong_but_alive_is_degraded() {
    let world = World::new();
    let check = async |status: Status, rpc: &str| {
        world.relay.book.lock().status = Some(status);
        let answer = world.get("/health").await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.json()["status"], "degraded");
        assert_eq!(answer.json()["rpc"], rpc);
    };
    check(status(vec![endpoint(true), endpoint(false)]), "connected").await;
    check(status(vec![endpoint(false)]), "unavailable").await;
    let mut paused = status(vec![endpoint(true)]);
    paused.rails[0].paused = Some("the relay has no tokens".into());
    check(paused, "connected").await;
    let mut halted = status(vec![endpoint(true)]);
    halted.rails[0].lanes_halted = 1;
    check(halted, "connected").await;
    let mut alerted = status(vec![endpoint(true)]);
    let alert = Alert { kind: "lane_halted".into(), message: "look".into(), since_ms: START_MS };
    alerted.alerts.push(alert);
    check(alerted, "connected").await;
    let alerts = &world.get("/health").await.json()["alerts"];
    let since = "2025-10-10T10:00:00.000Z";
    assert_eq!(*alerts, json!([{"kind": "lane_halted", "message": "look", "since": since}]));
}

#[tokio::test]
async fn a_store_that_is_gone_is_unhealthy() {
    let world = World::new();
    world.relay.book.lock().store_error = Some(StoreError::Unavailable("no disk".into()));
    let answer = world.get("/health").await;
    assert_eq!(answer.status, 503);
    let body = answer.json();
    assert_eq!(body["status"], "unhealthy");
    assert_eq!(body["redis"], "unavailable");
    assert_eq!(
        body["store"],
        json!({"status": "unavailable", "error": "store unavailable: no disk"})
    );
    let answer = world.get("/ready").await;
    assert_eq!(answer.status, 503);
    assert_eq!(answer.json(), json!({"ready": false, "error": "not ready; /health says why"}));
}

#[tokio::test]
async fn readiness_follows_the_engine() {
    let world = World::new();
    let answer = world.get("/ready").await;
    assert_eq!((answer.status.as_u16(), answer.json()), (200, json!({"ready": true})));
    let mut starting = status(vec![endpoint(true)]);
    starting.ready = false;
    world.relay.book.lock().status = Some(starting);
    assert_eq!(world.get("/ready").await.status, 503);
    assert_eq!(world.get("/health").await.status, 200);
}

#[tokio::test]
async fn metrics_are_the_engines_and_then_the_apis() {
    let world = World::new();
    world.get("/ready").await;
    let answer = world.get("/metrics").await;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(answer.header("content-type"), Some(kind));
    assert_eq!(
        answer.text,
        "# TYPE landfall_accepted counter\n\
         landfall_accepted_total 3\n\
         # HELP landfall_api_requests Requests answered, by status.\n\
         # TYPE landfall_api_requests counter\n\
         landfall_api_requests_total{status=\"200\"} 1\n\
         # HELP landfall_api_panics Handlers that panicked.\n\
         # TYPE landfall_api_panics counter\n\
         landfall_api_panics_total 0\n\
         # EOF\n"
    );
}

#[tokio::test]
async fn a_thousand_who_ask_cost_the_store_nothing() {
    let world = World::new();
    world.pulse.look().await;
    let ask = |path: &'static str| {
        let headers: [(&str, &str); 0] = [];
        world.send(request("GET", path, &headers, ""))
    };
    for path in ["/live", "/health", "/ready", "/metrics"] {
        let answers = futures::future::join_all((0..1_000).map(|_| ask(path))).await;
        assert!(answers.iter().all(|answer| answer.status == 200), "{path}");
    }
    assert_eq!(world.relay.book.lock().looks, 1);
}

#[tokio::test]
async fn strangers_are_told_that_something_is_wrong_and_not_what() {
    let world = World::with(with_keys);
    let mut troubled = status(vec![endpoint(false)]);
    troubled.rails[0].paused = Some("the relay has 17 of 40 tokens".into());
    let message = "payroll-17 of globex is stuck".into();
    troubled.alerts.push(Alert { kind: "stuck".into(), message, since_ms: START_MS });
    {
        let mut book = world.relay.book.lock();
        book.status = Some(troubled);
        book.store_error = Some(StoreError::Unavailable("db.internal:5432 refused".into()));
    }
    let answer = world.get("/health").await;
    let told = json!({
        "status": "unhealthy", "redis": "unavailable", "rpc": "unavailable", "version": "1.2.3",
        "ready": false, "store": {"status": "unavailable"},
    });
    assert_eq!((answer.status.as_u16(), answer.json()), (503, told.clone()));
    assert_eq!(fetch(&world, "/health", "both").await.json(), told, "no operator");
    let text = fetch(&world, "/health", "operator").await.text;
    for detail in ["17 of 40", "payroll-17", "db.internal", "127.0.0.1:3030"] {
        assert!(text.contains(detail), "{detail}: {text}");
    }
}

#[tokio::test]
async fn a_look_that_does_not_come_back_is_no_good_news() {
    let world = World::new();
    let headers: [(&str, &str); 0] = [];
    let ask = async |path| world.send(request("GET", path, &headers, "")).await.status.as_u16();
    assert_eq!((ask("/live").await, ask("/ready").await), (200, 503), "not looked at yet");
    world.pulse.look().await;
    assert_eq!((ask("/health").await, ask("/ready").await), (200, 200));
    world.pass_ms(20_000);
    assert_eq!((ask("/health").await, ask("/ready").await), (503, 503));
}
