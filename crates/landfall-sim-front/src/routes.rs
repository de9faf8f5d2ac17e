//! `GET /sim/faults`: `{nodes: [faults]}`. `POST /sim/faults`: sets those of one node (`node`) or
//! of all; what is not given stays. The fields are those of [`crate::Faults`] and the simulator's
//! own.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Map, Value, json};

use crate::faults::{Faults, Own, Refused};
use crate::host::Host;

pub fn faults<H: Host>() -> Router<Arc<H>> {
    Router::new().route("/sim/faults", get(shown::<H>).post(set::<H>))
}

/// A request of a test that makes no sense.
pub fn refuse(message: &str) -> Response {
    (StatusCode::BAD_REQUEST, message.to_owned()).into_response()
}

async fn shown<H: Host>(State(host): State<Arc<H>>) -> Json<Value> {
    Json(json!({ "nodes": *host.front().faults.lock() }))
}

async fn set<H: Host>(
    State(host): State<Arc<H>>,
    Json(mut change): Json<Map<String, Value>>,
) -> Response {
    let node = change.remove("node").unwrap_or_default();
    let mut nodes = host.front().faults.lock();
    match changed(&nodes, &node, &change) {
        Ok(others) => {
            *nodes = others;
            Json(json!({ "nodes": *nodes })).into_response()
        }
        Err(refusal) => refusal.into_response(),
    }
}

fn changed<O: Own>(
    nodes: &[Faults<O>],
    node: &Value,
    change: &Map<String, Value>,
) -> Result<Vec<Faults<O>>, (StatusCode, String)> {
    let unread = |message: String| (StatusCode::UNPROCESSABLE_ENTITY, message);
    let wrong = |message: String| (StatusCode::BAD_REQUEST, message);
    let only = match node {
        Value::Null => None,
        number => match number.as_u64() {
            Some(number) if (number as usize) < nodes.len() => Some(number as usize),
            Some(_) => return Err(wrong(format!("node must be below {}", nodes.len()))),
            None => return Err(unread("node must be a number".to_owned())),
        },
    };
    let other = |(index, faults): (usize, &Faults<O>)| match only.is_none_or(|one| one == index) {
        true => faults.changed(change),
        false => Ok(faults.clone()),
    };
    let others: Result<_, _> = nodes.iter().enumerate().map(other).collect();
    others.map_err(|refused| match refused {
        Refused::NoProbability(_) => wrong(refused.to_string()),
        Refused::Unread(message) => unread(message),
    })
}
