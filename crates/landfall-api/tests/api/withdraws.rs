//! Withdraws from a shield pool.

use landfall_api::{ApiKey, Auth, Scope};
use landfall_core::solana::{Door, Output, PRIORITY, Withdraw, request_id};
use landfall_core::{BadField, Event};
use serde_json::{Value, json};

use crate::world::{Answer, World, request};

/// Takes a body that has a nullifier, and blames two fields of one that has none.
pub struct StubDoor;

impl Door for StubDoor {
    fn read(&self, body: &str) -> Result<Withdraw, Vec<BadField>> {
        let body: Value = serde_json::from_str(body).unwrap();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let Some(nullifier) = text(&body["public_inputs"]["nf"]) else {
            let both = ["proof", "public_inputs"].map(|field| BadField::new(field, "is missing"));
            return Err(both.to_vec());
        };
        let amount = body["outputs"][0]["amount"].as_u64().unwrap_or_default();
        Ok(Withdraw {
            network: "sim".into(),
            program: "pool".into(),
            proof: text(&body["proof_bytes"]).unwrap_or_default(),
            root: "aa".into(),
            nullifier,
            amount,
            outputs: vec![Output { recipient: "alice".into(), amount }],
            priority: body["priority"].as_u64().map_or(PRIORITY, |given| given as u32),
        })
    }
}

pub fn body(nullifier: &str, amount: u64) -> Value {
    json!({
        "outputs": [{"recipient": "alice", "amount": amount}], "policy": {"fee_bps": 75},
        "public_inputs": {"nf": nullifier}, "proof_bytes": "AAAA",
    })
}

pub async fn post(world: &World, headers: &[(&str, &str)], body: &Value) -> Answer {
    let mut all = vec![("content-type", "application/json")];
    all.extend_from_slice(headers);
    world.send(request("POST", "/withdraw", &all, body.to_string())).await
}

pub fn id_of(answer: &Answer) -> String {
    answer.json()["request_id"].as_str().unwrap_or_else(|| panic!("{}", answer.text)).to_owned()
}

pub fn status_path(id: &str) -> String {
    format!("/status/{id}")
}

#[tokio::test]
async fn a_withdraw_is_queued_then_processing_with_confirmed_shown_then_completed() {
    let world = World::new();
    let answer = post(&world, &[], &body("aa", 7)).await;
    assert_eq!(answer.status, 202);
    let id = id_of(&answer);
    assert_eq!(answer.json(), json!({"request_id": id, "status": "queued"}));
    assert_eq!(answer.header("location"), Some(&*status_path(&id)));
    let created_at = "2025-10-10T10:00:00.000Z";
    let queued = json!({"request_id": id, "status": "queued", "tx_id": null, "confirmed": false,
        "created_at": created_at, "completed_at": null, "error": null});
    assert_eq!(world.get(&status_path(&id)).await.json(), queued);

    world.pass_ms(1_250);
    world.advance(&id, &[Event::AttemptStored], |mut step| {
        step.tx_hash = Some("5VER".into());
        step
    });
    let sent = world.get(&status_path(&id)).await.json();
    assert_eq!((&sent["status"], &sent["confirmed"]), (&json!("processing"), &json!(false)));
    world.advance(&id, &[Event::Included], |step| step);
    let confirmed = world.get(&status_path(&id)).await.json();
    assert_eq!(
        (&confirmed["status"], &confirmed["confirmed"]),
        (&json!("processing"), &json!(true))
    );
    world.advance(&id, &[Event::Landed], |step| step);
    let completed = json!({"request_id": id, "status": "completed", "tx_id": "5VER",
        "confirmed": true, "created_at": created_at,
        "completed_at": "2025-10-10T10:00:01.250Z", "error": null});
    assert_eq!(world.get(&status_path(&id)).await.json(), completed);
}

#[tokio::test]
async fn a_nullifier_in_use_is_refused_with_the_first_request_unless_it_is_the_same() {
    let world = World::new();
    let first = id_of(&post(&world, &[], &body("aa", 7)).await);
    let again = post(&world, &[], &body("aa", 7)).await;
    assert_eq!((again.status.as_u16(), id_of(&again)), (202, first.clone()));
    let mut urgent = body("aa", 7);
    urgent["priority"] = json!(900);
    assert_eq!(id_of(&post(&world, &[], &urgent).await), first, "the same, only sooner");
    let spent = format!("public_inputs: the nullifier is spent by request {first}");
    post(&world, &[], &body("aa", 8)).await.check_error(409, &spent);
    post(&world, &[("idempotency-key", "k")], &body("aa", 8)).await.check_error(409, &spent);
    assert_eq!(post(&world, &[], &body("bb", 8)).await.status, 202);
    assert_eq!(world.stored(), 2);
}

#[tokio::test]
async fn nobody_is_told_another_clients_request() {
    let key = |secret: &str, tenant: &str| {
        ApiKey::from_secret(secret, tenant, &[Scope::Submit, Scope::Read])
    };
    let keys = vec![key("0123456789abcdef", "acme"), key("fedcba9876543210", "other")];
    let world = World::with(|config| config.auth = Auth::Keys(keys));
    let acme = [("x-api-key", "0123456789abcdef")];
    let other = [("x-api-key", "fedcba9876543210")];
    let first = id_of(&post(&world, &acme, &body("aa", 7)).await);
    let refused = post(&world, &other, &body("aa", 7)).await;
    refused.check_error(409, "public_inputs: the nullifier is spent by another client's request");
    assert!(!refused.text.contains(&first));
}

#[tokio::test]
async fn the_same_key_gives_the_same_request_for_ever() {
    let world = World::new();
    let key = [("idempotency-key", "k1")];
    let first = post(&world, &key, &body("aa", 7)).await;
    assert_eq!(id_of(&first), request_id("", "k1").to_string());
    assert_eq!(id_of(&post(&world, &key, &body("aa", 7)).await), id_of(&first));
    let other = post(&world, &key, &body("bb", 7)).await;
    let told = "idempotency key \"k1\" was used for a transfer with another nullifier; a new \
                transfer needs a new key";
    other.check_error(409, told);
}

#[tokio::test]
async fn all_that_is_wrong_is_told_at_once_and_strange_fields_are_refused() {
    let world = World::new();
    let nothing = post(&world, &[], &json!({"outputs": []})).await;
    nothing.check_error(400, "proof: is missing; also public_inputs: is missing");
    let mut misspelt = body("aa", 7);
    misspelt["prioritty"] = json!(1);
    let told = "\"prioritty\": is not a field; the fields are proof, proof_bytes, public_inputs, \
                outputs, fee_bps, policy, priority";
    post(&world, &[], &misspelt).await.check_error(400, told);
    let id = world.get("/status/7").await;
    id.check_error(400, "request_id: must be a UUID, as the answer to the POST gave it");
    let nobody = "550e8400-e29b-41d4-a716-446655440000";
    let told = format!("no withdraw has the request id {nobody}");
    world.get(&status_path(nobody)).await.check_error(404, &told);
    assert_eq!(world.stored(), 0);
}

#[tokio::test]
async fn without_a_pool_the_rail_is_off() {
    let world = World::with(|config| config.solana = None);
    let off = "the rail solana is not configured";
    post(&world, &[], &body("aa", 7)).await.check_error(404, off);
    let nobody = status_path("550e8400-e29b-41d4-a716-446655440000");
    world.get(&nobody).await.check_error(404, off);
}
