//! The HTTP of a node, past all faults of the wire.

use std::sync::Arc;

use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use landfall_sim_front::rpc::{Failure, methods_of, respond};
use landfall_sim_front::{Front, Host, Reply};
use serde_json::Value;

use super::super::rpc::{self, Node};
use super::faults::Own;
use super::{World, routes};

/// As Agave's (`MAX_REQUEST_BODY_SIZE`).
const MAX_BODY_BYTES: usize = 50 * 1024;

impl Host for World {
    type Own = Own;
    /// The body, or the answer of a node that could not read one.
    type Asked = Result<Value, Response>;

    fn front(&self) -> &Front<Own> {
        &self.front
    }

    fn routes(self: Arc<Self>) -> Router {
        routes::router(self)
    }

    async fn read(&self, request: Request) -> Result<Value, Response> {
        if request.method() != Method::POST {
            let words = "Used HTTP Method is not allowed. POST or OPTIONS is required";
            return Err((StatusCode::METHOD_NOT_ALLOWED, words).into_response());
        }
        let body = to_bytes(request.into_body(), MAX_BODY_BYTES).await;
        let body = body.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE.into_response())?;
        serde_json::from_slice(&body).map_err(|_| {
            let failure = Failure::new(-32700, "Parse error");
            Json(respond(&Value::Null, Err(failure))).into_response()
        })
    }

    fn names<'a>(&self, asked: &'a Result<Value, Response>) -> Vec<&'a str> {
        asked.as_ref().map_or_else(|_| vec!["(refused)"], methods_of)
    }

    async fn act(self: Arc<Self>, index: usize, asked: Result<Value, Response>, own: Own) -> Reply {
        let body = match asked {
            Ok(body) => body,
            Err(refusal) => return refusal.into(),
        };
        let (forgets, lies) = {
            let mut dice = self.front.dice.lock();
            (dice.happens(own.forget), dice.happens(own.lie))
        };
        let (lag_blocks, history_blocks) = (own.lag_blocks, own.history_blocks);
        let mut chain = self.chain.lock();
        let ledger = &mut chain.ledger;
        let mut node = Node { ledger, index, lag_blocks, history_blocks, forgets, lies };
        Json(rpc::handle(&mut node, &body)).into()
    }
}
