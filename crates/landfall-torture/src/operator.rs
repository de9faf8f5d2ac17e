//! The operator: does what docs/operating.md tells an operator to do, and nothing cleverer.
//!
//! Halted lanes: find out who used the key; decide by hand the attempts whose nonce somebody else
//! has used; adopt the lanes. Attempts that stay adrift: [`adrift`]. Both are looked up on the
//! explorers of the world's parts; what else there is to decide is with each part.

pub mod adrift;

use landfall_core::store::Store;
use landfall_core::{Certificate, CertificateKind, Fate, Nonce};
use landfall_engine::Engine;

use super::part::{Explorer, Part};

/// Whether the operator had anything to do.
pub async fn attend(store: &dyn Store, parts: &[Box<dyn Part>], engine: &Engine) -> bool {
    let Ok(lanes) = store.lanes().await else { return false };
    let mut acted = false;
    for part in parts {
        let Some(explorer) = part.explorer() else { continue };
        for attempt in store.open_attempts_of(part.rail()).await.unwrap_or_default() {
            // Halted, or adopted before with this attempt still open: its nonce is somebody else's.
            let by_hand = lanes.iter().any(|lane| {
                let adopted = lane.base_nonce >= Some(attempt.nonce);
                lane.id == attempt.lane && (lane.halted.is_some() || adopted)
            });
            if by_hand && explorer.is_overtaken(&attempt) {
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
    }
    for lane in lanes.into_iter().filter(|lane| lane.halted.is_some()) {
        acted = true;
        let part = parts.iter().find(|part| part.rail() == lane.rail);
        let explorer: Option<&dyn Explorer> = part.and_then(|part| part.explorer());
        let used = explorer.and_then(|explorer| explorer.nonce_of(&lane.id));
        let _ = store.adopt(&lane.id, used.unwrap_or(Nonce(0))).await;
    }
    acted
}
