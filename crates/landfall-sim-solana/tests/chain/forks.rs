//! Forks, nodes that lag, forget or lie.

use serde_json::{Value, json};

use crate::world::{SOL, World, payer, recipient, transfer};

#[test]
fn a_fork_takes_back_what_was_confirmed_but_nothing_that_is_final() {
    let mut world = World::new(1);
    let early = world.asked(1, &[SOL]).signed(&payer(0), world.blockhash());
    world.send(&early);
    world.slots(33);
    let late = world.asked(2, &[SOL]).signed(&payer(0), world.blockhash());
    world.send(&late);
    world.slots(3);
    assert_eq!(world.status(&late)["confirmationStatus"], "confirmed");
    let (final_height, hash) = (world.ledger.final_height(), world.blockhash());
    let fallen = world.ledger.cut(1_000);
    assert_eq!(fallen.len(), 1);
    assert_eq!(world.ledger.height(), final_height);
    assert_eq!(world.status(&late), Value::Null);
    assert_eq!(world.status(&early)["confirmationStatus"], "finalized");
    assert!(!world.ledger.shield().is_spent(u64::MAX, &[2; 32]));
    assert_eq!(world.ledger.balances().at(u64::MAX, &recipient(2, 0)), 0);
    world.slots(3);
    assert_ne!(world.ledger.head().hash, hash, "another branch");
    assert_eq!(world.ledger.final_height(), final_height, "what is final stays so");
}

/// Its blockhash was on the branch that lost: such bytes can never land, but nobody can tell from
/// heights before they are old.
#[test]
fn what_was_signed_on_a_branch_that_lost_lands_nowhere() {
    let mut world = World::new(1);
    world.slots(5);
    let paid = transfer(&payer(0), &recipient(1, 0), SOL, world.blockhash());
    world.ledger.cut(2);
    world.send(&paid);
    world.slots(3);
    assert_eq!(world.status(&paid), Value::Null);
    assert_eq!(world.preflight(&paid), "BlockhashNotFound");
}

#[test]
fn what_fell_off_lands_again_where_nodes_still_have_it() {
    let mut world = World::new(2);
    world.slots(3);
    let paid = transfer(&payer(0), &recipient(1, 0), SOL, world.blockhash());
    world.send(&paid);
    world.slots(2);
    let fallen = world.ledger.cut(2);
    world.ledger.pool_again(&fallen);
    world.slot();
    assert_eq!(world.status(&paid)["err"], Value::Null);
    assert_eq!(world.ledger.head().transactions.len(), 1);
}

#[test]
fn a_node_that_lags_knows_neither_the_newest_nor_that_it_is_behind_until_far() {
    let mut world = World::new(1);
    world.slots(200);
    let paid = transfer(&payer(0), &recipient(1, 0), SOL, world.blockhash());
    world.send(&paid);
    world.slots(5);
    world.lag_blocks = 6;
    assert_eq!(world.status(&paid), Value::Null);
    assert_eq!(world.get("getSlot", json!([{ "commitment": "processed" }])), 199);
    assert_eq!(world.get("getHealth", json!([])), "ok");
    let options = json!({ "minContextSlot": 200, "commitment": "processed" });
    let behind = world.error("getBlockHeight", json!([options]));
    assert_eq!(
        (&behind["code"], &behind["data"]),
        (&json!(-32016), &json!({ "contextSlot": 199 }))
    );
    world.lag_blocks = 150;
    assert_eq!(world.error("getHealth", json!([]))["code"], -32005);
}

#[test]
fn a_node_that_prunes_says_nothing_of_what_it_no_longer_has() {
    let mut world = World::new(1);
    let paid = transfer(&payer(0), &recipient(1, 0), SOL, world.blockhash());
    world.send(&paid);
    world.slots(50);
    let asked = json!([paid.signature]);
    assert_ne!(world.get("getTransaction", asked.clone()), Value::Null);
    world.history_blocks = 40;
    assert_eq!(world.status(&paid), Value::Null);
    assert_eq!(world.get("getTransaction", asked), Value::Null);
    assert_eq!(world.error("getBlock", json!([1]))["code"], -32001);
    assert_eq!(world.get("getFirstAvailableBlock", json!([])), 10);
}

#[test]
fn statuses_older_than_three_hundred_blocks_must_be_searched_for() {
    let mut world = World::new(1);
    let paid = transfer(&payer(0), &recipient(1, 0), SOL, world.blockhash());
    world.send(&paid);
    world.slots(302);
    let recent = world.get("getSignatureStatuses", json!([[paid.signature]]));
    assert_eq!(recent["value"], json!([null]));
    assert_eq!(world.status(&paid)["confirmationStatus"], "finalized");
}

#[test]
fn a_liar_turns_what_it_knows_around() {
    let mut world = World::new(1);
    let paid = transfer(&payer(0), &recipient(1, 0), SOL, world.blockhash());
    let unsent = transfer(&payer(0), &recipient(2, 0), SOL, world.blockhash());
    world.send(&paid);
    world.slots(40);
    world.lies = true;
    assert_eq!(world.status(&paid), Value::Null);
    assert_eq!(world.status(&unsent)["confirmationStatus"], "finalized");
    assert_eq!(world.get("getBlockHeight", json!([{ "commitment": "finalized" }])), 8 + 1_000);
}

#[test]
fn blocks_name_their_transactions_and_slots_without_one_say_so() {
    let mut world = World::new(1);
    let paid = transfer(&payer(0), &recipient(1, 0), SOL, world.blockhash());
    world.send(&paid);
    world.slot();
    world.ledger.skip();
    world.slots(40);
    let signatures = json!({ "transactionDetails": "signatures", "rewards": false });
    let block = world.get("getBlock", json!([1, signatures]));
    assert_eq!(block["signatures"], json!([paid.signature]));
    assert_eq!((&block["blockHeight"], &block["parentSlot"]), (&json!(1), &json!(0)));
    assert_eq!(world.get("getBlock", json!([3, signatures]))["parentSlot"], 1);
    assert_eq!(world.error("getBlock", json!([2, signatures]))["code"], -32009);
    assert_eq!(world.error("getBlock", json!([40, signatures]))["code"], -32004, "not final yet");
    assert_eq!(world.get("getBlocks", json!([0, 4])), json!([0, 1, 3, 4]));
}
