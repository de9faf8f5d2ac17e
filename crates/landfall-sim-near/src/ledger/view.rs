//! The ledger as a node sees it whose head is at some height.
//!
//! A lagging node is a view of an older head and nothing more: it validates, answers and expires
//! by what it knows. A query at block h shows the state after block h.

use std::sync::Arc;

use near_crypto::PublicKey;
use near_primitives::account::AccessKey;
use near_primitives::errors::InvalidTxError;
use near_primitives::hash::CryptoHash;
use near_primitives::transaction::SignedTransaction;
use near_primitives::types::AccountId;

use super::Ledger;
use super::block::{Block, FINALITY_BLOCKS};
use super::record::{Record, Run};
use super::state::{Slot, Value, as_amount};
use super::verify;

#[derive(Clone, Copy)]
pub struct View<'a> {
    pub ledger: &'a Ledger,
    pub head: u64,
    /// The oldest block that is kept.
    pub earliest: u64,
    /// Transactions are forgotten: state and blocks are there, what was in the blocks is not.
    pub amnesic: bool,
    /// What became of transactions is not kept; which there were in which block is.
    pub without_outcomes: bool,
}

impl<'a> View<'a> {
    pub fn new(ledger: &'a Ledger, head: u64) -> View<'a> {
        let earliest = ledger.chain.earliest().height;
        let head = head.clamp(earliest, ledger.height());
        View { ledger, head, earliest, amnesic: false, without_outcomes: false }
    }

    /// The same of a node that keeps so many blocks, if it keeps fewer than there are.
    pub fn with_history(self, blocks: Option<u64>) -> View<'a> {
        let kept = blocks.map_or(u64::MAX, |blocks| blocks.max(FINALITY_BLOCKS + 1));
        let earliest = (self.head + 1).saturating_sub(kept).max(self.earliest);
        View { earliest, ..self }
    }

    pub fn with_amnesia(self, amnesic: bool) -> View<'a> {
        View { amnesic, ..self }
    }

    pub fn with_outcomes(self, kept: bool) -> View<'a> {
        View { without_outcomes: !kept, ..self }
    }

    pub fn head_block(&self) -> &'a Arc<Block> {
        self.ledger.chain.at(self.head).expect("a view's head is kept")
    }

    pub fn final_height(&self) -> u64 {
        self.head.saturating_sub(FINALITY_BLOCKS).max(self.earliest)
    }

    pub fn earliest_block(&self) -> &'a Arc<Block> {
        self.ledger.chain.at(self.earliest).expect("a view's earliest block is kept")
    }

    fn keeps(&self, block: &Block) -> bool {
        (self.earliest..=self.head).contains(&block.height)
    }

    /// A kept block of the chain this view sees.
    pub fn block_at(&self, height: u64) -> Option<&'a Arc<Block>> {
        self.ledger.chain.at(height).filter(|block| self.keeps(block))
    }

    /// Also a block that fell off the chain.
    pub fn block_by_hash(&self, hash: &CryptoHash) -> Option<&'a Arc<Block>> {
        self.ledger.chain.by_hash(hash).filter(|block| self.keeps(block))
    }

    pub fn is_canonical(&self, block: &Block) -> bool {
        self.ledger.chain.hash_at(block.height) == Some(block.hash)
    }

    /// A cell after the block at `height`.
    pub fn cell(&self, height: u64, slot: &Slot) -> Option<&'a Value> {
        for delta in self.ledger.chain.deltas_after(height) {
            if let Some(before) = delta.get(slot) {
                return before.as_ref();
            }
        }
        self.ledger.state.get(slot)
    }

    pub fn amount(&self, height: u64, slot: &Slot) -> Option<u128> {
        as_amount(self.cell(height, slot))
    }

    pub fn key(&self, height: u64, account: &AccountId, key: &PublicKey) -> Option<&'a AccessKey> {
        match self.cell(height, &Slot::Key(account.clone(), key.clone())) {
            Some(Value::Key(found)) => Some(found),
            _ => None,
        }
    }

    pub fn keys(&self, height: u64, account: &AccountId) -> Vec<(PublicKey, &'a AccessKey)> {
        let keys = self.ledger.state.keys_ever(account);
        keys.filter_map(|key| {
            let found = self.key(height, account, &key)?;
            Some((key, found))
        })
        .collect()
    }

    /// What this node knows of a transaction.
    pub fn run(&self, hash: &CryptoHash) -> Option<(&'a Record, &'a Run)> {
        let forgotten = self.amnesic || self.without_outcomes;
        let record = self.ledger.records.get(hash).filter(|_| !forgotten)?;
        record.run_at(self.earliest, self.head).map(|run| (record, run))
    }

    /// What the node says of a transaction handed to it, as of its head.
    pub fn validate(&self, signed: &SignedTransaction) -> Result<(), InvalidTxError> {
        let settings = &self.ledger.genesis.settings;
        let base = self.ledger.chain.canonical_height(signed.transaction.block_hash());
        let known = base.filter(|base| *base <= self.head);
        if known.is_none_or(|base| self.head - base > settings.validity_blocks) {
            return Err(InvalidTxError::Expired);
        }
        verify::statically(signed, settings.max_transaction_gas)?;
        verify::charge(|slot| self.cell(self.head, slot).cloned(), signed, None).map(|_| ())
    }
}
