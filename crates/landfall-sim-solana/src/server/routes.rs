//! The `/sim` routes: what a test may see and do that no node would allow. Never faulty.
//!
//! - `POST /sim/requests` `{outputs: [{recipient, amount}]}`: a body that a relay takes and the
//!   pool accepts, with a nullifier that nobody else has.
//! - `POST /sim/spend`: takes such a body, and somebody else than the relay spends it. Answers
//!   `{signature}` once it is sent.
//! - `GET /sim/spent`: every spent nullifier, in order, as `[{nullifier, signature, slot, final,
//!   amount, fee, outputs: [{recipient, amount}]}]`.
//! - `GET /sim/stats`: `{calls: {method: count}, total, slot, height, final_height, waiting, pool,
//!   treasury}`; calls count requests that arrived at any node, each of a batch.
//! - `GET /sim/faults`, `POST /sim/faults`: those of the wire and of [`super::Own`].
//! - `POST /sim/fork` `{depth, drop?}`: the last blocks, none of them final, fall off; what was in
//!   them is with the nodes again unless `drop`. Answers `{dropped}`.
//! - `POST /sim/drop` `{signature?, node?}`: one transaction, or all, is with one node, or all, no
//!   more. Answers `{dropped}`.
//! - `POST /sim/roots` `{count}`: so many new roots; the ring keeps 64. Answers `{root}`, the
//!   newest.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use landfall_sim_front::routes::refuse;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::ledger::shield;
use super::super::request::{self, Request, RequestOutput};
use super::World;

pub fn router(world: Arc<World>) -> Router {
    Router::new()
        .route("/sim/requests", post(make_request))
        .route("/sim/spend", post(spend))
        .route("/sim/spent", get(spent))
        .route("/sim/stats", get(stats))
        .route("/sim/fork", post(fork))
        .route("/sim/drop", post(drop_waiting))
        .route("/sim/roots", post(push_roots))
        .merge(landfall_sim_front::routes::faults())
        .with_state(world)
}

type Sim = State<Arc<World>>;

#[derive(Deserialize)]
struct RequestBody {
    outputs: Vec<RequestOutput>,
}

async fn make_request(State(world): Sim, Json(body): Json<RequestBody>) -> Response {
    let root = world.chain.lock().newest_root();
    let made = request::outputs(&body.outputs)
        .and_then(|outputs| Request::new(root, rand::random(), &outputs));
    match made {
        Ok(request) => Json(request).into_response(),
        Err(message) => refuse(&message),
    }
}

async fn spend(State(world): Sim, Json(body): Json<Request>) -> Response {
    let mut chain = world.chain.lock();
    let blockhash = chain.ledger.head().hash;
    match body.transaction(&world.stranger, blockhash) {
        Ok(transaction) => {
            let signature = transaction.signature.to_string();
            chain.ledger.submit(0, transaction);
            Json(json!({ "signature": signature })).into_response()
        }
        Err(message) => refuse(&message),
    }
}

async fn spent(State(world): Sim) -> Json<Vec<Value>> {
    let chain = world.chain.lock();
    let ledger = &chain.ledger;
    let shown = ledger.shield().spent(ledger.height()).iter().map(|one| {
        let outputs = one.outputs.iter().map(
            |output| json!({ "recipient": output.recipient.to_string(), "amount": output.amount }),
        );
        json!({
            "nullifier": hex::encode(one.nullifier),
            "signature": one.signature.to_string(),
            "slot": ledger.block(one.height).map(|block| block.slot),
            "final": one.height <= ledger.final_height(),
            "amount": one.amount,
            "fee": shield::fee(one.amount),
            "outputs": outputs.collect::<Vec<Value>>(),
        })
    });
    Json(shown.collect())
}

async fn stats(State(world): Sim) -> Json<Value> {
    let calls = world.front.calls();
    let chain = world.chain.lock();
    let ledger = &chain.ledger;
    let waiting: Vec<usize> = (0..world.nodes).map(|node| ledger.pool_len(node)).collect();
    let own = ledger.shield().addresses;
    let lamports = |of| ledger.balances().at(ledger.height(), of);
    Json(json!({
        "total": calls.values().sum::<u64>(),
        "calls": calls,
        "slot": ledger.slot(),
        "height": ledger.height(),
        "final_height": ledger.final_height(),
        "waiting": waiting,
        "pool": lamports(&own.pool),
        "treasury": lamports(&own.treasury),
    }))
}

#[derive(Deserialize)]
struct ForkBody {
    depth: u64,
    #[serde(default)]
    drop: bool,
}

async fn fork(State(world): Sim, Json(body): Json<ForkBody>) -> Response {
    match world.chain.lock().fork(body.depth, body.drop) {
        Ok(dropped) => Json(json!({ "dropped": dropped })).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[derive(Deserialize)]
struct DropBody {
    signature: Option<String>,
    node: Option<usize>,
}

async fn drop_waiting(State(world): Sim, Json(body): Json<DropBody>) -> Response {
    if body.node.is_some_and(|node| node >= world.nodes) {
        return refuse(&format!("node must be below {}", world.nodes));
    }
    let mut chain = world.chain.lock();
    let mut dropped = 0;
    for node in (0..world.nodes).filter(|node| body.node.is_none_or(|only| only == *node)) {
        let before = chain.ledger.pool_len(node);
        chain.ledger.keep_pooled(node, |one| {
            body.signature.as_ref().is_some_and(|kept| *kept != one.signature.to_string())
        });
        dropped += before - chain.ledger.pool_len(node);
    }
    Json(json!({ "dropped": dropped })).into_response()
}

#[derive(Deserialize)]
struct RootsBody {
    count: usize,
}

async fn push_roots(State(world): Sim, Json(body): Json<RootsBody>) -> Response {
    let mut chain = world.chain.lock();
    for _ in 0..body.count.min(shield::ROOTS) {
        if let Err(error) = chain.push_root(rand::random()) {
            return (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response();
        }
    }
    Json(json!({ "root": hex::encode(chain.newest_root()) })).into_response()
}
