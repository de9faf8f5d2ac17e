//! `POST /transfer`.

use landfall_core::BadField;
use landfall_core::store::StoreError;
use landfall_engine::SubmitError;
use serde_json::json;

use crate::world::{ALICE, TO_COMPLETED, World, request};

#[tokio::test]
async fn a_new_transfer_is_received() {
    let world = World::new();
    let body = r#"{"receiver_id": "alice.near", "amount": "0010"}"#;
    let answer = world.pay("payout/1", body).await;
    assert_eq!(answer.status, 201);
    assert_eq!(answer.header("location"), Some("/transfer/payout%2F1"));
    assert_eq!(
        answer.json(),
        json!({
            "transfer_id": "payout/1",
            "status": "RECEIVED",
            "receiver_id": "alice.near",
            "amount": "10",
            "created_at": "2025-10-10T10:00:00.000Z",
        })
    );
}

#[tokio::test]
async fn a_memo_is_given_back_and_a_null_one_is_none() {
    let world = World::new();
    let with = |memo: &str| {
        format!("{{\"receiver_id\": \"alice.near\", \"amount\": \"1\", \"memo\": {memo}}}")
    };
    let answer = world.pay("a", &with("\"rent, \\u00fcber May\"")).await;
    assert_eq!(answer.json()["memo"], "rent, über May");
    let answer = world.pay("b", &with("null")).await;
    assert_eq!(answer.status, 201);
    assert_eq!(answer.json().get("memo"), None);
    assert_eq!(world.pay("b", ALICE).await.status, 200);
}

#[tokio::test]
async fn the_largest_amount_keeps_every_digit() {
    let world = World::new();
    let most = u128::MAX.to_string();
    let body = format!("{{\"receiver_id\": \"alice.near\", \"amount\": \"{most}\"}}");
    assert_eq!(world.pay("most", &body).await.json()["amount"], most);
}

#[tokio::test]
async fn the_same_again_shows_what_is_stored() {
    let world = World::new();
    world.pay_alice("k").await;
    world.pass_ms(15_250);
    world.advance("k", &TO_COMPLETED, |mut step| {
        step.tx_hash = Some("Hash1".into());
        step.retry_count = 2;
        step
    });
    let answer = world.pay("k", r#"{"amount": "01", "receiver_id": "alice.near"}"#).await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.json(),
        json!({
            "transfer_id": "k",
            "status": "COMPLETED",
            "receiver_id": "alice.near",
            "amount": "1",
            "tx_hash": "Hash1",
            "created_at": "2025-10-10T10:00:00.000Z",
            "updated_at": "2025-10-10T10:00:15.250Z",
            "completed_at": "2025-10-10T10:00:15.250Z",
            "retry_count": 2,
        })
    );
    assert_eq!(world.stored(), 1);
}

#[tokio::test]
async fn other_parameters_conflict_and_change_nothing() {
    let world = World::new();
    world.pay_alice("k").await;
    let check = async |body: &str, other: &str| {
        world.pay("k", body).await.check_error(
            409,
            &format!(
                "idempotency key \"k\" was used for a transfer with another {other}; \
                 a new transfer needs a new key"
            ),
        );
    };
    check(r#"{"receiver_id": "alice.near", "amount": "2"}"#, "amount").await;
    check(r#"{"receiver_id": "bob.near", "amount": "1"}"#, "receiver_id").await;
    check(r#"{"receiver_id": "bob.near", "amount": "1", "memo": ""}"#, "receiver_id and memo")
        .await;
    assert_eq!(world.stored(), 1);
    assert_eq!(world.pay("k", ALICE).await.status, 200);
}

#[tokio::test]
async fn either_header_names_the_key_and_quotes_come_off_the_standard_one() {
    let world = World::new();
    let check = async |headers: &[(&str, &str)], status: u16| {
        let mut all = vec![("content-type", "Application/JSON; charset=\"UTF-8\"")];
        all.extend_from_slice(headers);
        let answer = world.send(request("POST", "/transfer", &all, ALICE)).await;
        assert_eq!(answer.status, status, "{headers:?}: {}", answer.text);
        answer.json()["transfer_id"].as_str().unwrap().to_owned()
    };
    assert_eq!(check(&[("x-idempotency-key", "one")], 201).await, "one");
    assert_eq!(check(&[("idempotency-key", "one")], 200).await, "one");
    assert_eq!(check(&[("idempotency-key", "\"one\"")], 200).await, "one");
    assert_eq!(check(&[("idempotency-key", "\"o\\\\\\\"\"")], 201).await, "o\\\"");
    let both = [("x-idempotency-key", "one"), ("idempotency-key", "\"one\"")];
    assert_eq!(check(&both, 200).await, "one");
    assert_eq!(check(&[("x-idempotency-key", "\"one\"")], 201).await, "\"one\"");
    let longest = "k".repeat(255);
    assert_eq!(check(&[("x-idempotency-key", &longest)], 201).await, longest);
}

#[tokio::test]
async fn back_pressure_says_when_to_come_back() {
    let world = World::new();
    world.relay.book.lock().refusal = Some(SubmitError::Busy { retry_after_s: 3 });
    let answer = world.pay("k", ALICE).await;
    answer.check_error(503, "too many transfers are waiting; try again in 3 s");
    assert_eq!(answer.header("retry-after"), Some("3"));
    world.relay.book.lock().refusal = Some(SubmitError::Stopping { retry_after_s: 5 });
    let answer = world.pay("k", ALICE).await;
    answer.check_error(503, "shutting down; try again in 5 s");
    assert_eq!(answer.header("retry-after"), Some("5"));
}

#[tokio::test]
async fn a_store_that_fails_is_our_trouble_and_its_words_stay_here() {
    let world = World::new();
    world.relay.book.lock().store_error = Some(StoreError::Unavailable("disk /secret".into()));
    let answer = world.pay("k", ALICE).await;
    answer.check_error(503, "the store is unavailable; repeat with the same key in 2 s");
    assert_eq!(answer.header("retry-after"), Some("2"));
    world.relay.book.lock().store_error = Some(StoreError::Corrupt("row 7".into()));
    let internal = "internal error; the request can be repeated with the same idempotency key";
    world.pay("k", ALICE).await.check_error(500, internal);
}

#[tokio::test]
async fn a_panic_is_answered_and_counted_and_the_next_request_is_served() {
    let world = World::new();
    world.relay.book.lock().trap = Some("trap".into());
    let internal = "internal error; the request can be repeated with the same idempotency key";
    world.pay("trap", ALICE).await.check_error(500, internal);
    assert_eq!(world.pay("k", ALICE).await.status, 201);
    let metrics = world.get("/metrics").await.text;
    assert!(metrics.contains("landfall_api_panics_total 1\n"), "{metrics}");
    assert!(metrics.contains("landfall_api_requests_total{status=\"500\"} 1\n"), "{metrics}");
}

#[tokio::test]
async fn a_rail_that_is_off_has_no_transfers() {
    let world = World::with(|config| config.near = None);
    world.pay("k", ALICE).await.check_error(404, "the rail near is not configured");
}

#[tokio::test]
async fn every_answer_has_a_request_id_and_a_plain_one_is_kept() {
    let world = World::new();
    let first = world.get("/ready").await;
    let second = world.get("/nowhere").await;
    assert_ne!(first.header("x-request-id"), second.header("x-request-id"));
    let headers = [("x-request-id", "mine-7")];
    let answer = world.send(request("GET", "/ready", &headers, "")).await;
    assert_eq!(answer.header("x-request-id"), Some("mine-7"));
    let headers = [("x-request-id", "not plain")];
    let answer = world.send(request("GET", "/ready", &headers, "")).await;
    assert_ne!(answer.header("x-request-id"), Some("not plain"));
}

#[tokio::test]
async fn what_a_rail_cannot_take_is_refused_unless_it_was_taken_before() {
    let world = World::new();
    assert_eq!(world.pay("before", ALICE).await.status, 201);
    let bad = BadField::new("receiver_id", "is not paid here");
    world.relay.book.lock().screened = Some(bad);
    world.pay("k", ALICE).await.check_error(400, "receiver_id: is not paid here");
    assert_eq!(world.pay("before", ALICE).await.status, 200, "the same key, the same transfer");
    let items = ["before", "k"]
        .map(|key| json!({"idempotency_key": key, "receiver_id": "alice.near", "amount": "1"}));
    let headers = [("content-type", "application/json")];
    let many = json!(items).to_string();
    let results = world.send(request("POST", "/transfers", &headers, many)).await.json();
    assert_eq!((&results[0]["status"], &results[1]["status"]), (&json!(200), &json!(400)));
    assert_eq!(results[1]["error"], "receiver_id: is not paid here");
    assert_eq!(world.stored(), 1);
}
