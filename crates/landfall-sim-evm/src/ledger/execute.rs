//! Transactions executed in a block, and calls that change nothing.

use std::sync::Arc;

use alloy_consensus::{Header, Transaction as _};
use alloy_primitives::{Address, Bytes, U256, address};

use super::block::{Block, Receipt};
use super::natives::{self, Call, Ended};
use super::slots::{Draft, Slot};
use super::transaction::{Transaction, intrinsic_gas};
use super::{BLOCK_GAS, Ledger};

/// Who makes all blocks, and gets the tips.
pub const MINER: Address = address!("4c616e6466616c6c4d696e657200000000000001");

/// Why a call that changes nothing has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    Reverted(Bytes),
    OutOfGas,
    NoFunds,
}

impl Ledger {
    /// The block after the head, with what of the chosen fits in it.
    pub(super) fn execute(&mut self, timestamp: u64, chosen: Vec<Arc<Transaction>>) -> Block {
        let base_fee = self.coming_base_fee();
        self.forced_base_fee = None;
        let number = self.height() + 1;
        let mut block = (Vec::new(), Vec::<Receipt>::new());
        for transaction in chosen {
            let used = block.1.last().map_or(0, |receipt| receipt.cumulative_gas);
            if used + transaction.gas_limit() > BLOCK_GAS {
                continue;
            }
            if let Some(receipt) = self.run(&transaction, number, timestamp, base_fee, used) {
                block.0.push(transaction);
                block.1.push(receipt);
            }
        }
        let header = Header {
            parent_hash: self.head().hash,
            beneficiary: MINER,
            number,
            gas_limit: BLOCK_GAS,
            timestamp,
            base_fee_per_gas: Some(base_fee),
            ..Header::default()
        };
        Block::new(header, block.0, block.1)
    }

    /// None, and nothing happened, if it cannot be in this block.
    fn run(
        &mut self,
        transaction: &Transaction,
        number: u64,
        timestamp: u64,
        base_fee: u64,
        used_before: u64,
    ) -> Option<Receipt> {
        let from = transaction.from;
        let tip = transaction.envelope.effective_tip_per_gas(base_fee)?;
        let around = self.around(timestamp);
        // The block in the making is asked for: what came before in it counts.
        let mut draft = Draft::on(&self.slots, number);
        let balance = draft.get(Slot::Balance(from));
        if draft.get(Slot::Nonce(from)) != U256::from(transaction.nonce())
            || balance < transaction.cost()
        {
            return None;
        }
        let gas_price = transaction.envelope.effective_gas_price(Some(base_fee));
        let limit = transaction.gas_limit();
        let ended = match transaction.call() {
            Some(call) => natives::call(&mut draft, around, &call),
            None => Ended::OutOfGas,
        };
        let intrinsic = transaction.intrinsic_gas();
        let (succeeded, gas, logs, output) = match ended {
            Ended::Returned { output, gas, logs } => (true, intrinsic + gas, logs, output),
            Ended::Reverted { data, gas } => (false, intrinsic + gas, Vec::new(), data),
            Ended::OutOfGas => (false, limit, Vec::new(), Bytes::new()),
        };
        let (succeeded, gas_used) = (succeeded && gas <= limit, gas.min(limit));
        if !succeeded {
            draft.changes.clear();
        }
        draft.count(Slot::Nonce(from));
        let fee = U256::from(gas_price) * U256::from(gas_used);
        let left = draft.get(Slot::Balance(from)).saturating_sub(fee);
        draft.set(Slot::Balance(from), left);
        let tips = draft.get(Slot::Balance(MINER)) + U256::from(tip) * U256::from(gas_used);
        draft.set(Slot::Balance(MINER), tips);
        for (slot, value) in draft.changes {
            self.slots.set(number, slot, value);
        }
        let cumulative_gas = used_before + gas_used;
        let logs = if succeeded { logs } else { Vec::new() };
        Some(Receipt { succeeded, gas_used, cumulative_gas, gas_price, logs, output })
    }

    /// What the call would return on top of the block, and the gas that it would take.
    pub fn try_call(&self, block: u64, call: &Call) -> Result<(Bytes, u64), CallError> {
        let timestamp = self.block(block).map_or(0, |block| block.header.timestamp);
        let mut draft = Draft::on(&self.slots, block);
        if draft.get(Slot::Balance(call.from)) < call.value {
            return Err(CallError::NoFunds);
        }
        let intrinsic = intrinsic_gas(&call.input);
        let inner = Call { gas: call.gas.saturating_sub(intrinsic), ..call.clone() };
        match natives::call(&mut draft, self.around(timestamp), &inner) {
            Ended::Returned { output, gas, .. } => Ok((output, intrinsic + gas)),
            Ended::Reverted { data, .. } => Err(CallError::Reverted(data)),
            Ended::OutOfGas => Err(CallError::OutOfGas),
        }
    }
}
