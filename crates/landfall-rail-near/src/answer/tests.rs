//! The views against captured answers.

use serde_json::json;

use super::*;
use crate::captures::{captured, cases};

fn tx_of(case: &str) -> TxView {
    tx(&captured(case).unwrap_or_else(|error| panic!("{case}: {error}"))).expect(case)
}

fn raw(value: Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(&value).unwrap()
}

#[test]
fn the_stages_of_a_life_are_told_apart() {
    let check = |case: &str, stage, effect: Effect, block: bool| {
        let view = tx_of(case);
        assert_eq!((view.stage, &view.effect), (stage, &effect), "{case}");
        assert_eq!(view.block_hash.is_some(), block, "{case}");
    };
    check("tx-lifecycle--2", Stage::Included, Effect::Unknown, false);
    check("tx-lifecycle--3", Stage::Included, Effect::Unknown, true);
    check("tx-lifecycle--4", Stage::ExecutedOptimistic, Effect::Done, true);
    check("tx-lifecycle--5", Stage::Executed, Effect::Done, true);
    check("tx-lifecycle--6", Stage::Final, Effect::Done, true);
    check("send_tx--wait-none", Stage::None, Effect::Unknown, false);
    check("send_tx--wait-final", Stage::Final, Effect::Done, true);
    check("fence--transfer-0-to-self", Stage::Final, Effect::Done, true);
    check("ft_transfer--batch-100-success", Stage::Final, Effect::Done, true);
    check("storage_deposit--again", Stage::Final, Effect::Done, true);
    let unseen = raw(json!({"final_execution_status": "INCLUDED_FINAL", "status": "NotStarted"}));
    assert_eq!(tx(&unseen).unwrap().stage, Stage::IncludedFinal);
}

#[test]
fn stages_are_a_ladder_to_final() {
    use Stage::*;
    let ladder = [None, Included, ExecutedOptimistic, IncludedFinal, Executed, Final];
    assert!(ladder.is_sorted());
}

#[test]
fn a_reverted_batch_names_its_action() {
    let check = |case: &str, index: u64| match tx_of(case).effect {
        Effect::Reverted(failure) => assert_eq!(failure.index, Some(index), "{case}"),
        other => panic!("{case}: {other:?}"),
    };
    check("ft_transfer--batch-3-second-unregistered", 1);
    check("ft_transfer--batch-3-second-unregistered-trap", 1);
    check("ft_transfer--batch-3-third-above-balance", 2);
    check("ft_transfer--out-of-gas-second", 1);
    check("storage_deposit--batch-2-second-below-minimum", 1);
    check("ft_transfer--token-account-missing", 0);
    check("tx--failed-wait-none", 1);
}

/// A final answer in the making: the parts that decide.
fn made(outcome: Value, receipts: Value, status: Value) -> Read<TxView> {
    tx(&raw(json!({
        "final_execution_status": "FINAL", "status": status, "receipts_outcome": receipts,
        "transaction": {"hash": "H"},
        "transaction_outcome": {"id": "H", "block_hash": "B", "outcome": {"status": outcome}},
    })))
}

fn receipt(id: &str, status: Value) -> Value {
    json!({"id": id, "block_hash": "B", "outcome": {"status": status}})
}

#[test]
fn an_included_but_invalid_transaction_is_no_revert() {
    let failure =
        json!({"Failure": {"InvalidTxError": {"InvalidNonce": {"tx_nonce": 1, "ak_nonce": 2}}}});
    let view = made(failure.clone(), json!([]), failure).unwrap();
    assert!(matches!(view.effect, Effect::Invalid(_)));
}

#[test]
fn a_promise_that_failed_later_reverts_nothing_of_ours() {
    let action = json!({"Failure": {"ActionError": {"index": 0, "kind": "X"}}});
    let receipts =
        json!([receipt("R", json!({"SuccessReceiptId": "S"})), receipt("S", action.clone()),]);
    let view = made(json!({"SuccessReceiptId": "R"}), receipts, action).unwrap();
    assert_eq!(view.effect, Effect::Done);
}

#[test]
fn an_answer_that_contradicts_itself_is_unreadable() {
    let action = json!({"Failure": {"ActionError": {"index": 0, "kind": "X"}}});
    let own = json!({"SuccessReceiptId": "R"});
    let receipts = json!([receipt("R", action.clone())]);
    assert!(made(own.clone(), receipts.clone(), json!({"SuccessValue": ""})).is_err());
    assert!(made(action.clone(), receipts, action.clone()).is_err());
    // The receipt that decides is missing: unknown, not done and not reverted.
    assert_eq!(made(own, json!([]), action).unwrap().effect, Effect::Unknown);
    let no_outcome = json!({"final_execution_status": "FINAL", "status": {"SuccessValue": ""}});
    assert!(tx(&raw(no_outcome)).is_err());
}

#[test]
fn queries_hide_their_errors_in_the_result() {
    let key = |case| access_key(&captured(case).unwrap()).unwrap();
    let found = KeyView { nonce: 169000005, full_access: true };
    let expected = AtBlock { height: 334, value: Queried::Found(found) };
    assert_eq!(key("query-view_access_key--ok"), expected);
    let Queried::Found(found) = key("query-view_access_key--function-call").value else { panic!() };
    assert!(!found.full_access);
    assert!(matches!(key("query-view_access_key--missing-key").value, Queried::Denied(_)));
    assert!(matches!(key("query-view_access_key--missing-account").value, Queried::Denied(_)));
}

#[test]
fn full_keys_are_listed_with_their_nonces() {
    let keys = access_keys(&captured("query-view_access_key_list--three-keys").unwrap()).unwrap();
    let expected = ("ed25519:Am52y2FQPUREJwP5Ko5Pid937s8ULMGGcppBrYQtW4PZ".to_owned(), 169000059);
    assert_eq!((keys.height, keys.value), (1193, Nonces::from([expected])));
}

#[test]
fn view_calls_give_the_contracts_json() {
    let of = |case: &str| {
        let result = captured(&format!("query-call_function--{case}")).unwrap();
        call_function(&result).unwrap().value
    };
    assert_eq!(of("storage_balance_of-unregistered"), Queried::Found(Value::Null));
    let min = json!("1250000000000000000000");
    assert_eq!(of("storage_balance_bounds"), Queried::Found(json!({"min": min, "max": min})));
    assert!(matches!(of("storage_balance_of-registered"), Queried::Found(Value::Object(_))));
    assert!(matches!(of("missing-method"), Queried::Denied(_)));
    assert!(matches!(of("no-contract"), Queried::Denied(_)));
}

#[test]
fn accounts_blocks_and_the_chain_are_read() {
    let account = account(&captured("query-view_account--ok").unwrap()).unwrap().value;
    assert_eq!(account.amount, 999840652126531218799999899);
    assert_eq!(account.storage_usage, 182);
    let block = block(&captured("block--final").unwrap()).unwrap();
    assert_eq!(block.height, 333);
    assert_eq!(block.prev_hash, "4hFuMi1yJJVE6m2LmFHTgqsrQEMgW7bd7QafxaT1zX5r");
    assert!(block.chunks.is_empty(), "its only chunk holds no transactions");
    let chunk_of = raw(json!({"transactions": [{"hash": "H", "nonce": 1}], "receipts": []}));
    assert_eq!(chunk(&chunk_of).unwrap(), ["H"]);
    let status = status(&captured("status--ok").unwrap()).unwrap();
    assert_eq!((status.chain_id.as_str(), status.sync_info.syncing), ("localnet", false));
    assert_eq!(validity_period(&captured("genesis_config--ok").unwrap()).unwrap(), 1000);
}

/// Whatever real result is read as whatever else: an error at most.
#[test]
fn a_result_of_another_method_is_unreadable_not_a_panic() {
    let mut results = 0;
    for case in cases() {
        let Ok(raw) = captured(&case) else { continue };
        results += 1;
        let is_tx = raw.get().contains("final_execution_status");
        assert_eq!(tx(&raw).is_ok(), is_tx, "{case}");
        let _ = (access_key(&raw), access_keys(&raw), call_function(&raw), account(&raw));
        let _ = (block(&raw), status(&raw), validity_period(&raw));
    }
    assert!(results > 100);
}
