//! The chain's own books, on which the operator looks up what no node tells.

use alloy_consensus::Transaction as _;
use alloy_primitives::B256;
use landfall_core::attempt::{Landing, Outcome, VariantKind};
use landfall_core::{Attempt, Certificate, CertificateKind, Fate, LaneId, Nonce};
use landfall_rail_evm::{encode, signer_of};
use landfall_sim_evm::ledger::{Block, FINAL_BLOCKS, Ledger};
use landfall_sim_evm::server::CHAIN_ID;

use super::EvmPart;
use crate::part::Explorer;

/// The transaction that has the attempt's nonce in a final block, by its place there.
fn taker<'a>(ledger: &'a Ledger, attempt: &Attempt) -> Option<(&'a Block, usize)> {
    let signer = signer_of(&attempt.lane, CHAIN_ID)?;
    let nonce = attempt.nonce.0.checked_sub(1)?;
    let last = ledger.height().checked_sub(FINAL_BLOCKS)?;
    ledger.blocks().iter().take_while(|block| block.number() <= last).find_map(|block| {
        let mut all = block.transactions.iter();
        let at = all.position(|one| one.from == signer && one.nonce() == nonce)?;
        Some((block, at))
    })
}

/// Whether that transaction does what the attempt was to do.
fn is_it(attempt: &Attempt, block: &Block, at: usize) -> bool {
    let landed = &block.transactions[at];
    let is_cancel = attempt
        .variants
        .iter()
        .any(|one| one.kind == VariantKind::Cancels && one.signed.hash.parse() == Ok(landed.hash));
    let does_the_same = encode::content(&attempt.bytes).is_ok_and(|content| {
        (content.to, content.value, &content.input)
            == (landed.envelope.to(), landed.envelope.value(), landed.envelope.input())
    });
    let is_named = attempt.hashes().any(|hash| hash.parse() == Ok::<B256, _>(landed.hash));
    (is_named || does_the_same) && !is_cancel
}

impl Explorer for EvmPart {
    fn nonce_of(&self, lane: &LaneId) -> Option<Nonce> {
        let ledger = self.network.ledger.lock();
        let last = ledger.height().saturating_sub(FINAL_BLOCKS);
        Some(Nonce(ledger.nonce_at(last, signer_of(lane, CHAIN_ID)?)))
    }

    fn is_overtaken(&self, attempt: &Attempt) -> bool {
        let ledger = self.network.ledger.lock();
        taker(&ledger, attempt).is_some_and(|(block, at)| !is_it(attempt, block, at))
    }

    fn excuse(&self, _: &Attempt) -> Option<&'static str> {
        None
    }

    fn truth(&self, attempt: &Attempt) -> Option<Fate> {
        let ledger = self.network.ledger.lock();
        let (block, at) = taker(&ledger, attempt)?;
        let done = block.receipts[at].succeeded;
        Some(match is_it(attempt, block, at) && done {
            true => Fate::Landed(Landing {
                hash: None,
                block_height: block.number(),
                block_hash: block.hash.to_string(),
                outcomes: vec![Outcome::Done; attempt.members.len()],
            }),
            false => Fate::Sunk(Certificate {
                kind: CertificateKind::Operator,
                summary: "it never took effect, and its nonce is used".to_owned(),
                evidence: serde_json::json!({"decided_by": "operator"}),
            }),
        })
    }
}
