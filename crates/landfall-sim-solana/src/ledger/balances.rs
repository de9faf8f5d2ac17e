//! Lamports of every account, as of every block.
//!
//! **Invariant:** a block's writes are told apart from those before it, so that any block can be
//! asked about, and the newest can fall off.

use std::collections::{BTreeMap, HashMap};

use solana_address::Address;

#[derive(Debug, Default)]
pub struct Balances {
    /// By account: the heights that changed it, with what they left.
    values: HashMap<Address, Vec<(u64, u64)>>,
}

impl Balances {
    /// As the block of that height left it.
    pub fn at(&self, height: u64, address: &Address) -> u64 {
        let values = self.values.get(address).map_or(&[][..], Vec::as_slice);
        let after = values.partition_point(|(changed, _)| *changed <= height);
        after.checked_sub(1).map_or(0, |at| values[at].1)
    }

    pub fn set(&mut self, height: u64, address: Address, lamports: u64) {
        let values = self.values.entry(address).or_default();
        values.truncate(values.partition_point(|(changed, _)| *changed < height));
        values.push((height, lamports));
    }

    /// Takes back whatever came after the block.
    pub fn cut(&mut self, height: u64) {
        for values in self.values.values_mut() {
            values.truncate(values.partition_point(|(changed, _)| *changed <= height));
        }
    }

    /// All lamports that there are.
    pub fn total(&self, height: u64) -> u128 {
        self.values.keys().map(|address| u128::from(self.at(height, address))).sum()
    }
}

/// Changes that may yet be dropped, on top of what a block left.
pub struct Draft<'a> {
    balances: &'a Balances,
    height: u64,
    pub changes: BTreeMap<Address, u64>,
}

impl<'a> Draft<'a> {
    pub fn on(balances: &'a Balances, height: u64) -> Draft<'a> {
        Draft { balances, height, changes: BTreeMap::new() }
    }

    pub fn get(&self, address: &Address) -> u64 {
        let changed = self.changes.get(address).copied();
        changed.unwrap_or_else(|| self.balances.at(self.height, address))
    }

    /// False, and nothing happened, if there is not as much.
    pub fn take(&mut self, from: Address, lamports: u64) -> bool {
        let Some(left) = self.get(&from).checked_sub(lamports) else { return false };
        self.changes.insert(from, left);
        true
    }

    pub fn give(&mut self, to: Address, lamports: u64) {
        let now = self.get(&to).saturating_add(lamports);
        self.changes.insert(to, now);
    }
}
