//! One test row per row of the table; captured answers where a real node gave one.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::*;
use crate::captures::{answer, body, captured, cases};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    Refused,
    /// By rules that may change.
    ForNow,
    Sent,
    Unsure,
    /// Unsure, and the relay lacks NEAR.
    Short,
}

fn row_of(verdict: &Verdict) -> Row {
    match verdict {
        Verdict::RefusedForCertain(_) => Row::Refused,
        Verdict::RefusedForNow(_) => Row::ForNow,
        Verdict::Sent => Row::Sent,
        Verdict::Unsure { shortage: None, .. } => Row::Unsure,
        Verdict::Unsure { shortage: Some(Shortage::Native), .. } => Row::Short,
        Verdict::Unsure { shortage, .. } => panic!("{shortage:?}"),
    }
}

fn sorted(status: u16, body: &str) -> Option<Row> {
    let error = answer(status, body.to_owned()).err()?;
    Some(row_of(&broadcast_error(&error)))
}

fn check_captured(case: &str, expected: Row) {
    let error = captured(case).expect_err(case);
    assert_eq!(row_of(&broadcast_error(&error)), expected, "{case}");
}

/// A hand-made refusal with this reason.
fn check_reason(reason: Value, expected: Row) {
    let body = json!({"jsonrpc": "2.0", "id": 1, "error": {
        "name": "HANDLER_ERROR", "cause": {"name": "INVALID_TRANSACTION", "info": {}},
        "code": -32000, "message": "Server error",
        "data": {"TxExecutionError": {"InvalidTxError": reason}}}});
    assert!(crate::answer::invalid_tx(&body["error"]["data"]).is_some(), "no reason: {reason}");
    assert_eq!(sorted(200, &body.to_string()), Some(expected), "{reason}");
}

#[test]
fn a_signature_that_is_wrong_is_wrong_for_ever() {
    check_captured("invalid_tx--invalid-signature", Row::Refused);
}

/// Whoever lies may keep what others refuse until the rule has changed.
#[test]
fn what_is_refused_by_a_rule_that_may_change_is_not_certain() {
    for case in [
        "invalid_tx--101-actions",
        "invalid_tx--too-much-gas",
        "invalid_tx--zero-gas",
        "invalid_tx--malformed-base64",
        "invalid_tx--malformed-borsh",
        "invalid_tx--receiver-id-invalid",
        "invalid_tx--trailing-bytes",
        "invalid_tx--truncated-borsh",
    ] {
        check_captured(case, Row::ForNow);
    }
    check_reason(json!({"InvalidSignerId": {"signer_id": "Bad Id"}}), Row::ForNow);
    check_reason(json!({"InvalidReceiverId": {"receiver_id": "Bad Id"}}), Row::ForNow);
    check_reason(json!({"TransactionSizeExceeded": {"size": 2, "limit": 1}}), Row::ForNow);
    check_reason(json!("InvalidTransactionVersion"), Row::ForNow);
    for reason in [
        json!("IntegerOverflow"),
        json!("FunctionCallEmptyMethodName"),
        json!({"InvalidAccountId": {"account_id": "Bad Id"}}),
        json!({"FunctionCallMethodNameLengthExceeded": {"length": 2, "limit": 1}}),
        json!({"FunctionCallArgumentsLengthExceeded": {"length": 2, "limit": 1}}),
        json!({"UnsupportedProtocolFeature": {"protocol_feature": "x", "version": 1}}),
        json!({"RemovedProtocolFeature": {"protocol_feature": "x", "version": 1}}),
        json!("DeleteActionMustBeFinal"),
        json!("DelegateActionMustBeOnlyOne"),
    ] {
        check_reason(json!({"ActionsValidation": reason}), Row::ForNow);
    }
}

#[test]
fn what_nodes_also_say_of_landed_transactions_is_unsure() {
    for case in [
        "invalid_tx--nonce-too-low",
        "invalid_tx--nonce-too-low-wait-final",
        "invalid_tx--nonce-equal",
        "invalid_tx--v1-strict-nonce-gap",
        "invalid_tx--expired-by-age",
        "invalid_tx--expired-unknown-block-hash",
        "invalid_tx--access-key-not-found",
        "invalid_tx--signer-does-not-exist",
        "send_tx--resend-executed-after-expiry",
        "send_tx--resend-executed-after-key-deleted",
        "stalled_node--send_tx-fresh-block-hash",
        "gc--send_tx-resend",
        "race--same-nonce-a",
    ] {
        check_captured(case, Row::Unsure);
    }
}

#[test]
fn what_passes_or_depends_on_the_ledger_is_unsure() {
    check_reason(json!({"NonceTooLarge": {"tx_nonce": 9, "upper_bound": 1}}), Row::Unsure);
    check_reason(json!("CostOverflow"), Row::Unsure);
    check_reason(json!("InvalidChain"), Row::Unsure);
    check_reason(json!({"StorageError": "StorageInternalError"}), Row::Unsure);
    let congested = json!({"ShardCongested": {"shard_id": 0, "congestion_level": 1.0}});
    check_reason(congested, Row::Unsure);
    check_reason(json!({"ShardStuck": {"shard_id": 0, "missed_chunks": 6}}), Row::Unsure);
    for case in [
        "gas_key--nonce-index-out-of-range",
        "invalid_tx--function-call-key-deposit",
        "invalid_tx--function-call-key-method",
        "invalid_tx--function-call-key-receiver",
        "invalid_tx--function-call-key-two-actions",
    ] {
        check_captured(case, Row::Unsure);
    }
    for reason in ["DelegateActionRequiresNonGasKey", "DelegateActionRequiresGasKey"] {
        check_reason(json!({"InvalidAccessKeyError": reason}), Row::Unsure);
    }
}

#[test]
fn a_lack_of_near_is_unsure_and_says_so() {
    for case in [
        "invalid_tx--not-enough-balance",
        "invalid_tx--not-enough-balance-for-gas",
        "invalid_tx--lack-balance-for-state",
        "invalid_tx--function-call-key-allowance",
    ] {
        check_captured(case, Row::Short);
    }
    let lack = json!({"signer_id": "relay.near", "balance": "1", "cost": "2"});
    check_reason(json!({"NotEnoughGasKeyBalance": lack}), Row::Short);
    let mut lack = lack;
    lack["reason"] = json!("NotEnoughBalance");
    check_reason(json!({"NotEnoughBalanceForDeposit": lack}), Row::Short);
}

#[test]
fn every_rpc_error_name_has_its_row() {
    let check = |name: &str, cause: &str, status: u16, expected: Row| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "error": {"name": name,
            "cause": {"name": cause, "info": {}}, "code": -32000, "message": "Server error",
            "data": "text"}});
        assert_eq!(sorted(status, &body.to_string()), Some(expected), "{name} {cause}");
    };
    check("HANDLER_ERROR", "REQUEST_ROUTED", 200, Row::Sent);
    for cause in [
        "INVALID_TRANSACTION", // without a readable reason
        "UNKNOWN_TRANSACTION",
        "TIMEOUT_ERROR",
        "INTERNAL_ERROR",
        "DOES_NOT_TRACK_SHARD",
        "UNAVAILABLE_SHARD",
        "NO_SYNCED_BLOCKS",
        "NOT_SYNCED_YET",
        "UNKNOWN_BLOCK",
        "GARBAGE_COLLECTED_BLOCK",
        "A_NAME_NOT_YET_INVENTED",
    ] {
        check("HANDLER_ERROR", cause, 200, Row::Unsure);
    }
    check("INTERNAL_ERROR", "INTERNAL_ERROR", 500, Row::Unsure);
    check("REQUEST_VALIDATION_ERROR", "METHOD_NOT_FOUND", 400, Row::Unsure);
    check("REQUEST_VALIDATION_ERROR", "PARSE_ERROR", 400, Row::Unsure);
    check("", "", 200, Row::Unsure);
}

#[test]
fn a_parse_error_about_anything_but_the_bytes_is_unsure() {
    for case in ["parse--bad-wait-until", "parse--unknown-method", "parse--empty-object"] {
        let (status, text) = body(case);
        assert_eq!(sorted(status, &text), Some(Row::Unsure), "{case}");
    }
}

#[test]
fn technical_answers_are_unsure() {
    for case in ["invalid_tx--oversized", "parse--unknown-path", "stalled_node--http-get-health"] {
        check_captured(case, Row::Unsure);
    }
    for status in [401, 403, 404, 408, 429, 500, 502, 503] {
        assert_eq!(sorted(status, "<html>"), Some(Row::Unsure));
    }
}

/// It found the bytes valid and passed them on; whether they stay in any pool nobody says.
#[test]
fn a_node_that_waited_in_vain_has_taken_it() {
    for case in ["invalid_tx--nonce-too-large", "stalled_node--send_tx-known-block-hash"] {
        check_captured(case, Row::Sent);
    }
}

#[test]
fn a_refusal_behind_another_status_or_code_is_unsure() {
    let (_, text) = body("invalid_tx--invalid-signature");
    assert_eq!(sorted(200, &text), Some(Row::Refused));
    assert_eq!(sorted(502, &text), Some(Row::Unsure));
    let (_, text) = body("invalid_tx--malformed-borsh");
    assert_eq!(sorted(200, &text), Some(Row::Unsure));
    assert_eq!(sorted(400, &text.replace("-32700", "-32000")), Some(Row::Unsure));
}

/// Cut, flipped, doubled and spliced bodies: nothing panics, and nothing that was no certain
/// refusal becomes one.
#[test]
fn no_damaged_answer_becomes_a_certain_refusal() {
    let mut random = StdRng::seed_from_u64(7);
    for case in cases() {
        let (status, text) = body(&case);
        if sorted(status, &text) == Some(Row::Refused) {
            continue;
        }
        for _ in 0..40 {
            let bytes = damaged(text.as_bytes(), &mut random);
            match answer(status, bytes.clone()) {
                Err(error) => {
                    let row = row_of(&broadcast_error(&error));
                    assert_ne!(row, Row::Refused, "{case}: {}", String::from_utf8_lossy(&bytes));
                }
                Ok(raw) => read_as_everything(&raw),
            }
        }
    }
}

/// A damaged refusal is the same refusal or unsure, never sent.
#[test]
fn a_damaged_refusal_is_never_taken_for_sent() {
    let mut random = StdRng::seed_from_u64(8);
    let (status, text) = body("invalid_tx--invalid-signature");
    for _ in 0..2_000 {
        let bytes = damaged(text.as_bytes(), &mut random);
        if let Err(error) = answer(status, bytes) {
            assert_ne!(row_of(&broadcast_error(&error)), Row::Sent);
        }
    }
}

fn read_as_everything(raw: &serde_json::value::RawValue) {
    use crate::answer;
    let _ = answer::tx(raw);
    let _ = answer::access_key(raw);
    let _ = answer::access_keys(raw);
    let _ = answer::call_function(raw);
    let _ = answer::account(raw);
    let _ = answer::block(raw);
    let _ = answer::status(raw);
    let _ = answer::validity_period(raw);
}

fn damaged(bytes: &[u8], random: &mut StdRng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..random.random_range(1..4) {
        if bytes.is_empty() {
            break;
        }
        let at = random.random_range(0..bytes.len());
        match random.random_range(0..5) {
            0 => bytes[at] ^= 1 << random.random_range(0..8),
            1 => bytes.truncate(at),
            2 => bytes[at] = b"{}[]\",:0n"[random.random_range(0..9)],
            3 => {
                bytes.remove(at);
            }
            _ => {
                let from = random.random_range(0..bytes.len());
                let piece = bytes[from..bytes.len().min(from + 12)].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}
