//! What accounts and contracts hold, as of every block.
//!
//! **Invariant:** a block's writes are told apart from those before it, so that any block can be
//! asked about, and the newest can fall off.

use std::collections::BTreeMap;

use alloy_primitives::{Address, U256};

/// One number that the chain keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Slot {
    Balance(Address),
    Nonce(Address),
    /// How often the counter was called, by anybody.
    Count,
    CountOf(Address),
    /// The next nonce that the forwarder expects of a signer.
    ForwarderNonce(Address),
}

/// The numbers of every block.
#[derive(Debug, Default)]
pub struct Slots {
    /// By slot: the blocks that changed it, with what they left.
    values: BTreeMap<Slot, Vec<(u64, U256)>>,
}

impl Slots {
    /// As the block left it.
    pub fn at(&self, block: u64, slot: Slot) -> U256 {
        let values = self.values.get(&slot).map_or(&[][..], Vec::as_slice);
        let after = values.partition_point(|(changed, _)| *changed <= block);
        after.checked_sub(1).map_or(U256::ZERO, |at| values[at].1)
    }

    pub fn set(&mut self, block: u64, slot: Slot, value: U256) {
        let values = self.values.entry(slot).or_default();
        values.retain(|(changed, _)| *changed != block);
        values.push((block, value));
    }

    /// Takes back whatever came after the block.
    pub fn cut(&mut self, block: u64) {
        for values in self.values.values_mut() {
            values.truncate(values.partition_point(|(changed, _)| *changed <= block));
        }
    }
}

/// Changes that may yet be dropped, on top of what a block left.
pub struct Draft<'a> {
    slots: &'a Slots,
    block: u64,
    pub changes: BTreeMap<Slot, U256>,
}

impl<'a> Draft<'a> {
    pub fn on(slots: &'a Slots, block: u64) -> Draft<'a> {
        Draft { slots, block, changes: BTreeMap::new() }
    }

    pub fn get(&self, slot: Slot) -> U256 {
        self.changes.get(&slot).copied().unwrap_or_else(|| self.slots.at(self.block, slot))
    }

    pub fn set(&mut self, slot: Slot, value: U256) {
        self.changes.insert(slot, value);
    }

    /// One more; returns what it was.
    pub fn count(&mut self, slot: Slot) -> U256 {
        let before = self.get(slot);
        self.set(slot, before + U256::from(1));
        before
    }

    /// False, and nothing happened, if there is not as much.
    pub fn pay(&mut self, from: Address, to: Address, value: U256) -> bool {
        let Some(left) = self.get(Slot::Balance(from)).checked_sub(value) else { return false };
        self.set(Slot::Balance(from), left);
        let had = self.get(Slot::Balance(to));
        self.set(Slot::Balance(to), had.saturating_add(value));
        true
    }
}
