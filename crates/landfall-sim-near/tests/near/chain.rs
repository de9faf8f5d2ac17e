//! Blocks, the pool, batches, history, reorganisations, lagging and forgetful nodes.

use std::sync::Arc;

use landfall_sim_near::ledger::block::Block;
use landfall_sim_near::ledger::{Decree, Refusals};
use landfall_sim_near::rpc::Reply;
use near_primitives::hash::CryptoHash;
use near_primitives::transaction::SignedTransaction;
use serde_json::{Value, json};

use crate::captures::{check_equal, check_shape};
use crate::support::*;

fn cause(answer: &Value) -> &Value {
    &answer["error"]["cause"]["name"]
}

#[test]
fn one_failing_action_reverts_the_batch_and_is_named() {
    let mut world = World::new();
    let near = world.near(RELAY).expect("an account");
    let result = world.land(vec![
        pay(&user(0), 5),
        pay(&user(1), 5),
        pay("nobody.near", 5),
        pay(&user(2), 5),
    ]);
    assert_eq!(result["status"]["Failure"]["ActionError"]["index"], 2);
    for index in 0..3 {
        assert_eq!(world.tokens(&user(index)), Some(0));
    }
    let logs = &result["receipts_outcome"][0]["outcome"]["logs"];
    assert_eq!(logs.as_array().map(Vec::len), Some(2), "logs of reverted actions stay");
    assert!(world.ledger.transfers().is_empty());
    let burnt: u128 = [&result["transaction_outcome"], &result["receipts_outcome"][0]]
        .map(|outcome| outcome["outcome"]["tokens_burnt"].as_str().expect("tokens").to_string())
        .iter()
        .map(|text| text.parse::<u128>().expect("a number"))
        .sum();
    assert_eq!(world.near(RELAY), Some(near - burnt), "deposits and unburnt gas come back");
}

#[test]
fn a_member_above_the_balance_fails_the_batch_at_its_index() {
    let mut world = World::new();
    world.decree(Decree::SetTokens { account_id: id(RELAY), amount: 10 });
    let result = world.land(vec![pay(&user(0), 4), pay(&user(1), 4), pay(&user(2), 4)]);
    let error = &result["status"]["Failure"]["ActionError"];
    assert_eq!(error["index"], 2);
    let text = error["kind"]["FunctionCallError"]["ExecutionError"].as_str();
    assert_eq!(text, Some("Smart contract panicked: The account doesn't have enough balance"));
    assert_eq!(world.tokens(RELAY), Some(10));
}

#[test]
fn an_unregistered_sender_cannot_pay() {
    let mut world = World::new();
    world.decree(Decree::Unregister { account_id: id(RELAY) });
    let result = world.land(vec![pay(&user(0), 4)]);
    let error = &result["status"]["Failure"]["ActionError"]["kind"]["FunctionCallError"];
    let expected = format!("Smart contract panicked: The account {RELAY} is not registered");
    assert_eq!(error["ExecutionError"], expected);
}

#[test]
fn registering_again_keeps_nothing_and_unregistering_gives_back() {
    let mut world = World::new();
    let token_near = world.near(TOKEN);
    let result = world.land(vec![register(&user(0))]);
    let outcome = &result["receipts_outcome"][0]["outcome"];
    assert_eq!(outcome["logs"][0], "The account is already registered, refunding the deposit");
    assert_eq!(world.near(TOKEN), token_near);
    world.land(vec![register("new.test.near"), pay("new.test.near", 3)]);
    assert_eq!(world.tokens("new.test.near"), Some(3));
    let result = world.land(vec![call("storage_unregister", json!({}), 1, 5 * TGAS)]);
    let error = &result["status"]["Failure"]["ActionError"]["kind"]["FunctionCallError"];
    let text = "Smart contract panicked: Can't unregister the account with the positive balance \
                without force";
    assert_eq!(error["ExecutionError"], text);
    world.land(vec![call("storage_unregister", json!({ "force": true }), 1, 5 * TGAS)]);
    assert_eq!(world.tokens(RELAY), None);
}

#[test]
fn memos_are_logged_and_kept_with_the_transfer() {
    let mut world = World::new();
    let args = json!({ "receiver_id": user(0), "amount": "8", "memo": "a \"memo\"" });
    let result = world.land(vec![call("ft_transfer", args, 1, 3 * TGAS)]);
    let log = result["receipts_outcome"][0]["outcome"]["logs"][0].as_str().expect("a log");
    let event: Value = serde_json::from_str(log.trim_start_matches("EVENT_JSON:")).expect("JSON");
    assert_eq!(event["data"][0]["memo"], "a \"memo\"");
    assert_eq!(world.ledger.transfers()[0].memo.as_deref(), Some("a \"memo\""));
}

#[test]
fn reversed_nonces_that_wait_together_both_land() {
    let mut world = World::new();
    let higher = world.sign_with(0, 8, TOKEN, vec![pay(&user(0), 1)]);
    let lower = world.sign_with(0, 7, TOKEN, vec![pay(&user(0), 2)]);
    world.submit(&higher);
    world.submit(&lower);
    world.blocks(8);
    assert_eq!(world.tokens(&user(0)), Some(3));
    assert_eq!(world.ledger.transfers()[0].nonce, 7);
}

#[test]
fn of_two_with_the_same_nonce_one_lands_and_the_other_stays_unknown() {
    let mut world = World::new();
    let first = world.sign_with(0, 7, TOKEN, vec![pay(&user(0), 1)]);
    let second = world.sign_with(0, 7, TOKEN, vec![pay(&user(0), 2)]);
    world.submit(&first);
    let loser = world.send(&second, "FINAL");
    let answer = world.wait(loser);
    check_equal("race--same-nonce-a", &answer, &[("169000056", "7")]);
    world.blocks(8);
    assert_eq!(world.tx(first.hash())["result"]["final_execution_status"], "FINAL");
    assert_eq!(cause(&world.tx(second.hash())), "UNKNOWN_TRANSACTION");
    assert_eq!(world.tokens(&user(0)), Some(1));
}

#[test]
fn of_two_that_together_overdraw_one_lands() {
    let mut world = World::new();
    let amount = 600 * NEAR;
    let first = world.sign_with(0, 1, TOKEN, vec![transfer(amount)]);
    let second = world.sign_with(0, 2, TOKEN, vec![transfer(amount)]);
    world.submit(&first);
    world.submit(&second);
    world.blocks(8);
    assert_eq!(world.tx(first.hash())["result"]["final_execution_status"], "FINAL");
    assert_eq!(cause(&world.tx(second.hash())), "UNKNOWN_TRANSACTION");
}

#[test]
fn send_tx_waits_for_the_stage_it_was_asked_for() {
    for (wait_until, seen) in [
        ("INCLUDED", "INCLUDED"),
        ("EXECUTED_OPTIMISTIC", "EXECUTED_OPTIMISTIC"),
        ("INCLUDED_FINAL", "EXECUTED"),
        ("EXECUTED", "EXECUTED"),
        ("FINAL", "FINAL"),
    ] {
        let mut world = World::new();
        let signed = world.sign(vec![pay(&user(1), 16)]);
        let reply = world.send(&signed, wait_until);
        assert!(matches!(reply, Reply::Wait(_)));
        let answer = world.wait(reply);
        assert_eq!(answer.json()["result"]["final_execution_status"], seen);
        check_shape(&format!("send_tx--wait-{}", wait_until.to_lowercase()), &answer);
    }
}

#[test]
fn commit_waits_until_executed_and_a_resend_of_what_waits_joins_in() {
    let mut world = World::new();
    let signed = world.sign(vec![pay(&user(1), 16)]);
    world.submit(&signed);
    let reply = world.request("broadcast_tx_commit", json!([encode(&signed)]));
    let answer = world.wait(reply);
    check_shape("broadcast_tx_commit--legacy-array", &answer);
    assert_eq!(world.tokens(&user(1)), Some(16));
}

#[test]
fn an_unknown_hash_is_unknown_at_once_only_with_none() {
    let mut world = World::new();
    let hash = CryptoHash::hash_bytes(b"never sent");
    assert_eq!(cause(&world.tx(&hash)), "UNKNOWN_TRANSACTION");
    let reply = world.request("tx", json!([hash, RELAY]));
    let answer = world.wait(reply);
    check_equal("tx--unknown-hash-wait-default", &answer, &[]);
}

#[test]
fn a_chunk_takes_only_so_much_gas_unless_told_otherwise() {
    let blocks_to_run = |chunk_gas: Option<u64>| {
        let mut world = World::with(|settings| settings.chunk_gas = chunk_gas);
        for nonce in 1..=30 {
            let actions = (0..100).map(|_| pay(&user(0), 1)).collect();
            let signed = world.sign_with(0, nonce, TOKEN, actions);
            world.submit(&signed);
        }
        let start = world.ledger.height();
        while world.ledger.transfers().len() < 3_000 {
            world.blocks(1);
        }
        world.ledger.height() - start
    };
    assert_eq!(blocks_to_run(None), 3, "included, applied, run");
    let limited = blocks_to_run(Some(1_000 * TGAS));
    assert!((6..=9).contains(&limited), "about six batches a block, not {limited} blocks");
}

#[test]
fn a_query_at_a_block_shows_the_state_after_it() {
    let mut world = World::new();
    let signed = world.sign_with(0, 41, TOKEN, vec![pay(&user(0), 5)]);
    world.submit(&signed);
    world.blocks(2);
    let applied = world.ledger.height();
    world.blocks(6);
    assert_eq!((world.key_nonce(applied - 1), world.key_nonce(applied)), (0, 41));
    for (height, nonce) in [(applied - 1, 0), (applied, 41)] {
        let params = json!({
            "request_type": "view_access_key", "block_id": height, "account_id": RELAY,
            "public_key": key(0).public_key(),
        });
        let answer = world.ask("query", params);
        assert_eq!(answer.json()["result"]["nonce"], nonce);
        assert_eq!(answer.json()["result"]["block_height"], height);
    }
}

#[test]
fn collected_history_is_refused_as_captured_and_its_transactions_are_unknown() {
    let mut world = World::with(|settings| settings.history_blocks = 12);
    let signed = world.sign(vec![pay(&user(0), 5)]);
    world.land_signed(&signed);
    world.blocks(20);
    assert_eq!(cause(&world.tx(signed.hash())), "UNKNOWN_TRANSACTION");
    let hash = world.ledger.chain().hash_at(5).expect("hashes stay known").to_string();
    let same = [("6tirg4bBGG7nCsPigTMwZKBwYBNzz3XMrpA2H4gMSV2E", hash.as_str())];
    let both = [same[0], ("#179", "#5"), (":179", ":5")];
    check_equal("gc--block-by-height", &world.ask("block", json!({ "block_id": 5 })), &same);
    check_equal("gc--block-by-hash", &world.ask("block", json!({ "block_id": hash })), &same);
    let params = json!({ "block_id": 5 });
    check_equal("gc--gas_price-by-height", &world.ask("gas_price", params), &same);
    let params = json!({ "request_type": "view_account", "block_id": 5, "account_id": RELAY });
    check_equal("gc--query-view_account-by-height", &world.ask("query", params), &both);
    let params = json!({ "request_type": "view_account", "block_id": hash, "account_id": RELAY });
    check_equal("gc--query-view_account-by-hash", &world.ask("query", params), &same);
    let answer = world.send_now(&signed, "FINAL");
    assert_eq!(answer.json()["error"]["data"]["TxExecutionError"]["InvalidTxError"], "Expired");
    let status = world.ask("status", json!([]));
    let earliest = &status.json()["result"]["sync_info"]["earliest_block_height"];
    assert_eq!(earliest.as_u64(), Some(world.ledger.height() - 11));
}

#[test]
fn a_reorganisation_takes_back_what_was_not_final_and_the_pool_lands_it_again() {
    let mut world = World::new();
    let signed = world.sign(vec![pay(&user(0), 5)]);
    world.submit(&signed);
    world.blocks(3);
    assert_eq!(world.tokens(&user(0)), Some(5));
    let sighting = world.tx(signed.hash())["result"]["transaction_outcome"]["block_hash"].clone();
    let height = world.ledger.height();
    assert_eq!(world.ledger.reorg(2, false), 2);
    assert_eq!(world.ledger.height(), height - 2);
    assert_eq!(world.tokens(&user(0)), Some(0));
    assert_eq!(world.key_nonce(world.ledger.height()), 0);
    assert_eq!(cause(&world.tx(signed.hash())), "UNKNOWN_TRANSACTION");
    assert!(world.ledger.transfers().is_empty());
    world.blocks(8);
    assert_eq!(world.tokens(&user(0)), Some(5));
    assert_eq!(world.ledger.transfers().len(), 1);
    let orphan = world.ask("block", json!({ "block_id": sighting }));
    let orphan = &orphan.json()["result"]["header"];
    assert_eq!(orphan["hash"], sighting, "still known by hash");
    let same_height = world.ask("block", json!({ "block_id": orphan["height"] }));
    assert_ne!(same_height.json()["result"]["header"]["hash"], sighting, "not by height");
}

#[test]
fn a_reorganisation_may_drop_the_transactions_of_its_blocks() {
    let mut world = World::new();
    let signed = world.sign(vec![pay(&user(0), 5)]);
    world.submit(&signed);
    world.blocks(3);
    world.ledger.reorg(2, true);
    world.blocks(8);
    assert_eq!(world.tokens(&user(0)), Some(0));
    assert_eq!(cause(&world.tx(signed.hash())), "UNKNOWN_TRANSACTION");
    let result = world.land_signed(&signed);
    assert_eq!(result["final_execution_status"], "FINAL", "its nonce is free again");
}

#[test]
fn a_receipt_that_ran_in_a_dropped_block_runs_again_once() {
    let mut world = World::new();
    let signed = world.sign(vec![pay(&user(0), 5)]);
    world.submit(&signed);
    world.blocks(3);
    assert_eq!(world.ledger.reorg(1, false), 1);
    assert_eq!(world.tokens(&user(0)), Some(0), "the transaction stands, its receipt is undone");
    world.blocks(8);
    assert_eq!(world.tokens(&user(0)), Some(5));
    assert_eq!(world.tx(signed.hash())["result"]["final_execution_status"], "FINAL");
}

#[test]
fn a_final_block_is_never_taken_back() {
    let mut world = World::new();
    world.land(vec![pay(&user(0), 5)]);
    let height = world.ledger.height();
    assert_eq!(world.ledger.reorg(50, true), 2);
    assert_eq!(world.ledger.height(), height - 2);
    assert_eq!(world.tokens(&user(0)), Some(5));
}

#[test]
fn a_decree_in_a_dropped_block_is_obeyed_again() {
    let mut world = World::new();
    world.ledger.decree(Decree::Mint { account_id: id(&user(0)), amount: 9 });
    world.blocks(1);
    world.ledger.reorg(1, true);
    assert_eq!(world.tokens(&user(0)), Some(0));
    world.blocks(1);
    assert_eq!(world.tokens(&user(0)), Some(9));
}

#[test]
fn a_block_hash_of_an_orphan_counts_as_expired() {
    let mut world = World::new();
    world.blocks(1);
    let signed = world.sign(vec![pay(&user(0), 5)]);
    world.ledger.reorg(1, false);
    world.blocks(4);
    let answer = world.send_now(&signed, "FINAL");
    assert_eq!(answer.json()["error"]["data"]["TxExecutionError"]["InvalidTxError"], "Expired");
}

#[test]
fn an_included_transaction_may_fail_as_a_transaction_and_land_later() {
    let mut world = World::new();
    world.ledger.refuse_included(Refusals { count: 1, again: false });
    let signed = world.sign(vec![pay(&user(0), 5)]);
    world.submit(&signed);
    world.blocks(5);
    let answer = world.tx(signed.hash());
    let result = &answer["result"];
    assert!(result["status"]["Failure"]["InvalidTxError"].is_object(), "{answer}");
    assert_eq!(result["final_execution_status"], "FINAL");
    assert_eq!(result["receipts_outcome"], json!([]));
    assert_eq!(world.key_nonce(world.ledger.height()), 0, "it used no nonce");
    world.submit(&signed);
    world.blocks(8);
    assert!(world.ledger.landed(signed.hash()).is_some());
    assert_eq!(world.tokens(&user(0)), Some(5));
}

#[test]
fn a_refused_transaction_put_back_lands_by_itself() {
    let mut world = World::new();
    world.ledger.refuse_included(Refusals { count: 1, again: true });
    world.land(vec![pay(&user(0), 5)]);
    assert_eq!(world.tokens(&user(0)), Some(5));
}

/// The hashes of the blocks that hold a transaction, oldest first.
fn blocks_with(world: &World, hash: &CryptoHash) -> Vec<CryptoHash> {
    let chain = world.ledger.chain();
    let blocks = (0..=world.ledger.height()).filter_map(|height| chain.at(height));
    let holds = |block: &&Arc<Block>| block.transactions.iter().any(|one| one.hash() == hash);
    blocks.filter(holds).map(|block| block.hash).collect()
}

/// Lands payouts that `disturb` has included twice, once in vain, and checks which of the two
/// outcomes is shown. Returns how often it was the one that paid.
fn shown_by_block_hash(disturb: impl Fn(&mut World, &SignedTransaction)) -> usize {
    let mut world = World::new();
    let mut shown_as_paid = 0;
    for round in 0..20 {
        let signed = world.sign(vec![pay(&user(0), 5)]);
        disturb(&mut world, &signed);
        world.blocks(8);
        let blocks = blocks_with(&world, signed.hash());
        assert_eq!((blocks.len(), world.tokens(&user(0))), (2, Some(5 * (round + 1))));
        let shown = world.tx(signed.hash())["result"].clone();
        let first = blocks.iter().min().expect("two").to_string();
        assert_eq!(shown["transaction_outcome"]["block_hash"], first);
        let landed = world.ledger.landed(signed.hash()).and_then(|run| run.ran.as_ref());
        let paid = landed.expect("it paid").block_hash.to_string() == first;
        assert_eq!(shown["status"]["SuccessValue"].is_string(), paid, "{shown}");
        shown_as_paid += usize::from(paid);
    }
    shown_as_paid
}

#[test]
fn of_an_invalid_and_a_landed_outcome_the_one_with_the_lower_block_hash_is_shown() {
    let paid = shown_by_block_hash(|world, signed| {
        world.ledger.refuse_included(Refusals { count: 1, again: true });
        world.submit(signed);
    });
    assert!((1..20).contains(&paid), "both are seen: {paid}");
}

#[test]
fn what_landed_and_is_included_again_may_be_shown_as_invalid() {
    let paid = shown_by_block_hash(|world, signed| {
        world.submit(signed);
        world.blocks(2);
        world.ledger.include_again(1);
    });
    assert!((1..20).contains(&paid), "both are seen: {paid}");
}

#[test]
fn a_node_that_keeps_little_history_is_honest_about_it() {
    let mut world = World::new();
    let signed = world.sign(vec![pay(&user(0), 5)]);
    world.land_signed(&signed);
    world.blocks(20);
    let old = world.ledger.chain().hash_at(5).expect("hashes stay known");
    let at_old = json!({ "request_type": "view_account", "block_id": old, "account_id": RELAY });
    assert!(world.ask("query", at_old.clone()).json()["result"].is_object());
    world.history_blocks = Some(12);
    assert_eq!(cause(&world.tx(signed.hash())), "UNKNOWN_TRANSACTION");
    assert_eq!(cause(world.ask("query", at_old).json()), "UNKNOWN_BLOCK");
    let at_five = json!({ "request_type": "view_account", "block_id": 5, "account_id": RELAY });
    assert_eq!(cause(world.ask("query", at_five).json()), "GARBAGE_COLLECTED_BLOCK");
    assert_eq!(cause(world.ask("block", json!({ "block_id": 5 })).json()), "UNKNOWN_BLOCK");
    let status = world.ask("status", json!([]));
    let earliest = &status.json()["result"]["sync_info"]["earliest_block_height"];
    assert_eq!(earliest.as_u64(), Some(world.ledger.height() - 11));
}

#[test]
fn a_lagging_node_sees_the_chain_as_it_was_and_refuses_what_it_does_not_know() {
    let mut world = World::new();
    let signed = world.sign(vec![pay(&user(0), 5)]);
    world.submit(&signed);
    world.blocks(8);
    world.lag_blocks = 20;
    assert_eq!(cause(&world.tx(signed.hash())), "UNKNOWN_TRANSACTION");
    let head = world.ledger.height();
    world.lag_blocks = 3;
    let status = world.ask("status", json!([]));
    assert_eq!(status.json()["result"]["sync_info"]["latest_block_height"], head - 3);
    let future = world.ask("block", json!({ "block_id": head }));
    assert_eq!(cause(future.json()), "UNKNOWN_BLOCK");
    let fresh = world.sign(vec![pay(&user(0), 6)]);
    let answer = world.send_now(&fresh, "FINAL");
    check_equal("stalled_node--send_tx-fresh-block-hash", &answer, &[]);
    world.blocks(3);
    let reply = world.send(&fresh, "FINAL");
    let answer = world.wait(reply);
    assert_eq!(answer.json()["result"]["final_execution_status"], "FINAL");
    assert_eq!(world.tokens(&user(0)), Some(11));
}

#[test]
fn a_node_far_behind_is_not_healthy() {
    let mut world = World::new();
    world.blocks(150);
    assert_eq!(world.ask("health", json!([])).json()["result"], Value::Null);
    world.lag_blocks = 120;
    check_shape("stalled_node--health", &world.ask("health", json!([])));
}

#[test]
fn a_forgetful_node_takes_a_transaction_and_loses_it() {
    let mut world = World::new();
    world.forgets = true;
    let signed = world.sign(vec![pay(&user(0), 5)]);
    let reply = world.send(&signed, "FINAL");
    assert_eq!(world.wait(reply).http_status, 408);
    assert_eq!(world.tokens(&user(0)), Some(0));
}

#[test]
fn what_a_node_holds_back_is_taken_and_overtaken_by_the_next_nonce() {
    let mut world = World::new();
    let (first, second) = (world.sign(vec![pay(&user(0), 5)]), world.sign(vec![pay(&user(1), 6)]));
    world.held_back = Some(Vec::new());
    assert_eq!(world.send_now(&first, "NONE").http_status, 200, "as if its peers had it");
    let held_back = world.held_back.take().unwrap();
    world.send_now(&second, "NONE");
    world.blocks(8);
    held_back.into_iter().for_each(|signed| world.ledger.submit(signed));
    world.blocks(8);
    assert_eq!((world.tokens(&user(0)), world.tokens(&user(1))), (Some(0), Some(6)));
}

#[test]
fn the_same_inputs_make_the_same_chain() {
    let run = || {
        let mut world = World::new();
        for amount in 1..20 {
            let signed = world.sign(vec![pay(&user(amount as usize % 10), amount)]);
            world.submit(&signed);
            world.blocks(1);
        }
        world.ledger.reorg(2, false);
        world.blocks(5);
        world.head_hash()
    };
    assert_eq!(run(), run());
}

#[test]
fn tokens_are_neither_made_nor_lost() {
    let mut world = World::new();
    for round in 0..5 {
        let actions = (0..10).map(|index| pay(&user(index), round + 1)).collect();
        world.land(actions);
    }
    world.ledger.reorg(2, false);
    world.blocks(8);
    let users: u128 = (0..10).map(|index| world.tokens(&user(index)).expect("registered")).sum();
    assert_eq!(users, 150);
    assert_eq!(users + world.tokens(RELAY).expect("registered"), 10u128.pow(30));
    let paid: u128 = world.ledger.transfers().iter().map(|transfer| transfer.amount).sum();
    assert_eq!(paid, users);
}
