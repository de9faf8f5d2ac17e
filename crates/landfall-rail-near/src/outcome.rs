//! What a reverted batch means for the member whose action failed.
//!
//! Contracts say why in words, or not at all (many are built without panic messages), so the words
//! of the standard are taken where they are there and [`Meaning::Unexplained`] is a regular answer:
//! the rail then asks the ledger. A wrong guess here never pays twice, the batch is proven
//! reverted; it could only charge the wrong party.

use landfall_core::attempt::Shortage;
use serde_json::Value;

use crate::answer::Failure;

/// Whose doing it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The receiver is not registered with the token.
    NotRegistered,
    /// The payout can never succeed as asked.
    OwnFault,
    /// The relay lacks something; nobody is charged.
    RelayFault(Shortage),
    /// The ledger does not say.
    Unexplained,
}

/// Whom the failed action concerned.
#[derive(Clone, Copy, Debug)]
pub struct Parties<'a> {
    pub sender: &'a str,
    pub receiver: &'a str,
}

/// Explains a failed action by what the ledger says.
pub fn explain(failure: &Failure, parties: Parties<'_>) -> Meaning {
    if failure.index.is_none() {
        // No action is named: nothing that a member asked for.
        return Meaning::RelayFault(Shortage::Contract);
    }
    let Some((kind, detail)) = variant(&failure.kind) else { return Meaning::Unexplained };
    match kind {
        "FunctionCallError" => match variant(detail) {
            Some(("ExecutionError", Value::String(text))) => by_text(text, parties),
            Some(("CompilationError" | "LinkError" | "MethodResolveError", _)) => {
                Meaning::RelayFault(Shortage::Contract)
            }
            _ => Meaning::Unexplained,
        },
        "AccountDoesNotExist" | "GlobalContractDoesNotExist" | "ActorNoPermission" => {
            Meaning::RelayFault(Shortage::Contract)
        }
        "LackBalanceForState" if detail["account_id"] == parties.sender => {
            Meaning::RelayFault(Shortage::Native)
        }
        // The contract's own storage is unpaid.
        "LackBalanceForState" => Meaning::RelayFault(Shortage::Contract),
        _ => Meaning::Unexplained,
    }
}

/// The failure in one line, for trails and alerts.
pub fn describe(failure: &Failure) -> String {
    let text = variant(&failure.kind)
        .and_then(|(_, detail)| variant(detail))
        .and_then(|(_, detail)| detail.as_str());
    match text {
        Some(text) => text.to_owned(),
        None => failure.kind.to_string(),
    }
}

fn by_text(text: &str, parties: Parties<'_>) -> Meaning {
    if text.starts_with("Exceeded the prepaid gas")
        || text.starts_with("Exceeded the maximum amount of gas")
    {
        return Meaning::RelayFault(Shortage::Gas);
    }
    let Some(panic) = text.strip_prefix("Smart contract panicked: ") else {
        return Meaning::Unexplained;
    };
    if let Some(account) = unregistered(panic) {
        return match account {
            _ if account == parties.sender => Meaning::RelayFault(Shortage::Contract),
            _ if account == parties.receiver => Meaning::NotRegistered,
            _ => Meaning::Unexplained,
        };
    }
    let lower = panic.to_lowercase();
    let says = |words: &str| lower.contains(words);
    if says("doesn't have enough balance") || says("insufficient balance") {
        Meaning::RelayFault(Shortage::Tokens)
    } else if says("paused") || says("attached deposit") {
        Meaning::RelayFault(Shortage::Contract)
    } else if says("the amount should be a positive number")
        || says("sender and receiver should be different")
        || says("the account id is invalid")
    {
        Meaning::OwnFault
    } else {
        Meaning::Unexplained
    }
}

/// `The account NAME is not registered`, as the standard's contracts say it.
fn unregistered(panic: &str) -> Option<&str> {
    panic.strip_prefix("The account ")?.strip_suffix(" is not registered")
}

/// The name and content of an enum's value in JSON.
fn variant(value: &Value) -> Option<(&str, &Value)> {
    match value {
        Value::String(name) => Some((name, &Value::Null)),
        Value::Object(fields) if fields.len() == 1 => {
            fields.iter().next().map(|(name, detail)| (name.as_str(), detail))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
