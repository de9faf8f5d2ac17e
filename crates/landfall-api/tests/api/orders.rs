//! The gateway between services.

use landfall_core::{BadField, Event, RailName};
use serde_json::{Value, json};

use crate::world::{Answer, World, request};

const ORDER: &str =
    r#"{"from":"funding","to":"trading","user_id":4001,"asset":"BTC","amount":"1.5"}"#;

async fn post(world: &World, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut all = vec![("content-type", "application/json")];
    all.extend_from_slice(headers);
    world.send(request("POST", "/api/v1/transfer", &all, body.to_owned())).await
}

async fn order(world: &World) -> Value {
    post(world, &[], ORDER).await.json()
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_not_final_in_time_is_pending() {
    let world = World::new();
    let answer = post(&world, &[], ORDER).await;
    assert_eq!(answer.status, 202);
    let body = answer.json();
    assert_eq!(body["status"], "pending");
    let req_id = body["req_id"].as_str().unwrap();
    assert!(body["message"].as_str().unwrap().contains(req_id));

    let read = world.get(&format!("/api/v1/transfer/{req_id}")).await.json();
    assert_eq!(read["state"], "init");
    assert_eq!(read["created_at"], json!(crate::world::START_MS));
    assert_eq!(read["amount"], "1.5");
    assert_eq!(read["events"][0]["event"], "init");
}

#[tokio::test(start_paused = true)]
async fn a_final_transfer_is_told_as_it_ended() {
    use Event::{RollbackOk, SourceCall, SourceFail, SourceOk, TargetCall, TargetFail, TargetOk};
    let check = async |events: &[Event], state: &str, status: &str, part: &str| {
        let world = World::new();
        let key = [("idempotency-key", "k")];
        let req_id = post(&world, &key, ORDER).await.json()["req_id"].as_str().unwrap().to_owned();
        let confirmed = events.contains(&TargetOk);
        world.advance_order(&req_id, events, confirmed);
        let answer = post(&world, &key, ORDER).await;
        assert_eq!(answer.status, 200, "{state}");
        let body = answer.json();
        assert_eq!(body["req_id"], req_id);
        assert_eq!(body["status"], status, "{state}");
        assert!(body["message"].as_str().unwrap().contains(part), "{body}");
        let read = world.get(&format!("/api/v1/transfer/{req_id}")).await.json();
        assert_eq!(read["state"], state);
    };
    let committed = [SourceCall, SourceOk, TargetCall, TargetOk];
    check(&committed, "committed", "committed", "1.5 BTC moved from funding to trading").await;
    check(&[SourceCall, SourceFail], "failed", "failed", "funding refused").await;
    let rolled_back = [SourceCall, SourceOk, TargetCall, TargetFail, RollbackOk];
    check(&rolled_back, "rolled_back", "failed", "rolled back: trading refused").await;
}

#[tokio::test(start_paused = true)]
async fn without_a_key_every_request_is_another_and_with_one_it_is_the_same() {
    let world = World::new();
    assert_ne!(order(&world).await["req_id"], order(&world).await["req_id"]);
    let key = [("idempotency-key", "move-1")];
    let first = post(&world, &key, ORDER).await.json();
    let second = post(&world, &key, ORDER).await.json();
    assert_eq!(first["req_id"], second["req_id"]);
    let same = ORDER.replace("1.5", "1.50");
    assert_eq!(post(&world, &key, &same).await.json()["req_id"], first["req_id"]);
    let other = post(&world, &key, &ORDER.replace("1.5", "1.6")).await;
    assert_eq!(other.status, 409);
    let said = "idempotency key \"move-1\" was used for a transfer with another amount; \
                a new transfer needs a new key";
    assert_eq!(other.json()["error"], said);
}

#[tokio::test(start_paused = true)]
async fn a_key_can_be_made_compulsory() {
    let world = World::with(|config| {
        config.internal.as_mut().unwrap().key_required = true;
    });
    let answer = post(&world, &[], ORDER).await;
    assert_eq!(answer.status, 400);
    assert!(answer.json()["error"].as_str().unwrap().starts_with("Idempotency-Key: is missing"));
    assert_eq!(post(&world, &[("idempotency-key", "k")], ORDER).await.status, 202);
}

#[tokio::test(start_paused = true)]
async fn a_user_that_the_source_does_not_know_is_refused_by_name() {
    let world = World::new();
    let unknown = BadField::new("user_id", "is unknown to funding");
    world.relay.book.lock().screened = Some(unknown);
    let answer = post(&world, &[], ORDER).await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json()["error"], "user_id: is unknown to funding");
    assert!(world.relay.book.lock().transfers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn bad_requests_name_the_field_and_nothing_is_stored() {
    let world = World::new();
    let check = async |body: &str, message: &str| {
        let answer = post(&world, &[], body).await;
        assert_eq!(answer.status, 400, "{body}");
        let said = answer.json()["error"].as_str().unwrap().to_owned();
        assert!(said.starts_with(message), "{body}: {said}");
    };
    let with = |field: &str, value: Value| {
        let mut order: Value = serde_json::from_str(ORDER).unwrap();
        order[field] = value;
        order.to_string()
    };
    let without = |field: &str| {
        let mut order: Value = serde_json::from_str(ORDER).unwrap();
        order.as_object_mut().unwrap().remove(field);
        order.to_string()
    };
    for field in ["from", "to", "user_id", "asset", "amount"] {
        check(&without(field), &format!("{field}: is missing")).await;
        check(&with(field, json!(null)), &format!("{field}: must be")).await;
        check(&with(field, json!({})), &format!("{field}: must be")).await;
    }
    check(&with("from", json!("vault")), "from: unknown service \"vault\"").await;
    check(&with("to", json!("vault")), "to: unknown service").await;
    check(&with("to", json!("funding")), "to: is the service it comes from").await;
    check(&with("user_id", json!(0)), "user_id: must be at least 1").await;
    check(&with("user_id", json!(-1)), "user_id: must be a whole number").await;
    check(&with("user_id", json!(1.5)), "user_id: must be a whole number").await;
    check(&with("user_id", json!("4001")), "user_id: must be a whole number").await;
    check(&with("asset", json!("DOGE")), "asset: unknown asset \"DOGE\"").await;
    check(&with("amount", json!(1.5)), "amount: must be a string").await;
    check(&with("amount", json!("-1")), "amount: must be a positive decimal number").await;
    check(&with("amount", json!("0")), "amount: must be more than 0").await;
    check(&with("amount", json!("0.123456789")), "amount: has 9 decimals; BTC has 8").await;
    check(&with("amount", json!("99999999999999999999")), "amount: is larger than").await;
    check(&with("note", json!("x")), "\"note\": is not a field").await;
    let twice = ORDER.replace("\"to\"", "\"from\":\"funding\",\"to\"");
    check(&twice, "from: is given twice").await;
    check("[]", "body: must be an object such as {\"from\"").await;
    check("{", "body: is cut off").await;
    check("", "body: is empty").await;
    assert!(world.relay.book.lock().transfers.is_empty());
}

#[tokio::test]
async fn reads_want_a_request_id_that_exists() {
    let world = World::new();
    let answer = world.get("/api/v1/transfer/nonsense").await;
    assert_eq!(answer.status, 400);
    assert!(answer.json()["error"].as_str().unwrap().starts_with("req_id: must be a UUID"));
    let nobody = "550e8400-e29b-41d4-a716-446655440000";
    assert_eq!(world.get(&format!("/api/v1/transfer/{nobody}")).await.status, 404);
}

#[tokio::test]
async fn a_rail_that_is_off_says_so() {
    let world = World::with(|config| config.internal = None);
    let answer = post(&world, &[], ORDER).await;
    assert_eq!(answer.status, 404);
    let off = format!("the rail {} is not configured", RailName::Internal);
    assert_eq!(answer.json()["error"], off);
}
