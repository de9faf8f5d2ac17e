//! What a reverted batch means for the member whose action failed.
//!
//! Contracts say why in words, or not at all (many are built without panic messages), so the words
//! of the standard are taken where they are there and [`Meaning::Unexplained`] is a regular answer:
//! the rail then asks the ledger. A wrong guess here never pays twice, the batch is proven
//! reverted; it could only charge the wrong party.
//! **Invariant:** words count whole, with what varies in them cut out, never by a part: a stranger
//! chooses names and memos, and a contract may repeat them.
//! Not here: whether the relay's fault is one member's or everybody's (the engine: what happens
//! when the member travels alone).

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

/// What contracts say in whole messages of their own: the standard contract (NEP-141 and NEP-145,
/// its spelling of old times too), the SDK it is built on, and the plugin by which many are paused.
/// Only the whole counts: a part may be an account's name or a memo, which any stranger can choose.
const WORDS: [(&str, Meaning); 7] = [
    ("The account doesn't have enough balance", Meaning::RelayFault(Shortage::Tokens)),
    ("Requires attached deposit of exactly 1 yoctoNEAR", Meaning::RelayFault(Shortage::Contract)),
    (
        "The attached deposit is less than the minimum storage balance",
        Meaning::RelayFault(Shortage::Contract),
    ),
    (
        "The attached deposit is less than the mimimum storage balance",
        Meaning::RelayFault(Shortage::Contract),
    ),
    ("Pausable: Method is paused", Meaning::RelayFault(Shortage::Contract)),
    ("The amount should be a positive number", Meaning::OwnFault),
    ("Sender and receiver should be different", Meaning::OwnFault),
];

/// What the virtual machine itself says of gas; a contract cannot, its words are announced.
const OUT_OF_GAS: [&str; 2] = [
    "Exceeded the prepaid gas.",
    "Exceeded the maximum amount of gas allowed to burn per contract.",
];

fn by_text(text: &str, parties: Parties<'_>) -> Meaning {
    if OUT_OF_GAS.contains(&text) {
        return Meaning::RelayFault(Shortage::Gas);
    }
    let Some(panic) = text.strip_prefix("Smart contract panicked: ") else {
        return Meaning::Unexplained;
    };
    let message = without_place(panic);
    if let Some(account) = unregistered(message) {
        return match account {
            _ if account == parties.sender => Meaning::RelayFault(Shortage::Contract),
            _ if account == parties.receiver => Meaning::NotRegistered,
            _ => Meaning::Unexplained,
        };
    }
    if is_malformed_receiver(message) {
        return Meaning::OwnFault;
    }
    let known = WORDS.iter().find(|(words, _)| *words == message);
    known.map_or(Meaning::Unexplained, |(_, meaning)| meaning.clone())
}

/// A panic of Rust's own without the place in the source that it names: `panicked at PLACE:` and
/// the message on a line of its own, or, of old, `panicked at 'MESSAGE', PLACE`.
fn without_place(panic: &str) -> &str {
    let Some(told) = panic.strip_prefix("panicked at ") else { return panic };
    let cut = match told.strip_prefix('\'') {
        Some(quoted) => quoted.rsplit_once("', ").filter(|(_, place)| is_place(place)),
        None => told.split_once(":\n").filter(|(place, _)| is_place(place)).map(|(a, b)| (b, a)),
    };
    cut.map_or(panic, |(message, _)| message)
}

/// `FILE:LINE:COLUMN`
fn is_place(text: &str) -> bool {
    let mut parts = text.rsplitn(3, ':');
    let numbers = parts.by_ref().take(2).filter(|part| is_number(part)).count();
    numbers == 2 && parts.next().is_some_and(|file| !file.is_empty())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `The account NAME is not registered`, as the standard's contracts say it.
fn unregistered(message: &str) -> Option<&str> {
    message.strip_prefix("The account ")?.strip_suffix(" is not registered")
}

/// What the SDK says of arguments in which an account's name is none.
fn is_malformed_receiver(message: &str) -> bool {
    let told = message.strip_prefix("Failed to deserialize input from JSON.: Error(");
    let Some(told) = told.and_then(|told| told.strip_suffix(')')) else { return false };
    let Some((what, place)) = told.split_once(", line: ") else { return false };
    let is_place = place
        .split_once(", column: ")
        .is_some_and(|(line, column)| is_number(line) && is_number(column));
    is_place && what.eq_ignore_ascii_case("\"the account ID is invalid\"")
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
