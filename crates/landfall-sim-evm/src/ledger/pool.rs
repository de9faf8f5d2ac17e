//! One node's pool: what it takes, what replaces what, what it would put in a block next.
//!
//! The rules and the words are geth's. Nonces may leave gaps; what comes after one waits.

use std::collections::BTreeMap;
use std::sync::Arc;

use alloy_consensus::Transaction as _;
use alloy_primitives::{Address, B256};

use super::transaction::Transaction;

/// By how much both fees must grow, in percent, for a transaction to replace another.
const REPLACEMENT_PERCENT: u128 = 10;
/// What the pool holds at most.
const POOL_MAX: usize = 100_000;

/// What the chain says of a sender.
#[derive(Debug, Clone, Copy)]
pub struct Sender {
    pub nonce: u64,
    pub balance: alloy_primitives::U256,
}

#[derive(Debug, Default)]
pub struct Pool {
    transactions: BTreeMap<(Address, u64), Arc<Transaction>>,
}

impl Pool {
    /// Takes it, or says in geth's words why not.
    pub fn take(
        &mut self,
        new: Arc<Transaction>,
        sender: Sender,
        gas_max: u64,
    ) -> Result<(), String> {
        let slot = (new.from, new.nonce());
        let old = self.transactions.get(&slot);
        if old.is_some_and(|old| old.hash == new.hash) {
            return Err("already known".to_owned());
        }
        self.check(&new, sender, gas_max)?;
        if let Some(old) = old {
            let enough = |old: u128, new: u128| new * 100 >= old * (100 + REPLACEMENT_PERCENT);
            if !enough(old.fee_cap(), new.fee_cap()) || !enough(old.tip_cap(), new.tip_cap()) {
                return Err("replacement transaction underpriced".to_owned());
            }
        } else if self.transactions.len() >= POOL_MAX {
            return Err("txpool is full".to_owned());
        }
        self.transactions.insert(slot, new);
        Ok(())
    }

    fn check(&self, new: &Transaction, sender: Sender, gas_max: u64) -> Result<(), String> {
        if new.gas_limit() > gas_max {
            return Err("exceeds block gas limit".to_owned());
        }
        if new.tip_cap() > new.fee_cap() {
            return Err("max priority fee per gas higher than max fee per gas".to_owned());
        }
        let needed = new.intrinsic_gas();
        if new.gas_limit() < needed {
            let (gas, words) = (new.gas_limit(), "intrinsic gas too low: gas");
            return Err(format!("{words} {gas}, minimum needed {needed}"));
        }
        if new.tip_cap() == 0 {
            return Err("transaction underpriced: gas tip cap 0, minimum needed 1".to_owned());
        }
        if new.nonce() < sender.nonce {
            let words = "nonce too low: next nonce";
            return Err(format!("{words} {}, tx nonce {}", sender.nonce, new.nonce()));
        }
        let (balance, cost) = (sender.balance, new.cost());
        if balance < cost {
            let words = "insufficient funds for gas * price + value: balance";
            return Err(format!("{words} {balance}, tx cost {cost}, overshot {}", cost - balance));
        }
        Ok(())
    }

    pub fn get(&self, hash: &B256) -> Option<&Arc<Transaction>> {
        self.transactions.values().find(|transaction| transaction.hash == *hash)
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<Transaction>> {
        self.transactions.values()
    }

    pub fn len(&self) -> usize {
        self.transactions.len()
    }

    pub fn is_empty(&self) -> bool {
        self.transactions.is_empty()
    }

    /// Keeps what passes.
    pub fn retain(&mut self, mut pass: impl FnMut(&Transaction) -> bool) {
        self.transactions.retain(|_, transaction| pass(transaction));
    }

    /// The sender's next nonce, if everything in the pool that has no gap before it lands.
    pub fn next_nonce(&self, from: Address, nonce: u64) -> u64 {
        let mut next = nonce;
        while self.transactions.contains_key(&(from, next)) {
            next += 1;
        }
        next
    }

    /// What a block with this base fee takes, best paid first, each sender's in order.
    pub fn best(&self, base_fee: u64, nonce_of: impl Fn(Address) -> u64) -> Vec<Arc<Transaction>> {
        let mut ready: BTreeMap<Address, Vec<&Arc<Transaction>>> = BTreeMap::new();
        let mut stopped: BTreeMap<Address, u64> = BTreeMap::new();
        for ((from, nonce), transaction) in &self.transactions {
            let next = stopped.entry(*from).or_insert_with(|| nonce_of(*from));
            let tip = transaction.envelope.effective_tip_per_gas(base_fee);
            if *nonce == *next && tip.is_some() {
                ready.entry(*from).or_default().push(transaction);
                *next += 1;
            }
        }
        let mut best = Vec::new();
        loop {
            let tip = |queue: &Vec<&Arc<Transaction>>| {
                queue.first()?.envelope.effective_tip_per_gas(base_fee)
            };
            let next = ready.iter().max_by_key(|(_, queue)| tip(queue)).map(|(from, _)| *from);
            let Some(queue) = next.and_then(|from| ready.get_mut(&from)) else { return best };
            if queue.is_empty() {
                return best;
            }
            best.push(queue.remove(0).clone());
        }
    }
}
