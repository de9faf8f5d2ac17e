//! What nodes answer, as types. Numbers are `0x` hex on this wire.
//!
//! Only what the rail needs is read; what cannot be read decides nothing.

use alloy_primitives::{Address, B256, Bytes, U64, U128, U256};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// An answer that is not what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an unreadable answer: {0}")]
pub struct Unreadable(String);

/// Reads an answer; none where it is `null`.
pub fn read<T: DeserializeOwned>(answer: &RawValue) -> Result<Option<T>, Unreadable> {
    serde_json::from_str(answer.get()).map_err(|error| Unreadable(error.to_string()))
}

/// A block without its transactions' contents.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    pub number: U64,
    pub hash: B256,
    pub parent_hash: B256,
    /// Hashes of what it holds.
    pub transactions: Vec<B256>,
}

/// A block with its transactions.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct FullBlock {
    pub number: U64,
    pub hash: B256,
    pub transactions: Vec<Included>,
}

/// A transaction in a block.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Included {
    pub hash: B256,
    pub from: Address,
    pub nonce: U64,
    #[serde(default)]
    pub to: Option<Address>,
    pub value: U256,
    pub input: Bytes,
}

/// What became of a transaction in a block.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receipt {
    pub transaction_hash: B256,
    pub block_hash: B256,
    pub block_number: U64,
    pub from: Address,
    /// 1 if it did what it was to do.
    pub status: U64,
    pub gas_used: U64,
}

/// What gas cost in recent blocks.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FeeHistory {
    /// One more than there are blocks: the last is of the next block.
    #[serde(default)]
    pub base_fee_per_gas: Vec<U128>,
    /// Tips of each block, at each of the percentiles that were asked for.
    #[serde(default)]
    pub reward: Option<Vec<Vec<U128>>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::to_raw_value;

    #[test]
    fn what_is_not_there_is_not_what_cannot_be_read() {
        let raw = |value| to_raw_value(&value).unwrap();
        assert_eq!(read::<Receipt>(&raw(serde_json::Value::Null)), Ok(None));
        assert!(read::<Receipt>(&raw(serde_json::json!({"status": "0x1"}))).is_err());
        assert!(read::<U64>(&raw(serde_json::json!("0x1g"))).is_err());
    }
}
