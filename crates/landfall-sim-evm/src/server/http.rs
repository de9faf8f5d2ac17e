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

/// As geth's (`defaultBodyLimit`).
const MAX_BODY_BYTES: usize = 5 * 1024 * 1024;

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
            return Err(StatusCode::METHOD_NOT_ALLOWED.into_response());
        }
        let body = to_bytes(request.into_body(), MAX_BODY_BYTES).await;
        let body = body.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE.into_response())?;
        serde_json::from_slice(&body).map_err(|_| {
            let answer = respond(&Value::Null, Err(Failure::new(-32700, "parse error")));
            (StatusCode::BAD_REQUEST, Json(answer)).into_response()
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
        let forgets = self.front.dice.lock().happens(own.forget);
        let mut chain = self.chain.lock();
        let ledger = &mut chain.ledger;
        let mut node = Node { ledger, index, lag_blocks: own.lag_blocks, forgets };
        Json(rpc::handle(&mut node, &body)).into()
    }
}
