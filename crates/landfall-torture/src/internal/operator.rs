//! What an operator does about requests that services have forgotten: decides by the service's
//! statement whether the call took effect; what must be done in the end, has done there first.

use landfall_core::courier::Courier;
use landfall_core::internal::State;
use landfall_core::store::{ListFilter, Store};
use landfall_core::{Certificate, CertificateKind, RailName, Transfer, machine};
use landfall_engine::operate;
use landfall_ledger::{Key, Operation, Outcome, ReqId, Verb};

use super::services::Services;

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
