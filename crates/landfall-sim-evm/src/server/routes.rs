//! The `/sim` routes: what a test may see and do that no node would allow. Never faulty.
//!
//! - `GET /sim/transactions`: all that took effect, in order, as `[{hash, from, nonce, to, value,
//!   input, status, block}]`; the value is a decimal string, the status 1 or 0.
//! - `GET /sim/stats`: `{calls: {method: count}, total, height, final_height, pools}`; calls count
//!   requests that arrived at any node, each of a batch, whatever became of them.
//! - `GET /sim/faults`: `{nodes: [faults]}`. `POST /sim/faults`: sets those of one node (`node`) or
//!   of all; what is not given stays. The fields are those of [`super::Faults`].
//! - `POST /sim/reorg` `{depth, drop?}`: the last blocks, none of them final, give way to as many
//!   empty ones; their transactions go back to the pools unless `drop`. Answers `{dropped}`.
//! - `POST /sim/spike` `{base_fee}`: the next block charges so many wei per gas, without warning.
//! - `POST /sim/drop` `{hash?, node?}`: takes one transaction, or all, out of one node's pool, or
//!   all nodes'. Answers `{dropped}`.

use std::sync::Arc;

use alloy_consensus::Transaction as _;
use alloy_primitives::B256;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use landfall_sim_front::routes::{self, refuse};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::ledger::FINAL_BLOCKS;
use super::World;

pub fn router(world: Arc<World>) -> Router {
    Router::new()
        .route("/sim/transactions", get(transactions))
        .route("/sim/stats", get(stats))
        .route("/sim/reorg", post(reorg))
        .route("/sim/spike", post(spike))
        .route("/sim/drop", post(drop_pooled))
        .merge(routes::faults())
        .with_state(world)
}

type Sim = State<Arc<World>>;

async fn transactions(State(world): Sim) -> Json<Vec<Value>> {
    let chain = world.chain.lock();
    let mut all = Vec::new();
    for block in chain.ledger.blocks() {
        for (transaction, receipt) in block.transactions.iter().zip(&block.receipts) {
            let envelope = &transaction.envelope;
            all.push(json!({
                "hash": transaction.hash,
                "from": transaction.from,
                "nonce": transaction.nonce(),
                "to": envelope.to(),
                "value": envelope.value().to_string(),
                "input": envelope.input(),
                "status": u8::from(receipt.succeeded),
                "block": block.number(),
            }));
        }
    }
    Json(all)
}

async fn stats(State(world): Sim) -> Json<Value> {
    let calls = world.front.calls();
    let nodes = world.front.faults.lock().len();
    let chain = world.chain.lock();
    let pools: Vec<usize> = (0..nodes).map(|node| chain.ledger.pool(node).len()).collect();
    Json(json!({
        "total": calls.values().sum::<u64>(),
        "calls": calls,
        "height": chain.ledger.height(),
        "final_height": chain.ledger.height().saturating_sub(FINAL_BLOCKS),
        "pools": pools,
    }))
}

#[derive(Deserialize)]
struct ReorgBody {
    depth: u64,
    #[serde(default)]
    drop: bool,
}

async fn reorg(State(world): Sim, Json(body): Json<ReorgBody>) -> Response {
    match world.chain.lock().reorg(body.depth, body.drop) {
        Ok(dropped) => Json(json!({ "dropped": dropped })).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[derive(Deserialize)]
struct SpikeBody {
    base_fee: u64,
}

async fn spike(State(world): Sim, Json(body): Json<SpikeBody>) -> Json<Value> {
    world.chain.lock().ledger.force_base_fee(body.base_fee);
    Json(json!({ "base_fee": body.base_fee }))
}

#[derive(Deserialize)]
struct DropBody {
    hash: Option<B256>,
    node: Option<usize>,
}

async fn drop_pooled(State(world): Sim, Json(body): Json<DropBody>) -> Response {
    let nodes = world.front.faults.lock().len();
    if body.node.is_some_and(|node| node >= nodes) {
        return refuse(&format!("node must be below {nodes}"));
    }
    let mut chain = world.chain.lock();
    let mut dropped = 0;
    for node in (0..nodes).filter(|node| body.node.is_none_or(|only| only == *node)) {
        let before = chain.ledger.pool(node).len();
        chain.ledger.keep_pooled(node, |pooled| body.hash.is_some_and(|hash| hash != pooled.hash));
        dropped += before - chain.ledger.pool(node).len();
    }
    Json(json!({ "dropped": dropped })).into_response()
}
