//! Blocks and the chain they form.
//!
//! **Invariant:** on the canonical chain heights have no gap and each block names the one before.
//! **Invariant:** a block dropped by a reorganisation stays known by hash, never by height.
//! Not here: what is in the state at a block (`state`, [`super::View`]).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use near_primitives::hash::CryptoHash;
use near_primitives::transaction::SignedTransaction;

use super::state::Delta;

/// Blocks that must follow one before it is final.
pub const FINALITY_BLOCKS: u64 = 2;

#[derive(Debug)]
pub struct Block {
    pub height: u64,
    pub hash: CryptoHash,
    pub prev_hash: CryptoHash,
    pub chunk_hash: CryptoHash,
    pub timestamp_ns: u64,
    /// Transactions of its chunk, in the order they were applied.
    pub transactions: Vec<Arc<SignedTransaction>>,
    pub gas_used: u64,
}

impl Block {
    /// `fork` counts reorganisations: without it a block made again would have the same hash.
    pub fn seal(
        height: u64,
        prev_hash: CryptoHash,
        fork: u64,
        timestamp_ns: u64,
        transactions: Vec<Arc<SignedTransaction>>,
        gas_used: u64,
    ) -> Block {
        let mut bytes = Vec::with_capacity(64 + 32 * transactions.len());
        bytes.extend(prev_hash.as_ref());
        for number in [height, fork, timestamp_ns] {
            bytes.extend(number.to_le_bytes());
        }
        for transaction in &transactions {
            bytes.extend(transaction.hash().as_ref());
        }
        let hash = CryptoHash::hash_bytes(&bytes);
        let chunk_hash = derived(&hash, b"chunk");
        Block { height, hash, prev_hash, chunk_hash, timestamp_ns, transactions, gas_used }
    }
}

/// A hash that belongs to another one.
pub fn derived(base: &CryptoHash, name: &[u8]) -> CryptoHash {
    CryptoHash::hash_bytes(&[base.as_ref(), name].concat())
}

struct Link {
    block: Arc<Block>,
    /// The state before this block, where it differs from the state after it.
    before: Delta,
}

/// What a hash leads to.
enum Known {
    Canonical(u64),
    Orphan(Arc<Block>),
}

/// The canonical chain as far as history is kept, and the blocks that fell off it.
pub struct Chain {
    genesis_height: u64,
    /// Hash of every canonical block since genesis; these outlive collected history.
    hashes: Vec<CryptoHash>,
    kept: VecDeque<Link>,
    by_hash: HashMap<CryptoHash, Known>,
    by_chunk: HashMap<CryptoHash, CryptoHash>,
}

impl Chain {
    pub fn new(genesis: Block) -> Chain {
        let mut chain = Chain {
            genesis_height: genesis.height,
            hashes: Vec::new(),
            kept: VecDeque::new(),
            by_hash: HashMap::new(),
            by_chunk: HashMap::new(),
        };
        chain.push(genesis, Delta::new());
        chain
    }

    pub fn genesis_height(&self) -> u64 {
        self.genesis_height
    }

    pub fn head(&self) -> &Arc<Block> {
        &self.kept.back().expect("a chain has a head").block
    }

    pub fn earliest(&self) -> &Arc<Block> {
        &self.kept.front().expect("a chain has a head").block
    }

    pub fn hash_at(&self, height: u64) -> Option<CryptoHash> {
        let index = height.checked_sub(self.genesis_height)?;
        self.hashes.get(usize::try_from(index).ok()?).copied()
    }

    pub fn at(&self, height: u64) -> Option<&Arc<Block>> {
        let index = height.checked_sub(self.earliest().height)?;
        self.kept.get(usize::try_from(index).ok()?).map(|link| &link.block)
    }

    /// Also blocks that fell off the chain.
    pub fn by_hash(&self, hash: &CryptoHash) -> Option<&Arc<Block>> {
        match self.by_hash.get(hash)? {
            Known::Canonical(height) => self.at(*height),
            Known::Orphan(block) => Some(block),
        }
    }

    pub fn by_chunk(&self, chunk_hash: &CryptoHash) -> Option<&Arc<Block>> {
        self.by_hash(self.by_chunk.get(chunk_hash)?)
    }

    pub fn canonical_height(&self, hash: &CryptoHash) -> Option<u64> {
        match self.by_hash.get(hash)? {
            Known::Canonical(height) => Some(*height),
            Known::Orphan(_) => None,
        }
    }

    /// Deltas of the blocks after `height`, oldest first.
    pub fn deltas_after(&self, height: u64) -> impl Iterator<Item = &Delta> {
        let skip = (height + 1).saturating_sub(self.earliest().height);
        self.kept.iter().skip(usize::try_from(skip).unwrap_or(usize::MAX)).map(|link| &link.before)
    }

    pub fn push(&mut self, block: Block, before: Delta) {
        self.hashes.push(block.hash);
        self.by_hash.insert(block.hash, Known::Canonical(block.height));
        self.by_chunk.insert(block.chunk_hash, block.hash);
        self.kept.push_back(Link { block: Arc::new(block), before });
    }

    /// Takes the head off the chain; it stays known by hash.
    pub fn pop(&mut self) -> (Arc<Block>, Delta) {
        assert!(self.kept.len() > 1, "the oldest kept block stays");
        let Link { block, before } = self.kept.pop_back().expect("more than one");
        self.hashes.pop();
        self.by_hash.insert(block.hash, Known::Orphan(block.clone()));
        (block, before)
    }

    /// Forgets the oldest blocks beyond `keep`; returns those forgotten.
    pub fn collect(&mut self, keep: u64) -> Vec<Arc<Block>> {
        let mut gone = Vec::new();
        while self.kept.len() as u64 > keep.max(FINALITY_BLOCKS + 1) {
            let link = self.kept.pop_front().expect("more than one");
            self.by_hash.remove(&link.block.hash);
            self.by_chunk.remove(&link.block.chunk_hash);
            gone.push(link.block);
        }
        gone
    }
}
