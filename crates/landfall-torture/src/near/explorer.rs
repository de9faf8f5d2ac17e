//! The ledger's own books, on which the operator looks up what no node tells.

use landfall_core::attempt::{Landing, Outcome};
use landfall_core::{Attempt, Certificate, CertificateKind, Fate, LaneId, Nonce};
use landfall_sim_near::ledger::Ledger;
use landfall_sim_near::ledger::record::Run;
use landfall_sim_near::server::RELAY;
use near_crypto::SecretKey;
use near_primitives::hash::CryptoHash;
use near_primitives::views::ExecutionStatusView;

use super::NearPart;
use crate::part::Explorer;

impl Explorer for NearPart {
    fn nonce_of(&self, lane: &LaneId) -> Option<Nonce> {
        let ledger = self.network.ledger.lock();
        let view = ledger.view(0);
        let relay = RELAY.parse().ok()?;
        let mut keys = self.keys.iter().map(SecretKey::public_key);
        let key = keys.find(|key| lane.as_str().ends_with(&key.to_string()))?;
        Some(Nonce(view.key(view.final_height(), &relay, &key)?.nonce))
    }

    fn is_overtaken(&self, attempt: &Attempt) -> bool {
        let hash: Option<CryptoHash> = attempt.hash.parse().ok();
        // Included but invalid is not on the ledger: it did nothing and used no nonce.
        let landed = |hash| self.network.ledger.lock().landed(&hash).is_some();
        self.is_passed(attempt) && !hash.is_none_or(landed)
    }

    fn excuse(&self, attempt: &Attempt) -> Option<&'static str> {
        if !attempt.sightings.is_empty() {
            return Some("somebody has seen it in a block that nobody can show");
        }
        let hash: CryptoHash = attempt.hash.parse().ok()?;
        let base = {
            let ledger = self.network.ledger.lock();
            // Whether it landed in another of them no node tells.
            let shown = ledger.view(0).run(&hash);
            if let Some((record, run)) = shown
                && run.receipts.is_empty()
            {
                if record.runs.len() > 1 {
                    return Some("it is in several blocks, and every node shows it as invalid");
                }
                if self.weather.keys_used > 0 {
                    return Some(
                        "its nonce may be somebody else's, and every node shows it as invalid",
                    );
                }
            }
            base_height(&ledger, attempt)
        };
        let quorum = self.network.count() / 2 + 1;
        let gone = base.is_some_and(|base| self.network.keeping(base) < quorum);
        gone.then_some("too few nodes keep its history")
    }

    fn truth(&self, attempt: &Attempt) -> Option<Fate> {
        let hash: CryptoHash = attempt.hash.parse().ok()?;
        let passed = self.is_passed(attempt);
        let ledger = self.network.ledger.lock();
        match ledger.landed(&hash) {
            Some(run) if run.settled_height()? > ledger.final_height() => None,
            Some(run) if is_done(run) => {
                let ran = run.ran.as_ref()?;
                Some(Fate::Landed(Landing {
                    hash: None,
                    block_height: ran.height,
                    block_hash: ran.block_hash.to_string(),
                    outcomes: vec![Outcome::Done; attempt.members.len()],
                }))
            }
            Some(_) => Some(sunk("it was reverted, and its nonce is used")),
            None if passed => Some(sunk("it never landed, and its nonce is used")),
            None => {
                let validity = ledger.genesis().settings.validity_blocks;
                let last = base_height(&ledger, attempt).map(|base| base + validity);
                let expired = last.is_none_or(|last| last < ledger.final_height());
                expired.then(|| sunk("it never landed, and has expired"))
            }
        }
    }
}

impl NearPart {
    fn is_passed(&self, attempt: &Attempt) -> bool {
        self.nonce_of(&attempt.lane).is_some_and(|used| used >= attempt.nonce)
    }
}

fn sunk(summary: &str) -> Fate {
    Fate::Sunk(Certificate {
        kind: CertificateKind::Operator,
        summary: summary.to_owned(),
        evidence: serde_json::json!({"decided_by": "operator"}),
    })
}

/// The height of the block that it was signed on; none if that is not on the chain.
fn base_height(ledger: &Ledger, attempt: &Attempt) -> Option<u64> {
    ledger.chain().canonical_height(&attempt.base.as_ref()?.hash.parse().ok()?)
}

/// Whether all its actions took effect.
fn is_done(run: &Run) -> bool {
    let own = run.receipts.first().and_then(|receipt| receipt.ran.as_ref());
    own.is_some_and(|ran| matches!(ran.outcome.status, ExecutionStatusView::SuccessValue(_)))
}
