//! The service over HTTP: the contract's checks, and the routes that are ours alone.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use landfall_conformance::ManualClock;
use landfall_ledger::conformance::{
    ALICE, BOB, Reached, exercise_service, fund_by_route, held_by_route,
};
use landfall_ledger::{AccountId, Book, Kind, MemoryBook, serve};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// A service by its URL.
pub struct Reach {
    pub url: String,
    pub client: reqwest::Client,
    funded: AtomicUsize,
}

impl Reach {
    pub fn new(url: String) -> Reach {
        Reach { url, client: reqwest::Client::new(), funded: AtomicUsize::new(0) }
    }

    pub async fn try_call(
        &self,
        method: &str,
        path: &str,
        body: Option<String>,
    ) -> reqwest::Result<(u16, String)> {
        let method = method.parse().expect("a method");
        let request = self.client.request(method, format!("{}{path}", self.url));
        let answer = request.body(body.unwrap_or_default()).send().await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }

    pub async fn get(&self, path: &str) -> Value {
        let (status, body) = self.call("GET", path, None).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    pub async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.call("POST", path, Some(body.to_string())).await
    }
}

#[async_trait]
impl Reached for Reach {
    async fn call(&self, method: &str, path: &str, body: Option<String>) -> (u16, Value) {
        let (status, text) = self.try_call(method, path, body).await.expect("an answer");
        (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {text}")))
    }

    async fn fund(&self, account: AccountId, amount: u64) {
        fund_by_route(self, self.funded.fetch_add(1, Ordering::Relaxed), account, amount).await;
    }

    async fn held(&self, account: AccountId) -> (u64, u64) {
        held_by_route(self, account).await
    }
}

pub async fn free_port() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.expect("a free port")
}

async fn start(kind: Kind) -> Reach {
    let listener = free_port().await;
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let book: Arc<dyn Book> = Arc::new(MemoryBook::new(super::contract(kind)));
    tokio::spawn(serve(listener, book, Arc::new(ManualClock::at(77)), pending()));
    Reach::new(url)
}

#[tokio::test]
async fn the_service_keeps_the_contract() {
    exercise_service(async |kind| Arc::new(start(kind).await) as Arc<dyn Reached>).await;
}

#[tokio::test]
async fn a_statement_tells_every_operation_and_its_head() {
    let service = start(Kind::Freeze).await;
    service.fund(ALICE, 100).await;
    let id = "6f1c3f0e-8a51-4d0b-9d8e-0f6a1c2b3d4e";
    let body = json!({ "req_id": id, "user_id": 4001, "asset_id": 1, "amount": 30 });
    service.post("/withdraw", body).await;
    service.post("/commit", json!({ "req_id": id })).await;
    service.post("/rollback", json!({ "req_id": id })).await;
    let told = service.get("/statement?after=1&until=3&limit=2").await;
    let line = json!({
        "seq": 2, "req_id": id, "operation": "withdraw", "outcome": "done", "user_id": 4001,
        "asset_id": 1, "amount": 30, "at_ms": 77, "available": 70, "frozen": 30
    });
    assert_eq!((&told["head"], &told["operations"][0]), (&json!(4), &line));
    assert_eq!(told["operations"].as_array().map(Vec::len), Some(2));
    let told = service.get("/accounts/4001/1/statement?after=3").await;
    let refused = &told["operations"][0];
    assert_eq!((&refused["outcome"], &refused["amount"]), (&json!("refused"), &json!(30)));
    assert_eq!(refused["error"], "the withdrawal was committed");
    assert_eq!(service.get("/statement?limit=1").await["operations"][0]["ref"], "0");
    let told = service.get("/balances?limit=5").await;
    let expected = json!([{
        "number": 1, "user_id": 4001, "asset_id": 1, "available": 70, "frozen": 0,
        "blocked": false, "seq": 3
    }]);
    assert_eq!((&told["head"], &told["balances"]), (&json!(4), &expected));
    let health = json!({ "status": "ok", "name": "funding", "head": 4 });
    assert_eq!(service.get("/health").await, health);
}

#[tokio::test]
async fn a_blocked_account_is_refused_in_words_and_freed_again() {
    let service = start(Kind::Direct).await;
    let block = async |user: u64, blocked: bool| {
        service.post(&format!("/accounts/{user}/1/block"), json!({ "blocked": blocked })).await
    };
    assert_eq!(block(4002, true).await, (404, json!({ "error": "no such account" })));
    service.fund(BOB, 5).await;
    assert_eq!(block(4002, true).await.0, 200);
    let deposit = |number: u8| {
        let req_id = format!("00000000-0000-0000-0000-0000000000{number:02}");
        json!({ "req_id": req_id, "user_id": 4002, "asset_id": 1, "amount": 1 })
    };
    let refused = (200, json!({ "error": "account frozen" }));
    assert_eq!(service.post("/deposit", deposit(1)).await, refused);
    assert_eq!(block(4002, false).await.0, 200);
    assert_eq!(service.post("/deposit", deposit(2)).await.1, json!({ "success": true }));
}

#[tokio::test]
async fn mistakes_are_named_and_money_from_outside_comes_once() {
    let service = start(Kind::Direct).await;
    let check = async |method: &str, path: &str, body: &str, status: u16, error: &str| {
        let answer = service.call(method, path, Some(body.into())).await;
        assert_eq!(answer, (status, json!({ "error": error })), "{method} {path} {body}");
    };
    let id = "6f1c3f0e-8a51-4d0b-9d8e-0f6a1c2b3d4e";
    let zero = format!(r#"{{"req_id":"{id}","user_id":1,"asset_id":1,"amount":0}}"#);
    check("POST", "/deposit", &zero, 400, "amount: must be at least 1").await;
    let extra = format!(r#"{{"req_id":"{id}","memo":"x"}}"#);
    check("POST", "/commit", &extra, 400, "memo: is not a field of this request").await;
    let bare = format!(r#"{{"req_id":"{id}"}}"#);
    check("POST", "/commit", &bare, 409, "no such withdrawal yet").await;
    check("POST", "/withdraw", &" ".repeat(5_000), 413, &too_large()).await;
    check("GET", "/statement?limit=0", "", 400, "limit: must be between 1 and 1000").await;
    check("GET", "/users/me", "", 400, "user_id: must be a whole number, not \"me\"").await;
    let which = "operation: must be withdraw, deposit, commit or rollback";
    check("GET", &format!("/operations/{id}/fund"), "", 400, which).await;
    check("GET", "/withdraw", "", 405, "the method is not for this route").await;
    check("GET", "/nowhere", "", 404, "no such route").await;
    service.fund(ALICE, 10).await;
    let other = r#"{"ref":"0","user_id":4001,"asset_id":1,"amount":11}"#;
    check("POST", "/fund", other, 409, "ref: was used for another fund").await;
    let nameless = r#"{"ref":"","user_id":4001,"asset_id":1,"amount":11}"#;
    check("POST", "/fund", nameless, 400, "ref: must have 1 to 200 bytes").await;
    assert_eq!(service.held(ALICE).await, (10, 0));
}

fn too_large() -> String {
    "body: is too large; at most 4096 bytes are taken".into()
}
