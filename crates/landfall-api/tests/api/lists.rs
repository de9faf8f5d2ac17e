//! `GET /transfers`.

use landfall_core::{RailName, State, TransferId, near};
use serde_json::{Value, json};

use crate::world::{START_MS, TO_COMPLETED, World};

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
    let filter = world.desk.book.lock().filters.pop().unwrap();
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
