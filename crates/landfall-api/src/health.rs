//! `GET /live`, `/health`, `/ready` and `/metrics`: how the relay is.
//!
//! **Rule:** none of them asks the store: all tell what [`crate::pulse`] last saw.
//! **Rule:** 200 from `/health` means the process lives and the store answers; everything else
//! that is wrong is told in the body. Strangers are told that something is wrong; what it is, with
//! balances, other people's transfers and what a store or a node said, only operators are.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use landfall_core::Stage;
use landfall_core::rail::EndpointHealth;
use landfall_engine::status::{Alert, RailStatus};
use landfall_engine::{Snapshot, Status};
use serde::{Serialize, Serializer, ser::SerializeMap};
use utoipa::{OpenApi, ToSchema};

use crate::auth;
use crate::config::Scope;
use crate::error::ApiError;
use crate::router::App;
use crate::wire::Time;

const CONNECTED: &str = "connected";
const UNAVAILABLE: &str = "unavailable";

/// Without a key, or with one that may not operate, the first six fields alone.
#[derive(Serialize, ToSchema)]
#[schema(as = Health)]
struct HealthBody<'a> {
    #[schema(schema_with = described::verdict)]
    status: &'static str,
    // Under the name clients have always read.
    #[schema(schema_with = described::redis)]
    redis: &'static str,
    #[schema(schema_with = described::every_rail)]
    rpc: &'static str,
    version: &'a str,
    ready: bool,
    #[schema(inline)]
    store: StoreBody<'a>,
    #[serde(flatten)]
    #[schema(inline)]
    details: Option<DetailsBody<'a>>,
}

/// For operators.
#[derive(Serialize, ToSchema)]
struct DetailsBody<'a> {
    #[schema(schema_with = described::queue)]
    queue: QueueBody<'a>,
    rails: Vec<RailBody<'a>>,
    lanes: LanesBody,
    /// Over all rails.
    adrift: usize,
    /// Over all rails.
    aside: usize,
    /// Over all rails.
    stuck: usize,
    alerts: Vec<AlertBody<'a>>,
}

#[derive(Serialize, ToSchema)]
struct StoreBody<'a> {
    #[schema(schema_with = described::reached)]
    status: &'static str,
    /// What the store said; for operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    error: Option<&'a str>,
}

/// Hints waiting, by stage.
struct QueueBody<'a>(&'a [(Stage, usize)]);

impl Serialize for QueueBody<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (stage, depth) in self.0 {
            map.serialize_entry(stage.0, depth)?;
        }
        map.end()
    }
}

#[derive(Serialize, ToSchema)]
#[schema(as = Rail)]
struct RailBody<'a> {
    #[schema(examples("near", "internal"))]
    rail: &'static str,
    #[schema(schema_with = described::reached)]
    rpc: &'static str,
    /// Why nothing is being paid, if so.
    #[schema(required)]
    paused: Option<&'a str>,
    endpoints: Vec<EndpointBody<'a>>,
    lanes: LanesBody,
    /// Attempts whose fate is unknown.
    adrift: usize,
    /// Transfers waiting for the relay's funds.
    aside: usize,
    /// Transfers that have been retried for longer than usual.
    stuck: usize,
}

/// Signing keys this process holds.
#[derive(Serialize, ToSchema)]
#[schema(as = Lanes)]
struct LanesBody {
    held: usize,
    /// Standing still until an operator decides.
    halted: usize,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Endpoint)]
struct EndpointBody<'a> {
    /// A service's name, or which of the configured nodes it is.
    name: &'a str,
    endpoint: &'a str,
    up: bool,
    detail: &'a str,
    calls: u64,
    errors: u64,
    #[schema(schema_with = described::breaker)]
    breaker: &'static str,
    mean_latency_ms: f64,
    /// Set once it was caught contradicting a quorum of the others.
    #[schema(inline, required)]
    caught: Option<CaughtBody<'a>>,
}

#[derive(Serialize, ToSchema)]
struct CaughtBody<'a> {
    times: u64,
    said: &'a str,
    quorum_says: &'a str,
    #[schema(value_type = String, format = DateTime)]
    at: Time,
    asked_last: bool,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Alert)]
struct AlertBody<'a> {
    #[schema(examples("lane_halted"))]
    kind: &'a str,
    message: &'a str,
    /// RFC 3339, UTC, with milliseconds.
    #[schema(value_type = String, format = DateTime)]
    since: Time,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Ready)]
struct ReadyBody {
    ready: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    error: Option<&'static str>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Live)]
struct LiveBody {
    live: bool,
}

/// What goes out, as these types have it.
#[derive(OpenApi)]
#[openapi(components(schemas(HealthBody, ReadyBody, LiveBody)))]
pub struct Described;

mod described {
    use serde_json::json;
    use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder};
    use utoipa::openapi::{RefOr, Schema, Type};

    use super::{CONNECTED, UNAVAILABLE};

    fn one_of<const COUNT: usize>(words: [&str; COUNT]) -> ObjectBuilder {
        let words = words.map(|word| json!(word));
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words))
    }

    pub fn verdict() -> RefOr<Schema> {
        one_of(["healthy", "degraded", "unhealthy"]).into()
    }

    pub fn reached() -> RefOr<Schema> {
        one_of([CONNECTED, UNAVAILABLE]).into()
    }

    pub fn redis() -> RefOr<Schema> {
        let said = "The store, whatever it is.";
        one_of([CONNECTED, UNAVAILABLE]).description(Some(said)).into()
    }

    pub fn every_rail() -> RefOr<Schema> {
        let said = "Whether every rail reaches its ledger.";
        one_of([CONNECTED, UNAVAILABLE]).description(Some(said)).into()
    }

    pub fn breaker() -> RefOr<Schema> {
        one_of(["open", "closed"]).into()
    }

    pub fn queue() -> RefOr<Schema> {
        let depth = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0));
        let depth: RefOr<Schema> = depth.into();
        let stages = ObjectBuilder::new().schema_type(Type::Object);
        let stages = stages.description(Some("Hints waiting, by stage."));
        stages.additional_properties(Some(AdditionalProperties::RefOr(depth))).into()
    }
}

pub async fn live() -> Response {
    Json(LiveBody { live: true }).into_response()
}

pub async fn health(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let operator = auth::admit(&app.config.auth, &headers, Scope::Operate).is_ok();
    let version = &app.config.version;
    let Some(snapshot) = app.pulse.present() else {
        let store = StoreBody { status: UNAVAILABLE, error: None };
        let (status, redis, rpc) = ("unhealthy", UNAVAILABLE, UNAVAILABLE);
        let body = HealthBody { status, redis, rpc, version, ready: false, store, details: None };
        return (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response();
    };
    let status = &snapshot.status;
    let (code, store) = match status.store_error {
        None => (StatusCode::OK, CONNECTED),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE),
    };
    let error = status.store_error.as_deref().filter(|_| operator);
    let body = HealthBody {
        status: verdict(status),
        redis: store,
        rpc: if status.rails.iter().all(is_reachable) { CONNECTED } else { UNAVAILABLE },
        version,
        ready: is_ready(status),
        store: StoreBody { status: store, error },
        details: operator.then(|| details(&snapshot)),
    };
    (code, Json(body)).into_response()
}

fn details(snapshot: &Snapshot) -> DetailsBody<'_> {
    let status = &snapshot.status;
    DetailsBody {
        queue: QueueBody(&snapshot.depths),
        lanes: LanesBody {
            held: status.rails.iter().map(|rail| rail.lanes_held).sum(),
            halted: status.rails.iter().map(|rail| rail.lanes_halted).sum(),
        },
        adrift: status.rails.iter().map(|rail| rail.adrift).sum(),
        aside: status.rails.iter().map(|rail| rail.aside).sum(),
        stuck: status.rails.iter().map(|rail| rail.stuck).sum(),
        rails: status.rails.iter().map(rail_body).collect(),
        alerts: status.alerts.iter().map(alert_body).collect(),
    }
}

pub async fn ready(State(app): State<Arc<App>>) -> Response {
    let ready = app.pulse.present().is_some_and(|snapshot| is_ready(&snapshot.status));
    let (code, error) = match ready {
        true => (StatusCode::OK, None),
        false => (StatusCode::SERVICE_UNAVAILABLE, Some("not ready; /health says why")),
    };
    (code, Json(ReadyBody { ready, error })).into_response()
}

/// With a key, unless they are open to everybody.
pub async fn metrics(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if !app.config.metrics_open {
        auth::admit(&app.config.auth, &headers, Scope::Operate)?;
    }
    metrics_of(&app)
}

/// To whoever reaches the listener that has nothing else.
pub async fn open_metrics(State(app): State<Arc<App>>) -> Result<Response, ApiError> {
    metrics_of(&app)
}

fn metrics_of(app: &App) -> Result<Response, ApiError> {
    let unseen = || ApiError::Unavailable { message: "starting".into(), retry_after_s: 1 };
    let snapshot = app.pulse.last().ok_or_else(unseen)?;
    let text = app.counters.render_after(app.relay.render_metrics(&snapshot));
    let kind = match text.ends_with("# EOF\n") {
        true => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        false => "text/plain; version=0.0.4; charset=utf-8",
    };
    Ok(([(CONTENT_TYPE, kind)], text).into_response())
}

fn is_ready(status: &Status) -> bool {
    status.ready && status.store_error.is_none()
}

fn is_reachable(rail: &RailStatus) -> bool {
    rail.endpoints.iter().any(|endpoint| endpoint.up)
}

fn verdict(status: &Status) -> &'static str {
    let at_ease = |rail: &RailStatus| {
        rail.paused.is_none()
            && rail.lanes_halted == 0
            && rail.endpoints.iter().all(|endpoint| endpoint.up && !endpoint.breaker_open)
    };
    match status {
        Status { store_error: Some(_), .. } => "unhealthy",
        status if status.alerts.is_empty() && status.rails.iter().all(at_ease) => "healthy",
        _ => "degraded",
    }
}

fn rail_body(rail: &RailStatus) -> RailBody<'_> {
    RailBody {
        rail: rail.rail.as_str(),
        rpc: if is_reachable(rail) { CONNECTED } else { UNAVAILABLE },
        paused: rail.paused.as_deref(),
        endpoints: rail.endpoints.iter().map(endpoint_body).collect(),
        lanes: LanesBody { held: rail.lanes_held, halted: rail.lanes_halted },
        adrift: rail.adrift,
        aside: rail.aside,
        stuck: rail.stuck,
    }
}

fn endpoint_body(endpoint: &EndpointHealth) -> EndpointBody<'_> {
    EndpointBody {
        name: &endpoint.name,
        endpoint: &endpoint.endpoint,
        up: endpoint.up,
        detail: &endpoint.detail,
        calls: endpoint.calls,
        errors: endpoint.errors,
        breaker: if endpoint.breaker_open { "open" } else { "closed" },
        // A tenth is as fine as anybody reads it.
        mean_latency_ms: (endpoint.mean_latency_ms * 10.0).round() / 10.0,
        caught: endpoint.caught.as_ref().map(|caught| CaughtBody {
            times: caught.times,
            said: &caught.said,
            quorum_says: &caught.quorum_says,
            at: Time(caught.at_ms),
            asked_last: caught.asked_last,
        }),
    }
}

fn alert_body(alert: &Alert) -> AlertBody<'_> {
    AlertBody { kind: &alert.kind, message: &alert.message, since: Time(alert.since_ms) }
}
