//! Results, field by field, against the captured ones.

use near_primitives::hash::CryptoHash;
use near_primitives::transaction::SignedTransaction;
use near_primitives::views::{BlockView, ChunkView};
use serde_json::{Value, json};

use crate::captures::{check_equal, check_shape, load};
use crate::support::*;

fn status_of(world: &mut World, hash: &CryptoHash) -> landfall_sim_near::rpc::Answer {
    let params = json!({ "tx_hash": hash, "sender_account_id": RELAY, "wait_until": "NONE" });
    world.ask("tx", params)
}

/// A landed transaction looks like the captured one: shape, status, logs and what it cost to send.
fn check_landed(name: &str, actions: Vec<near_primitives::action::Action>, receiver: &str) {
    let mut world = World::new();
    world.fund("plain.test.near", NEAR);
    let nonce = world.nonce();
    let signed = world.sign_with(0, nonce, receiver, actions);
    world.submit(&signed);
    world.blocks(8);
    check_landed_signed(name, &mut world, &signed);
}

fn check_landed_signed(name: &str, world: &mut World, signed: &SignedTransaction) {
    let answer = status_of(world, signed.hash());
    check_shape(name, &answer);
    let theirs = &load(name).response["result"];
    let ours = &answer.json()["result"];
    assert_eq!(ours["final_execution_status"], theirs["final_execution_status"], "{name}");
    assert_eq!(ours["status"], theirs["status"], "{name}");
    let logs = |result: &Value| result["receipts_outcome"][0]["outcome"]["logs"].clone();
    assert_eq!(logs(ours), logs(theirs), "{name}");
}

#[test]
fn a_payment_goes_through_the_captured_stages_block_by_block() {
    let mut world = World::new();
    let signed = world.sign(vec![pay(&user(1), 17)]);
    world.submit(&signed);
    check_equal(
        "tx-lifecycle--1",
        &status_of(&mut world, signed.hash()),
        &[("5kXjaM8UjU1ra7rwiWy9HNgrvefgCAnUwwomfhoU3gfx", &signed.hash().to_string())],
    );
    // Blocks after the submission at which each stage was first seen in the captures.
    for (step, blocks) in [(2, 1), (3, 1), (4, 1), (5, 1), (6, 2)] {
        world.blocks(blocks);
        let answer = status_of(&mut world, signed.hash());
        let name = format!("tx-lifecycle--{step}");
        check_shape(&name, &answer);
        let theirs = &load(&name).response["result"];
        let ours = &answer.json()["result"];
        assert_eq!(ours["final_execution_status"], theirs["final_execution_status"], "{name}");
        assert_eq!(ours["status"], theirs["status"], "{name}");
    }
}

#[test]
fn sending_costs_what_it_cost_on_the_real_chain() {
    let mut world = World::new();
    let actions = (0..3).map(|index| pay(&user(index), 5)).collect();
    let result = world.land(actions);
    let outcome = &result["transaction_outcome"]["outcome"];
    // Three ft_transfers with amounts of one digit, as in the capture.
    let captured = load("ft_transfer--batch-3-success").response;
    let theirs = &captured["result"]["transaction_outcome"]["outcome"];
    let actions = captured["result"]["transaction"]["actions"].as_array().expect("actions");
    let bytes: usize = actions.iter().map(args_len).sum();
    let ours: usize =
        result["transaction"]["actions"].as_array().expect("actions").iter().map(args_len).sum();
    let per_byte = 47_683_715;
    let difference = (bytes - ours) as u64 * per_byte;
    let gas = |outcome: &Value| outcome["gas_burnt"].as_u64().expect("gas");
    assert_eq!(gas(outcome) + difference, gas(theirs));
}

fn args_len(action: &Value) -> usize {
    use base64::Engine as _;
    let args = action["FunctionCall"]["args"].as_str().expect("arguments");
    base64::engine::general_purpose::STANDARD.decode(args).expect("base64").len()
}

#[test]
fn successes_look_like_the_captured_ones() {
    check_landed("fence--transfer-0-to-self", vec![transfer(0)], RELAY);
    check_landed("send_tx--no-actions", vec![], RELAY);
    let batch = vec![register("fresh4.test.near"), pay("fresh4.test.near", 77)];
    let captured = load("storage_deposit--then-transfer-same-tx").response;
    assert!(captured["result"]["status"]["SuccessValue"].is_string());
    let mut world = World::new();
    let result = world.land(batch);
    assert_eq!(result["status"], captured["result"]["status"]);
    check_landed("storage_deposit--new", vec![register("fresh1.test.near")], TOKEN);
    check_landed("storage_deposit--again", vec![register(&user(0))], TOKEN);
    let generous = json!({ "account_id": "fresh2.test.near" });
    let generous = call("storage_deposit", generous, 4 * STORAGE, 5 * TGAS);
    check_landed("storage_deposit--new-above-minimum", vec![generous], TOKEN);
}

#[test]
fn failures_look_like_the_captured_ones() {
    let nobody = "nobody.test.near";
    let args = |amount: &str| json!({ "receiver_id": user(0), "amount": amount });
    let paid = |deposit, gas| call("ft_transfer", args("1"), deposit, gas);
    let cases = [
        ("ft_transfer--amount-0", vec![pay(&user(0), 0)]),
        (
            "ft_transfer--batch-3-second-unregistered",
            vec![pay(&user(0), 5), pay(nobody, 6), pay(&user(2), 7)],
        ),
        ("ft_transfer--deposit-0", vec![paid(0, 3 * TGAS)]),
        ("ft_transfer--deposit-2", vec![paid(2, 3 * TGAS)]),
        ("ft_transfer--to-self", vec![pay(RELAY, 1)]),
        ("ft_transfer--out-of-gas", vec![paid(1, TGAS / 2)]),
        (
            "ft_transfer--bad-args",
            vec![call("ft_transfer", json!({ "receiver_id": user(0) }), 1, 3 * TGAS)],
        ),
        ("ft_transfer--bad-receiver-id", vec![pay("Bad Id", 1)]),
        ("call--method-missing", vec![call("no_such_method", json!({}), 0, 3 * TGAS)]),
        (
            "storage_deposit--below-minimum",
            vec![call(
                "storage_deposit",
                json!({ "account_id": "fresh3.test.near", "registration_only": true }),
                STORAGE - 1,
                5 * TGAS,
            )],
        ),
    ];
    for (name, actions) in cases {
        check_landed(name, actions, TOKEN);
    }
    check_landed("ft_transfer--token-account-missing", vec![pay(&user(0), 1)], nobody);
    check_landed(
        "ft_transfer--receiver-contract-missing",
        vec![pay(&user(0), 1)],
        "plain.test.near",
    );
    check_landed("transfer--new-account-missing", vec![transfer(1)], nobody);
}

#[test]
fn receipts_come_with_the_experimental_status() {
    let mut world = World::new();
    let actions = vec![pay(&user(0), 5), pay("nobody.test.near", 6), pay(&user(2), 7)];
    let signed = world.sign(actions);
    world.land_signed(&signed);
    let params = json!({ "tx_hash": signed.hash(), "sender_account_id": RELAY });
    let answer = world.ask("EXPERIMENTAL_tx_status", params);
    check_shape("experimental_tx_status--failed", &answer);
}

#[test]
fn blocks_and_chunks_have_all_the_fields_and_parse_as_the_official_types() {
    let mut world = World::new();
    let signed = world.sign(vec![pay(&user(0), 5)]);
    world.submit(&signed);
    world.blocks(2);
    let head = world.ledger.height();
    let final_block = world.ask("block", json!({ "finality": "final" }));
    check_shape("block--final", &final_block);
    assert_eq!(final_block.json()["result"]["header"]["height"], head - 2);
    let by_height = world.ask("block", json!({ "block_id": head }));
    check_shape("block--by-height", &by_height);
    let hash = world.head_hash();
    check_shape("block--by-hash", &world.ask("block", json!({ "block_id": hash })));
    check_shape("block--legacy-array", &world.ask("block", json!([head])));
    check_shape("block--optimistic", &world.ask("block", json!({ "finality": "optimistic" })));
    check_shape("block--near-final", &world.ask("block", json!({ "finality": "near-final" })));
    check_shape("block--genesis", &world.ask("block", json!({ "sync_checkpoint": "genesis" })));
    let block = by_height.json()["result"].clone();
    let block: BlockView = serde_json::from_value(block).expect("a BlockView");
    let params = json!({ "chunk_id": block.chunks[0].chunk_hash });
    let by_chunk = world.ask("chunk", params).json()["result"].clone();
    let params = json!({ "block_id": head, "shard_id": 0 });
    assert_eq!(world.ask("chunk", params).json()["result"], by_chunk);
    let chunk: ChunkView = serde_json::from_value(by_chunk).expect("a ChunkView");
    assert_eq!(chunk.transactions[0].hash, *signed.hash());
}

#[test]
fn unknown_blocks_are_refused_as_captured() {
    let mut world = World::new();
    let answer = world.ask("block", json!({ "block_id": 999999999 }));
    check_equal("block--future-height", &answer, &[]);
    for name in ["block--unknown-hash", "block--zero-hash", "block--bad-finality"] {
        let request = load(name).request;
        check_equal(name, &world.ask("block", request["params"].clone()), &[]);
    }
    check_equal("block--empty-params", &world.ask("block", json!({})), &[]);
    let answer = world.ask("gas_price", json!({ "block_id": 999999999 }));
    check_equal("gas_price--unknown-block", &answer, &[]);
    check_equal("gas_price--latest", &world.ask("gas_price", json!([null])), &[]);
    for name in
        ["query-view_account--unknown-block-hash", "query-view_account--unknown-block-height"]
    {
        let request = load(name).request;
        check_equal(name, &world.ask("query", request["params"].clone()), &[]);
    }
}

#[test]
fn what_a_node_says_of_itself_has_all_the_fields() {
    let mut world = World::new();
    check_shape("status--ok", &world.ask("status", json!([])));
    check_equal("health--ok", &world.ask("health", json!([])), &[]);
    let genesis = world.ask("genesis_config", Value::Null);
    check_shape("genesis_config--ok", &genesis);
    assert_eq!(genesis.json()["result"]["transaction_validity_period"], 86_400);
    let config = world.ask("EXPERIMENTAL_protocol_config", json!({ "finality": "final" }));
    assert_eq!(config.json()["result"]["chain_id"], "localnet");
}

#[test]
fn queries_answer_as_captured() {
    let mut world = World::new();
    world.fund("plain.test.near", NEAR);
    let public_key = key(0).public_key();
    for (name, same) in [
        ("query-view_account--ok", false),
        ("query-view_account--contract", false),
        ("query-view_account--optimistic", false),
        ("query-view_account--legacy-path", false),
        ("query-view_access_key_list--missing-account", false),
        ("query-view_access_key_list--ok", false),
        ("query-call_function--ft_balance_of-holder", false),
        ("query-call_function--ft_balance_of-unregistered", true),
        ("query-call_function--ft_metadata", false),
        ("query-call_function--ft_total_supply", false),
        ("query-call_function--storage_balance_bounds", true),
        ("query-call_function--storage_balance_of-registered", true),
        ("query-call_function--storage_balance_of-unregistered", true),
        ("query-call_function--missing-method", true),
        ("query-call_function--no-contract", true),
        ("query-call_function--missing-account", false),
        ("query-view_account--missing", false),
        ("query-view_access_key--missing-key", true),
        ("query-view_access_key--missing-account", false),
    ] {
        let request = load(name).request;
        let answer = world.ask("query", request["params"].clone());
        check_shape(name, &answer);
        let part = |value: &Value| {
            let result = &value["result"];
            (result["result"].clone(), result["error"].clone(), value["error"]["data"].clone())
        };
        if same {
            assert_eq!(part(answer.json()), part(&load(name).response), "{name}");
        }
    }
    let ours = json!({
        "request_type": "view_access_key", "finality": "final", "account_id": RELAY,
        "public_key": public_key.to_string(),
    });
    check_shape("query-view_access_key--ok", &world.ask("query", ours));
    for name in [
        "query--no-finality",
        "query--unknown-request-type",
        "query-call_function--args-not-base64",
        "query-view_access_key--bad-key",
        "query-view_account--invalid-id",
    ] {
        let request = load(name).request;
        check_equal(name, &world.ask("query", request["params"].clone()), &[]);
    }
}

#[test]
fn errors_inside_the_contract_hide_in_the_result() {
    let mut world = World::new();
    for name in ["query-call_function--bad-json-args", "query-call_function--change-method-in-view"]
    {
        let mut params = load(name).request["params"].clone();
        params["account_id"] = json!(TOKEN);
        let answer = world.ask("query", params);
        check_shape(name, &answer);
        assert_eq!(answer.json()["result"]["error"], load(name).response["result"]["error"]);
    }
}
