//! The relayer's HTTP API, without sockets: 1.8's routes below `/api/v1/relayers`, and those of the
//! older service in front of it, `/api/v1/relay/{type}` and `/api/v1/txs/{id}`.
//!
//! Every answer of 1.8's routes is `{success, data, error}`, lists with `pagination`.

use alloy_primitives::hex;
use axum::Json;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::book::{Entry, Mishap, Status};
use crate::faults::RelayerFaults;
use crate::request::Request;
use crate::{World, now_ms};

/// Most transactions on a page.
const PER_PAGE_MAX: usize = 100;
const PER_PAGE: usize = 10;

/// A request as far as HTTP goes.
pub struct Asked {
    pub method: Method,
    /// Without the slash at its end.
    pub path: String,
    pub query: String,
    pub authorized: bool,
    pub body: Vec<u8>,
}

/// What a request is for.
#[derive(Debug, PartialEq, Eq)]
pub enum Route<'a> {
    Health,
    Submit { old: bool },
    List,
    One { id: &'a str, old: bool },
    Cancel(&'a str),
    Relayers,
    Relayer,
    Status,
    Unknown,
}

impl Asked {
    pub fn route<'a>(&'a self, relayer: &str) -> Route<'a> {
        let parts: Vec<&str> = self.path.trim_matches('/').split('/').collect();
        let ["api", "v1", rest @ ..] = parts.as_slice() else { return Route::Unknown };
        let is_get = self.method == Method::GET;
        match rest {
            ["health" | "ready"] if is_get => Route::Health,
            ["relay", "direct" | "gasless"] if self.method == Method::POST => {
                Route::Submit { old: true }
            }
            ["txs", id] if is_get => Route::One { id, old: true },
            ["relayers"] if is_get => Route::Relayers,
            ["relayers", named, rest @ ..] if *named == relayer => match rest {
                [] if is_get => Route::Relayer,
                ["status"] if is_get => Route::Status,
                ["transactions"] if self.method == Method::POST => Route::Submit { old: false },
                ["transactions"] if is_get => Route::List,
                ["transactions", id] if is_get => Route::One { id, old: false },
                ["transactions", id] if self.method == Method::DELETE => Route::Cancel(id),
                _ => Route::Unknown,
            },
            _ => Route::Unknown,
        }
    }

    fn number(&self, name: &str, otherwise: usize) -> usize {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        let mut given = pairs.filter(|(key, _)| *key == name).map(|(_, value)| value);
        given.next().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
    }
}

/// Acts on a request. What it does is done on return.
pub fn act(world: &World, relayer: usize, asked: &Asked, faults: &RelayerFaults) -> Response {
    let route = asked.route(&world.signers[relayer].id);
    if route == Route::Health {
        return "OK".into_response();
    }
    if !asked.authorized {
        return refuse(StatusCode::UNAUTHORIZED, "Unauthorized");
    }
    match route {
        Route::Submit { old } => submit(world, relayer, asked, faults, old),
        Route::List => list(world, relayer, asked),
        Route::One { id, old } => match world.book.lock().find(relayer, id) {
            Some(entry) if old => Json(old_shape(entry)).into_response(),
            Some(entry) => told(shape(world, entry)),
            None => missing(id),
        },
        Route::Cancel(id) => cancel(world, relayer, id),
        Route::Relayers => told(json!([about(world, relayer, faults)])),
        Route::Relayer => told(about(world, relayer, faults)),
        Route::Status => {
            let pending = world.book.lock().open(relayer).len();
            told(json!({
                "network_type": "evm",
                "paused": faults.paused,
                "system_disabled": false,
                "pending_transactions_count": pending,
            }))
        }
        Route::Health | Route::Unknown => refuse(StatusCode::NOT_FOUND, "Not found"),
    }
}

fn submit(
    world: &World,
    relayer: usize,
    asked: &Asked,
    faults: &RelayerFaults,
    old: bool,
) -> Response {
    if faults.paused {
        return refuse(StatusCode::FORBIDDEN, "Relayer is paused");
    }
    let request = match Request::read(&asked.body) {
        Ok(request) => request,
        Err(why) => return refuse(StatusCode::BAD_REQUEST, &why),
    };
    let (mishap, is_doubled) = {
        let mut dice = world.front.dice.lock();
        let endings = [Status::Failed, Status::Expired, Status::Canceled];
        let ending = endings[dice.below(endings.len())];
        let chances = [
            (faults.never_sent, Mishap::NeverSent),
            (faults.ends_falsely, Mishap::EndsFalsely(ending)),
            (faults.signed_twice, Mishap::SignedTwice),
        ];
        let mut mishap = None;
        for (chance, one) in chances {
            mishap = mishap.or(dice.happens(chance).then_some(one));
        }
        (mishap, dice.happens(faults.duplicate))
    };
    let (mut book, now_ms) = (world.book.lock(), now_ms());
    if is_doubled {
        book.take(relayer, request.clone(), mishap, now_ms);
    }
    let entry = book.take(relayer, request, mishap, now_ms);
    match old {
        true => Json(old_shape(entry)).into_response(),
        false => told(shape(world, entry)),
    }
}

fn list(world: &World, relayer: usize, asked: &Asked) -> Response {
    let page = asked.number("page", 1).max(1);
    let per_page = asked.number("per_page", PER_PAGE).clamp(1, PER_PAGE_MAX);
    let book = world.book.lock();
    let shown = book.of(relayer).skip((page - 1) * per_page).take(per_page);
    let shown: Vec<Value> = shown.map(|entry| shape(world, entry)).collect();
    let total = book.of(relayer).count();
    let pagination = json!({ "current_page": page, "per_page": per_page, "total_items": total });
    let body = json!({ "success": true, "data": shown, "error": null, "pagination": pagination });
    Json(body).into_response()
}

/// As the real one does, it calls canceled what a node may have already.
fn cancel(world: &World, relayer: usize, id: &str) -> Response {
    let mut book = world.book.lock();
    let Some(entry) = book.find(relayer, id).cloned() else { return missing(id) };
    if entry.status.is_final() {
        return refuse(StatusCode::BAD_REQUEST, "Transaction is in a final state");
    }
    book.end(entry.number, Status::Canceled, "Canceled by user", now_ms());
    match book.find(relayer, id) {
        Some(entry) => told(shape(world, entry)),
        None => missing(id),
    }
}

fn about(world: &World, relayer: usize, faults: &RelayerFaults) -> Value {
    let signer = &world.signers[relayer];
    json!({
        "id": signer.id,
        "name": signer.id,
        "network": "simulated",
        "network_type": "evm",
        "paused": faults.paused,
        "system_disabled": false,
        "signer_id": signer.id,
        "address": signer.address,
    })
}

fn shape(world: &World, entry: &Entry) -> Value {
    json!({
        "id": entry.id,
        "relayer_id": world.signers[entry.relayer].id,
        "status": entry.status.name(),
        "status_reason": entry.status_reason,
        "hash": entry.hash(),
        "nonce": entry.nonce,
        "from": world.signers[entry.relayer].address,
        "to": entry.request.to,
        "value": entry.request.value.to_string(),
        "data": hex::encode_prefixed(&entry.request.data),
        "gas_limit": entry.request.gas_limit,
        "speed": entry.request.speed.name(),
        "max_fee_per_gas": entry.nonce.map(|_| entry.fee.to_string()),
        "created_at": when(entry.created_ms),
        "sent_at": entry.sent_ms.map(when),
        "confirmed_at": entry.confirmed_ms.map(when),
    })
}

fn old_shape(entry: &Entry) -> Value {
    json!({
        "transactionId": entry.id,
        "status": entry.status.name(),
        "hash": entry.hash(),
        "createdAt": when(entry.created_ms),
    })
}

/// RFC 3339.
fn when(ms: u64) -> String {
    let at = i64::try_from(ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    at.unwrap_or_default().to_string()
}

fn told(data: Value) -> Response {
    Json(json!({ "success": true, "data": data, "error": null })).into_response()
}

fn missing(id: &str) -> Response {
    refuse(StatusCode::NOT_FOUND, &format!("Transaction with ID {id} not found"))
}

fn refuse(status: StatusCode, why: &str) -> Response {
    (status, Json(json!({ "success": false, "data": null, "error": why }))).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: Method, path: &str, query: &str) -> Asked {
        let (path, query) = (path.to_owned(), query.to_owned());
        Asked { method, path, query, authorized: true, body: Vec::new() }
    }

    fn check(method: Method, path: &str, expected: Route) {
        assert_eq!(asked(method, path, "").route("relayer-1"), expected, "{path}");
    }

    #[test]
    fn routes_are_known_by_method_path_and_relayer() {
        let base = "/api/v1/relayers/relayer-1";
        check(Method::POST, &format!("{base}/transactions"), Route::Submit { old: false });
        check(Method::GET, &format!("{base}/transactions/"), Route::List);
        check(Method::GET, &format!("{base}/transactions/x"), Route::One { id: "x", old: false });
        check(Method::DELETE, &format!("{base}/transactions/x"), Route::Cancel("x"));
        check(Method::GET, base, Route::Relayer);
        check(Method::POST, "/api/v1/relayers/relayer-2/transactions", Route::Unknown);
        check(Method::POST, "/api/v1/relay/direct", Route::Submit { old: true });
        check(Method::GET, "/api/v1/txs/x", Route::One { id: "x", old: true });
        check(Method::GET, "/api/v1/health", Route::Health);
        check(Method::PUT, "/api/v1/health", Route::Unknown);
        check(Method::GET, "/", Route::Unknown);
    }

    #[test]
    fn pages_are_asked_for_by_number() {
        let asked = asked(Method::GET, "/", "page=3&per_page=x");
        assert_eq!((asked.number("page", 1), asked.number("per_page", 10)), (3, 10));
    }
}
