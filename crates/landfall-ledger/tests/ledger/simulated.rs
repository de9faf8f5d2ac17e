//! Simulated services: every fault is what it says, and the books behind it keep the contract.

use std::path::Path;
use std::sync::Arc;

use landfall_conformance::ManualClock;
use landfall_ledger::conformance::{ALICE, Reached, exercise_service};
use landfall_ledger::{Book, Faults, Kind, MemoryBook, SimServices};
use serde_json::{Value, json};

use super::http::{Reach, free_port};

/// Both services under one address, and the time they live in.
struct World {
    sim: SimServices,
    clock: Arc<ManualClock>,
    funding: Reach,
    trading: Reach,
    /// The address itself, for `/sim`.
    root: Reach,
}

impl World {
    async fn start(books: Vec<Arc<dyn Book>>) -> World {
        let clock = Arc::new(ManualClock::new());
        let listener = free_port().await;
        let sim = SimServices::start(listener, books, clock.clone(), Faults::default(), 7);
        let sim = sim.expect("served");
        let said = sim.announcement();
        let reach =
            |name: &str| Reach::new(said["services"][name].as_str().expect("a service").to_owned());
        let root = Reach::new(format!("http://{}", sim.address()));
        World { clock, funding: reach("funding"), trading: reach("trading"), root, sim }
    }

    async fn in_memory() -> World {
        let book = |kind| Arc::new(MemoryBook::new(super::contract(kind))) as Arc<dyn Book>;
        World::start(vec![book(Kind::Freeze), book(Kind::Direct)]).await
    }

    async fn on_disk(folder: &Path) -> World {
        let funding = super::open(&folder.join("funding.db"), Kind::Freeze);
        let trading = super::open(&folder.join("trading.db"), Kind::Direct);
        World::start(vec![Arc::new(funding), Arc::new(trading)]).await
    }

    async fn faults(&self, patch: Value) {
        let (status, body) = self.root.post("/sim/faults", patch).await;
        assert_eq!(status, 200, "{body}");
    }
}

fn deposit(number: u8) -> Value {
    json!({ "req_id": id(number), "user_id": 4001, "asset_id": 1, "amount": 10 })
}

fn id(number: u8) -> String {
    format!("00000000-0000-0000-0000-0000000000{number:02}")
}

async fn try_deposit(service: &Reach, number: u8) -> Option<(u16, String)> {
    let body = Some(deposit(number).to_string());
    service.try_call("POST", "/deposit", body).await.ok()
}

#[tokio::test]
async fn without_faults_both_keep_the_contract() {
    let make = async |kind| {
        let World { funding, trading, sim, .. } = World::in_memory().await;
        // Served until the test ends.
        std::mem::forget(sim);
        Arc::new(if kind == Kind::Freeze { funding } else { trading }) as Arc<dyn Reached>
    };
    exercise_service(make).await;
}

#[tokio::test]
async fn a_lost_request_does_nothing_and_a_lost_answer_hides_what_was_done() {
    let world = World::in_memory().await;
    world.faults(json!({ "lose_request": 1.0, "service": "funding" })).await;
    assert_eq!(try_deposit(&world.funding, 1).await, None);
    assert_eq!(world.funding.held(ALICE).await, (0, 0));
    assert_eq!(try_deposit(&world.trading, 1).await.map(|(status, _)| status), Some(200));
    world.faults(json!({ "lose_request": 0.0, "lose_answer": 1.0 })).await;
    assert_eq!(try_deposit(&world.funding, 1).await, None);
    assert_eq!(try_deposit(&world.funding, 1).await, None);
    assert_eq!(world.funding.held(ALICE).await, (10, 0));
}

#[tokio::test]
async fn errors_and_garbage_are_no_answers() {
    let world = World::in_memory().await;
    let statuses = [("rate_limited", 429), ("server_error", 500), ("garbage", 200)];
    for (name, expected) in statuses {
        world.faults(json!({ name: 1.0 })).await;
        for number in 0..8 {
            let (status, text) = try_deposit(&world.funding, number).await.expect("an answer");
            assert_eq!(status, expected, "{name}");
            assert!(serde_json::from_str::<Value>(&text).is_err(), "{name}: {text}");
        }
        world.faults(json!({ name: 0.0 })).await;
    }
    // Nothing of the first, some of the second, all of the third.
    assert_eq!(world.funding.held(ALICE).await, (80, 0));
}

#[tokio::test]
async fn a_late_operation_is_in_progress_or_lost_and_takes_effect_once() {
    let world = World::in_memory().await;
    world.faults(json!({ "late": 1.0, "late_ms": 60_000 })).await;
    let mut told = 0;
    for number in 0..10 {
        let answer = try_deposit(&world.funding, number).await;
        let query = format!("/operations/{}/deposit", id(number));
        let status = world.funding.get(&query).await["status"].clone();
        match answer {
            Some((202, text)) => {
                told += 1;
                assert_eq!(
                    (text.as_str(), status),
                    (r#"{"status":"in_progress"}"#, json!("in_progress"))
                );
            }
            other => assert_eq!((other, status), (None, json!("unknown"))),
        }
    }
    assert!((1..10).contains(&told), "{told} were told that it is in progress");
    assert_eq!(world.funding.held(ALICE).await, (0, 0));
    world.faults(json!({ "late": 0.0 })).await;
    for number in 0..5 {
        assert!(try_deposit(&world.funding, number).await.is_some());
    }
    assert_eq!(world.funding.held(ALICE).await, (50, 0));
    world.clock.advance_ms(60_000);
    while world.funding.held(ALICE).await != (100, 0) {
        tokio::task::yield_now().await;
    }
    let statement = world.funding.get("/statement").await;
    assert_eq!(statement["head"], 10);
}

#[tokio::test]
async fn a_slow_operation_takes_effect_although_its_caller_has_gone() {
    let world = World::in_memory().await;
    world.faults(json!({ "slow": 1.0, "slow_ms": 5_000 })).await;
    let calls: Vec<_> = (0..8)
        .map(|number| {
            let (client, url) = (world.funding.client.clone(), world.funding.url.clone());
            let request = client.post(format!("{url}/deposit")).body(deposit(number).to_string());
            tokio::spawn(request.send())
        })
        .collect();
    while world.root.get("/sim/stats").await["calls"]["funding /deposit"] != 8 {
        tokio::task::yield_now().await;
    }
    calls.iter().for_each(|call| call.abort());
    assert_ne!(world.funding.held(ALICE).await, (80, 0), "some are slow before they act");
    world.clock.advance_ms(5_000);
    while world.funding.held(ALICE).await != (80, 0) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn refused_deposits_are_on_record_and_refused_rollbacks_are_not() {
    let world = World::in_memory().await;
    world.faults(json!({ "refuse_deposit": 1.0, "refuse_rollback": 1.0 })).await;
    let refused = (200, json!({ "error": "declined by the service" }));
    assert_eq!(world.trading.post("/deposit", deposit(1)).await, refused);
    world.funding.fund(ALICE, 10).await;
    assert_eq!(world.funding.post("/withdraw", deposit(1)).await.1, json!({ "success": true }));
    let rollback = async || world.funding.post("/rollback", json!({ "req_id": id(1) })).await.1;
    assert_eq!(rollback().await, json!({ "error": "rollback refused for now" }));
    world.faults(json!({ "refuse_deposit": 0.0, "refuse_rollback": 0.0 })).await;
    assert_eq!(world.trading.post("/deposit", deposit(1)).await, refused);
    assert_eq!(rollback().await, json!({ "success": true }));
    assert_eq!(world.funding.held(ALICE).await, (10, 0));
}

#[tokio::test]
async fn a_service_that_is_down_answers_nothing_until_it_is_up() {
    let world = World::in_memory().await;
    world.faults(json!({ "service": "trading", "down": true })).await;
    for path in ["/contract", "/health", "/statement"] {
        assert!(world.trading.try_call("GET", path, None).await.is_err(), "{path}");
        assert!(world.funding.try_call("GET", path, None).await.is_ok(), "{path}");
    }
    let told = world.root.get("/sim/faults").await;
    assert_eq!(told["services"]["trading"]["down"], true);
    world.faults(json!({ "down": 0 })).await;
    assert_eq!(world.trading.get("/contract").await["freezes"], false);
    let calls = world.root.get("/sim/stats").await;
    assert_eq!(calls["calls"]["trading /contract"], 2);
}

#[tokio::test]
async fn wrong_faults_and_unknown_services_are_named() {
    let world = World::in_memory().await;
    let check = async |patch: Value, complaint: &str| {
        let (status, body) = world.root.post("/sim/faults", patch).await;
        let error = body["error"].as_str().unwrap_or_default();
        assert!(status == 400 && error.starts_with(complaint), "{body}");
    };
    check(json!({ "late": 2.0 }), "late: must be between 0 and 1").await;
    check(json!({ "forget": 1.0 }), "unknown field `forget`").await;
    check(json!({ "service": "savings" }), "service: there is none").await;
    let (status, body) = world.root.call("GET", "/savings/contract", None).await;
    let expected = json!({ "error": "no such service; there are funding and trading" });
    assert_eq!((status, body), (404, expected));
}

#[tokio::test]
async fn what_services_hold_survives_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let world = World::on_disk(folder.path()).await;
    assert_eq!(world.trading.post("/deposit", deposit(1)).await.0, 200);
    world.sim.shutdown().await;
    let again = World::on_disk(folder.path()).await;
    assert_eq!(again.trading.held(ALICE).await, (10, 0));
    assert_eq!(again.funding.held(ALICE).await, (0, 0));
}
