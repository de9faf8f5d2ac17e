//! The operator: does what docs/operating.md tells an operator to do, and nothing cleverer.
//!
//! Halted lanes: find out who used the key; decide by hand the attempts whose nonce somebody else
//! has used; adopt the lanes. Attempts that stay adrift: [`adrift`].

pub mod adrift;

use std::sync::Arc;

use landfall_core::store::Store;
use landfall_core::{Attempt, Certificate, CertificateKind, Fate, Nonce, RailName};
use landfall_engine::Engine;
use near_crypto::SecretKey;
use near_primitives::hash::CryptoHash;

use crate::near::server::RELAY;
use crate::world::Network;

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
