//! The chain as a pure state machine: blocks, accounts, and a pool for each node.
//!
//! Nothing here knows the time or a socket: whoever drives it says when a block is made, by which
//! node. **Invariant:** what is final stays: [`Ledger::cut`] takes back nothing at or below it.

pub mod block;
pub mod execute;
pub mod natives;
pub mod pool;
pub mod slots;
pub mod transaction;

use std::collections::HashMap;
use std::sync::Arc;

use alloy_consensus::Header;
use alloy_eips::eip1559::{BaseFeeParams, calc_next_block_base_fee};
use alloy_primitives::{Address, B256, Bytes, U256};
use serde::{Deserialize, Serialize};

pub use block::{Block, Receipt};
pub use slots::{Draft, Slot, Slots};
pub use transaction::Transaction;

use natives::Around;
use pool::{Pool, Sender};

/// Blocks behind the head at which a block is `safe`.
pub const SAFE_BLOCKS: u64 = 2;
/// Blocks behind the head at which a block is `finalized`. No reorganisation goes as deep.
pub const FINAL_BLOCKS: u64 = 4;
/// As on a main network.
pub const BLOCK_GAS: u64 = 30_000_000;
/// Wei per gas of the first block.
const FIRST_BASE_FEE: u64 = 1_000_000_000;

/// What a chain begins with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Genesis {
    pub chain_id: u64,
    pub timestamp: u64,
    pub signers: Vec<Address>,
    /// Wei of each signer.
    pub funds: U256,
}

/// Where a transaction is.
pub struct Found<'a> {
    pub transaction: &'a Transaction,
    /// Its block and its place there; none while it waits in the pool.
    pub landed: Option<(&'a Block, usize)>,
}

pub struct Ledger {
    genesis: Genesis,
    blocks: Vec<Block>,
    slots: Slots,
    pools: Vec<Pool>,
    /// By hash: number of the block.
    landed: HashMap<B256, u64>,
    /// What the next block charges, whatever the rule says.
    forced_base_fee: Option<u64>,
}

impl Ledger {
    pub fn new(genesis: Genesis, nodes: usize) -> Ledger {
        let mut slots = Slots::default();
        for signer in &genesis.signers {
            slots.set(0, Slot::Balance(*signer), genesis.funds);
        }
        let first = Header {
            gas_limit: BLOCK_GAS,
            timestamp: genesis.timestamp,
            base_fee_per_gas: Some(FIRST_BASE_FEE),
            ..Header::default()
        };
        let pools = (0..nodes).map(|_| Pool::default()).collect();
        let blocks = vec![Block::new(first, Vec::new(), Vec::new())];
        let landed = HashMap::new();
        Ledger { genesis, blocks, slots, pools, landed, forced_base_fee: None }
    }

    pub fn genesis(&self) -> &Genesis {
        &self.genesis
    }

    pub fn head(&self) -> &Block {
        self.blocks.last().expect("a chain has its first block")
    }

    pub fn height(&self) -> u64 {
        self.head().number()
    }

    pub fn block(&self, number: u64) -> Option<&Block> {
        self.blocks.get(usize::try_from(number).ok()?)
    }

    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    pub fn slots(&self) -> &Slots {
        &self.slots
    }

    pub fn pool(&self, node: usize) -> &Pool {
        &self.pools[node]
    }

    /// The base fee of the block after this one.
    pub fn next_base_fee(&self, block: &Block) -> u64 {
        let Header { gas_used, gas_limit, base_fee_per_gas, .. } = block.header;
        let base_fee = base_fee_per_gas.unwrap_or(FIRST_BASE_FEE);
        calc_next_block_base_fee(gas_used, gas_limit, base_fee, BaseFeeParams::ethereum())
    }

    /// The next block charges this, without warning.
    pub fn force_base_fee(&mut self, base_fee: u64) {
        self.forced_base_fee = Some(base_fee);
    }

    fn coming_base_fee(&self) -> u64 {
        self.forced_base_fee.unwrap_or_else(|| self.next_base_fee(self.head()))
    }

    pub fn around(&self, timestamp: u64) -> Around {
        Around { chain_id: self.genesis.chain_id, timestamp }
    }

    pub fn nonce_at(&self, block: u64, address: Address) -> u64 {
        self.slots.at(block, Slot::Nonce(address)).to()
    }

    /// What the node knows of the transaction, when its head is the block `head`.
    pub fn find(&self, node: usize, head: u64, hash: &B256) -> Option<Found<'_>> {
        let landed = self.landed.get(hash).filter(|number| **number <= head);
        if let Some(block) = landed.and_then(|number| self.block(*number)) {
            let at = block.transactions.iter().position(|landed| landed.hash == *hash)?;
            return Some(Found { transaction: &block.transactions[at], landed: Some((block, at)) });
        }
        let transaction = self.pools[node].get(hash)?;
        Some(Found { transaction, landed: None })
    }

    /// A node takes a transaction in its pool, or says why not.
    pub fn submit(&mut self, node: usize, raw: Bytes) -> Result<B256, String> {
        let transaction = Arc::new(Transaction::read(raw, self.genesis.chain_id)?);
        let hash = transaction.hash;
        self.pool_up(node, transaction).map(|()| hash)
    }

    fn pool_up(&mut self, node: usize, transaction: Arc<Transaction>) -> Result<(), String> {
        let head = self.height();
        let sender = Sender {
            nonce: self.nonce_at(head, transaction.from),
            balance: self.slots.at(head, Slot::Balance(transaction.from)),
        };
        self.pools[node].take(transaction, sender, BLOCK_GAS)
    }

    /// Every node tells every other what it has. What a pool refuses it does without.
    pub fn gossip(&mut self) {
        let told: Vec<Arc<Transaction>> = self.pools.iter().flat_map(Pool::all).cloned().collect();
        for node in 0..self.pools.len() {
            for transaction in &told {
                let _ = self.pool_up(node, transaction.clone());
            }
        }
    }

    /// Takes out of a node's pool whatever does not pass.
    pub fn keep_pooled(&mut self, node: usize, pass: impl FnMut(&Transaction) -> bool) {
        self.pools[node].retain(pass);
    }

    /// What the node would put in the next block, best paid first, each sender's in order.
    pub fn best(&self, node: usize) -> Vec<Arc<Transaction>> {
        let head = self.height();
        self.pools[node].best(self.coming_base_fee(), |from| self.nonce_at(head, from))
    }

    /// Makes a block of the best that the node has.
    pub fn produce(&mut self, node: usize, timestamp: u64) -> &Block {
        let best = self.best(node);
        self.append(timestamp, best)
    }

    /// Makes a block of these, as far as they fit.
    pub fn append(&mut self, timestamp: u64, chosen: Vec<Arc<Transaction>>) -> &Block {
        let timestamp = timestamp.max(self.head().header.timestamp + 1);
        let block = self.execute(timestamp, chosen);
        let number = block.number();
        for transaction in &block.transactions {
            self.landed.insert(transaction.hash, number);
        }
        self.blocks.push(block);
        let (slots, nonce) = (&self.slots, |from| Slot::Nonce(from));
        for pool in &mut self.pools {
            pool.retain(|waiting| {
                U256::from(waiting.nonce()) >= slots.at(number, nonce(waiting.from))
            });
        }
        self.head()
    }

    /// Takes back the last blocks, none of them final, and returns what was in them, oldest first.
    pub fn cut(&mut self, depth: u64) -> Vec<Arc<Transaction>> {
        let depth = depth.min(FINAL_BLOCKS - 1).min(self.height());
        let height = self.height() - depth;
        let fallen = self.blocks.split_off(height as usize + 1);
        self.slots.cut(height);
        let transactions: Vec<_> =
            fallen.into_iter().flat_map(|block| block.transactions).collect();
        for transaction in &transactions {
            self.landed.remove(&transaction.hash);
        }
        transactions
    }

    /// Puts what fell off back in every pool that takes it.
    pub fn pool_again(&mut self, fallen: &[Arc<Transaction>]) {
        for node in 0..self.pools.len() {
            for transaction in fallen {
                let _ = self.pool_up(node, transaction.clone());
            }
        }
    }
}
