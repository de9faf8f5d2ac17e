//! What a service answers over HTTP, ours or anybody's.
//!
//! Only the contract is used: the set-up and the look at balances are the tester's ([`Reached`]).

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::join_all;
use serde_json::{Value, json};

use super::{ALICE, BOB, checks, run_checks};
use crate::words::{AccountId, Kind, ReqId};

/// How the checks reach a service.
#[async_trait]
pub trait Reached: Send + Sync {
    /// Makes one call; the status and the JSON of the answer.
    async fn call(&self, method: &str, path: &str, body: Option<String>) -> (u16, Value);
    /// Gives an account money from outside.
    async fn fund(&self, account: AccountId, amount: u64);
    /// Available and frozen.
    async fn held(&self, account: AccountId) -> (u64, u64);
}

pub(super) struct Service {
    reached: Arc<dyn Reached>,
}

/// Runs all checks of services. `make` starts one of that kind on which nobody has an account yet.
pub async fn exercise_service(make: impl AsyncFn(Kind) -> Arc<dyn Reached>) {
    let service = async |kind| Service { reached: make(kind).await };
    run_checks(&[CHECKS], service).await;
}

checks!(Service:
    a_service_tells_its_contract_and_its_users,
    a_transfer_is_withdrawn_and_committed,
    a_transfer_is_withdrawn_and_rolled_back,
    a_refusal_is_told_as_an_error_and_stays,
    a_query_tells_done_refused_and_unknown,
    the_same_id_with_other_parameters_is_answered_409,
    a_commit_without_its_withdrawal_is_answered_409_and_not_recorded,
    what_can_never_be_valid_is_answered_400,
    one_of_many_equal_calls_acts,
);

fn success() -> (u16, Value) {
    (200, json!({ "success": true }))
}

fn moved(id: u128, account: AccountId, amount: u64) -> Value {
    json!({
        "req_id": ReqId(id).to_string(),
        "user_id": account.user_id,
        "asset_id": account.asset_id,
        "amount": amount,
    })
}

fn only(id: u128) -> Value {
    json!({ "req_id": ReqId(id).to_string() })
}

impl Service {
    async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.reached.call("POST", path, Some(body.to_string())).await
    }

    async fn get(&self, path: &str) -> Value {
        let (status, body) = self.reached.call("GET", path, None).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    async fn query(&self, id: u128, operation: &str) -> Value {
        self.get(&format!("/operations/{}/{operation}", ReqId(id))).await
    }

    async fn freezes(&self) -> bool {
        self.get("/contract").await["freezes"] == true
    }
}

async fn a_service_tells_its_contract_and_its_users(service: Service) {
    let contract = service.get("/contract").await;
    assert!(contract["name"].is_string() && contract["freezes"].is_boolean(), "{contract}");
    let window = &contract["dedupe_window_s"];
    assert!(window.is_null() || window.is_u64(), "{contract}");
    let known = async || service.get(&format!("/users/{}", ALICE.user_id)).await;
    assert_eq!(known().await, json!({ "known": false }));
    assert_eq!(service.post("/deposit", moved(1, ALICE, 5)).await, success());
    assert_eq!(known().await, json!({ "known": true }));
}

async fn a_transfer_is_withdrawn_and_committed(service: Service) {
    service.reached.fund(ALICE, 100).await;
    let frozen = if service.freezes().await { 30 } else { 0 };
    for _ in 0..2 {
        assert_eq!(service.post("/withdraw", moved(1, ALICE, 30)).await, success());
        assert_eq!(service.reached.held(ALICE).await, (70, frozen));
    }
    for _ in 0..2 {
        assert_eq!(service.post("/commit", only(1)).await, success());
        assert_eq!(service.reached.held(ALICE).await, (70, 0));
    }
    let (status, refused) = service.post("/rollback", only(1)).await;
    assert!(status == 200 && refused["error"].is_string(), "{refused}");
    assert_eq!(service.reached.held(ALICE).await, (70, 0));
}

async fn a_transfer_is_withdrawn_and_rolled_back(service: Service) {
    service.reached.fund(ALICE, 100).await;
    assert_eq!(service.post("/withdraw", moved(1, ALICE, 30)).await, success());
    for _ in 0..2 {
        assert_eq!(service.post("/rollback", only(1)).await, success());
        assert_eq!(service.reached.held(ALICE).await, (100, 0));
    }
    let (status, refused) = service.post("/commit", only(1)).await;
    assert!(status == 200 && refused["error"].is_string(), "{refused}");
}

async fn a_refusal_is_told_as_an_error_and_stays(service: Service) {
    service.reached.fund(ALICE, 10).await;
    let first = service.post("/withdraw", moved(1, ALICE, 11)).await;
    assert!(first.0 == 200 && first.1["error"].is_string(), "{first:?}");
    service.reached.fund(ALICE, 10).await;
    assert_eq!(service.post("/withdraw", moved(1, ALICE, 11)).await, first);
    assert_eq!(service.reached.held(ALICE).await, (20, 0));
}

async fn a_query_tells_done_refused_and_unknown(service: Service) {
    service.post("/deposit", moved(1, ALICE, 5)).await;
    let (_, refused) = service.post("/withdraw", moved(2, ALICE, 6)).await;
    assert_eq!(service.query(1, "deposit").await, json!({ "status": "done" }));
    let expected = json!({ "status": "refused", "error": refused["error"] });
    assert_eq!(service.query(2, "withdraw").await, expected);
    for (id, operation) in [(1, "withdraw"), (2, "commit"), (3, "deposit"), (3, "rollback")] {
        assert_eq!(service.query(id, operation).await, json!({ "status": "unknown" }));
    }
}

async fn the_same_id_with_other_parameters_is_answered_409(service: Service) {
    service.post("/deposit", moved(1, ALICE, 50)).await;
    service.post("/withdraw", moved(2, ALICE, 10)).await;
    for (path, other) in [
        ("/deposit", moved(1, ALICE, 51)),
        ("/deposit", moved(1, BOB, 50)),
        ("/withdraw", moved(2, ALICE, 9)),
    ] {
        let (status, body) = service.post(path, other).await;
        assert!(status == 409 && body["error"].is_string(), "{status} {body}");
    }
    assert_eq!(service.reached.held(ALICE).await.0, 40);
    assert_eq!(service.reached.held(BOB).await, (0, 0));
}

async fn a_commit_without_its_withdrawal_is_answered_409_and_not_recorded(service: Service) {
    service.reached.fund(ALICE, 10).await;
    for operation in ["commit", "rollback"] {
        let (status, body) = service.post(&format!("/{operation}"), only(1)).await;
        assert!(status == 409 && body["error"].is_string(), "{status} {body}");
        assert_eq!(service.query(1, operation).await, json!({ "status": "unknown" }));
    }
    assert_eq!(service.post("/withdraw", moved(1, ALICE, 10)).await, success());
    assert_eq!(service.post("/commit", only(1)).await, success());
}

async fn what_can_never_be_valid_is_answered_400(service: Service) {
    let mut negative = moved(1, ALICE, 1);
    negative["amount"] = json!(-1);
    let mut text = moved(1, ALICE, 1);
    text["amount"] = json!("1");
    let mut nameless = moved(1, ALICE, 1);
    nameless["req_id"] = json!("one");
    for body in [moved(1, ALICE, 0), negative, text, nameless, json!({}), json!([])] {
        for path in ["/withdraw", "/deposit"] {
            let (status, answer) = service.post(path, body.clone()).await;
            assert!(status == 400 && answer["error"].is_string(), "{body}: {status} {answer}");
        }
    }
    let (status, _) = service.reached.call("POST", "/commit", Some("{".into())).await;
    assert_eq!(status, 400);
    assert_eq!(service.query(1, "deposit").await, json!({ "status": "unknown" }));
}

async fn one_of_many_equal_calls_acts(service: Service) {
    service.reached.fund(ALICE, 100).await;
    let calls = (0..32).map(|_| service.post("/withdraw", moved(1, ALICE, 10)));
    for answer in join_all(calls).await {
        assert_eq!(answer, success());
    }
    assert_eq!(service.reached.held(ALICE).await.0, 90);
}
