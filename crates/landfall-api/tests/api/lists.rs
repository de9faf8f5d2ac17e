//! `GET /transfers` and `GET /api/v1/transfers`.

use landfall_core::{RailName, State, TransferId, near};
use serde_json::{Value, json};

use crate::world::{START_MS, TO_COMPLETED, World, request};

fn keys(page: &Value) -> Vec<&str> {
    let transfers = page["transfers"].as_array().unwrap();
    transfers.iter().map(|one| one["transfer_id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn pages_follow_one_another_newest_first() {
    let world = World::new();
    for key in ["a", "b", "c", "d"] {
        world.pay_alice(key).await;
    }
    let page = world.get("/transfers?limit=2").await.json();
    assert_eq!(keys(&page), ["d", "c"]);
    let cursor = page["next_cursor"].as_str().unwrap();
    let page = world.get(&format!("/transfers?limit=2&cursor={cursor}")).await.json();
    assert_eq!(keys(&page), ["b", "a"]);
    assert_eq!(page["next_cursor"], Value::Null);
}

#[tokio::test]
async fn an_empty_list_is_a_page_too() {
    let world = World::new();
    let page = world.get("/transfers").await.json();
    assert_eq!(page, json!({"transfers": [], "next_cursor": null}));
}

#[tokio::test]
async fn a_state_chooses() {
    let world = World::new();
    world.pay_alice("a").await;
    world.pay_alice("b").await;
    world.advance("a", &TO_COMPLETED, |step| step);
    assert_eq!(keys(&world.get("/transfers?status=COMPLETED").await.json()), ["a"]);
}

#[tokio::test]
async fn every_filter_reaches_the_store() {
    let world = World::new();
    let path = "/transfers?status=FAILED&receiver_id=bob.near&created_from=2025-10-10T10:00:00Z\
                &created_until=2025-10-10T12:00:00.5%2B02:00&adrift=true&cursor=9&limit=500";
    assert_eq!(world.get(path).await.status, 200);
    let filter = world.relay.book.lock().filters.pop().unwrap();
    assert_eq!(filter.rail, Some(RailName::Near));
    assert_eq!(filter.tenant.as_deref(), Some(""));
    assert_eq!(filter.state, Some(State::Near(near::State::Failed)));
    assert_eq!(filter.receiver.as_deref(), Some("bob.near"));
    assert_eq!(filter.created_from_ms, Some(START_MS));
    assert_eq!(filter.created_until_ms, Some(START_MS + 500));
    assert_eq!(filter.adrift_before_ms, Some(START_MS - 60_000));
    assert_eq!(filter.before, Some(TransferId(9)));
    assert_eq!(filter.limit, 501);
}

const ORDER: &str =
    r#"{"from":"funding","to":"trading","user_id":4001,"asset":"BTC","amount":"1.5"}"#;

async fn order(world: &World, key: &str, body: &str) -> Value {
    let headers = [("content-type", "application/json"), ("idempotency-key", key)];
    world.send(request("POST", "/api/v1/transfer", &headers, body.to_owned())).await.json()
}

#[tokio::test(start_paused = true)]
async fn moves_between_services_are_listed_by_themselves_page_by_page() {
    let world = World::new();
    world.pay_alice("payout").await;
    for key in ["a", "b", "c"] {
        order(&world, key, ORDER).await;
    }
    let keys = |page: &Value| -> Vec<String> {
        let transfers = page["transfers"].as_array().unwrap();
        transfers.iter().map(|one| one["idempotency_key"].as_str().unwrap().to_owned()).collect()
    };
    let page = world.get("/api/v1/transfers?limit=2").await.json();
    assert_eq!(keys(&page), ["c", "b"]);
    let cursor = page["next_cursor"].as_str().unwrap();
    let page = world.get(&format!("/api/v1/transfers?cursor={cursor}&user_id=04001")).await.json();
    assert_eq!(keys(&page), ["a"]);
    assert_eq!(page["next_cursor"], Value::Null);
    let filter = world.relay.book.lock().filters.pop().unwrap();
    assert_eq!((filter.rail, filter.tenant.as_deref()), (Some(RailName::Internal), Some("")));
    assert_eq!(filter.receiver.as_deref(), Some("4001"));
    assert_eq!(world.get("/api/v1/transfers?state=init").await.json()["next_cursor"], Value::Null);
    let wrong = world.get("/api/v1/transfers?state=COMPLETED").await;
    assert!(wrong.json()["error"].as_str().unwrap().starts_with("state: must be one of init, "));
    let wrong = world.get("/api/v1/transfers?user_id=0").await;
    wrong.check_error(400, "user_id: must be a whole number, such as 4001");
}

/// On both rails: the client's own key finds its transfer, and filters add up.
#[tokio::test(start_paused = true)]
async fn a_clients_key_finds_its_transfer() {
    let world = World::new();
    for key in ["k", "l"] {
        world.pay_alice(key).await;
    }
    let first = order(&world, "k", ORDER).await;
    order(&world, "l", ORDER).await;
    let count = async |path: &str| {
        let page = world.get(path).await.json();
        assert_eq!(page["next_cursor"], Value::Null);
        page["transfers"].as_array().unwrap().len()
    };
    let found = world.get("/api/v1/transfers?idempotency_key=k").await.json();
    assert_eq!(found["transfers"][0]["req_id"], first["req_id"]);
    assert_eq!(found["transfers"].as_array().unwrap().len(), 1);
    assert_eq!(keys(&world.get("/transfers?idempotency_key=k").await.json()), ["k"]);
    assert_eq!(count("/transfers?idempotency_key=nobody").await, 0);
    assert_eq!(count("/transfers?idempotency_key=k&status=COMPLETED").await, 0);
    assert_eq!(count("/api/v1/transfers?idempotency_key=k&user_id=4001").await, 1);
    assert_eq!(count("/api/v1/transfers?idempotency_key=k&user_id=4002").await, 0);
    assert_eq!(count("/transfers?idempotency_key=k&cursor=1").await, 0);
    let wrong = world.get("/transfers?idempotency_key=a%20b").await;
    assert!(wrong.json()["error"].as_str().unwrap().starts_with("idempotency_key: must be 1 to"));
}
