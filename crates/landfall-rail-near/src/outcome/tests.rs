//! Whose fault, from captured failures and made ones.

use serde_json::json;

use super::*;
use crate::answer::{Effect, tx};
use crate::captures::captured;

fn failure_of(case: &str) -> Failure {
    match tx(&captured(case).unwrap()).unwrap().effect {
        Effect::Reverted(failure) => failure,
        other => panic!("{case}: {other:?}"),
    }
}

fn parties(receiver: &str) -> Parties<'_> {
    Parties { sender: "relay.test.near", receiver }
}

#[test]
fn captured_failures_are_laid_at_the_right_door() {
    use Meaning::*;
    let check = |case: &str, receiver: &str, expected: Meaning| {
        let meaning = explain(&failure_of(case), parties(receiver));
        assert_eq!(meaning, expected, "{case}");
    };
    let contract = RelayFault(Shortage::Contract);
    check("ft_transfer--batch-3-second-unregistered", "nobody.test.near", NotRegistered);
    check("ft_transfer--batch-3-second-unregistered-trap", "nobody.test.near", Unexplained);
    check("ft_transfer--batch-3-third-above-balance", "a", RelayFault(Shortage::Tokens));
    check("ft_transfer--out-of-gas", "a", RelayFault(Shortage::Gas));
    check("ft_transfer--amount-0", "a", OwnFault);
    check("ft_transfer--to-self", "a", OwnFault);
    check("ft_transfer--bad-receiver-id", "a", OwnFault);
    check("ft_transfer--bad-args", "a", Unexplained);
    check("ft_transfer--deposit-0", "a", contract.clone());
    check("ft_transfer--receiver-contract-missing", "a", contract.clone());
    check("ft_transfer--token-account-missing", "a", contract.clone());
    check("call--method-missing", "a", contract);
}

#[test]
fn an_unregistered_sender_is_the_relays_fault() {
    let failure = failure_of("ft_transfer--sender-unregistered");
    let parties = Parties { sender: "plain.test.near", receiver: "a" };
    assert_eq!(explain(&failure, parties), Meaning::RelayFault(Shortage::Contract));
}

#[test]
fn a_deposit_below_the_minimum_is_the_relays_fault() {
    let failure = failure_of("storage_deposit--batch-2-second-below-minimum");
    let meaning = explain(&failure, parties("a"));
    assert_eq!(meaning, Meaning::RelayFault(Shortage::Contract));
}

#[test]
fn what_is_not_said_stays_unexplained() {
    let check = |kind: Value, expected: Meaning| {
        let failure = Failure { index: Some(0), kind: kind.clone() };
        assert_eq!(explain(&failure, parties("a")), expected, "{kind}");
    };
    let panic = |text: &str| json!({"FunctionCallError": {"ExecutionError": text}});
    check(panic("WebAssembly trap: An `unreachable` opcode was executed."), Meaning::Unexplained);
    check(
        panic("Smart contract panicked: Pausable: Method is paused"),
        Meaning::RelayFault(Shortage::Contract),
    );
    // The words of somebody else's account prove nothing about the receiver.
    check(panic("Smart contract panicked: The account b is not registered"), Meaning::Unexplained);
    check(panic("The account a is not registered"), Meaning::Unexplained);
    check(json!("SomethingNew"), Meaning::Unexplained);
    check(json!(null), Meaning::Unexplained);
    check(
        json!({"LackBalanceForState": {"account_id": "relay.test.near", "amount": "1"}}),
        Meaning::RelayFault(Shortage::Native),
    );
}

/// Accounts, memos and whatever else a contract may repeat are a stranger's choice.
#[test]
fn words_that_a_stranger_can_choose_mean_nothing() {
    let check = |text: &str| {
        let kind = json!({"FunctionCallError": {"ExecutionError": text}});
        let failure = Failure { index: Some(0), kind };
        let parties = parties("paused.near");
        assert_eq!(explain(&failure, parties), Meaning::Unexplained, "{text}");
    };
    for words in [
        "paused.near",
        "The account paused.near is not welcome",
        "paused.near has an insufficient balance",
        "No attached deposit for paused.near",
        "memo: The account doesn't have enough balance",
        "The account doesn't have enough balance (paused.near)",
        "memo: Pausable: Method is paused",
        "Pausable: Method is paused.near",
        "The amount should be a positive number, paused.near",
        "the account id is invalid: paused.near",
        "The account nobody.near is not registered: The account paused.near is not registered",
        "Exceeded the prepaid gas.",
        "panicked at src/lib.rs:1:1: Pausable: Method is paused",
        "panicked at paused.near:\nPausable: Method is paused",
        "panicked at 'Pausable: Method is paused', paused.near",
        "Failed to deserialize input from JSON.: Error(\"the account ID is invalid\", line: 1)",
        "Failed to deserialize input from JSON.: Error(\"unknown field `the account ID is \
         invalid`\", line: 1, column: 2)",
    ] {
        check(&format!("Smart contract panicked: {words}"));
    }
    check("Exceeded the prepaid gas of paused.near");
    check("Exceeded the maximum amount of gas");
}

#[test]
fn the_place_in_the_source_that_a_panic_names_is_cut_out() {
    let check = |words: &str, expected: Meaning| {
        let text = format!("Smart contract panicked: {words}");
        let kind = json!({"FunctionCallError": {"ExecutionError": text}});
        let failure = Failure { index: Some(0), kind };
        assert_eq!(explain(&failure, parties("a")), expected, "{words}");
    };
    let tokens = Meaning::RelayFault(Shortage::Tokens);
    check("The account doesn't have enough balance", tokens.clone());
    check("panicked at src/lib.rs:12:5:\nThe account doesn't have enough balance", tokens.clone());
    check("panicked at 'The account doesn't have enough balance', src/lib.rs:12:5", tokens);
    check("panicked at src/lib.rs:1:1:\nThe account a is not registered", Meaning::NotRegistered);
    check(
        "panicked at 'Sender and receiver should be different', src/lib.rs:1:1",
        Meaning::OwnFault,
    );
}

#[test]
fn a_failure_that_names_no_action_is_nobody_elses_fault() {
    let failure = Failure { index: None, kind: json!("X") };
    let meaning = explain(&failure, parties("a"));
    assert_eq!(meaning, Meaning::RelayFault(Shortage::Contract));
}

#[test]
fn a_failure_is_described_by_its_own_words() {
    let text = describe(&failure_of("ft_transfer--out-of-gas"));
    assert_eq!(text, "Exceeded the prepaid gas.");
    let text = describe(&failure_of("ft_transfer--receiver-contract-missing"));
    assert!(text.contains("CodeDoesNotExist"), "{text}");
}
