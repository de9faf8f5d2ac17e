//! THE TABLE: what the answer to a broadcast proves.
//!
//! | row | verdict |
//! |---|---|
//! | a result with a stage past NONE | sent |
//! | REQUEST_ROUTED, and TIMEOUT_ERROR of a node that took it and waited in vain | sent |
//! | INVALID_TRANSACTION for its signature | refused for certain |
//! | INVALID_TRANSACTION by a rule: names, sizes, actions, gas | refused for now |
//! | PARSE_ERROR of the transaction's own bytes | refused for now |
//! | everything else, known or not, and every technical error | unsure |
//!
//! **Rule:** a refusal is certain only if it follows from the bytes and from nothing else, as who
//! is asked may lie, keep them, and send them on when the reason for it is gone. Which leaves one:
//!
//! - InvalidSignature is **certain**: key, hash and signature are all in the bytes.
//! - Gas, the number of actions, lengths, TransactionSizeExceeded: limits are raised, by a vote.
//! - Names of accounts, zero gas, empty methods, overflows, features, versions: rules of the
//!   protocol's version, and the next one may take what this one refuses.
//! - PARSE_ERROR: of what a node's release can read. A newer one reads more.
//! - InvalidNonce, Expired, InvalidChain: given for transactions that landed, and by nodes that
//!   are behind or on a fork.
//! - SignerDoesNotExist and all about access keys: by a lagging node, and after a landing, too, as
//!   accounts and keys come and go.
//! - Balances, allowances, CostOverflow, congestion, NonceTooLarge: pass, with funds, prices and
//!   blocks.
//!
//! What is refused for now no honest node has taken: if a quorum says so the relay is told, who
//! pauses; the attempt is as unsure as any other, and a fence or its expiry decides it. The match
//! below is exhaustive: a new release of the ledger's crate that adds a reason does not compile
//! until it has a row.
//! **Rule:** a refusal counts only for bytes that were never sent before; that is the caller's to
//! know.
//! Not here: how many must refuse (`refusals`).

use landfall_core::attempt::Shortage;
use landfall_rpc::{JsonRpcError, RpcError};
use near_primitives::errors::{InvalidAccessKeyError, InvalidTxError};

use crate::answer;

/// What an answer to a broadcast proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// These bytes can never enter the ledger, whatever becomes of it.
    RefusedForCertain(String),
    /// They cannot enter it by its rules of today.
    RefusedForNow(String),
    /// A node has taken it.
    Sent,
    /// It may have arrived, or may yet.
    Unsure { cause: String, shortage: Option<Shortage> },
}

fn unsure(cause: impl Into<String>) -> Verdict {
    Verdict::Unsure { cause: cause.into(), shortage: None }
}

/// Sorts a failed broadcast.
pub fn broadcast_error(error: &RpcError) -> Verdict {
    match error {
        RpcError::Unreachable(why) | RpcError::Unsure(why) => unsure(why.as_str()),
        RpcError::Answered(error) => answered(error),
    }
}

/// Sorts a node's JSON-RPC error to a broadcast.
fn answered(error: &JsonRpcError) -> Verdict {
    match (error.name.as_str(), error.cause_name.as_str(), error.status) {
        ("HANDLER_ERROR", "INVALID_TRANSACTION", 200) => match answer::invalid_tx(&error.data) {
            Some(reason) => invalid_tx(&reason),
            None => unsure(format!("INVALID_TRANSACTION for an unknown reason: {}", error.data)),
        },
        ("REQUEST_VALIDATION_ERROR", "PARSE_ERROR", 400) if bytes_did_not_decode(error) => {
            Verdict::RefusedForNow(format!("the node cannot decode it: {}", text_of(error)))
        }
        // A node waits for what it has found valid and passed on: it lies in some pool.
        ("HANDLER_ERROR", "REQUEST_ROUTED", _) | ("HANDLER_ERROR", "TIMEOUT_ERROR", 408) => {
            Verdict::Sent
        }
        // UNKNOWN_TRANSACTION, INTERNAL_ERROR, NO_SYNCED_BLOCKS, NOT_SYNCED_YET,
        // UNAVAILABLE_SHARD, DOES_NOT_TRACK_SHARD, METHOD_NOT_FOUND, and names not yet invented.
        _ => unsure(error.to_string()),
    }
}

/// A PARSE_ERROR may be about any parameter; only that of the transaction itself says that this
/// node cannot read these bytes.
fn bytes_did_not_decode(error: &JsonRpcError) -> bool {
    const DECODING: [&str; 2] = [
        "Failed parsing args: the value could not decoded from borsh due to: ",
        "Failed parsing args: the value could not decoded from base64 due to: ",
    ];
    error.code == -32700 && DECODING.iter().any(|start| text_of(error).starts_with(start))
}

fn text_of(error: &JsonRpcError) -> &str {
    error.data.as_str().unwrap_or_default()
}

/// One row per reason a node may give.
pub fn invalid_tx(reason: &InvalidTxError) -> Verdict {
    use InvalidTxError as E;
    let short = |cause: String| Verdict::Unsure { cause, shortage: Some(Shortage::Native) };
    match reason {
        E::InvalidSignature => Verdict::RefusedForCertain(reason.to_string()),
        E::InvalidSignerId { .. }
        | E::InvalidReceiverId { .. }
        | E::TransactionSizeExceeded { .. }
        | E::InvalidTransactionVersion
        | E::ActionsValidation(_) => Verdict::RefusedForNow(reason.to_string()),
        E::NotEnoughBalance { .. }
        | E::LackBalanceForState { .. }
        | E::NotEnoughGasKeyBalance { .. }
        | E::NotEnoughBalanceForDeposit { .. } => short(reason.to_string()),
        E::InvalidAccessKeyError(error) => match error {
            InvalidAccessKeyError::NotEnoughAllowance { .. } => short(reason.to_string()),
            InvalidAccessKeyError::AccessKeyNotFound { .. }
            | InvalidAccessKeyError::ReceiverMismatch { .. }
            | InvalidAccessKeyError::MethodNameMismatch { .. }
            | InvalidAccessKeyError::RequiresFullAccess
            | InvalidAccessKeyError::DepositWithFunctionCall
            | InvalidAccessKeyError::DelegateActionRequiresNonGasKey
            | InvalidAccessKeyError::DelegateActionRequiresGasKey => unsure(reason.to_string()),
        },
        E::SignerDoesNotExist { .. }
        | E::InvalidNonce { .. }
        | E::NonceTooLarge { .. }
        | E::CostOverflow
        | E::InvalidChain
        | E::Expired
        | E::StorageError(_)
        | E::ShardCongested { .. }
        | E::ShardStuck { .. }
        | E::InvalidNonceIndex { .. } => unsure(reason.to_string()),
    }
}

#[cfg(test)]
mod tests;
