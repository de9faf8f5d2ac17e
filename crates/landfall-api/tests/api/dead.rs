//! Dead letters over HTTP.

use landfall_api::{ApiKey, Auth, Scope};
use landfall_core::{Event, Fault, RailName};
use landfall_engine::dead::Replay;
use serde_json::json;

use crate::calls::{DIRECT, post};
use crate::world::{ALICE, Answer, TO_COMPLETED, World, request};

async fn replay(world: &World, id: &str, body: &str) -> Answer {
    let headers = [("content-type", "application/json")];
    let path = format!("/dead/{id}/replay");
    world.send(request("POST", &path, &headers, body.to_owned())).await
}

/// Two that failed, on two rails, and two that did not.
async fn world() -> World {
    let world = World::new();
    for key in ["dead", "alive", "landed"] {
        world.pay_alice(key).await;
    }
    let fault = Fault {
        error_type: "refused".into(),
        message: "the account is closed".into(),
        retry_count: 1,
        will_retry: false,
    };
    world.advance("dead", &[Event::Refused], |mut step| {
        step.error = Some(fault);
        step
    });
    world.advance("landed", &TO_COMPLETED, |step| step);
    let call = post(&world, "direct", &[("idempotency-key", "c")], DIRECT).await.json();
    world.advance(call["transactionId"].as_str().unwrap(), &[Event::GaveUp], |step| step);
    world
}

#[tokio::test]
async fn dead_letters_are_listed_and_shown_with_what_came_since() {
    let world = world().await;
    let page = world.get("/dead").await.json();
    let rails: Vec<_> =
        page["transfers"].as_array().unwrap().iter().map(|one| &one["rail"]).collect();
    assert_eq!(rails, ["evm", "near"]);
    let first = world.get("/dead?limit=1").await.json();
    assert_eq!(first["next_cursor"], "4");
    let rest = world.get("/dead?limit=1&cursor=4").await.json();
    assert_eq!((&rest["transfers"][0]["id"], &rest["next_cursor"]), (&json!("1"), &json!(null)));
    assert_eq!(world.get("/dead?rail=internal").await.json()["transfers"], json!([]));
    let rails = RailName::ALL.map(RailName::as_str).join(", ");
    let rule = format!("rail: must be one of {rails}");
    world.get("/dead?rail=mars").await.check_error(400, &rule);

    let shown = world.get("/dead/1").await.json();
    assert_eq!(shown["error"]["message"], "the account is closed");
    assert_eq!((&shown["state"], &shown["replayable"]), (&json!("FAILED"), &json!(true)));
    let keys: Vec<_> =
        shown["look_alikes"].as_array().unwrap().iter().map(|one| &one["key"]).collect();
    assert_eq!(keys, ["alive", "landed"]);
    world.get("/dead/2").await.check_error(404, "there is no dead letter 2");
    world.get("/dead/x").await.check_error(400, "id: must be a number, as GET /dead shows it");
}

#[tokio::test]
async fn a_replay_reopens_a_dead_letter_and_nothing_else() {
    let world = world().await;
    let reopened = replay(&world, "1", r#"{"reason": "open again", "anyway": true}"#).await;
    assert_eq!(reopened.status, 200, "{}", reopened.text);
    let body = reopened.json();
    assert_eq!((&body["state"], &body["failed_at"]), (&json!("QUEUED_REGISTRATION"), &json!(null)));
    let wish = Replay { reason: "open again".into(), anyway: true };
    assert_eq!(world.relay.book.lock().replays, [wish]);
    let reason = r#"{"reason": "again"}"#;
    let refused = "transfer 3 is COMPLETED: only what failed, proven unmoved, is replayed";
    replay(&world, "3", reason).await.check_error(409, refused);
    replay(&world, "77", reason).await.check_error(404, "there is no transfer 77");
    let missing = "reason: is missing; say why, for those who come after";
    replay(&world, "4", "{}").await.check_error(400, missing);
    let rule = "reason: must be a string of 1 to 1000 characters";
    replay(&world, "4", r#"{"reason": ""}"#).await.check_error(400, rule);
    replay(&world, "4", r#"{"reason": 7}"#).await.check_error(400, rule);
    let rule = "anyway: must be true or false";
    replay(&world, "4", r#"{"reason": "r", "anyway": 1}"#).await.check_error(400, rule);
    assert_eq!(world.relay.book.lock().replays.len(), 1);
}

#[tokio::test]
async fn only_operators_see_and_reopen_dead_letters() {
    let world = World::with(|config| {
        let client = ApiKey::from_secret("client", "acme", &[Scope::Submit, Scope::Read]);
        let operator = ApiKey::from_secret("operator", "house", &[Scope::Operate]);
        config.auth = Auth::Keys(vec![client, operator]);
    });
    let headers =
        [("content-type", "application/json"), ("x-api-key", "client"), ("x-idempotency-key", "k")];
    let paid = world.send(request("POST", "/transfer", &headers, ALICE)).await;
    assert_eq!(paid.status, 201);
    world.advance("k", &[Event::Refused], |step| step);
    let ask = async |method: &str, path: &str, key: &str| {
        let headers = [("x-api-key", key), ("content-type", "application/json")];
        world.send(request(method, path, &headers, r#"{"reason": "r"}"#)).await
    };
    for (method, path) in [("GET", "/dead"), ("GET", "/dead/1"), ("POST", "/dead/1/replay")] {
        let lacks = "the API key lacks the scope \"operate\"";
        ask(method, path, "client").await.check_error(403, lacks);
        assert_eq!(ask(method, path, "operator").await.status, 200, "{method} {path}");
    }
}
