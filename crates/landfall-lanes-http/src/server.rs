//! Serves a store: reads the question, lets the store decide, writes the answer.
//!
//! **Rule:** 200 is given after the commit; whatever may or may not have been done is 503.
//! **Rule:** only what belongs to executions is reached: a relay on the same store keeps its lanes,
//! attempts and transfers to itself.
//! Not here: what an operation does (`operations`), who may ask (`auth`).

mod operations;

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use landfall_core::Clock;
use landfall_core::store::StoreError;
use landfall_lanes::RecordStore;
use parking_lot::Mutex;

use crate::auth::{Gatekeeper, ID_HEADER, Proof, SIGNATURE_HEADER, Secret, TIME_HEADER};
use crate::wire;

/// A transaction has some kilobytes, and a batch of openings a few of them.
pub const BODY_MAX_BYTES: usize = 1 << 20;
/// Where the one space of a server is.
const BASE: &str = "/v1/";

/// What is served, to whom.
pub struct Lanes<S: ?Sized> {
    pub store: Arc<S>,
    pub clock: Arc<dyn Clock>,
    /// Any of them is taken.
    pub secrets: Vec<Secret>,
}

/// What the operations work with.
struct Service<S: ?Sized> {
    store: Arc<S>,
    clock: Arc<dyn Clock>,
    gate: Mutex<Gatekeeper>,
}

/// An answer that is none of the contract's, cut by what the caller does next.
#[derive(Debug)]
enum Refused {
    /// Never valid. Nothing happened.
    Mistaken(String),
    Stranger(&'static str),
    Nowhere,
    Store(StoreError),
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Refused {
        Refused::Store(error)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let (status, error, message) = match self {
            Refused::Mistaken(why) => (StatusCode::BAD_REQUEST, "bad_request", why),
            Refused::Stranger(why) => (StatusCode::UNAUTHORIZED, "unauthenticated", why.into()),
            Refused::Nowhere => {
                (StatusCode::NOT_FOUND, "not_found", "there is no such operation".to_owned())
            }
            Refused::Store(StoreError::Unavailable(why)) => {
                (StatusCode::SERVICE_UNAVAILABLE, "unavailable", why)
            }
            Refused::Store(StoreError::Corrupt(why)) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "corrupt", why)
            }
        };
        let failed = wire::Failed { error: error.to_owned(), message };
        (status, axum::Json(failed)).into_response()
    }
}

/// The routes of the contract.
pub fn router<S: RecordStore + ?Sized>(lanes: Lanes<S>) -> Router {
    let Lanes { store, clock, secrets } = lanes;
    let gate = Mutex::new(Gatekeeper::new(secrets, clock.now_ms()));
    Router::new()
        .fallback(answer::<S>)
        .layer(DefaultBodyLimit::max(BODY_MAX_BYTES))
        .with_state(Arc::new(Service { store, clock, gate }))
}

async fn answer<S: RecordStore + ?Sized>(
    State(service): State<Arc<Service<S>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    match service.answer(&method, &uri, &headers, &body).await {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(refused) => {
            tracing::debug!(path = uri.path(), ?refused, "not answered");
            refused.into_response()
        }
    }
}

impl<S: RecordStore + ?Sized> Service<S> {
    async fn answer(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Vec<u8>, Refused> {
        let path = uri.path_and_query().map_or(uri.path(), |path| path.as_str());
        let proof = proof(headers)?;
        let asked = (method.as_str(), path, body);
        let admitted = self.gate.lock().admit(asked, &proof, self.clock.now_ms());
        admitted.map_err(Refused::Stranger)?;
        let operation = path.strip_prefix(BASE).filter(|_| *method == Method::POST);
        operations::perform(self, operation.ok_or(Refused::Nowhere)?, body).await
    }
}

fn proof(headers: &HeaderMap) -> Result<Proof, Refused> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let time_ms = text(TIME_HEADER).and_then(|text| text.parse().ok());
    match (time_ms, text(ID_HEADER), text(SIGNATURE_HEADER)) {
        (Some(time_ms), Some(id), Some(signature)) => {
            Ok(Proof { time_ms, id: id.to_owned(), signature: signature.to_owned() })
        }
        _ => Err(Refused::Stranger("landfall-time, landfall-id and landfall-signature are wanted")),
    }
}
