//! Numbers, hashes and addresses as Ethereum writes them.

use std::str::FromStr;

use alloy_primitives::{Address, B256, Bytes, U256, hex};
use serde_json::Value;

use super::Failure;

/// Without leading zeros.
pub fn quantity(number: impl Into<u128>) -> Value {
    Value::from(format!("{:#x}", number.into()))
}

pub fn big_quantity(number: U256) -> Value {
    Value::from(format!("{number:#x}"))
}

pub fn data(bytes: impl AsRef<[u8]>) -> Value {
    Value::from(hex::encode_prefixed(bytes))
}

pub fn number(text: &str) -> Result<u64, Failure> {
    let digits = text.strip_prefix("0x").filter(|digits| !digits.is_empty());
    let digits = digits.ok_or_else(|| Failure::params("hex string without 0x prefix"))?;
    u64::from_str_radix(digits, 16).map_err(|_| Failure::params("invalid hex string"))
}

/// A number in a call; none if it is not given.
pub fn amount(value: &Value) -> Result<Option<U256>, Failure> {
    let Some(text) = value.as_str() else { return Ok(None) };
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let amount = U256::from_str_radix(digits, 16);
    amount.map(Some).map_err(|_| Failure::params("invalid hex string"))
}

pub fn address(text: &str) -> Result<Address, Failure> {
    let bad = |_| Failure::params("invalid argument: hex string of an address is expected");
    Address::from_str(text).map_err(bad)
}

pub fn hash(text: &str) -> Result<B256, Failure> {
    let bad = |_| Failure::params("invalid argument: hex string of 32 bytes is expected");
    B256::from_str(text).map_err(bad)
}

pub fn bytes(text: &str) -> Result<Bytes, Failure> {
    Bytes::from_str(text).map_err(|_| Failure::params("invalid hex string"))
}
