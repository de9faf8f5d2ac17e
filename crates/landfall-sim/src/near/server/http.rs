//! Connections, the HTTP quirks of a node, and faults applied to requests.
//!
//! A fault that loses something ends the connection without an answer: the service returns an
//! error, and hyper closes. `/sim` routes are served past all faults.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};

use super::super::rpc::{self, Answer, Body as RpcBody, Node, Reply, TIMEOUT_MS, Waiting};
use super::faults::Fortune;
use super::{World, routes};

/// Above this a body is refused by its announced length alone (`json_payload_max_size`).
const MAX_ANNOUNCED_BYTES: u64 = 10_485_760;
/// Pause after an accept that failed, for want of file descriptors most likely.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// The connection is to end without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the connection is lost on purpose")]
struct Lost;

pub async fn accept(world: Arc<World>, node: usize, listener: TcpListener) {
    let routes = routes::router(world.clone());
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(connection(world.clone(), node, stream, routes.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(world: Arc<World>, node: usize, stream: TcpStream, routes: Router) {
    // Without this small answers wait for the client's acknowledgements.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (world, routes) = (world.clone(), routes.clone());
        async move {
            let request = request.map(Body::new);
            if request.uri().path().starts_with("/sim/") {
                let answer: Result<Response, Infallible> =
                    TowerToHyperService::new(routes).call(request).await;
                return answer.map_err(|never| match never {});
            }
            serve(world, node, request).await
        }
    });
    // Ends with an error whenever a fault closes it, or a client goes away.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn serve(world: Arc<World>, node: usize, request: Request) -> Result<Response, Lost> {
    let fortune = {
        let faults = world.faults.lock()[node].clone();
        world.dice.lock().roll(&faults)
    };
    if fortune.delay_before_ms == 0 {
        return fare(world, node, request, fortune).await;
    }
    // A late request takes effect although its client may have given up.
    let late = tokio::spawn(fare(world, node, request, fortune));
    late.await.unwrap_or(Err(Lost))
}

async fn fare(
    world: Arc<World>,
    node: usize,
    request: Request,
    fortune: Fortune,
) -> Result<Response, Lost> {
    let asked = Asked::read(request).await;
    world.count(&asked);
    if fortune.lose_request {
        return Err(Lost);
    }
    if fortune.rate_limited {
        return Ok((StatusCode::TOO_MANY_REQUESTS, "Too Many Requests").into_response());
    }
    if fortune.error_before {
        return Ok(server_error());
    }
    if fortune.delay_before_ms > 0 {
        tokio::time::sleep(Duration::from_millis(fortune.delay_before_ms)).await;
    }
    let mut blocks = world.blocks.subscribe();
    let reply = world.answer(node, asked, &fortune);
    if fortune.lose_answer {
        return Err(Lost);
    }
    if fortune.error_after {
        return Ok(server_error());
    }
    if fortune.garbage {
        return Ok((StatusCode::OK, "<html>\u{fffd}\u{0} bad gateway").into_response());
    }
    if fortune.delay_after_ms > 0 {
        tokio::time::sleep(Duration::from_millis(fortune.delay_after_ms)).await;
    }
    match reply {
        Served::Ready(response) => Ok(response),
        Served::Wait(waiting) => {
            let patience = Duration::from_millis(TIMEOUT_MS);
            let answer = async {
                loop {
                    if blocks.changed().await.is_err() {
                        return waiting.timeout();
                    }
                    if let Some(answer) = world.poll(node, &waiting) {
                        return answer;
                    }
                }
            };
            let answer = tokio::time::timeout(patience, answer).await;
            Ok(respond(answer.unwrap_or_else(|_| waiting.timeout())))
        }
    }
}

/// A request as far as HTTP goes.
enum Asked {
    Rpc(Value),
    Status,
    Health,
    /// HTTP alone decides the answer.
    Refused(Response),
}

enum Served {
    Ready(Response),
    Wait(Waiting),
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

impl World {
    fn count(&self, asked: &Asked) {
        let name = match asked {
            Asked::Rpc(body) => rpc::method_of(body),
            Asked::Status => "GET /status",
            Asked::Health => "GET /health",
            Asked::Refused(_) => "(refused)",
        };
        let mut calls = self.calls.lock();
        match calls.get_mut(name) {
            Some(count) => *count += 1,
            None => {
                calls.insert(name.to_string(), 1);
            }
        }
    }

    fn answer(&self, node: usize, asked: Asked, fortune: &Fortune) -> Served {
        let mut chain = self.chain.lock();
        let mut node = Node {
            ledger: &mut chain.ledger,
            lag_blocks: fortune.lag_blocks,
            forgets: fortune.forget,
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
                Reply::Answer(answer) => {
                    drop(chain);
                    Served::Ready(respond(answer))
                }
                Reply::Wait(waiting) => Served::Wait(waiting),
            },
        }
    }

    fn poll(&self, node: usize, waiting: &Waiting) -> Option<Answer> {
        let lag_blocks = self.faults.lock()[node].lag_blocks;
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

fn server_error() -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error").into_response()
}
