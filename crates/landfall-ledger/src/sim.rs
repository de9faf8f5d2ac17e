//! Services that misbehave on purpose, several under one address, each under its name.
//!
//! The books behind them are real and keep the contract; what is lost, late or broken is on the
//! way to them. A fault that loses something ends the connection without an answer.
//! Faults meet the routes that a relay calls; what tests set up and look at (`/fund`, `/accounts`,
//! `/statement`, `/balances`, `/health`) fails only when the service is down.
//!
//! - `GET /sim/faults`: `{services: {name: faults}}`. `POST /sim/faults`: sets those of one service
//!   (`service`) or of all; what is not given stays. The fields are those of [`Faults`].
//! - `GET /sim/stats`: `{calls: {"name /route": count}}`; all that arrived, whatever came of them.

mod fare;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use landfall_core::Clock;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::book::Book;
use crate::faults::{Dice, Faults, FaultsPatch};
use crate::server;

/// Pause after an accept that failed, for want of file descriptors most likely.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// The connection is to end without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the connection is lost on purpose")]
struct Lost;

/// One service and what befalls it.
struct Troubled {
    name: String,
    routes: Router,
    faults: Mutex<Faults>,
    /// The queries about operations that were put off, as their paths.
    put_off: Mutex<BTreeSet<String>>,
}

struct World {
    services: Vec<Arc<Troubled>>,
    dice: Mutex<Dice>,
    calls: Mutex<BTreeMap<String, u64>>,
    clock: Arc<dyn Clock>,
}

/// Simulated services that are being served.
pub struct SimServices {
    address: SocketAddr,
    world: Arc<World>,
    accepting: JoinHandle<()>,
}

impl SimServices {
    /// Serves the books, each under the name of its service. MUST be called inside a runtime.
    pub fn start(
        listener: TcpListener,
        books: Vec<Arc<dyn Book>>,
        clock: Arc<dyn Clock>,
        faults: Faults,
        seed: u64,
    ) -> std::io::Result<SimServices> {
        let address = listener.local_addr()?;
        let services = books
            .into_iter()
            .map(|book| {
                Arc::new(Troubled {
                    name: book.contract().name.clone(),
                    routes: server::router(book, clock.clone()),
                    faults: Mutex::new(faults.clone()),
                    put_off: Mutex::default(),
                })
            })
            .collect();
        let (dice, calls) = (Mutex::new(Dice::new(seed)), Mutex::default());
        let world = Arc::new(World { services, dice, calls, clock });
        let accepting = tokio::spawn(accept(world.clone(), listener));
        Ok(SimServices { address, world, accepting })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `{"services": {"funding": "http://…/funding", …}}`
    pub fn announcement(&self) -> Value {
        let urls: BTreeMap<&str, String> = self
            .world
            .services
            .iter()
            .map(|service| {
                let name = service.name.as_str();
                (name, format!("http://{}/{name}", self.address))
            })
            .collect();
        json!({ "services": urls })
    }

    /// Ends every connection and lets the books go, but for operations that are still put off.
    pub async fn shutdown(self) {
        self.accepting.abort();
        // Cancelled, as it was told.
        let _ = self.accepting.await;
    }
}

async fn accept(world: Arc<World>, listener: TcpListener) {
    let routes = sim_routes(world.clone());
    // They end with this task.
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.spawn(connection(world.clone(), stream, routes.clone()));
                while connections.try_join_next().is_some() {}
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                world.clock.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(world: Arc<World>, stream: TcpStream, routes: Router) {
    // Without this small answers wait for the client's acknowledgements.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (world, routes) = (world.clone(), routes.clone());
        async move {
            let request = request.map(Body::new);
            if request.uri().path().starts_with("/sim/") {
                return Ok(server::handle(&routes, request).await);
            }
            serve(&world, request).await
        }
    });
    // Ends with an error whenever a fault closes it, or a client goes away.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn serve(world: &Arc<World>, request: Request) -> Result<Response, Lost> {
    let path = request.uri().path();
    let found = world.services.iter().find_map(|service| {
        let rest = path.strip_prefix('/')?.strip_prefix(service.name.as_str())?;
        rest.starts_with('/').then(|| (service.clone(), rest.to_owned()))
    });
    let Some((service, rest)) = found else {
        let names: Vec<&str> = world.services.iter().map(|known| known.name.as_str()).collect();
        let error = format!("no such service; there are {}", names.join(" and "));
        return Ok((StatusCode::NOT_FOUND, Json(json!({ "error": error }))).into_response());
    };
    let (mut parts, body) = request.into_parts();
    let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    parts.uri = format!("{rest}{query}").parse().map_err(|_| Lost)?;
    // One more byte than is taken, so that the service itself says that it is too many.
    let body = to_bytes(body, server::MAX_BYTES + 1).await.map_err(|_| Lost)?;
    world.count(&service.name, &rest);
    fare::serve(world, service, fare::Asked { parts, body, path: rest }).await
}

impl World {
    fn count(&self, name: &str, path: &str) {
        let route = path.split('/').nth(1).unwrap_or_default();
        *self.calls.lock().entry(format!("{name} /{route}")).or_default() += 1;
    }

    fn faults(&self) -> Value {
        let faults: BTreeMap<&str, Faults> = self
            .services
            .iter()
            .map(|service| (service.name.as_str(), service.faults.lock().clone()))
            .collect();
        json!({ "services": faults })
    }
}

fn sim_routes(world: Arc<World>) -> Router {
    Router::new()
        .route("/sim/faults", get(faults).post(set_faults))
        .route("/sim/stats", get(stats))
        .layer(DefaultBodyLimit::max(server::MAX_BYTES))
        .with_state(world)
}

async fn faults(State(world): State<Arc<World>>) -> Json<Value> {
    Json(world.faults())
}

async fn stats(State(world): State<Arc<World>>) -> Json<Value> {
    Json(json!({ "calls": *world.calls.lock() }))
}

async fn set_faults(State(world): State<Arc<World>>, body: Bytes) -> Response {
    let refuse =
        |error: String| (StatusCode::BAD_REQUEST, Json(json!({ "error": error }))).into_response();
    let patch: FaultsPatch = match serde_json::from_slice(&body) {
        Ok(patch) => patch,
        Err(error) => return refuse(error.to_string()),
    };
    if let Err(message) = patch.check() {
        return refuse(message);
    }
    let is_meant =
        |service: &&Arc<Troubled>| patch.service.as_ref().is_none_or(|name| *name == service.name);
    let meant: Vec<&Arc<Troubled>> = world.services.iter().filter(is_meant).collect();
    if meant.is_empty() {
        return refuse("service: there is none of that name".into());
    }
    meant.iter().for_each(|service| patch.apply(&mut service.faults.lock()));
    Json(world.faults()).into_response()
}
