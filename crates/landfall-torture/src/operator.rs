//! The operator: does what docs/operating.md tells an operator to do, and nothing cleverer.
//!
//! Halted lanes: find out who used the key; decide by hand the attempts whose nonce somebody else
//! has used; adopt the lanes. Attempts that stay adrift: [`adrift`]. Adrift requests: decide by the
//! service's statement whether the call took effect; what must be done in the end, have done there
//! first.

pub mod adrift;

use std::sync::Arc;

use landfall_core::courier::Courier;
use landfall_core::internal::State;
use landfall_core::store::{ListFilter, Store};
use landfall_core::{
    Attempt, Certificate, CertificateKind, Fate, Nonce, RailName, Transfer, machine,
};
use landfall_engine::{Engine, operate};
use landfall_ledger::{Key, Operation, Outcome, ReqId, Verb};
use near_crypto::SecretKey;
use near_primitives::hash::CryptoHash;

use crate::internal::services::Services;
use crate::near::network::Network;
use landfall_sim_near::server::RELAY;

/// Whether the operator had anything to do.
pub async fn attend(
    store: &dyn Store,
    network: &Arc<Network>,
    engine: &Engine,
    keys: &[SecretKey],
) -> bool {
    let Ok(lanes) = store.lanes().await else { return false };
    let mut acted = false;
    for attempt in store.open_attempts_of(RailName::Near).await.unwrap_or_default() {
        // Halted, or adopted before with this attempt still open: its nonce is somebody else's.
        let by_hand = lanes.iter().any(|lane| {
            let adopted = lane.base_nonce >= Some(attempt.nonce);
            lane.id == attempt.lane && (lane.halted.is_some() || adopted)
        });
        if by_hand && is_passed(network, keys, &attempt) && !is_on_ledger(network, &attempt) {
            acted = true;
            let certificate = Certificate {
                kind: CertificateKind::Operator,
                summary: "the nonce was used by somebody else, and no node has it".to_owned(),
                evidence: serde_json::json!({"decided_by": "operator"}),
            };
            // Decided meanwhile by the relay itself: all the better.
            let _ = engine.decide(attempt.id, Fate::Sunk(certificate)).await;
        }
    }
    for lane in lanes.into_iter().filter(|lane| lane.halted.is_some()) {
        acted = true;
        let used = nonce_of(network, keys, lane.id.as_str()).unwrap_or(0);
        let _ = store.adopt(&lane.id, Nonce(used)).await;
    }
    acted
}

/// The keys of the requests that were decided.
pub async fn decide(
    store: &dyn Store,
    services: &Services,
    courier: &dyn Courier,
    now_ms: u64,
) -> Vec<String> {
    let everything =
        ListFilter { rail: Some(RailName::Internal), limit: usize::MAX, ..ListFilter::default() };
    let transfers = store.list(everything).await.unwrap_or_default();
    let mut decided = Vec::new();
    for adrift in transfers.into_iter().filter(|transfer| transfer.aside.is_some()) {
        let Some(took_effect) = took_effect(services, &adrift).await else { continue };
        let word = Certificate {
            kind: CertificateKind::Operator,
            summary: "by the service's statement".to_owned(),
            evidence: serde_json::json!({"decided_by": "operator"}),
        };
        // It may be refused: too early, or it has moved by itself meanwhile.
        let ruled = operate::rule(store, courier, &adrift, took_effect, &word, now_ms).await;
        if ruled.is_ok() {
            decided.push(adrift.key);
        }
    }
    decided
}

/// Whether the call that an adrift request waits for is in the statement of its service.
async fn took_effect(services: &Services, adrift: &Transfer) -> Option<bool> {
    let machine::State::Internal(state) = adrift.state else { return None };
    let (order, req_id) = (adrift.payload.internal()?, adrift.key.parse::<ReqId>().ok()?);
    let (name, verb, must_be) = match (state, adrift.confirmed) {
        (State::SourcePending, _) => (&order.source, Verb::Withdraw, None),
        (State::TargetPending, false) => (&order.target, Verb::Deposit, None),
        (State::TargetPending, true) => {
            (&order.source, Verb::Commit, Some(Operation::Commit { req_id }))
        }
        (State::Compensating, _) => {
            (&order.source, Verb::Rollback, Some(Operation::Rollback { req_id }))
        }
        _ => return None,
    };
    let books = services.books().await;
    let entries = books.iter().filter(|book| book.name == name).flat_map(|book| &book.entries);
    let is_done = entries
        .filter(|entry| entry.key == Key::Request(req_id) && entry.verb == verb)
        .any(|entry| entry.outcome == Outcome::Done);
    match must_be {
        Some(operation) if !is_done => {
            services.mend(name, operation);
            Some(true)
        }
        _ => Some(is_done),
    }
}

fn nonce_of(network: &Network, keys: &[SecretKey], lane: &str) -> Option<u64> {
    let ledger = network.ledger.lock();
    let view = ledger.view(0);
    let relay = RELAY.parse().ok()?;
    let key =
        keys.iter().map(SecretKey::public_key).find(|key| lane.ends_with(&key.to_string()))?;
    Some(view.key(view.final_height(), &relay, &key)?.nonce)
}

fn is_passed(network: &Network, keys: &[SecretKey], attempt: &Attempt) -> bool {
    nonce_of(network, keys, attempt.lane.as_str()).is_some_and(|used| used >= attempt.nonce.0)
}

fn is_on_ledger(network: &Network, attempt: &Attempt) -> bool {
    let hash: Option<CryptoHash> = attempt.hash.parse().ok();
    // Included but invalid is not on the ledger: it did nothing and used no nonce.
    hash.is_none_or(|hash| network.ledger.lock().landed(&hash).is_some())
}
