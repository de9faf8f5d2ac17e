//! Blocks and receipts.

use std::sync::Arc;

use alloy_consensus::Header;
use alloy_primitives::{B256, Bytes, Log, keccak256, logs_bloom};

use super::transaction::Transaction;

/// What came of a transaction.
#[derive(Debug, Clone)]
pub struct Receipt {
    pub succeeded: bool,
    pub gas_used: u64,
    /// Of the block, up to and with this one.
    pub cumulative_gas: u64,
    /// Wei per gas that were paid.
    pub gas_price: u128,
    pub logs: Vec<Log>,
    /// What it returned, or reverted with.
    pub output: Bytes,
}

#[derive(Debug, Clone)]
pub struct Block {
    pub header: Header,
    pub hash: B256,
    pub transactions: Vec<Arc<Transaction>>,
    /// One for each.
    pub receipts: Vec<Receipt>,
}

impl Block {
    /// Fills in what follows from its contents. Roots are digests of what they stand for: there is
    /// no trie to prove anything from.
    pub fn new(
        header: Header,
        transactions: Vec<Arc<Transaction>>,
        receipts: Vec<Receipt>,
    ) -> Block {
        let hashes: Vec<u8> = transactions.iter().flat_map(|one| one.hash.0).collect();
        let header = Header {
            gas_used: receipts.last().map_or(0, |receipt| receipt.cumulative_gas),
            logs_bloom: logs_bloom(receipts.iter().flat_map(|receipt| &receipt.logs)),
            transactions_root: match hashes.is_empty() {
                true => header.transactions_root,
                false => keccak256(hashes),
            },
            ..header
        };
        let hash = header.hash_slow();
        Block { header, hash, transactions, receipts }
    }

    pub fn number(&self) -> u64 {
        self.header.number
    }

    /// How many logs stand before those of the transaction at this place.
    pub fn logs_before(&self, at: usize) -> usize {
        self.receipts[..at].iter().map(|receipt| receipt.logs.len()).sum()
    }
}
