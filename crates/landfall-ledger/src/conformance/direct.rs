//! A service of ours, reached without a network.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use landfall_core::Clock;
use serde_json::{Value, json};

use super::Reached;
use crate::book::Book;
use crate::server::router;
use crate::words::AccountId;

/// The routes of a service.
pub struct Direct {
    routes: TowerToHyperService<Router>,
    funded: AtomicUsize,
}

impl Direct {
    pub fn new(book: Arc<dyn Book>, clock: Arc<dyn Clock>) -> Direct {
        let routes = TowerToHyperService::new(router(book, clock));
        Direct { routes, funded: AtomicUsize::new(0) }
    }
}

#[async_trait]
impl Reached for Direct {
    async fn call(&self, method: &str, path: &str, body: Option<String>) -> (u16, Value) {
        let request = Request::builder().method(method).uri(path);
        let request = request.body(Body::from(body.unwrap_or_default())).expect("a request");
        let Ok(answer) = self.routes.call(request).await;
        let status = answer.status().as_u16();
        let text = to_bytes(answer.into_body(), usize::MAX).await.expect("a body");
        (status, serde_json::from_slice(&text).expect("JSON"))
    }

    async fn fund(&self, account: AccountId, amount: u64) {
        fund(self, self.funded.fetch_add(1, Ordering::Relaxed), account, amount).await;
    }

    async fn held(&self, account: AccountId) -> (u64, u64) {
        held(self, account).await
    }
}

/// Funds an account by the route that services of ours have for it; `number` is new each time.
pub async fn fund(service: &dyn Reached, number: usize, account: AccountId, amount: u64) {
    let AccountId { user_id, asset_id } = account;
    let body = json!({
        "ref": number.to_string(), "user_id": user_id, "asset_id": asset_id, "amount": amount
    });
    let told = service.call("POST", "/fund", Some(body.to_string())).await;
    assert_eq!(told, (200, json!({ "success": true })));
}

/// Available and frozen, by the route that services of ours have for it.
pub async fn held(service: &dyn Reached, account: AccountId) -> (u64, u64) {
    let (_, told) = service.call("GET", &format!("/accounts/{}", account.user_id), None).await;
    let accounts = told["accounts"].as_array().expect("accounts");
    let found = accounts.iter().find(|one| one["asset_id"] == account.asset_id);
    let number = |one: &Value, name: &str| one[name].as_u64().expect("a number");
    found.map_or((0, 0), |one| (number(one, "available"), number(one, "frozen")))
}
