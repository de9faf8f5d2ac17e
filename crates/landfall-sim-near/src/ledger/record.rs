//! What became of each transaction: its runs, their receipts, and how far a viewer sees them.
//!
//! A transaction has a run for each time it was put in a chunk; more than one when a run failed as
//! a transaction (protocol 83): before it landed, as no nonce was used, or after it, as the nonce
//! is used by then. At most one of them took effect.
//! Not here: running anything (`execute`), shapes on the wire (`rpc`).

use std::sync::Arc;

use near_primitives::hash::CryptoHash;
use near_primitives::transaction::SignedTransaction;
use near_primitives::types::AccountId;
use near_primitives::views::{ExecutionOutcomeView, ExecutionStatusView};

use super::block::FINALITY_BLOCKS;

#[derive(Debug)]
pub enum Work {
    /// The actions of a transaction, or of one that another account relays.
    Actions(Arc<SignedTransaction>),
    /// yoctoNEAR, from the token contract or the system.
    Pay(u128),
}

#[derive(Debug)]
pub struct Receipt {
    pub id: CryptoHash,
    /// The transaction it comes from.
    pub origin: CryptoHash,
    pub predecessor_id: AccountId,
    pub receiver_id: AccountId,
    pub work: Work,
    /// Gas bought for it; what it does not burn is refunded.
    pub prepaid_gas: u64,
    /// Who bought it: the transaction's signer.
    pub gas_payer: AccountId,
    pub refund: bool,
}

/// An outcome and the block it is in.
#[derive(Debug)]
pub struct Ran {
    pub height: u64,
    pub block_hash: CryptoHash,
    pub outcome: ExecutionOutcomeView,
}

#[derive(Debug)]
pub struct ReceiptRun {
    pub receipt: Arc<Receipt>,
    pub created_height: u64,
    pub ran: Option<Ran>,
}

#[derive(Debug)]
pub struct Run {
    /// Height of the block whose chunk has it; the block itself may be the next one to come.
    pub height: u64,
    pub ran: Option<Ran>,
    pub receipts: Vec<ReceiptRun>,
}

#[derive(Debug)]
pub struct Record {
    pub signed: Arc<SignedTransaction>,
    pub runs: Vec<Run>,
}

/// How far a transaction has come, in the order a node reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Included,
    ExecutedOptimistic,
    IncludedFinal,
    Executed,
    Final,
}

impl Record {
    /// The run that a node shows whose blocks are those from `earliest` to `head`. It shows one: it
    /// keeps outcomes by the hashes of their blocks and takes the first, whatever came of it. With
    /// no outcome yet it is the latest that is included.
    pub fn run_at(&self, earliest: u64, head: u64) -> Option<&Run> {
        let known = || self.runs.iter().filter(|run| run.height >= earliest);
        let ran = known().filter_map(|run| Some((run.outcome_at(head)?.block_hash, run)));
        let first = ran.min_by_key(|(block_hash, _)| *block_hash).map(|(_, run)| run);
        first.or_else(|| known().rev().find(|run| run.height <= head + 1))
    }

    /// The run that took effect, whatever a node shows.
    pub fn landed(&self) -> Option<&Run> {
        self.runs.iter().find(|run| !run.receipts.is_empty())
    }

    pub fn last_run(&mut self) -> &mut Run {
        self.runs.last_mut().expect("a record has a run")
    }

    /// The run that a receipt belongs to.
    pub fn run_of(&mut self, receipt: &CryptoHash) -> Option<&mut Run> {
        self.runs.iter_mut().find(|run| run.receipt(receipt).is_some())
    }

    /// Forgets what happened above `height`; false when nothing is left.
    pub fn rewind(&mut self, height: u64) -> bool {
        self.runs.retain(|run| run.height <= height);
        for run in &mut self.runs {
            run.receipts.retain(|receipt| receipt.created_height <= height);
            for receipt in &mut run.receipts {
                receipt.ran.take_if(|ran| ran.height > height);
            }
        }
        !self.runs.is_empty()
    }
}

impl Run {
    /// Height after which nothing of it is left to happen; `None` while something is.
    pub fn settled_height(&self) -> Option<u64> {
        let mut last = self.ran.as_ref()?.height;
        for receipt in &self.receipts {
            last = last.max(receipt.ran.as_ref()?.height);
        }
        Some(last)
    }

    /// Notes that a receipt exists and has yet to run.
    pub fn expect(&mut self, receipt: Arc<Receipt>, created_height: u64) {
        self.receipts.push(ReceiptRun { receipt, created_height, ran: None });
    }

    pub fn receipt(&self, id: &CryptoHash) -> Option<&ReceiptRun> {
        self.receipts.iter().find(|run| &run.receipt.id == id)
    }

    /// The transaction's outcome, once the viewer has its block.
    pub fn outcome_at(&self, head: u64) -> Option<&Ran> {
        self.ran.as_ref().filter(|ran| ran.height <= head)
    }

    pub fn stage_at(&self, head: u64) -> Stage {
        let Some(ran) = self.outcome_at(head) else { return Stage::Included };
        let is_final = |height: u64| height + FINALITY_BLOCKS <= head;
        let seen = |run: &ReceiptRun| run.ran.as_ref().is_some_and(|ran| ran.height <= head);
        let known = || self.receipts.iter().filter(|run| run.created_height <= head);
        let included_final = is_final(ran.height);
        if !known().filter(|run| !run.receipt.refund).all(seen) {
            return if included_final { Stage::IncludedFinal } else { Stage::Included };
        }
        if !included_final {
            return Stage::ExecutedOptimistic;
        }
        let all_final = known().all(|run| run.ran.as_ref().is_some_and(|ran| is_final(ran.height)));
        if all_final { Stage::Final } else { Stage::Executed }
    }

    /// Outcomes of receipts the viewer has, each followed by those it made.
    pub fn receipts_at(&self, head: u64) -> Vec<(&ReceiptRun, &Ran)> {
        let mut found = Vec::new();
        if let Some(ran) = self.outcome_at(head) {
            self.walk(&ran.outcome.receipt_ids, head, &mut found);
        }
        found
    }

    fn walk<'a>(
        &'a self,
        ids: &[CryptoHash],
        head: u64,
        found: &mut Vec<(&'a ReceiptRun, &'a Ran)>,
    ) {
        for receipt in ids.iter().filter_map(|id| self.receipt(id)) {
            if let Some(ran) = receipt.ran.as_ref().filter(|ran| ran.height <= head) {
                found.push((receipt, ran));
                self.walk(&ran.outcome.receipt_ids, head, found);
            }
        }
    }

    /// The outcome that decides the transaction's status: its own failure, or that of its first
    /// receipt, or of the one that this hands over to.
    pub fn verdict_at(&self, head: u64) -> Option<&ExecutionStatusView> {
        let mut verdict = &self.outcome_at(head)?.outcome.status;
        while let ExecutionStatusView::SuccessReceiptId(id) = verdict {
            let receipt = self.receipt(id)?.ran.as_ref();
            verdict = &receipt.filter(|ran| ran.height <= head)?.outcome.status;
        }
        Some(verdict)
    }
}
