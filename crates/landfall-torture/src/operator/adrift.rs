//! Attempts that stay adrift: those that the nodes' evidence cannot decide are the operator's.
//!
//! The ledger's own books are the explorer on which the operator looks them up.
//! **Rule:** only where the relay may leave it to an operator. An attempt that is open for any
//! other reason stays open here, and the run fails for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use landfall_core::attempt::{Landing, Outcome};
use landfall_core::store::Store;
use landfall_core::{Attempt, Certificate, CertificateKind, Fate, LaneId, Nonce, RailName};
use landfall_engine::Engine;
use near_crypto::SecretKey;
use near_primitives::hash::CryptoHash;
use near_primitives::views::ExecutionStatusView;

use super::is_passed;
use crate::near::network::Network;
use landfall_sim_near::ledger::Ledger;
use landfall_sim_near::ledger::record::Run;

/// Adrift for so long is adrift for long. By the book it is an hour; worlds have fences and
/// backoffs that are a few times shorter than a relay's, and end sooner.
const LONG_MS: u64 = 300_000;

/// What the operator has noted: which attempts are open, and since when (the relay's own clock may
/// have jumped), and which were decided by hand.
#[derive(Default)]
pub struct Noted {
    since_ms: BTreeMap<String, u64>,
    ruled: Vec<(LaneId, Nonce)>,
}

impl Noted {
    /// Decides what is the operator's to decide. Returns it, in words.
    pub async fn decide(
        &mut self,
        store: &dyn Store,
        network: &Arc<Network>,
        engine: &Engine,
        (keys, used_by_others): (&[SecretKey], bool),
        now_ms: u64,
    ) -> Vec<String> {
        let mut decided = Vec::new();
        let open = store.open_attempts_of(RailName::Near).await.unwrap_or_default();
        for attempt in &open {
            let since_ms = *self.since_ms.entry(attempt.hash.clone()).or_insert(now_ms);
            if since_ms + LONG_MS > now_ms {
                continue;
            }
            let excuse = excuse(network, attempt, used_by_others).or(self.passed_by_word(attempt));
            let Some(why) = excuse else { continue };
            let Some(fate) = truth(network, keys, attempt) else { continue };
            let is = if matches!(fate, Fate::Sunk(_)) { "sunk" } else { "landed" };
            // Decided meanwhile by the relay itself: all the better.
            if engine.decide(attempt.id, fate).await.is_ok() {
                self.ruled.push((attempt.lane.clone(), attempt.nonce));
                decided.push(format!("attempt {} is {is}: {why}", attempt.id));
            }
        }
        decided
    }

    /// Who passed its nonce may be known by an operator's word alone.
    fn passed_by_word(&self, attempt: &Attempt) -> Option<&'static str> {
        let passes =
            |(lane, nonce): &(LaneId, Nonce)| *lane == attempt.lane && *nonce > attempt.nonce;
        self.ruled.iter().any(passes).then_some("a later one was decided by hand")
    }
}

/// Why no evidence can decide it, if so.
fn excuse(network: &Network, attempt: &Attempt, used_by_others: bool) -> Option<&'static str> {
    if !attempt.sightings.is_empty() {
        return Some("somebody has seen it in a block that nobody can show");
    }
    let hash: CryptoHash = attempt.hash.parse().ok()?;
    let base = {
        let ledger = network.ledger.lock();
        // Whether it landed in another of them no node tells.
        let shown = ledger.view(0).run(&hash);
        if let Some((record, run)) = shown
            && run.receipts.is_empty()
        {
            if record.runs.len() > 1 {
                return Some("it is in several blocks, and every node shows it as invalid");
            }
            if used_by_others {
                return Some(
                    "its nonce may be somebody else's, and every node shows it as invalid",
                );
            }
        }
        base_height(&ledger, attempt)
    };
    let quorum = network.count() / 2 + 1;
    let gone = base.is_some_and(|base| network.keeping(base) < quorum);
    gone.then_some("too few nodes keep its history")
}

/// What became of it, if that is settled for ever.
fn truth(network: &Network, keys: &[SecretKey], attempt: &Attempt) -> Option<Fate> {
    let hash: CryptoHash = attempt.hash.parse().ok()?;
    let passed = is_passed(network, keys, attempt);
    let ledger = network.ledger.lock();
    let sunk = |summary: &str| {
        Some(Fate::Sunk(Certificate {
            kind: CertificateKind::Operator,
            summary: summary.to_owned(),
            evidence: serde_json::json!({"decided_by": "operator"}),
        }))
    };
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
        Some(_) => sunk("it was reverted, and its nonce is used"),
        None if passed => sunk("it never landed, and its nonce is used"),
        None => {
            let validity = ledger.genesis().settings.validity_blocks;
            let last = base_height(&ledger, attempt).map(|base| base + validity);
            let expired = last.is_none_or(|last| last < ledger.final_height());
            expired.then(|| sunk("it never landed, and has expired")).flatten()
        }
    }
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
