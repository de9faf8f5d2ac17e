//! A signed transaction, read from the bytes that a client sends.

use alloy_consensus::transaction::SignerRecoverable;
use alloy_consensus::{Transaction as _, TxEnvelope, TxType};
use alloy_eips::eip2718::Decodable2718;
use alloy_primitives::{Address, B256, Bytes, U256};

use super::natives::Call;

/// What every transaction costs, and every byte of its input.
const BASE_GAS: u64 = 21_000;
const ZERO_BYTE_GAS: u64 = 4;
const BYTE_GAS: u64 = 16;

#[derive(Debug, Clone)]
pub struct Transaction {
    pub envelope: TxEnvelope,
    pub raw: Bytes,
    pub hash: B256,
    pub from: Address,
}

impl Transaction {
    /// Says in geth's words what is wrong with the bytes.
    pub fn read(raw: Bytes, chain_id: u64) -> Result<Transaction, String> {
        // What is no list of RLP begins with its type.
        let kind = raw.first().filter(|first| **first < 0x80);
        if kind.is_some_and(|kind| ![TxType::Eip2930 as u8, TxType::Eip1559 as u8].contains(kind)) {
            return Err("transaction type not supported".to_owned());
        }
        let mut rest = &raw[..];
        let envelope =
            TxEnvelope::decode_2718(&mut rest).map_err(|error| format!("rlp: {error}"))?;
        if !rest.is_empty() {
            return Err("rlp: input contains more than one value".to_owned());
        }
        match envelope.chain_id() {
            None => {
                let only = "only replay-protected (EIP-155) transactions allowed over RPC";
                return Err(only.to_owned());
            }
            Some(other) if other != chain_id => {
                let words = "invalid chain id for signer: have";
                return Err(format!("{words} {other} want {chain_id}"));
            }
            Some(_) => {}
        }
        let from = envelope.recover_signer().map_err(|_| "invalid sender".to_owned())?;
        let hash = *envelope.tx_hash();
        Ok(Transaction { envelope, raw, hash, from })
    }

    pub fn nonce(&self) -> u64 {
        self.envelope.nonce()
    }

    pub fn gas_limit(&self) -> u64 {
        self.envelope.gas_limit()
    }

    pub fn fee_cap(&self) -> u128 {
        self.envelope.max_fee_per_gas()
    }

    pub fn tip_cap(&self) -> u128 {
        self.envelope.priority_fee_or_price()
    }

    /// The most that it can take from its sender.
    pub fn cost(&self) -> U256 {
        let gas = U256::from(self.fee_cap()).saturating_mul(U256::from(self.gas_limit()));
        gas.saturating_add(self.envelope.value())
    }

    pub fn intrinsic_gas(&self) -> u64 {
        intrinsic_gas(self.envelope.input())
    }

    /// The call that it makes, with what gas is left for it; none if it would create a contract,
    /// which this chain cannot.
    pub fn call(&self) -> Option<Call> {
        Some(Call {
            from: self.from,
            to: self.envelope.to()?,
            value: self.envelope.value(),
            input: self.envelope.input().clone(),
            gas: self.gas_limit().saturating_sub(self.intrinsic_gas()),
        })
    }
}

/// What a transaction costs before anything is called.
pub fn intrinsic_gas(input: &[u8]) -> u64 {
    let zeros = input.iter().filter(|byte| **byte == 0).count() as u64;
    BASE_GAS + zeros * ZERO_BYTE_GAS + (input.len() as u64 - zeros) * BYTE_GAS
}
