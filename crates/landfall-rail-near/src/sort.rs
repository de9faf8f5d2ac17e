//! THE TABLE: what the answer to a broadcast proves.
//!
//! | row | verdict |
//! |---|---|
//! | a result with a stage past NONE | sent |
//! | REQUEST_ROUTED, and TIMEOUT_ERROR of a node that took it and waited in vain | sent |
//! | INVALID_TRANSACTION that no state of the ledger can heal | refused for certain |
//! | PARSE_ERROR of the transaction's own bytes | refused for certain |
//! | everything else, known or not, and every technical error | unsure |
//!
//! **Rule:** the certain refusals are a closed list. A reason is on it only if it follows from the
//! bytes alone. InvalidNonce and Expired are given for transactions that landed; AccessKeyNotFound
//! after the key of a landed one was deleted; SignerDoesNotExist by a lagging node; balances and
//! congestion pass. The match below is exhaustive: a new release of the ledger's crate that adds a
//! reason does not compile until it has a row.
//! **Rule:** a refusal counts only for bytes that were never sent before; that is the caller's to
//! know.

use landfall_core::attempt::Shortage;
use landfall_rpc::{JsonRpcError, RpcError};
use near_primitives::errors::{ActionsValidationError, InvalidAccessKeyError, InvalidTxError};

use crate::answer;

/// What an answer to a broadcast proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// These bytes can never enter the ledger.
    RefusedForCertain(String),
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
            Verdict::RefusedForCertain(format!("the node cannot decode it: {}", text_of(error)))
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

/// A PARSE_ERROR may be about any parameter; only that of the transaction itself says that no node
/// can read these bytes.
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
        E::InvalidSignature
        | E::InvalidSignerId { .. }
        | E::InvalidReceiverId { .. }
        | E::TransactionSizeExceeded { .. } => Verdict::RefusedForCertain(reason.to_string()),
        E::ActionsValidation(error) => actions(error),
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
        | E::InvalidTransactionVersion
        | E::StorageError(_)
        | E::ShardCongested { .. }
        | E::ShardStuck { .. }
        | E::InvalidNonceIndex { .. } => unsure(reason.to_string()),
    }
}

/// Validation of the actions. Certain only for the reasons our own actions can meet; limits have
/// only ever been raised, and bytes refused for one were passed on to nobody.
fn actions(error: &ActionsValidationError) -> Verdict {
    use ActionsValidationError as E;
    match error {
        E::TotalPrepaidGasExceeded { .. }
        | E::TotalNumberOfActionsExceeded { .. }
        | E::IntegerOverflow
        | E::InvalidAccountId { .. }
        | E::FunctionCallMethodNameLengthExceeded { .. }
        | E::FunctionCallArgumentsLengthExceeded { .. }
        | E::FunctionCallZeroAttachedGas
        | E::FunctionCallEmptyMethodName => Verdict::RefusedForCertain(error.to_string()),
        _ => unsure(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
