//! Calls on EVM chains.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use landfall_api::{ApiKey, Auth, Scope};
use landfall_core::cache::{CacheError, StatusCache};
use landfall_core::store::StoreError;
use landfall_core::{BadField, Event, Fault};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::world::{Answer, FORWARDER, World, request};

pub const DIRECT: &str = r#"{"to": "0x5FbDB2315678afecb367f032d93F642f64180aa3",
    "data": "0xd09de08a", "value": "0", "gas": "100000", "speed": "fast"}"#;
const USER: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";

/// What a user signs.
fn to_sign(nonce: &str) -> Value {
    json!({"from": USER, "to": "0x5FbDB2315678afecb367f032d93F642f64180aa3", "value": "0",
        "gas": "100000", "nonce": nonce, "deadline": "1790000000", "data": "0xd09de08a"})
}

fn signature() -> String {
    format!("0x{}", "1b".repeat(65))
}

/// A user's request, as OpenZeppelin's clients send it.
pub fn signed(nonce: &str) -> Value {
    json!({"request": to_sign(nonce), "signature": signature()})
}

pub async fn post(world: &World, kind: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut all = vec![("content-type", "application/json")];
    all.extend_from_slice(headers);
    world.send(request("POST", &format!("/api/v1/relay/{kind}"), &all, body.to_owned())).await
}

pub fn status_path(id: &str) -> String {
    format!("/api/v1/relay/status/{id}")
}

fn id_of(answer: &Answer) -> String {
    answer.json()["transactionId"].as_str().unwrap_or_else(|| panic!("{}", answer.text)).to_owned()
}

fn with(body: &str, field: &str, value: Value) -> String {
    let mut call: Value = serde_json::from_str(body).unwrap();
    call[field] = value;
    call.to_string()
}

const LANDED: [Event; 3] = [Event::AttemptStored, Event::Included, Event::Landed];

#[tokio::test]
async fn a_call_is_pending_until_it_is_final_and_then_a_success() {
    let world = World::new();
    let answer = post(&world, "direct", &[], DIRECT).await;
    assert_eq!(answer.status, 202);
    let id = id_of(&answer);
    let created_at = "2025-10-10T10:00:00.000Z";
    let taken = json!({"transactionId": id, "status": "pending", "createdAt": created_at});
    assert_eq!(answer.json(), taken);
    assert_eq!(answer.header("location"), Some(&*status_path(&id)));
    let pending = json!({"transactionId": id, "status": "pending", "hash": null,
        "confirmedAt": null, "result": null, "error_message": null});
    assert_eq!(world.get(&status_path(&id)).await.json(), pending);

    world.pass_ms(15_250);
    world.advance(&id, &LANDED[..2], |mut step| {
        step.tx_hash = Some("0xabc".into());
        step
    });
    let mined = world.get(&status_path(&id)).await.json();
    assert_eq!((&mined["status"], &mined["hash"]), (&json!("pending"), &json!("0xabc")));
    world.advance(&id, &LANDED[2..], |mut step| {
        step.retry_count = 2;
        step
    });
    let result = json!({"hash": "0xabc", "chain": "sim", "chainId": 31_337, "retries": 2});
    let success = json!({"transactionId": id, "status": "success", "hash": "0xabc",
        "confirmedAt": "2025-10-10T10:00:15.250Z", "result": result, "error_message": null});
    assert_eq!(world.get(&status_path(&id)).await.json(), success);
}

#[tokio::test]
async fn a_failure_says_why_and_so_does_what_waits() {
    let world = World::new();
    let id = id_of(&post(&world, "direct", &[], DIRECT).await);
    world.advance(&id, &[], |mut step| {
        step.aside = Some("waits for funds".into());
        step
    });
    assert_eq!(world.get(&status_path(&id)).await.json()["error_message"], "waits for funds");
    let fault = Fault {
        error_type: "reverted".into(),
        message: "the contract refuses: paused".into(),
        retry_count: 0,
        will_retry: false,
    };
    world.advance(&id, &[Event::Refused], |mut step| {
        step.error = Some(fault);
        step
    });
    let failed = json!({"transactionId": id, "status": "failed", "hash": null,
        "confirmedAt": null, "result": null, "error_message": "the contract refuses: paused"});
    assert_eq!(world.get(&status_path(&id)).await.json(), failed);
}

#[tokio::test]
async fn a_users_request_is_taken_flat_and_nested() {
    let world = World::new();
    let nested = post(&world, "gasless", &[], &signed("1").to_string()).await;
    assert_eq!(nested.status, 202, "{}", nested.text);
    let mut flat = to_sign("2");
    flat["signature"] = json!(signature());
    flat["forwarder"] = json!(FORWARDER);
    let flat = post(&world, "gasless", &[], &flat.to_string()).await;
    assert_eq!(flat.status, 202, "{}", flat.text);
    let page = world.get("/api/v1/relay/transactions").await.json();
    assert_eq!(page["transfers"][0]["transactionId"], id_of(&flat));
    assert_eq!(page["transfers"][0]["type"], "gasless");
    assert_eq!(page["transfers"][1]["from"], USER);
}

#[tokio::test]
async fn a_nonce_in_use_is_refused_by_its_owners_id() {
    let world = World::with(|config| {
        let key = |tenant: &str| ApiKey::from_secret(tenant, tenant, &Scope::ALL);
        config.auth = Auth::Keys(vec![key("acme"), key("other")]);
    });
    let ask = async |tenant: &str, nonce: &str| {
        post(&world, "gasless", &[("x-api-key", tenant)], &signed(nonce).to_string()).await
    };
    let first = id_of(&ask("acme", "5").await);
    let taken = format!("nonce: 5 of {USER} is taken at this forwarder by");
    ask("acme", "5").await.check_error(409, &format!("{taken} transaction {first}"));
    ask("acme", "0x5").await.check_error(409, &format!("{taken} transaction {first}"));
    ask("other", "5").await.check_error(409, &format!("{taken} another client's transaction"));
    assert_eq!(ask("other", "6").await.status, 202);
    world.advance(&first, &[Event::Refused], |step| step);
    assert_eq!(ask("other", "5").await.status, 202, "proven unmoved, it lets go of its nonce");
}

#[tokio::test]
async fn the_same_key_is_the_same_call_and_another_body_a_conflict() {
    let world = World::new();
    let ask = async |key: &str, body: &str| {
        post(&world, "direct", &[("idempotency-key", key)], body).await
    };
    let first = ask("call-1", DIRECT).await;
    let written_otherwise =
        with(&with(DIRECT, "gas", json!(100_000)), "value", json!("0x0")).replace("FbDB", "fbdb");
    let written_otherwise = written_otherwise.to_lowercase();
    let second = ask("call-1", &written_otherwise).await;
    assert_eq!((second.status.as_u16(), id_of(&second)), (202, id_of(&first)), "{}", second.text);
    assert_ne!(id_of(&ask("call-2", DIRECT).await), id_of(&first));
    assert_ne!(id_of(&post(&world, "direct", &[], DIRECT).await), id_of(&first));
    ask("call-1", &with(DIRECT, "data", json!("0x"))).await.check_error(
        409,
        "idempotency key \"call-1\" was used for a transfer with another data; \
         a new transfer needs a new key",
    );
    let elsewhere = ask("call-1", &with(DIRECT, "chain", json!("base"))).await;
    assert!(elsewhere.text.contains("with another chain;"), "{}", elsewhere.text);
    assert_eq!(ask("call-1", &with(DIRECT, "chain", json!("sim"))).await.status, 202);

    world.advance(&id_of(&first), &LANDED, |step| step);
    let repeated = ask("call-1", DIRECT).await;
    assert_eq!((repeated.status.as_u16(), &repeated.json()["status"]), (200, &json!("success")));
}

/// What the rail knows by now does not undo what was taken.
#[tokio::test]
async fn what_the_rail_refuses_is_named_but_a_repeat_is_answered() {
    let world = World::new();
    let key = [("idempotency-key", "k")];
    let body = signed("1").to_string();
    assert_eq!(post(&world, "gasless", &key, &body).await.status, 202);
    let forged = BadField::new("signature", "is not the user's");
    world.relay.book.lock().screened = Some(forged);
    assert_eq!(post(&world, "gasless", &key, &body).await.status, 202);
    let other = post(&world, "gasless", &[], &signed("2").to_string()).await;
    other.check_error(400, "signature: is not the user's");
    assert_eq!(world.stored(), 1);
}

#[tokio::test]
async fn numbers_are_taken_exactly_or_not_at_all() {
    let world = World::new();
    let check = async |field: &str, value: Value, taken: Option<&str>| {
        let answer = post(&world, "direct", &[], &with(DIRECT, field, value.clone())).await;
        let said = answer.json()["error"].as_str().map(str::to_owned);
        match (said, taken) {
            (None, Some(shown)) => {
                let page = world.get("/api/v1/relay/transactions?limit=1").await.json();
                assert_eq!(page["transfers"][0]["value"], shown, "{value}");
            }
            (Some(said), None) => assert!(said.starts_with(&format!("{field}: must be")), "{said}"),
            (said, _) => panic!("{field} {value}: {said:?}"),
        }
    };
    let most = u128::MAX.to_string();
    check("value", json!(most), Some(&most)).await;
    check("value", json!("0xde0b6b3a7640000"), Some("1000000000000000000")).await;
    check("value", json!(9_007_199_254_740_991_u64), Some("9007199254740991")).await;
    check("value", Value::Null, Some("0")).await;
    check("gas", json!(21_000), Some("0")).await;
    for bad in [json!(9_007_199_254_740_992_u64), json!(1.5), json!(1e3), json!(-1), json!(true)] {
        check("value", bad, None).await;
    }
    for bad in ["1.5", "-1", "", "0x", "1e3", " 1", "1_000", "+1"] {
        check("value", json!(bad), None).await;
    }
    check("gas", json!(20_999), None).await;
    check("gas", json!("60000001"), None).await;
    let lost = post(&world, "direct", &[], &DIRECT.replace("\"0\"", "1000000000000000000")).await;
    lost.check_error(400, "value: must be a string: JSON numbers of 2^53 and more lose digits");
}

#[tokio::test]
async fn bad_calls_name_the_field_and_nothing_is_stored() {
    let world = World::new();
    let check = async |kind: &str, body: &str, message: &str| {
        let answer = post(&world, kind, &[], body).await;
        assert_eq!(answer.status, 400, "{body}");
        let said = answer.json()["error"].as_str().unwrap().to_owned();
        assert!(said.starts_with(message), "{body}: {said}");
    };
    check("direct", "{}", "to: is missing; give the address to call").await;
    check("direct", &with(DIRECT, "to", Value::Null), "to: is missing").await;
    check("direct", &with(DIRECT, "to", json!(5)), "to: must be a string").await;
    check("direct", &with(DIRECT, "to", json!("0x12")), "to: must be an address").await;
    check("direct", &DIRECT.replace("5Fb", "5fb"), "to: is mistyped: its checksum").await;
    check("direct", &with(DIRECT, "data", json!("0x0")), "data: must be 0x and an even").await;
    check("direct", &with(DIRECT, "speed", json!("now")), "speed: must be slow, average").await;
    let chain = "chain: unknown chain \"mars\"; known are: sim, base";
    check("direct", &with(DIRECT, "chain", json!("mars")), chain).await;
    check("direct", &with(DIRECT, "nonce", json!("1")), "\"nonce\": is not a field; the").await;
    check("direct", &DIRECT.replace("\"gas\"", "\"to\""), "to: is given twice").await;
    check("direct", "[]", "body: must be an object such as {\"to\"").await;
    check("direct", "{", "body: is cut off").await;
    for field in ["from", "to", "value", "gas", "nonce", "deadline", "data"] {
        let mut call = signed("1");
        call["request"].as_object_mut().unwrap().remove(field);
        let missing = format!("{field}: is missing; give it as the user has signed it");
        check("gasless", &call.to_string(), &missing).await;
    }
    let around = |field: &str, value: Value| with(&signed("1").to_string(), field, value);
    check("gasless", &around("signature", Value::Null), "signature: is missing").await;
    check("gasless", &around("signature", json!("0x1b")), "signature: is 1 bytes long").await;
    check("gasless", &around("request", json!([])), "request: must be an object").await;
    check("gasless", &around("nonce", json!("1")), "\"nonce\": is not a field").await;
    check("gasless", &around("forwarder", json!(USER)), "forwarder: this relay submits to").await;
    check("gasless", &around("chain", json!("base")), "forwarder: no forwarder is conf").await;
    let twice = signed("1").to_string().replacen('{', r#"{"request": {}, "#, 1);
    check("gasless", &twice, "request: is given twice").await;
    assert_eq!(world.stored(), 0);
}

#[tokio::test]
async fn calls_are_read_by_those_who_made_them() {
    let world = World::with(|config| {
        let key = |tenant: &str| ApiKey::from_secret(tenant, tenant, &Scope::ALL);
        config.auth = Auth::Keys(vec![key("acme"), key("other")]);
    });
    let id = id_of(&post(&world, "direct", &[("x-api-key", "acme")], DIRECT).await);
    let read = async |tenant: &str, path: &str| {
        world.send(request("GET", path, &[("x-api-key", tenant)], "")).await
    };
    assert_eq!(read("acme", &status_path(&id)).await.status, 200);
    assert_eq!(read("acme", &status_path(&id.to_uppercase())).await.status, 200);
    let unknown = format!("no transaction has the id {id}");
    read("other", &status_path(&id)).await.check_error(404, &unknown);
    let rule = "transactionId: must be a UUID, as the answer to the POST gave it";
    read("acme", &status_path("1")).await.check_error(400, rule);
    let count = async |tenant: &str, query: &str| {
        let page = read(tenant, &format!("/api/v1/relay/transactions{query}")).await.json();
        page["transfers"].as_array().unwrap_or_else(|| panic!("{page}")).len()
    };
    assert_eq!((count("acme", "").await, count("other", "").await), (1, 0));
    let to = "?to=0x5fbdb2315678afecb367f032d93f642f64180aa3&state=pending";
    assert_eq!(count("acme", to).await, 1);
    assert_eq!(count("acme", &to.replace("0aa3", "0aa4")).await, 0);
    assert_eq!(count("acme", "?state=mined").await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_call_ends_with_it() {
    let world = Arc::new(World::new());
    let id = id_of(&post(&world, "direct", &[], DIRECT).await);
    let waiting = tokio::spawn({
        let (world, path) = (world.clone(), format!("{}?wait=30s", status_path(&id)));
        async move { world.get(&path).await }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    world.advance(&id, &LANDED, |step| step);
    assert_eq!(waiting.await.unwrap().json()["status"], "success");
}

#[tokio::test]
async fn without_chains_the_rail_is_off() {
    let world = World::with(|config| config.evm = None);
    let off = "the rail evm is not configured";
    post(&world, "direct", &[], DIRECT).await.check_error(404, off);
    post(&world, "gasless", &[], "{}").await.check_error(404, off);
    let nobody = status_path("550e8400-e29b-41d4-a716-446655440000");
    world.get(&nobody).await.check_error(404, off);
}

/// A version, and what a transfer came to in it.
type Held = (u64, Map<String, Value>);

/// A cache that does as the seam says.
#[derive(Default)]
struct Shelf {
    held: Mutex<HashMap<String, Held>>,
}

#[async_trait]
impl StatusCache for Shelf {
    async fn get(&self, id: &str) -> Option<Map<String, Value>> {
        self.held.lock().get(id).map(|(_, body)| body.clone())
    }

    async fn put(&self, id: &str, version: u64, body: Map<String, Value>) {
        self.held.lock().insert(id.to_owned(), (version, body));
    }

    async fn forget(&self, id: &str, _: u64) -> Result<(), CacheError> {
        self.held.lock().remove(id);
        Ok(())
    }
}

#[tokio::test]
async fn only_what_is_final_is_remembered_and_for_its_owner_alone() {
    let shelf = Arc::new(Shelf::default());
    let world = World::with(|config| {
        let key = |tenant: &str| ApiKey::from_secret(tenant, tenant, &Scope::ALL);
        config.auth = Auth::Keys(vec![key("acme"), key("other")]);
        config.cache = Some(shelf.clone());
    });
    let id = id_of(&post(&world, "direct", &[("x-api-key", "acme")], DIRECT).await);
    let read = async |tenant: &str| {
        world.send(request("GET", &status_path(&id), &[("x-api-key", tenant)], "")).await
    };
    assert_eq!(read("acme").await.json()["status"], "pending");
    world.advance(&id, &LANDED[..2], |step| step);
    assert_eq!(read("acme").await.json()["status"], "pending");
    assert!(shelf.held.lock().is_empty());
    world.advance(&id, &LANDED[2..], |step| step);
    let success = read("acme").await.json();
    assert_eq!(success["status"], "success");
    let version = world.relay.book.lock().transfers[0].0.version;
    assert_eq!(shelf.held.lock()[&id].0, version);

    // From here on the store is not asked.
    let away = StoreError::Unavailable("away".into());
    world.relay.book.lock().store_error = Some(away);
    assert_eq!(read("acme").await.json(), success);
    assert_eq!(read("other").await.status, 503);
}
