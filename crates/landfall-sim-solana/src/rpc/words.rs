//! Addresses, signatures and bytes as Solana writes them.

use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use solana_address::Address;
use solana_hash::Hash;
use solana_message::VersionedMessage;
use solana_signature::Signature;

use super::super::ledger::transaction::SIZE_MAX;
use super::super::ledger::{Account, Transaction};
use super::Failure;

/// Bytes of an account that are shown in base58.
const BASE58_MAX: usize = 128;

pub fn address(text: &str) -> Result<Address, Failure> {
    let bad = |_| Failure::params("Invalid param: WrongSize");
    Address::from_str(text).map_err(bad)
}

pub fn signature(text: &str) -> Result<Signature, Failure> {
    Signature::from_str(text).map_err(|_| Failure::params("Invalid param: WrongSize"))
}

pub fn hash(text: &str) -> Result<Hash, Failure> {
    Hash::from_str(text).map_err(|_| Failure::params("Invalid param: WrongSize"))
}

pub fn base64_of(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// A transaction as a request has it. Only base64 is read: base58 is what old clients send.
pub fn transaction(text: &str, options: &Value) -> Result<Transaction, Failure> {
    if options["encoding"].as_str() != Some("base64") {
        let only = "unsupported encoding: use base64";
        return Err(Failure::params(only));
    }
    let encoded_max = SIZE_MAX.div_ceil(3) * 4;
    if text.len() > encoded_max {
        let name = "solana_transaction::versioned::VersionedTransaction";
        let (length, limit) = (text.len(), format!("max: encoded/raw {encoded_max}/{SIZE_MAX}"));
        return Err(Failure::params(format!(
            "base64 encoded {name} too large: {length} bytes ({limit})"
        )));
    }
    let bytes = STANDARD.decode(text);
    let bytes =
        bytes.map_err(|error| Failure::params(format!("invalid base64 encoding: {error:?}")))?;
    Transaction::read(bytes).map_err(Failure::params)
}

/// A message as a request has it, without signatures.
pub fn message(text: &str) -> Result<VersionedMessage, Failure> {
    let read = STANDARD.decode(text).ok().and_then(|bytes| bincode::deserialize(&bytes).ok());
    read.ok_or_else(|| Failure::params("invalid base64 encoding of a message"))
}

/// An account as the options ask for it.
pub fn account(account: Option<Account>, options: &Value) -> Result<Value, Failure> {
    let Some(Account { lamports, owner, data, executable }) = account else {
        return Ok(Value::Null);
    };
    let space = data.len();
    let slice = &options["dataSlice"];
    let shown = match (slice["offset"].as_u64(), slice["length"].as_u64()) {
        (Some(offset), Some(length)) => {
            let begin = (offset as usize).min(space);
            &data[begin..begin.saturating_add(length as usize).min(space)]
        }
        _ => &data[..],
    };
    let data = match options["encoding"].as_str() {
        None | Some("base58" | "binary") if shown.len() > BASE58_MAX => {
            let message = "Encoded binary (base 58) data should be less than 128 bytes, please use \
                           Base64 encoding.";
            return Err(Failure::new(-32600, message));
        }
        // Nothing longer than an address is ever asked for in base58.
        None | Some("base58" | "binary") if shown.is_empty() => json!(["", "base58"]),
        _ => json!([base64_of(shown), "base64"]),
    };
    Ok(json!({
        "data": data,
        "executable": executable,
        "lamports": lamports,
        "owner": owner.to_string(),
        "rentEpoch": u64::MAX,
        "space": space,
    }))
}
