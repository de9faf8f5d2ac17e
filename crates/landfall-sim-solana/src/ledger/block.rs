//! Blocks. A slot may have none.

use std::sync::Arc;

use solana_hash::Hash;

use super::execute::Meta;
use super::transaction::Transaction;

#[derive(Debug, Clone)]
pub struct Block {
    pub slot: u64,
    pub parent_slot: u64,
    /// Blocks before it: slots without one do not count.
    pub height: u64,
    pub hash: Hash,
    pub parent_hash: Hash,
    /// Seconds since 1970.
    pub time_s: u64,
    pub transactions: Vec<Arc<Transaction>>,
    /// One for each.
    pub metas: Vec<Meta>,
}

/// The hash of a block with these signatures in that slot.
pub fn hash_of(parent: &Hash, slot: u64, transactions: &[Arc<Transaction>]) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(parent.as_ref()).update(&slot.to_le_bytes());
    for transaction in transactions {
        hasher.update(transaction.signature.as_ref());
    }
    Hash::new_from_array(*hasher.finalize().as_bytes())
}
