//! The chain as a pure state machine: slots, blocks, balances, a shield pool, and what each node
//! has taken and not yet seen in a block.
//!
//! Nothing here knows the time or a socket: whoever drives it says when a slot passes, and whether
//! it has a block. **Invariant:** what is final stays: [`Ledger::cut`] takes back nothing at or
//! below [`Ledger::final_height`], which never falls.

pub mod balances;
pub mod block;
pub mod execute;
pub mod shield;
pub mod transaction;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use solana_address::Address;
use solana_hash::Hash;
use solana_sdk_ids::{bpf_loader_upgradeable, native_loader};
use solana_signature::Signature;
use solana_system_interface::program as system;

pub use balances::Balances;
pub use block::Block;
pub use execute::{HASH_AGE_MAX, Meta, Place};
pub use shield::{PROGRAM, ShieldPool};
pub use transaction::Transaction;

/// Blocks behind the head at which a block is `confirmed`.
pub const CONFIRMED_BLOCKS: u64 = 1;
/// Blocks behind the head at which a block is `finalized`. No fork goes as deep.
pub const FINAL_BLOCKS: u64 = 32;
/// Units of all transactions of a block, and of those that write to one account.
pub const BLOCK_UNITS: u64 = 60_000_000;
pub const ACCOUNT_UNITS: u64 = 24_000_000;
/// Transactions that one node keeps for the leaders.
const POOL_MAX: usize = 10_000;
/// What a program's or the pool's account holds, beside what it pays out.
const KEPT_LAMPORTS: u64 = 1_000_000_000;

/// What exempts an account of so many bytes from rent.
pub fn rent_minimum(bytes: u64) -> u64 {
    (128 + bytes) * 6_960
}

/// What a chain begins with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Genesis {
    pub time_s: u64,
    pub payers: Vec<Address>,
    /// Lamports of each payer.
    pub payer_lamports: u64,
    pub pool_lamports: u64,
    /// Whether blocks and accounts are as small as on the main network.
    pub limits: bool,
}

/// An account as of some block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub lamports: u64,
    pub owner: Address,
    pub data: Vec<u8>,
    pub executable: bool,
}

pub struct Ledger {
    genesis: Genesis,
    blocks: Vec<Block>,
    /// Of the newest slot, which may have no block.
    slot: u64,
    final_height: u64,
    balances: Balances,
    shield: ShieldPool,
    /// By node.
    pools: Vec<BTreeMap<Signature, Arc<Transaction>>>,
    /// By hash: height of the block.
    heights: HashMap<Hash, u64>,
    /// By signature: height of the block and place in it.
    landed: HashMap<Signature, (u64, usize)>,
}

impl Ledger {
    pub fn new(genesis: Genesis, nodes: usize) -> Ledger {
        let first = *blake3::hash(b"landfall sim solana").as_bytes();
        let shield = ShieldPool::new(&PROGRAM, *blake3::hash(b"the first root").as_bytes());
        let mut balances = Balances::default();
        for payer in &genesis.payers {
            balances.set(0, *payer, genesis.payer_lamports);
        }
        for own in shield.addresses.all() {
            balances.set(0, own, KEPT_LAMPORTS);
        }
        balances.set(0, PROGRAM, KEPT_LAMPORTS);
        for native in [system::ID, solana_compute_budget_interface::ID] {
            balances.set(0, native, 1);
        }
        balances.set(0, shield.addresses.pool, genesis.pool_lamports.max(KEPT_LAMPORTS));
        let block = Block {
            slot: 0,
            parent_slot: 0,
            height: 0,
            hash: Hash::new_from_array(first),
            parent_hash: Hash::default(),
            time_s: genesis.time_s,
            transactions: Vec::new(),
            metas: Vec::new(),
        };
        Ledger {
            genesis,
            heights: HashMap::from([(block.hash, 0)]),
            blocks: vec![block],
            slot: 0,
            final_height: 0,
            balances,
            shield,
            pools: vec![BTreeMap::new(); nodes],
            landed: HashMap::new(),
        }
    }

    pub fn genesis(&self) -> &Genesis {
        &self.genesis
    }

    pub fn head(&self) -> &Block {
        self.blocks.last().expect("a chain has its first block")
    }

    pub fn height(&self) -> u64 {
        self.head().height
    }

    pub fn slot(&self) -> u64 {
        self.slot
    }

    pub fn final_height(&self) -> u64 {
        self.final_height
    }

    pub fn block(&self, height: u64) -> Option<&Block> {
        self.blocks.get(usize::try_from(height).ok()?)
    }

    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The block of a slot, if it has one.
    pub fn block_in(&self, slot: u64) -> Option<&Block> {
        let at = self.blocks.binary_search_by_key(&slot, |block| block.slot).ok()?;
        self.blocks.get(at)
    }

    pub fn balances(&self) -> &Balances {
        &self.balances
    }

    pub fn shield(&self) -> &ShieldPool {
        &self.shield
    }

    pub fn height_of(&self, hash: &Hash) -> Option<u64> {
        self.heights.get(hash).copied()
    }

    /// Where a transaction has landed: the height of its block, and its place there.
    pub fn landed(&self, signature: &Signature) -> Option<(u64, usize)> {
        self.landed.get(signature).copied()
    }

    pub fn account(&self, height: u64, address: &Address) -> Option<Account> {
        let lamports = self.balances.at(height, address);
        let own = self.shield.addresses;
        let native = |name: &[u8]| (native_loader::ID, name.to_vec(), true);
        let (owner, data, executable) = match *address {
            _ if lamports == 0 => return None,
            PROGRAM => (bpf_loader_upgradeable::ID, vec![0; 36], true),
            system::ID => native(b"system_program"),
            solana_compute_budget_interface::ID => native(b"compute_budget_program"),
            pool if pool == own.pool => (PROGRAM, vec![0; 32], false),
            treasury if treasury == own.treasury => (PROGRAM, Vec::new(), false),
            ring if ring == own.roots_ring => (PROGRAM, self.shield.ring_data(height), false),
            shard if shard == own.nullifier_shard => {
                (PROGRAM, self.shield.shard_data(height), false)
            }
            _ => (system::ID, Vec::new(), false),
        };
        Some(Account { lamports, owner, data, executable })
    }

    /// A node takes a transaction, to give it to the leaders until it has landed or is too old.
    pub fn submit(&mut self, node: usize, transaction: Transaction) {
        if self.pools[node].len() < POOL_MAX {
            self.pools[node].insert(transaction.signature, Arc::new(transaction));
        }
    }

    pub fn pool_len(&self, node: usize) -> usize {
        self.pools[node].len()
    }

    /// Takes out of what a node has whatever does not pass.
    pub fn keep_pooled(&mut self, node: usize, mut pass: impl FnMut(&Transaction) -> bool) {
        self.pools[node].retain(|_, transaction| pass(transaction));
    }

    /// What the leader of the next slot puts in its block: the best paid of all that nodes have.
    pub fn best(&self) -> Vec<Arc<Transaction>> {
        let mut all: BTreeMap<Signature, &Arc<Transaction>> = BTreeMap::new();
        for pool in &self.pools {
            all.extend(pool.iter().map(|(signature, one)| (*signature, one)));
        }
        let mut best: Vec<Arc<Transaction>> = all.into_values().cloned().collect();
        best.sort_by_key(|one| std::cmp::Reverse(one.price));
        best
    }

    /// A slot passes without a block.
    pub fn skip(&mut self) {
        self.slot += 1;
    }

    /// A slot passes with a block of these, as far as they fit and are not too old.
    pub fn append(&mut self, time_s: u64, chosen: Vec<Arc<Transaction>>) -> &Block {
        self.slot += 1;
        let height = self.height() + 1;
        let mut room = Room::new(self.genesis.limits);
        let (mut transactions, mut metas) = (Vec::new(), Vec::new());
        for transaction in chosen {
            let place = Place::within(height);
            let is_due = self.check(&transaction, place).is_ok() && transaction.is_signed();
            if !is_due || !room.takes(&transaction) {
                continue;
            }
            let executed = self.run(&transaction, place);
            for (address, lamports) in executed.changes {
                self.balances.set(height, address, lamports);
            }
            for spent in executed.spent {
                self.shield.spend(spent);
            }
            self.landed.insert(transaction.signature, (height, transactions.len()));
            transactions.push(transaction);
            metas.push(executed.meta);
        }
        let head = self.head();
        let (parent_hash, parent_slot) = (head.hash, head.slot);
        let hash = block::hash_of(&parent_hash, self.slot, &transactions);
        let slot = self.slot;
        let time_s = time_s.max(head.time_s);
        self.heights.insert(hash, height);
        self.blocks.push(Block {
            slot,
            parent_slot,
            height,
            hash,
            parent_hash,
            time_s,
            transactions,
            metas,
        });
        self.final_height = self.final_height.max(height.saturating_sub(FINAL_BLOCKS));
        self.tidy_pools();
        self.head()
    }

    /// Forgets what has landed or never can.
    fn tidy_pools(&mut self) {
        let (newest, mut pools) = (self.height(), std::mem::take(&mut self.pools));
        for pool in &mut pools {
            pool.retain(|signature, one| {
                let signed_on = self.height_of(&one.blockhash());
                self.landed(signature).is_none()
                    && signed_on.is_some_and(|height| newest - height <= HASH_AGE_MAX)
            });
        }
        self.pools = pools;
    }

    /// Takes back the last blocks, none of them final: another fork has won. Returns what was in
    /// them, oldest first.
    pub fn cut(&mut self, depth: u64) -> Vec<Arc<Transaction>> {
        let depth = depth.min(self.height() - self.final_height);
        let height = self.height() - depth;
        let fallen = self.blocks.split_off(height as usize + 1);
        self.balances.cut(height);
        self.shield.cut(height);
        let mut undone = Vec::new();
        for block in fallen {
            self.heights.remove(&block.hash);
            for transaction in &block.transactions {
                self.landed.remove(&transaction.signature);
            }
            undone.extend(block.transactions);
        }
        undone
    }

    /// What has fallen off is with all nodes again.
    pub fn pool_again(&mut self, fallen: &[Arc<Transaction>]) {
        for pool in &mut self.pools {
            pool.extend(fallen.iter().map(|one| (one.signature, one.clone())));
        }
        self.tidy_pools();
    }

    /// The pool's owner adds a root; beyond 64 the oldest is gone.
    pub fn push_root(&mut self, root: [u8; 32]) {
        self.shield.push_root(self.height(), root);
    }
}

/// What a block has room for.
struct Room {
    limits: bool,
    units: u64,
    by_account: HashMap<Address, u64>,
}

impl Room {
    fn new(limits: bool) -> Room {
        Room { limits, units: BLOCK_UNITS, by_account: HashMap::new() }
    }

    /// False, and nothing is taken, if it does not fit.
    fn takes(&mut self, transaction: &Transaction) -> bool {
        if !self.limits {
            return true;
        }
        let units = transaction.units;
        let written = transaction.keys().iter().enumerate();
        let written: Vec<Address> = written
            .filter(|(index, _)| transaction.is_writable(*index))
            .map(|(_, key)| *key)
            .collect();
        let used = |key: &Address| self.by_account.get(key).copied().unwrap_or(0);
        let fits = units <= self.units
            && written.iter().all(|key| used(key).saturating_add(units) <= ACCOUNT_UNITS);
        if fits {
            self.units -= units;
            written.into_iter().for_each(|key| *self.by_account.entry(key).or_insert(0) += units);
        }
        fits
    }
}
