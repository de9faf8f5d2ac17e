//! The HTTP quirks of a node, past all faults of the wire.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequest, Request};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use futures::FutureExt;
use landfall_sim_front::{Front, Host, Reply};
use serde_json::Value;
use tokio::sync::watch;

use super::super::rpc::{self, Answer, Body as RpcBody, Node, TIMEOUT_MS, Waiting};
use super::faults::Own;
use super::{World, routes};

/// Above this a body is refused by its announced length alone (`json_payload_max_size`).
const MAX_ANNOUNCED_BYTES: u64 = 10_485_760;

/// A request as far as HTTP goes.
pub enum Asked {
    Rpc(Value),
    Status,
    Health,
    /// HTTP alone decides the answer.
    Refused(Response),
}

impl Asked {
    async fn read(request: Request) -> Asked {
        let empty = |status: StatusCode| Asked::Refused(status.into_response());
        match (request.method(), request.uri().path()) {
            (&Method::POST, "/") => {}
            (&Method::GET, "/status") => return Asked::Status,
            (&Method::GET, "/health") => return Asked::Health,
            (_, "/") => return empty(StatusCode::METHOD_NOT_ALLOWED),
            _ => return empty(StatusCode::NOT_FOUND),
        }
        let announced = request.headers().get(header::CONTENT_LENGTH);
        let announced = announced.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if announced.is_some_and(|bytes| bytes > MAX_ANNOUNCED_BYTES) {
            let refusal = (StatusCode::PAYLOAD_TOO_LARGE, "length limit exceeded");
            return Asked::Refused(refusal.into_response());
        }
        // The extractor is the one a node uses: its limit and its words are theirs.
        match Json::<Value>::from_request(request, &()).await {
            Ok(Json(body)) => Asked::Rpc(body),
            Err(rejection) => Asked::Refused(rejection.into_response()),
        }
    }
}

impl Host for World {
    type Own = Own;
    type Asked = Asked;

    fn front(&self) -> &Front<Own> {
        &self.front
    }

    fn routes(self: Arc<Self>) -> Router {
        routes::router(self)
    }

    async fn read(&self, request: Request) -> Asked {
        Asked::read(request).await
    }

    fn names<'a>(&self, asked: &'a Asked) -> Vec<&'a str> {
        vec![match asked {
            Asked::Rpc(body) => rpc::method_of(body),
            Asked::Status => "GET /status",
            Asked::Health => "GET /health",
            Asked::Refused(_) => "(refused)",
        }]
    }

    async fn act(self: Arc<Self>, node: usize, asked: Asked, own: Own) -> Reply {
        let blocks = self.blocks.subscribe();
        match self.answer(node, asked, own) {
            Served::Ready(response) => response.into(),
            Served::Wait(waiting) => Reply::Later(self.awaited(node, waiting, blocks).boxed()),
        }
    }
}

enum Served {
    Ready(Response),
    Wait(Waiting),
}

impl World {
    fn answer(&self, node: usize, asked: Asked, own: Own) -> Served {
        let forgets = self.front.dice.lock().happens(own.forget);
        let mut chain = self.chain.lock();
        let mut node = Node {
            ledger: &mut chain.ledger,
            lag_blocks: own.lag_blocks,
            forgets,
            held_back: None,
            amnesic: false,
            without_outcomes: false,
            history_blocks: None,
            rpc_addr: &self.addrs[node],
        };
        match asked {
            Asked::Refused(response) => Served::Ready(response),
            Asked::Status => Served::Ready(Json(rpc::bare_status(&node)).into_response()),
            Asked::Health if rpc::is_healthy(&node) => {
                Served::Ready(Json(Value::Null).into_response())
            }
            Asked::Health => Served::Ready(StatusCode::SERVICE_UNAVAILABLE.into_response()),
            Asked::Rpc(body) => match rpc::handle(&mut node, &body) {
                rpc::Reply::Answer(answer) => {
                    drop(chain);
                    Served::Ready(respond(answer))
                }
                rpc::Reply::Wait(waiting) => Served::Wait(waiting),
            },
        }
    }

    async fn awaited(
        self: Arc<Self>,
        node: usize,
        waiting: Waiting,
        mut blocks: watch::Receiver<u64>,
    ) -> Response {
        let answer = async {
            loop {
                if blocks.changed().await.is_err() {
                    return waiting.timeout();
                }
                if let Some(answer) = self.poll(node, &waiting) {
                    return answer;
                }
            }
        };
        let answer = tokio::time::timeout(Duration::from_millis(TIMEOUT_MS), answer).await;
        respond(answer.unwrap_or_else(|_| waiting.timeout()))
    }

    fn poll(&self, node: usize, waiting: &Waiting) -> Option<Answer> {
        let lag_blocks = self.front.faults.lock()[node].own.lag_blocks;
        waiting.poll(self.chain.lock().ledger.view(lag_blocks))
    }
}

fn respond(answer: Answer) -> Response {
    let status = StatusCode::from_u16(answer.http_status).unwrap_or(StatusCode::OK);
    match answer.body {
        RpcBody::Json(value) => (status, Json(value)).into_response(),
        RpcBody::Text(text) => (status, text).into_response(),
    }
}
