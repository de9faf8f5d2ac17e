//! Connections, and faults applied to requests.
//!
//! A fault that loses something ends the connection without an answer: the service returns an
//! error, and hyper closes. `/sim` routes are served past all faults.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use super::super::rpc::{self, Node};
use super::faults::Fortune;
use super::{World, routes};

/// As geth's (`defaultBodyLimit`).
const MAX_BODY_BYTES: usize = 5 * 1024 * 1024;
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
    let asked = read(request).await;
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
    let answer = asked.map(|body| world.answer(node, &body, &fortune));
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
    Ok(answer.map_or_else(|refused| refused, |answer| Json(answer).into_response()))
}

/// The body, or the answer of a node that could not read one.
async fn read(request: Request) -> Result<Value, Response> {
    if request.method() != Method::POST {
        return Err(StatusCode::METHOD_NOT_ALLOWED.into_response());
    }
    let body = to_bytes(request.into_body(), MAX_BODY_BYTES).await;
    let body = body.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE.into_response())?;
    serde_json::from_slice(&body).map_err(|_| {
        let error = json!({ "code": -32700, "message": "parse error" });
        let answer = json!({ "jsonrpc": "2.0", "id": Value::Null, "error": error });
        (StatusCode::BAD_REQUEST, Json(answer)).into_response()
    })
}

impl World {
    fn count(&self, asked: &Result<Value, Response>) {
        let names = asked.as_ref().map_or_else(|_| vec!["(refused)"], rpc::methods_of);
        let mut calls = self.calls.lock();
        for name in names {
            match calls.get_mut(name) {
                Some(count) => *count += 1,
                None => {
                    calls.insert(name.to_owned(), 1);
                }
            }
        }
    }

    fn answer(&self, index: usize, body: &Value, fortune: &Fortune) -> Value {
        let mut chain = self.chain.lock();
        let mut node = Node {
            ledger: &mut chain.ledger,
            index,
            lag_blocks: fortune.lag_blocks,
            forgets: fortune.forget,
        };
        rpc::handle(&mut node, body)
    }
}

fn server_error() -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error").into_response()
}
