//! One test per rule a transaction must meet, and what a resend gets.

use landfall_sim_near::keys;
use near_crypto::{InMemorySigner, Signature};
use near_primitives::account::{AccessKey, AccessKeyPermission, FunctionCallPermission};
use near_primitives::action::delegate::{DelegateAction, NonDelegateAction, SignedDelegateAction};
use near_primitives::action::{Action, AddKeyAction, CreateAccountAction, DeleteKeyAction};
use near_primitives::hash::CryptoHash;
use near_primitives::transaction::{SignedTransaction, Transaction};
use near_primitives::types::Balance;
use serde_json::{Value, json};

use crate::captures::{check_equal, check_shape};
use crate::support::*;

fn refusal(world: &mut World, signed: &SignedTransaction) -> Value {
    let answer = world.send_now(signed, "EXECUTED_OPTIMISTIC");
    assert_eq!(answer.http_status, 200);
    assert_eq!(answer.json()["error"]["cause"]["name"], "INVALID_TRANSACTION", "{answer:?}");
    answer.json()["error"]["data"]["TxExecutionError"]["InvalidTxError"].clone()
}

#[test]
fn a_bad_signature_is_refused() {
    let mut world = World::new();
    let mut signed = world.sign(vec![pay(&user(0), 1)]);
    let other = world.sign(vec![pay(&user(0), 2)]);
    signed.signature = other.signature;
    let answer = world.send_now(&signed, "FINAL");
    check_equal("invalid_tx--invalid-signature", &answer, &[]);
    assert!(matches!(signed.signature, Signature::ED25519(_)));
}

#[test]
fn a_signer_that_does_not_exist_is_refused() {
    let mut world = World::new();
    let ghost = id("ghost.test.near");
    let signed = keys::sign(&ghost, &key(0), 1, &id(TOKEN), world.head_hash(), vec![]);
    let answer = world.send_now(&signed, "FINAL");
    check_equal("invalid_tx--signer-does-not-exist", &answer, &[]);
}

#[test]
fn a_key_the_account_has_not_got_is_refused() {
    let mut world = World::new();
    let signed = world.sign_with(9, 1, TOKEN, vec![pay(&user(0), 1)]);
    let answer = world.send_now(&signed, "FINAL");
    let theirs = "ed25519:frCLfPTiHPyUzQB8437mTFRTSw3sJ1yvZLQaqT3GWkB";
    let ours = key(9).public_key().to_string();
    check_equal("invalid_tx--access-key-not-found", &answer, &[(theirs, &ours)]);
}

#[test]
fn a_nonce_that_is_not_greater_is_refused() {
    let mut world = World::new();
    let first = world.sign_with(0, 53, TOKEN, vec![pay(&user(0), 1)]);
    world.land_signed(&first);
    let equal = world.sign_with(0, 53, TOKEN, vec![pay(&user(0), 2)]);
    let answer = world.send_now(&equal, "FINAL");
    check_equal("invalid_tx--nonce-equal", &answer, &[("169000053", "53")]);
    let lower = world.sign_with(0, 50, TOKEN, vec![pay(&user(0), 2)]);
    let answer = world.send_now(&lower, "FINAL");
    let numbers = [("169000053", "53"), ("169000050", "50")];
    check_equal("invalid_tx--nonce-too-low", &answer, &numbers);
    let other_key = world.sign_with(1, 1, TOKEN, vec![pay(&user(0), 3)]);
    world.land_signed(&other_key);
    assert_eq!(world.tokens(&user(0)), Some(4), "each key has nonces of its own");
}

#[test]
fn a_gap_between_nonces_is_fine() {
    let mut world = World::new();
    for nonce in [5, 900, 12_345] {
        let signed = world.sign_with(0, nonce, TOKEN, vec![pay(&user(0), 1)]);
        world.land_signed(&signed);
    }
    assert_eq!(world.tokens(&user(0)), Some(3));
}

#[test]
fn a_nonce_too_large_is_dropped_in_silence_and_times_out() {
    let mut world = World::new();
    let too_large = (world.ledger.height() + 100) * 1_000_000;
    let signed = world.sign_with(0, too_large, TOKEN, vec![pay(&user(0), 1)]);
    let reply = world.send(&signed, "FINAL");
    let answer = world.wait(reply);
    check_equal("invalid_tx--nonce-too-large", &answer, &[]);
    assert_eq!(world.tx(signed.hash())["error"]["cause"]["name"], "UNKNOWN_TRANSACTION");
    assert_eq!(world.tokens(&user(0)), Some(0));
}

#[test]
fn a_block_hash_unknown_or_too_old_is_expired() {
    let mut world = World::with(|settings| settings.validity_blocks = 10);
    let unknown = CryptoHash::hash_bytes(b"never seen");
    for base in [unknown, CryptoHash::default()] {
        let actions = vec![pay(&user(0), 1)];
        let signed = keys::sign(&id(RELAY), &key(0), 1, &id(TOKEN), base, actions);
        let answer = world.send_now(&signed, "FINAL");
        check_equal("invalid_tx--expired-unknown-block-hash", &answer, &[]);
    }
    let aged = world.sign(vec![pay(&user(0), 1)]);
    world.blocks(10);
    assert!(matches!(world.send(&aged, "FINAL"), landfall_sim_near::rpc::Reply::Wait(_)));
    let aged = world.sign(vec![pay(&user(0), 2)]);
    world.blocks(11);
    let answer = world.send_now(&aged, "FINAL");
    check_equal("invalid_tx--expired-by-age", &answer, &[]);
}

#[test]
fn a_transaction_that_expires_in_the_pool_is_dropped() {
    let mut world = World::with(|settings| settings.validity_blocks = 2);
    let signed = world.sign(vec![pay(&user(0), 1)]);
    world.blocks(3);
    world.submit(&signed);
    world.blocks(6);
    assert_eq!(world.tokens(&user(0)), Some(0));
    assert_eq!(world.ledger.pool_len(), 0);
}

#[test]
fn more_than_a_hundred_actions_are_refused() {
    let mut world = World::new();
    let actions = |count| (0..count).map(|_| pay(&user(0), 1)).collect::<Vec<_>>();
    let signed = world.sign(actions(101));
    let answer = world.send_now(&signed, "FINAL");
    check_equal("invalid_tx--101-actions", &answer, &[]);
    world.land(actions(100));
    assert_eq!(world.tokens(&user(0)), Some(100));
}

#[test]
fn more_gas_than_a_transaction_may_attach_is_refused() {
    let mut world = World::new();
    let args = json!({ "receiver_id": user(0), "amount": "1" });
    let action = call("ft_transfer", args, 1, 10 * TGAS + 1);
    let signed = world.sign(vec![action; 100]);
    let answer = world.send_now(&signed, "FINAL");
    check_equal("invalid_tx--too-much-gas", &answer, &[]);
    let mut world = World::with(|settings| settings.max_transaction_gas = 300 * TGAS);
    let signed = world.sign(vec![call("ft_transfer", json!({}), 1, 301 * TGAS)]);
    let error = refusal(&mut world, &signed);
    let limit = &error["ActionsValidation"]["TotalPrepaidGasExceeded"]["limit"];
    assert_eq!(limit.as_u64(), Some(300 * TGAS));
}

#[test]
fn a_call_without_gas_is_refused() {
    let mut world = World::new();
    let signed = world.sign(vec![call("ft_transfer", json!({}), 1, 0)]);
    check_equal("invalid_tx--zero-gas", &world.send_now(&signed, "FINAL"), &[]);
}

#[test]
fn gas_and_deposits_must_be_paid_in_advance_to_the_yocto() {
    let mut world = World::new();
    world.fund("poor.test.near", NEAR / 50);
    let poor = id("poor.test.near");
    let public_key = key(5).public_key();
    let decree = landfall_sim_near::ledger::Decree::AddKey { account_id: poor.clone(), public_key };
    world.decree(decree);
    // The captured call had the same method and arguments of the same length: 60 bytes.
    let args = json!({ "receiver_id": user(0), "amount": "1" });
    let actions = vec![call("ft_transfer", args, 1, 1_000 * TGAS)];
    let signed = keys::sign(&poor, &key(5), 1, &id(TOKEN), world.head_hash(), actions);
    let answer = world.send_now(&signed, "FINAL");
    check_equal("invalid_tx--not-enough-balance-for-gas", &answer, &[]);
    let base = world.head_hash();
    let signed = keys::sign(&poor, &key(5), 1, &id(RELAY), base, vec![transfer(NEAR)]);
    let answer = world.send_now(&signed, "FINAL");
    check_equal("invalid_tx--not-enough-balance", &answer, &[]);
}

fn function_call_key() -> Action {
    Action::AddKey(Box::new(AddKeyAction {
        public_key: key(3).public_key(),
        access_key: AccessKey {
            nonce: 0,
            permission: AccessKeyPermission::FunctionCall(FunctionCallPermission {
                allowance: Some(Balance::from_yoctonear(NEAR / 4)),
                receiver_id: TOKEN.to_string(),
                method_names: vec!["ft_transfer".into()],
            }),
        },
    }))
}

#[test]
fn a_function_call_key_may_do_what_it_says_and_no_more() {
    let mut world = World::new();
    let nonce = world.nonce();
    let signed = world.sign_with(0, nonce, RELAY, vec![function_call_key()]);
    world.submit(&signed);
    world.blocks(8);
    let params = json!({ "tx_hash": signed.hash(), "sender_account_id": RELAY });
    check_shape("add_key--function-call", &world.ask("tx", params));
    let params = json!({
        "request_type": "view_access_key", "finality": "final", "account_id": RELAY,
        "public_key": key(3).public_key(),
    });
    let shown = world.ask("query", params);
    check_shape("query-view_access_key--function-call", &shown);
    let nonce = shown.json()["result"]["nonce"].as_u64().expect("a nonce") + 1;
    assert!(nonce > 1_000_000, "a new key's nonce starts near its block's height in millions");
    let args = json!({ "receiver_id": user(0), "amount": "1" });
    let paid = |deposit, gas| call("ft_transfer", args.clone(), deposit, gas);
    let free = paid(0, 3 * TGAS);
    let deposit_call = call("storage_deposit", json!({}), 0, 3 * TGAS);
    for (name, receiver, actions) in [
        ("deposit", TOKEN, vec![paid(1, 3 * TGAS)]),
        ("two-actions", TOKEN, vec![free.clone(), free.clone()]),
        ("method", TOKEN, vec![deposit_call]),
        ("receiver", "token.test.near", vec![free.clone()]),
    ] {
        let signed = world.sign_with(3, nonce, receiver, actions);
        let answer = world.send_now(&signed, "FINAL");
        check_equal(&format!("invalid_tx--function-call-key-{name}"), &answer, &[]);
    }
    let signed = world.sign_with(3, nonce, TOKEN, vec![paid(0, 300 * TGAS)]);
    let error = refusal(&mut world, &signed);
    assert!(error["InvalidAccessKeyError"]["NotEnoughAllowance"].is_object());
    let allowed = world.sign_with(3, nonce, TOKEN, vec![free]);
    let result = world.land_signed(&allowed);
    assert!(result["status"]["Failure"].is_object(), "it runs, and wants 1 yocto: {result}");
}

#[test]
fn a_resend_of_an_executed_transaction_gets_its_outcome() {
    let mut world = World::new();
    let signed = world.sign(vec![pay(&user(0), 1)]);
    world.land_signed(&signed);
    for wait_until in ["INCLUDED", "EXECUTED_OPTIMISTIC", "FINAL"] {
        let answer = world.send_now(&signed, wait_until);
        check_shape("send_tx--resend-executed", &answer);
    }
    check_equal("send_tx--resend-executed-wait-none", &world.send_now(&signed, "NONE"), &[]);
    world.blocks(8);
    assert_eq!(world.tokens(&user(0)), Some(1), "and pays once");
}

#[test]
fn a_resend_after_expiry_says_expired_though_it_landed() {
    let mut world = World::with(|settings| settings.validity_blocks = 20);
    let signed = world.sign(vec![pay(&user(0), 1)]);
    world.land_signed(&signed);
    world.blocks(20);
    let answer = world.send_now(&signed, "FINAL");
    check_equal("send_tx--resend-executed-after-expiry", &answer, &[]);
    assert_eq!(world.tx(signed.hash())["result"]["final_execution_status"], "FINAL");
}

#[test]
fn a_resend_after_its_key_is_gone_says_so_though_it_landed() {
    let mut world = World::new();
    let signed = world.sign(vec![pay(&user(0), 1)]);
    world.land_signed(&signed);
    let delete = Action::DeleteKey(Box::new(DeleteKeyAction { public_key: key(0).public_key() }));
    let gone = world.sign_with(1, 1, RELAY, vec![delete]);
    world.land_signed(&gone);
    let error = refusal(&mut world, &signed);
    assert!(error["InvalidAccessKeyError"]["AccessKeyNotFound"].is_object(), "{error}");
    assert_eq!(world.tx(signed.hash())["result"]["final_execution_status"], "FINAL");
}

#[test]
fn a_resend_the_signer_can_no_longer_afford_gets_its_outcome() {
    let mut world = World::new();
    world.fund("plain.test.near", NEAR);
    let signed = world.sign_with(0, 1, "plain.test.near", vec![transfer(NEAR)]);
    world.land_signed(&signed);
    let decree = landfall_sim_near::ledger::Decree::SetNear { account_id: id(RELAY), amount: 1 };
    world.decree(decree);
    let answer = world.send_now(&signed, "FINAL");
    check_shape("send_tx--resend-executed-after-balance-gone", &answer);
}

#[test]
fn none_and_async_take_whatever_decodes() {
    let mut world = World::new();
    let landed = world.sign_with(0, 10, TOKEN, vec![pay(&user(0), 1)]);
    world.land_signed(&landed);
    let low = world.sign_with(0, 9, TOKEN, vec![pay(&user(0), 2)]);
    check_equal("invalid_tx--nonce-too-low-wait-none", &world.send_now(&low, "NONE"), &[]);
    let answer = world.ask("broadcast_tx_async", json!([encode(&low)]));
    assert_eq!(answer.json()["result"], low.hash().to_string());
    let params = json!({ "signed_tx_base64": encode(&low) });
    assert_eq!(world.ask("broadcast_tx_async", params).http_status, 200);
    world.blocks(8);
    assert_eq!(world.tokens(&user(0)), Some(1));
}

#[test]
fn asking_with_the_signed_bytes_validates_and_does_not_submit() {
    let mut world = World::new();
    let signed = world.sign_with(0, 5, TOKEN, vec![pay(&user(0), 1)]);
    let ask = |world: &mut World| {
        let params = json!({ "signed_tx_base64": encode(&signed), "wait_until": "NONE" });
        world.ask("tx", params).json()["error"]["cause"]["name"].clone()
    };
    assert_eq!(ask(&mut world), "UNKNOWN_TRANSACTION");
    world.blocks(8);
    assert_eq!(world.tokens(&user(0)), Some(0));
    let rival = world.sign_with(0, 6, TOKEN, vec![pay(&user(0), 2)]);
    world.land_signed(&rival);
    assert_eq!(ask(&mut world), "INVALID_TRANSACTION");
}

#[test]
fn transactions_of_version_one_are_taken_and_strict_nonces_kept() {
    use near_primitives::transaction::{NonceMode, TransactionNonce, TransactionV1};
    let world = &mut World::new();
    let strict = |world: &World, nonce: u64| {
        let transaction = Transaction::V1(TransactionV1 {
            signer_id: id(RELAY),
            public_key: key(0).public_key(),
            nonce: TransactionNonce::from_nonce(nonce),
            receiver_id: id(TOKEN),
            block_hash: world.head_hash(),
            actions: vec![pay(&user(0), 1)],
            nonce_mode: NonceMode::Strict,
        });
        let (hash, _) = transaction.get_hash_and_size();
        SignedTransaction::new(key(0).sign(hash.as_ref()), transaction)
    };
    let gap = strict(world, 3);
    let numbers = [("169000060", "0"), ("169000063", "3")];
    let answer = world.send_now(&gap, "FINAL");
    check_equal("invalid_tx--v1-strict-nonce-gap", &answer, &numbers);
    let next = strict(world, 1);
    world.land_signed(&next);
    assert_eq!(world.tokens(&user(0)), Some(1));
}

/// What became of a transaction to `receiver` that creates it, funds it and gives it a key.
fn created(world: &mut World, receiver: &str) -> Value {
    let (nonce, access_key) = (world.nonce(), AccessKey::full_access());
    let add = AddKeyAction { public_key: key(4).public_key(), access_key };
    let create = Action::CreateAccount(CreateAccountAction {});
    let actions = vec![create, transfer(NEAR), Action::AddKey(Box::new(add))];
    let signed = world.sign_with(0, nonce, receiver, actions);
    world.submit(&signed);
    world.blocks(8);
    let params = json!({ "tx_hash": signed.hash(), "sender_account_id": RELAY });
    world.ask("tx", params).json()["result"]["status"].clone()
}

#[test]
fn an_account_is_created_once_by_the_one_above_it() {
    let mut world = World::new();
    let below = format!("alice.{RELAY}");
    assert_eq!(created(&mut world, &below)["SuccessValue"], "");
    let params = json!({
        "request_type": "view_account", "finality": "final", "account_id": below,
    });
    let account = world.ask("query", params);
    assert_eq!(account.json()["result"]["amount"], NEAR.to_string());
    let kind = |status: Value| status["Failure"]["ActionError"]["kind"].clone();
    let again = kind(created(&mut world, &below));
    assert_eq!(again["AccountAlreadyExists"]["account_id"], json!(below));
    let beside = kind(created(&mut world, "bob.somebody.near"));
    assert_eq!(beside["CreateAccountNotAllowed"]["account_id"], "bob.somebody.near");
}

#[test]
fn a_delegate_action_acts_once_for_its_sender_at_the_relays_cost() {
    let mut world = World::new();
    let user = id(&format!("alice.{RELAY}"));
    assert_eq!(created(&mut world, user.as_str())["SuccessValue"], "");
    let amount = |world: &mut World, account: &str| {
        let params = json!({
            "request_type": "view_account", "finality": "final", "account_id": account,
        });
        world.ask("query", params).json()["result"]["amount"].clone()
    };
    let delegate = DelegateAction {
        sender_id: user.clone(),
        receiver_id: id(RELAY),
        actions: vec![NonDelegateAction::try_from(transfer(0)).expect("none inside")],
        nonce: u64::MAX / 2,
        max_block_height: 1_000_000,
        public_key: key(4).public_key(),
    };
    let signer = InMemorySigner::from_secret_key(user.clone(), key(4));
    let signed = SignedDelegateAction::sign(&signer, delegate);
    let relayed = |world: &mut World, signed: &SignedDelegateAction| {
        let nonce = world.nonce();
        let actions = vec![Action::from(signed.clone())];
        let sent = world.sign_with(0, nonce, user.as_str(), actions);
        world.submit(&sent);
        world.blocks(8);
        let params = json!({ "tx_hash": sent.hash(), "sender_account_id": RELAY });
        world.ask("tx", params).json()["result"].clone()
    };
    let first = relayed(&mut world, &signed);
    assert_eq!(first["status"]["SuccessValue"], "", "{first}");
    let acted = first["receipts_outcome"].as_array().expect("receipts").iter();
    assert!(acted.map(|one| &one["outcome"]["executor_id"]).any(|by| by == RELAY), "{first}");
    assert_eq!(amount(&mut world, user.as_str()), NEAR.to_string(), "it paid for nothing");
    let kind = |result: Value| result["status"]["Failure"]["ActionError"]["kind"].clone();
    let again = kind(relayed(&mut world, &signed));
    assert!(again["DelegateActionInvalidNonce"].is_object(), "{again}");
    let mut forged = signed.clone();
    forged.delegate_action.nonce += 1;
    assert_eq!(kind(relayed(&mut world, &forged)), "DelegateActionInvalidSignature");
}
