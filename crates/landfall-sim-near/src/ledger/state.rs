//! What the chain knows: amounts and access keys, each in a cell of its own, with an undo log.
//!
//! **Invariant:** a cell changes only between [`State::begin`] and [`State::commit`] or
//! [`State::rollback`], so that a failed batch leaves no trace.
//! **Invariant:** [`State::seal`] hands out, for every cell a block touched, the value before it;
//! history and reorganisations are read and made from these and nothing else.
//! Not here: what a change means (`execute`, `token`).

use std::collections::{BTreeSet, HashMap};

use near_crypto::PublicKey;
use near_primitives::account::AccessKey;
use near_primitives::types::AccountId;

use super::token::{Poison, Spurned};

/// The name of one cell.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Slot {
    /// yoctoNEAR of an account; an account exists when it has this cell.
    Near(AccountId),
    /// Tokens of an account; an account is registered when it has this cell.
    Token(AccountId),
    Key(AccountId, PublicKey),
    /// The token's total supply.
    Supply,
    /// What becomes of transfers to an account, or to any if none.
    Poison(Option<AccountId>),
    /// There if the contract refuses this account.
    Spurned(AccountId, Spurned),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Amount(u128),
    Key(AccessKey),
    Poison(Poison),
}

/// Cells as they were before a block: `None` where there was no cell.
pub type Delta = HashMap<Slot, Option<Value>>;

#[derive(Default)]
pub struct State {
    cells: HashMap<Slot, Value>,
    /// Changes since `begin`, oldest first.
    open: Vec<(Slot, Option<Value>)>,
    /// First value of every cell touched since the last `seal`.
    delta: Delta,
    /// Every key an account ever had: whether it has it still is in the cells.
    keys: HashMap<AccountId, BTreeSet<String>>,
}

impl State {
    pub fn get(&self, slot: &Slot) -> Option<&Value> {
        self.cells.get(slot)
    }

    pub fn amount(&self, slot: &Slot) -> Option<u128> {
        as_amount(self.get(slot))
    }

    pub fn key(&self, account: &AccountId, key: &PublicKey) -> Option<&AccessKey> {
        match self.cells.get(&Slot::Key(account.clone(), key.clone())) {
            Some(Value::Key(found)) => Some(found),
            _ => None,
        }
    }

    /// What becomes of a transfer to the account, if it fails.
    pub fn poison(&self, account: &AccountId) -> Option<&Poison> {
        let slots = [Some(account.clone()), None].map(Slot::Poison);
        slots.iter().find_map(|slot| match self.cells.get(slot) {
            Some(Value::Poison(poison)) => Some(poison),
            _ => None,
        })
    }

    /// Public keys the account has or had, sorted as the node lists them.
    pub fn keys_ever(&self, account: &AccountId) -> impl Iterator<Item = PublicKey> {
        let names = self.keys.get(account).into_iter().flatten();
        names.filter_map(|name| name.parse().ok())
    }

    pub fn slots(&self) -> impl Iterator<Item = (&Slot, &Value)> {
        self.cells.iter()
    }

    pub fn set(&mut self, slot: Slot, value: Option<Value>) {
        if let (Slot::Key(account, key), Some(_)) = (&slot, &value) {
            self.keys.entry(account.clone()).or_default().insert(key.to_string());
        }
        let before = self.put(slot.clone(), value);
        self.open.push((slot, before));
    }

    pub fn set_amount(&mut self, slot: Slot, amount: u128) {
        self.set(slot, Some(Value::Amount(amount)));
    }

    /// Opens a group of changes that stand or fall together.
    pub fn begin(&mut self) {
        assert!(self.open.is_empty(), "groups of changes do not nest");
    }

    pub fn commit(&mut self) {
        for (slot, before) in self.open.drain(..) {
            self.delta.entry(slot).or_insert(before);
        }
    }

    pub fn rollback(&mut self) {
        while let Some((slot, before)) = self.open.pop() {
            self.put(slot, before);
        }
    }

    /// Ends a block: what its cells were before it.
    pub fn seal(&mut self) -> Delta {
        assert!(self.open.is_empty(), "a block ends with no group open");
        std::mem::take(&mut self.delta)
    }

    /// Takes a block back.
    pub fn undo(&mut self, delta: Delta) {
        assert!(self.open.is_empty() && self.delta.is_empty(), "undo between blocks only");
        for (slot, before) in delta {
            self.put(slot, before);
        }
    }

    fn put(&mut self, slot: Slot, value: Option<Value>) -> Option<Value> {
        match value {
            Some(value) => self.cells.insert(slot, value),
            None => self.cells.remove(&slot),
        }
    }
}

pub fn as_amount(value: Option<&Value>) -> Option<u128> {
    match value {
        Some(Value::Amount(amount)) => Some(*amount),
        _ => None,
    }
}
