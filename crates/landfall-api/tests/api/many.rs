//! `POST /transfers`.

use landfall_engine::SubmitError;
use serde_json::{Value, json};

use crate::world::{Answer, World, request};

async fn send(world: &World, kind: &str, body: impl Into<String>) -> Answer {
    let headers = [("content-type", kind)];
    world.send(request("POST", "/transfers", &headers, body.into())).await
}

async fn send_json(world: &World, body: &Value) -> Value {
    let answer = send(world, "application/json", body.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()
}

fn statuses(results: &Value) -> Vec<u64> {
    results.as_array().unwrap().iter().map(|one| one["status"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn each_of_many_has_its_own_answer_in_order_from_one_commit() {
    let world = World::new();
    world.pay_alice("old").await;
    let results = send_json(
        &world,
        &json!([
            {"idempotency_key": "a", "receiver_id": "alice.near", "amount": "5", "memo": "m"},
            {"idempotency_key": "b", "receiver_id": "NOT VALID", "amount": "5"},
            {"idempotency_key": "old", "receiver_id": "alice.near", "amount": "1"},
            {"idempotency_key": "old", "receiver_id": "alice.near", "amount": "2"},
            {"idempotency_key": "a", "receiver_id": "alice.near", "amount": "5", "memo": "m"},
            {"idempotency_key": "a", "receiver_id": "alice.near", "amount": "6"},
        ]),
    )
    .await;
    assert_eq!(statuses(&results), [201, 400, 200, 409, 200, 409]);
    assert_eq!(
        results[0],
        json!({
            "idempotency_key": "a",
            "status": 201,
            "transfer": {
                "transfer_id": "a",
                "status": "RECEIVED",
                "receiver_id": "alice.near",
                "amount": "5",
                "memo": "m",
                "created_at": "2025-10-10T10:00:00.000Z",
            },
        })
    );
    assert_eq!(results[1]["idempotency_key"], "b");
    assert_eq!(results[2]["transfer"]["status"], "QUEUED_REGISTRATION");
    assert_eq!(
        results[3],
        json!({
            "idempotency_key": "old",
            "status": 409,
            "error": "idempotency key \"old\" was used for a transfer with another amount; \
                      a new transfer needs a new key",
        })
    );
    assert_eq!(world.relay.book.lock().batches, [1, 5]);
    assert_eq!(world.stored(), 2);
}

#[tokio::test]
async fn a_bad_one_never_spoils_its_siblings() {
    let world = World::new();
    let good = json!({"idempotency_key": "good", "receiver_id": "alice.near", "amount": "1"});
    let results = send_json(
        &world,
        &json!([
            null,
            7,
            [[]],
            {},
            {"idempotency_key": "", "receiver_id": "alice.near", "amount": "1"},
            {"idempotency_key": "a b", "receiver_id": "alice.near", "amount": "1"},
            {"idempotency_key": "..", "receiver_id": "alice.near", "amount": "1"},
            {"idempotency_key": "c", "receiver_id": "alice.near", "amount": 1},
            {"idempotency_key": "d", "receiver_id": "alice.near", "amount": "1", "extra": {}},
            {"idempotency_key": 7, "receiver_id": "Alice", "amount": "0", "memo": ["x"]},
            {"idempotency_key": "f", "reciever_id": "alice.near", "amount": "1.5"},
            good,
        ]),
    )
    .await;
    let object = "body: must be an object such as {\"idempotency_key\": \"payout-1\", \
                  \"receiver_id\": \"alice.near\", \"amount\": \"1\"}, not";
    let rule = "idempotency_key: must be 1 to 255 visible ASCII characters (letters, digits, \
                punctuation; no spaces), and neither \".\" nor \"..\"";
    let errors = [
        format!("{object} null"),
        format!("{object} a number"),
        format!("{object} an array"),
        "idempotency_key: is missing; give a key of your own making, the same for every repeat \
         of this transfer; also receiver_id: is missing; give the account to be paid, as a string; \
         also amount: is missing; give a whole number in the smallest unit, as a string"
            .to_owned(),
        rule.to_owned(),
        rule.to_owned(),
        rule.to_owned(),
        "amount: must be a string such as \"1000\", not a number: JSON numbers lose digits"
            .to_owned(),
        "\"extra\": is not a field; the fields are idempotency_key, receiver_id, amount and memo"
            .to_owned(),
        "idempotency_key: must be a string, not a number; also memo: must be a string, not an \
         array; also receiver_id: not a NEAR account id: the Account ID contains an invalid \
         character 'A' at index 0; also amount: must be at least 1"
            .to_owned(),
        "\"reciever_id\": is not a field; the fields are idempotency_key, receiver_id, amount and \
         memo; also amount: must be a whole number in the token's smallest unit, digits only"
            .to_owned(),
    ];
    for (result, error) in results.as_array().unwrap().iter().zip(&errors) {
        assert_eq!(result["error"], **error);
        assert_eq!(result["status"], 400);
    }
    assert_eq!(results[0]["idempotency_key"], Value::Null);
    assert_eq!(results[5]["idempotency_key"], "a b");
    assert_eq!(results[7]["idempotency_key"], "c");
    assert_eq!(results[8]["idempotency_key"], "d");
    assert_eq!(results[10]["idempotency_key"], "f");
    assert_eq!(results[11]["status"], 201);
    assert_eq!(world.stored(), 1);
}

#[tokio::test]
async fn lines_are_taken_too_and_a_broken_line_is_only_itself() {
    let world = World::new();
    let line = |key: &str| {
        json!({"idempotency_key": key, "receiver_id": "alice.near", "amount": "1"}).to_string()
    };
    let other = line("a").replace("\"1\"", "\"2\"");
    let lines = [&line("a"), "\r", "{\"idempotency_key\": ", &line("b"), "{}", "", &other];
    let answer = send(&world, "application/x-ndjson; charset=utf-8", lines.join("\n")).await;
    assert_eq!(answer.status, 200);
    let results = answer.json();
    assert_eq!(statuses(&results), [201, 400, 201, 400, 409]);
    let of = |index: usize| results[index]["error"].as_str().unwrap();
    assert_eq!(of(1), "line 3: body: is cut off: the JSON ends at column 19");
    assert!(of(3).starts_with("line 5: idempotency_key: is missing"), "{}", of(3));
    assert!(of(4).starts_with("line 7: idempotency key \"a\" was used"), "{}", of(4));
    assert_eq!(world.relay.book.lock().batches, [3]);
}

#[tokio::test]
async fn a_thousand_are_taken_at_once_and_none_is_an_empty_answer() {
    let world = World::new();
    let one = |n: usize| {
        let key = format!("k{n}");
        json!({"idempotency_key": key, "receiver_id": "alice.near", "amount": "1"})
    };
    let results = send_json(&world, &(0..1_000).map(one).collect()).await;
    assert_eq!(statuses(&results), [201; 1_000]);
    assert_eq!(results[999]["transfer"]["transfer_id"], "k999");
    assert_eq!(world.relay.book.lock().batches, [1_000]);
    assert_eq!(send_json(&world, &json!([])).await, json!([]));
}

#[tokio::test]
async fn many_feel_back_pressure_together() {
    let world = World::new();
    world.relay.book.lock().refusal = Some(SubmitError::Busy { retry_after_s: 1 });
    let body =
        json!([{"idempotency_key": "a", "receiver_id": "alice.near", "amount": "1"}]).to_string();
    let answer = send(&world, "application/json", body).await;
    answer.check_error(503, "too many transfers are waiting; try again in 1 s");
}
