//! What a node says, as small typed views.
//!
//! Only the fields that decide something; unknown fields are ignored, and whatever does not parse
//! is [`Unreadable`], which every caller takes for "unsure". Nothing here panics on outside data.
//! Not here: what an answer means for an attempt (`sort`, `outcome`, `look`).

use std::collections::BTreeMap;

use landfall_rpc::AtBlock;
use near_primitives::errors::InvalidTxError;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A result that is not what its method promises.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unreadable answer: {0}")]
pub struct Unreadable(pub String);

type Read<T> = Result<T, Unreadable>;

fn parse<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Read<T> {
    serde_json::from_str(raw.get()).map_err(|error| Unreadable(error.to_string()))
}

/// How far a transaction has come, as the node says. Only `Final` decides anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Stage {
    None,
    Included,
    ExecutedOptimistic,
    IncludedFinal,
    Executed,
    Final,
}

/// What a transaction did, as far as the answer tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Not executed yet, or the answer does not hold it.
    Unknown,
    /// Its actions took effect, all of them.
    Done,
    /// Its receipt failed: every action was reverted.
    Reverted(Failure),
    /// Included, but invalid: it used no nonce and ran nothing (protocol 83).
    Invalid(String),
}

/// Why a receipt failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The action that failed; none if the ledger names no action.
    pub index: Option<u64>,
    /// `ActionErrorKind`, as the node wrote it.
    pub kind: Value,
}

/// The answer of `tx` and `send_tx`.
#[derive(Clone, Debug, PartialEq)]
pub struct TxView {
    pub stage: Stage,
    pub effect: Effect,
    /// None when the answer names no transaction (stages NONE and INCLUDED may stand alone).
    pub hash: Option<String>,
    /// The block it is included in.
    pub block_hash: Option<String>,
}

#[derive(Deserialize)]
struct WireTx {
    final_execution_status: Stage,
    #[serde(default)]
    status: Value,
    transaction: Option<WireTransaction>,
    transaction_outcome: Option<WireOutcomeWithId>,
    #[serde(default)]
    receipts_outcome: Vec<WireOutcomeWithId>,
}

#[derive(Deserialize)]
struct WireTransaction {
    hash: String,
}

#[derive(Deserialize)]
struct WireOutcomeWithId {
    id: String,
    block_hash: String,
    outcome: WireOutcome,
}

#[derive(Deserialize)]
struct WireOutcome {
    status: Value,
}

/// Reads an answer of `tx` or `send_tx`.
pub fn tx(raw: &RawValue) -> Read<TxView> {
    let wire: WireTx = parse(raw)?;
    let effect = effect(&wire)?;
    let hash = wire.transaction.map(|transaction| transaction.hash);
    let block_hash = wire.transaction_outcome.map(|outcome| outcome.block_hash);
    Ok(TxView { stage: wire.final_execution_status, effect, hash, block_hash })
}

/// What it did, from the outcome of its own receipt: the one in which its actions ran. The overall
/// status follows promises to other receipts, whose failure reverts none of ours.
fn effect(wire: &WireTx) -> Read<Effect> {
    let Some(outcome) = &wire.transaction_outcome else {
        return if wire.status.get("Failure").is_some() || wire.status.get("SuccessValue").is_some()
        {
            Err(Unreadable("a status without the transaction's outcome".into()))
        } else {
            Ok(Effect::Unknown)
        };
    };
    let status = &outcome.outcome.status;
    if let Some(failure) = status.get("Failure") {
        return match failure.get("InvalidTxError") {
            Some(reason) => Ok(Effect::Invalid(reason.to_string())),
            None => Err(Unreadable("a transaction's outcome with a receipt's failure".into())),
        };
    }
    let Some(own) = status.get("SuccessReceiptId").and_then(Value::as_str) else {
        return Ok(Effect::Unknown);
    };
    let Some(receipt) = wire.receipts_outcome.iter().find(|receipt| receipt.id == own) else {
        return Ok(Effect::Unknown);
    };
    let status = &receipt.outcome.status;
    if status.get("SuccessValue").is_some() || status.get("SuccessReceiptId").is_some() {
        return Ok(Effect::Done);
    }
    match status.get("Failure") {
        Some(failure) => reverted(failure, &wire.status),
        None => Ok(Effect::Unknown),
    }
}

fn reverted(failure: &Value, overall: &Value) -> Read<Effect> {
    // A revert releases members to be paid again, so the answer must not contradict itself.
    if overall.get("Failure").is_none() {
        return Err(Unreadable("a failed receipt under a status that is no failure".into()));
    }
    let Some(error) = failure.get("ActionError") else {
        return Err(Unreadable("a receipt's failure that is no ActionError".into()));
    };
    let index = match error.get("index") {
        None | Some(Value::Null) => None,
        Some(index) => {
            Some(index.as_u64().ok_or_else(|| Unreadable("an index that is no number".into()))?)
        }
    };
    let kind = error.get("kind").cloned();
    let kind = kind.ok_or_else(|| Unreadable("an ActionError without a kind".into()))?;
    Ok(Effect::Reverted(Failure { index, kind }))
}

/// The reason in the `data` of an INVALID_TRANSACTION error. None if it is not one this crate's
/// ledger library knows.
pub fn invalid_tx(data: &Value) -> Option<InvalidTxError> {
    let reason = data.get("TxExecutionError")?.get("InvalidTxError")?;
    InvalidTxError::deserialize(reason).ok()
}

/// An access key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyView {
    pub nonce: u64,
    pub full_access: bool,
}

/// The answer of `query`, whose errors hide in the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Queried<T> {
    Found(T),
    /// The node says why not.
    Denied(String),
}

#[derive(Deserialize)]
struct WireQuery<'a> {
    block_height: u64,
    error: Option<String>,
    nonce: Option<u64>,
    #[serde(default)]
    permission: Value,
    #[serde(borrow)]
    keys: Option<Vec<WireListedKey<'a>>>,
    result: Option<Vec<u8>>,
    amount: Option<String>,
    storage_usage: Option<u64>,
}

#[derive(Deserialize)]
struct WireListedKey<'a> {
    #[serde(borrow)]
    public_key: std::borrow::Cow<'a, str>,
    access_key: WireAccessKey,
}

#[derive(Deserialize)]
struct WireAccessKey {
    nonce: u64,
    permission: Value,
}

fn missing(field: &str) -> Unreadable {
    Unreadable(format!("no {field}"))
}

/// Reads `query` of view_access_key.
pub fn access_key(raw: &RawValue) -> Read<AtBlock<Queried<KeyView>>> {
    let wire: WireQuery<'_> = parse(raw)?;
    let value = match wire.error {
        Some(error) => Queried::Denied(error),
        None => Queried::Found(KeyView {
            nonce: wire.nonce.ok_or_else(|| missing("nonce"))?,
            full_access: wire.permission == "FullAccess",
        }),
    };
    Ok(AtBlock { height: wire.block_height, value })
}

/// An account's full-access keys and their nonces.
pub type Nonces = BTreeMap<String, u64>;

/// Reads `query` of view_access_key_list.
pub fn access_keys(raw: &RawValue) -> Read<AtBlock<Nonces>> {
    let wire: WireQuery<'_> = parse(raw)?;
    let keys = wire.keys.ok_or_else(|| missing("keys"))?;
    let full = keys.into_iter().filter(|key| key.access_key.permission == "FullAccess");
    let value = full.map(|key| (key.public_key.into_owned(), key.access_key.nonce)).collect();
    Ok(AtBlock { height: wire.block_height, value })
}

/// Reads `query` of call_function: the JSON that the contract returned.
pub fn call_function(raw: &RawValue) -> Read<AtBlock<Queried<Value>>> {
    let wire: WireQuery<'_> = parse(raw)?;
    let value = match wire.error {
        Some(error) => Queried::Denied(error),
        None => {
            let bytes = wire.result.ok_or_else(|| missing("result"))?;
            let value = serde_json::from_slice(&bytes);
            Queried::Found(value.map_err(|error| Unreadable(error.to_string()))?)
        }
    };
    Ok(AtBlock { height: wire.block_height, value })
}

/// An account's balance, in yoctoNEAR, and the bytes it pays storage for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountView {
    pub amount: u128,
    pub storage_usage: u64,
}

/// Reads `query` of view_account.
pub fn account(raw: &RawValue) -> Read<AtBlock<AccountView>> {
    let wire: WireQuery<'_> = parse(raw)?;
    let amount = wire.amount.as_deref().and_then(|amount| amount.parse().ok());
    let value = AccountView {
        amount: amount.ok_or_else(|| missing("amount"))?,
        storage_usage: wire.storage_usage.ok_or_else(|| missing("storage_usage"))?,
    };
    Ok(AtBlock { height: wire.block_height, value })
}

/// A block's place in the chain, and the new chunks in it that hold transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockView {
    pub height: u64,
    pub hash: String,
    pub prev_hash: String,
    pub chunks: Vec<String>,
}

/// The root of a chunk without transactions.
const EMPTY_ROOT: &str = "11111111111111111111111111111111";

/// Reads `block`.
pub fn block(raw: &RawValue) -> Read<BlockView> {
    #[derive(Deserialize)]
    struct Wire {
        header: Header,
        chunks: Vec<Chunk>,
    }
    #[derive(Deserialize)]
    struct Header {
        height: u64,
        hash: String,
        prev_hash: String,
    }
    #[derive(Deserialize)]
    struct Chunk {
        chunk_hash: String,
        height_included: u64,
        tx_root: String,
    }
    let Wire { header: Header { height, hash, prev_hash }, chunks } = parse(raw)?;
    // A chunk that was missed is repeated from an earlier block.
    let new = chunks.into_iter().filter(|chunk| chunk.height_included == height);
    let filled = new.filter(|chunk| chunk.tx_root != EMPTY_ROOT);
    let chunks = filled.map(|chunk| chunk.chunk_hash).collect();
    Ok(BlockView { height, hash, prev_hash, chunks })
}

/// Reads `chunk`: the hashes of its transactions.
pub fn chunk(raw: &RawValue) -> Read<Vec<String>> {
    #[derive(Deserialize)]
    struct Wire {
        transactions: Vec<WireTransaction>,
    }
    let wire: Wire = parse(raw)?;
    Ok(wire.transactions.into_iter().map(|transaction| transaction.hash).collect())
}

/// Which chain a node serves.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct StatusView {
    pub chain_id: String,
    pub genesis_hash: String,
    pub sync_info: SyncView,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SyncView {
    pub latest_block_height: u64,
    pub syncing: bool,
}

/// Reads `status`.
pub fn status(raw: &RawValue) -> Read<StatusView> {
    parse(raw)
}

/// Reads `genesis_config`: how many blocks a transaction lives.
pub fn validity_period(raw: &RawValue) -> Read<u64> {
    #[derive(Deserialize)]
    struct Wire {
        transaction_validity_period: u64,
    }
    parse::<Wire>(raw).map(|wire| wire.transaction_validity_period)
}

#[cfg(test)]
mod tests;
