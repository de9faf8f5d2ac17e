//! The simulated chain as a client sees it, without sockets or time; then on sockets.

mod fields;
mod forks;
mod server;
mod withdraws;
mod world;

use serde_json::{Value, json};
use solana_signer::Signer;
use world::{SOL, World, payer, recipient, transfer};

#[test]
fn a_transfer_is_processed_then_confirmed_then_final() {
    let mut world = World::new(1);
    let (alice, bob) = (payer(0), recipient(1, 0));
    let paid = transfer(&alice, &bob, SOL, world.blockhash());
    world.send(&paid);
    assert_eq!(world.status(&paid), Value::Null);
    let mut reached = Vec::new();
    for _ in 0..40 {
        world.slot();
        let status = world.status(&paid)["confirmationStatus"].as_str().unwrap().to_owned();
        if reached.last() != Some(&status) {
            reached.push(status);
        }
    }
    assert_eq!(reached, ["processed", "confirmed", "finalized"]);
    let balance = |world: &mut World, of: String| world.get("getBalance", json!([of]));
    assert_eq!(balance(&mut world, bob.to_string())["value"], SOL);
    let left = 9 * SOL - 5_001;
    assert_eq!(balance(&mut world, alice.pubkey().to_string())["value"], left);
}

#[test]
fn the_same_bytes_land_once_however_often_and_wherever_they_are_sent() {
    let mut world = World::new(3);
    let (alice, bob) = (payer(0), recipient(1, 0));
    let paid = transfer(&alice, &bob, SOL, world.blockhash());
    let options = json!({ "encoding": "base64", "skipPreflight": true });
    for round in 0..9 {
        world.answer(round % 3, "sendTransaction", json!([paid.text, options]));
        if round % 2 == 0 {
            world.slot();
        }
    }
    assert_eq!(world.preflight(&paid), "AlreadyProcessed");
    let landed: usize = world.ledger.blocks().iter().map(|block| block.transactions.len()).sum();
    assert_eq!(landed, 1);
    assert_eq!(world.ledger.balances().at(world.ledger.height(), &bob), SOL);
}

/// The last block in which it may land is one past what `lastValidBlockHeight` says: a hash is as
/// old as the parent of the block that it is tried in.
#[test]
fn a_blockhash_dies_after_151_blocks_and_slots_without_one_do_not_count() {
    for (blocks, lands) in [(150, true), (151, false)] {
        let mut world = World::new(1);
        let latest = world.get("getLatestBlockhash", json!([{ "commitment": "processed" }]));
        assert_eq!(latest["value"]["lastValidBlockHeight"], 150);
        let paid = transfer(&payer(0), &recipient(1, 0), SOL, world.blockhash());
        (0..50).for_each(|_| world.ledger.skip());
        world.slots(blocks);
        world.send(&paid);
        world.slot();
        assert_eq!(!world.status(&paid).is_null(), lands, "after {blocks} blocks");
        assert_eq!((world.ledger.height(), world.ledger.slot()), (blocks + 1, blocks + 51));
    }
}

#[test]
fn what_fails_in_a_block_pays_its_fee_and_nothing_else() {
    let mut world = World::new(1);
    let (alice, bob) = (payer(0), recipient(1, 0));
    let failing = transfer(&alice, &bob, 50 * SOL, world.blockhash());
    world.send(&failing);
    world.slot();
    assert_eq!(world.status(&failing)["err"], json!({ "InstructionError": [2, { "Custom": 1 }] }));
    let (height, balances) = (world.ledger.height(), world.ledger.balances());
    assert_eq!(balances.at(height, &alice.pubkey()), 10 * SOL - 5_001);
    assert_eq!(balances.at(height, &bob), 0);
}

#[test]
fn a_bad_signature_is_refused_before_it_is_tried_and_lands_nowhere() {
    let mut world = World::new(1);
    let mut paid = transfer(&payer(0), &recipient(1, 0), SOL, world.blockhash());
    // In base64 the signature begins with the second byte.
    let spoilt = if &paid.text[4..5] == "A" { "B" } else { "A" };
    paid.text.replace_range(4..5, spoilt);
    let options = json!({ "encoding": "base64", "preflightCommitment": "processed" });
    let refused = world.error("sendTransaction", json!([paid.text, options]));
    assert_eq!(refused["code"], -32003);
    let options = json!({ "encoding": "base64", "skipPreflight": true });
    world.get("sendTransaction", json!([paid.text, options]));
    world.slot();
    assert!(world.ledger.head().transactions.is_empty());
}

#[test]
fn the_best_paid_come_first_and_an_account_takes_so_much_and_no_more() {
    let mut world = World::new(1);
    let asked: Vec<_> = (1..=70).map(|number| world.asked(number, &[SOL])).collect();
    let blockhash = world.blockhash();
    for one in &asked {
        world.send(&one.signed(&payer(0), blockhash));
    }
    let dear = transfer(&payer(1), &recipient(99, 0), SOL, blockhash);
    world.send(&dear);
    world.slot();
    let block = world.ledger.head();
    assert_eq!(block.transactions[0].signature.to_string(), dear.signature);
    // 24 million units, 400,000 each.
    assert_eq!(block.transactions.len(), 1 + 60);
    world.slot();
    assert_eq!(world.ledger.head().transactions.len(), 10);
}
