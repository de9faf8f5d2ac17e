//! The simulated chain as a client sees it, without sockets or time; then on sockets.

mod contracts;
mod fields;
mod pools;
mod server;
mod world;

use serde_json::json;
use world::{ETHER, GWEI, Wallet, World, payment};

#[test]
fn a_payment_lands_with_its_receipt_and_what_it_cost() {
    let (mut world, alice, bob) = (World::new(1), Wallet::new(0), Wallet::new(7));
    let hash = world.send(0, &alice.raw(payment(0, bob.address))).unwrap();
    assert_eq!(world.status(&hash), None);
    let pooled = world.get("eth_getTransactionByHash", json!([hash]));
    assert!(pooled["blockNumber"].is_null());
    world.mine(0);
    let receipt = world.get("eth_getTransactionReceipt", json!([hash]));
    assert_eq!((&receipt["status"], &receipt["gasUsed"]), (&json!("0x1"), &json!("0x5208")));
    // The base fee fell by an eighth after the empty first block.
    let price = 875_000_000 + GWEI;
    assert_eq!(receipt["effectiveGasPrice"], json!(format!("{price:#x}")));
    let balance = world.get("eth_getBalance", json!([bob.address, "latest"]));
    assert_eq!(balance, "0x1");
    let left = 10 * ETHER - 1 - 21_000 * price;
    let balance = world.get("eth_getBalance", json!([alice.address, "latest"]));
    assert_eq!(balance, json!(format!("{left:#x}")));
}

#[test]
fn tags_name_the_head_and_what_is_behind_it() {
    let (mut world, alice) = (World::new(1), Wallet::new(0));
    world.send(0, &alice.raw(payment(0, alice.address))).unwrap();
    let count =
        |world: &mut World, tag| world.get("eth_getTransactionCount", json!([alice.address, tag]));
    let tags = ["pending", "latest", "safe", "finalized", "0x1"];
    let counts = |world: &mut World| tags.map(|tag| count(world, tag) == "0x1");
    assert_eq!(count(&mut world, "pending"), "0x1");
    assert_eq!(count(&mut world, "latest"), "0x0");
    world.mine(0);
    assert_eq!(counts(&mut world), [true, true, false, false, true]);
    world.mine(0);
    world.mine(0);
    assert_eq!(counts(&mut world), [true, true, true, false, true]);
    world.mine(0);
    world.mine(0);
    assert_eq!(counts(&mut world), [true; 5]);
    let unknown = world.error("eth_getTransactionCount", json!([alice.address, "0x99"]));
    assert_eq!(unknown, json!({ "code": -32000, "message": "header not found" }));
}

#[test]
fn what_fell_off_lands_again_and_what_is_final_stays() {
    let (mut world, alice) = (World::new(1), Wallet::new(0));
    let first = world.send(0, &alice.raw(payment(0, alice.address))).unwrap();
    (0..4).for_each(|_| world.mine(0));
    let second = world.send(0, &alice.raw(payment(1, alice.address))).unwrap();
    world.mine(0);
    let old = world.get("eth_getBlockByNumber", json!(["latest", false]))["hash"].clone();
    let fallen = world.ledger.cut(99);
    assert_eq!(fallen.len(), 1, "of four blocks, three are not final");
    assert!(world.status(&first).is_some());
    assert_eq!(world.status(&second), None);
    world.ledger.pool_again(&fallen);
    (0..3).for_each(|_| world.mine(0));
    assert_eq!(world.status(&second).as_deref(), Some("0x1"));
    let new = world.get("eth_getBlockByNumber", json!(["latest", false]))["hash"].clone();
    assert_ne!(old, new);
}

#[test]
fn the_base_fee_follows_how_full_blocks_are() {
    let mut world = World::new(1);
    (0..3).for_each(|_| world.mine(0));
    let history = world.get("eth_feeHistory", json!(["0x2", "latest", [50]]));
    assert_eq!(history["oldestBlock"], "0x2");
    assert_eq!(history["baseFeePerGas"].as_array().map(Vec::len), Some(3), "the next one, too");
    assert_eq!(history["reward"], json!([["0x0"], ["0x0"]]));
    let fee = |at: usize| {
        let text = history["baseFeePerGas"][at].as_str().unwrap().trim_start_matches("0x");
        u64::from_str_radix(text, 16).unwrap()
    };
    assert!(fee(0) > fee(1) && fee(1) > fee(2));
}

#[test]
fn a_batch_is_answered_in_order_and_an_unknown_method_is_said_to_be() {
    let mut world = World::new(1);
    let batch = json!([
        { "jsonrpc": "2.0", "id": 1, "method": "eth_chainId" },
        { "jsonrpc": "2.0", "id": 2, "method": "eth_mine" },
        { "jsonrpc": "2.0", "id": 3, "method": "net_version", "params": [] },
    ]);
    let message = "the method eth_mine does not exist/is not available";
    let expected = json!([
        { "jsonrpc": "2.0", "id": 1, "result": "0x1466a9" },
        { "jsonrpc": "2.0", "id": 2, "error": { "code": -32601, "message": message } },
        { "jsonrpc": "2.0", "id": 3, "result": "1337001" },
    ]);
    assert_eq!(world.answer(0, &batch), expected);
    let empty = json!({ "code": -32600, "message": "empty batch" });
    assert_eq!(world.answer(0, &json!([]))["error"], empty);
}
