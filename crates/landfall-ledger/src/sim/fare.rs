//! How one request fares: its fortune, applied on the way to the book and back.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::{Value, json};

use super::{Lost, Troubled, World};
use crate::faults::Fortune;
use crate::server::{self, Declined};
use crate::words::ReqId;

/// What a relay calls, by the first word of the path. The rest is for tests to set up and look.
const CONTRACT: [&str; 7] =
    ["withdraw", "deposit", "commit", "rollback", "operations", "contract", "users"];

/// Longest answer to a query, in bytes.
const STATUS_MAX_BYTES: usize = 4 * 1024;

/// A request with its body, and its path below the service's name.
pub(super) struct Asked {
    pub parts: Parts,
    pub body: Bytes,
    pub path: String,
}

impl Asked {
    fn word(&self) -> &str {
        self.path.split('/').nth(1).unwrap_or_default()
    }

    /// The path of the query about this operation.
    fn query_path(&self) -> Option<String> {
        let body: Value = serde_json::from_slice(&self.body).ok()?;
        let req_id: ReqId = body["req_id"].as_str()?.parse().ok()?;
        Some(format!("/operations/{req_id}/{}", self.word()))
    }
}

pub(super) async fn serve(
    world: &Arc<World>,
    service: Arc<Troubled>,
    asked: Asked,
) -> Result<Response, Lost> {
    let faults = service.faults.lock().clone();
    if !CONTRACT.contains(&asked.word()) {
        return match faults.down {
            true => Err(Lost),
            false => Ok(deliver(&service, asked, false).await),
        };
    }
    let fortune = world.dice.lock().roll(&faults);
    if fortune.delay_before_ms + fortune.delay_after_ms == 0 {
        return fare(world.clone(), service, asked, fortune).await;
    }
    // A slow request takes effect although its client may have given up.
    let slow = tokio::spawn(fare(world.clone(), service, asked, fortune));
    slow.await.unwrap_or(Err(Lost))
}

async fn fare(
    world: Arc<World>,
    service: Arc<Troubled>,
    asked: Asked,
    fortune: Fortune,
) -> Result<Response, Lost> {
    if fortune.lose_request {
        return Err(Lost);
    }
    if fortune.rate_limited {
        return Ok((StatusCode::TOO_MANY_REQUESTS, "Too Many Requests").into_response());
    }
    if fortune.error_before {
        return Ok(server_error());
    }
    wait(&world, fortune.delay_before_ms).await;
    if let (Some(late_ms), &Method::POST) = (fortune.late_ms, &asked.parts.method) {
        return put_off(&world, &service, asked, fortune, late_ms);
    }
    if fortune.refuse_rollback && asked.word() == "rollback" {
        return Ok(Json(json!({ "error": "rollback refused for now" })).into_response());
    }
    let response = deliver(&service, asked, fortune.refuse_deposit).await;
    if fortune.lose_answer {
        return Err(Lost);
    }
    if fortune.error_after {
        return Ok(server_error());
    }
    if fortune.garbage {
        return Ok((StatusCode::OK, "<html>\u{fffd}\u{0} bad gateway").into_response());
    }
    wait(&world, fortune.delay_after_ms).await;
    Ok(response)
}

async fn wait(world: &World, ms: u64) {
    if ms > 0 {
        world.clock.sleep(Duration::from_millis(ms)).await;
    }
}

/// Has the operation delivered later, whoever waits for it.
fn put_off(
    world: &Arc<World>,
    service: &Arc<Troubled>,
    asked: Asked,
    fortune: Fortune,
    late_ms: u64,
) -> Result<Response, Lost> {
    let query = asked.query_path().filter(|_| !fortune.late_in_silence);
    if let Some(query) = &query {
        service.put_off.lock().insert(query.clone());
    }
    let (world, service) = (world.clone(), service.clone());
    tokio::spawn(async move {
        wait(&world, late_ms).await;
        deliver(&service, asked, fortune.refuse_deposit).await;
        if let Some(query) = query {
            service.put_off.lock().remove(&query);
        }
    });
    match fortune.late_in_silence {
        true => Err(Lost),
        false => {
            let body = Json(json!({ "status": "in_progress" }));
            Ok((StatusCode::ACCEPTED, body).into_response())
        }
    }
}

async fn deliver(service: &Troubled, asked: Asked, declined: bool) -> Response {
    let Asked { parts, body, path } = asked;
    let mut request = Request::from_parts(parts, Body::from(body));
    if declined {
        request.extensions_mut().insert(Declined);
    }
    let is_put_off = service.put_off.lock().contains(&path.to_lowercase());
    let response = server::handle(&service.routes, request).await;
    if is_put_off { in_progress_if_unknown(response).await } else { response }
}

/// What was put off is known to the service, though not to its book.
async fn in_progress_if_unknown(response: Response) -> Response {
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, STATUS_MAX_BYTES).await.unwrap_or_default();
    let told: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    match told["status"] == "unknown" {
        true => Json(json!({ "status": "in_progress" })).into_response(),
        false => Response::from_parts(parts, Body::from(bytes)),
    }
}

fn server_error() -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error").into_response()
}
