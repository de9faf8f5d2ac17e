//! The service over HTTP, its book on PostgreSQL: the contract is the same.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use landfall_conformance::ManualClock;
use landfall_ledger::conformance::{Reached, exercise_service};
use landfall_ledger::{AccountId, Contract, serve};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::{open, server};

/// A service by its URL.
struct Reach {
    url: String,
    client: reqwest::Client,
    funded: AtomicUsize,
}

#[async_trait]
impl Reached for Reach {
    async fn call(&self, method: &str, path: &str, body: Option<String>) -> (u16, Value) {
        let method = method.parse().expect("a method");
        let request = self.client.request(method, format!("{}{path}", self.url));
        let answer = request.body(body.unwrap_or_default()).send().await.expect("an answer");
        (answer.status().as_u16(), answer.json().await.expect("JSON"))
    }

    async fn fund(&self, AccountId { user_id, asset_id }: AccountId, amount: u64) {
        let reference = self.funded.fetch_add(1, Ordering::Relaxed).to_string();
        let body = json!({
            "ref": reference, "user_id": user_id, "asset_id": asset_id, "amount": amount
        });
        let told = self.call("POST", "/fund", Some(body.to_string())).await;
        assert_eq!(told, (200, json!({ "success": true })));
    }

    async fn held(&self, account: AccountId) -> (u64, u64) {
        let (_, told) = self.call("GET", &format!("/accounts/{}", account.user_id), None).await;
        let accounts = told["accounts"].as_array().expect("accounts");
        let found = accounts.iter().find(|one| one["asset_id"] == account.asset_id);
        let number = |one: &Value, name: &str| one[name].as_u64().expect("a number");
        found.map_or((0, 0), |one| (number(one, "available"), number(one, "frozen")))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_service_keeps_the_contract() {
    let server = server();
    let services = AtomicUsize::new(0);
    let start = async |kind| {
        let name = format!("service-{}", services.fetch_add(1, Ordering::Relaxed));
        let book = Arc::new(open(server.url(), Contract::new(name, kind)).await);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        tokio::spawn(serve(listener, book, Arc::new(ManualClock::at(77)), pending()));
        let (client, funded) = (reqwest::Client::new(), AtomicUsize::new(0));
        Arc::new(Reach { url, client, funded }) as Arc<dyn Reached>
    };
    exercise_service(start).await;
}
