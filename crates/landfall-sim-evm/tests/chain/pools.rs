//! Pools: what waits, what replaces what, what is refused, and that each node has its own.

use alloy_consensus::TxEip1559;
use alloy_primitives::U256;
use serde_json::json;

use crate::world::{CHAIN_ID, ETHER, GWEI, Wallet, World, payment};

#[test]
fn what_comes_after_a_gap_waits_until_it_is_filled() {
    let (mut world, alice) = (World::new(1), Wallet::new(0));
    let second = world.send(0, &alice.raw(payment(1, alice.address))).unwrap();
    world.mine(0);
    assert_eq!(world.status(&second), None);
    let pending = world.get("eth_getTransactionCount", json!([alice.address, "pending"]));
    assert_eq!(pending, "0x0", "a gap is not counted over");
    let first = world.send(0, &alice.raw(payment(0, alice.address))).unwrap();
    world.mine(0);
    let landed = [first, second].map(|hash| world.status(&hash));
    assert_eq!(landed, [Some("0x1".to_owned()), Some("0x1".to_owned())]);
}

#[test]
fn a_replacement_needs_a_tenth_more_of_both_fees() {
    let (mut world, alice) = (World::new(1), Wallet::new(0));
    let old = world.send(0, &alice.raw(payment(0, alice.address))).unwrap();
    let bumped = |fee: u128, tip: u128| {
        alice.raw(TxEip1559 {
            max_fee_per_gas: 3 * GWEI * fee / 100,
            max_priority_fee_per_gas: GWEI * tip / 100,
            ..payment(0, alice.address)
        })
    };
    for (fee, tip) in [(109, 110), (110, 109), (200, 100)] {
        let refused = world.send(0, &bumped(fee, tip));
        assert_eq!(refused, Err("replacement transaction underpriced".to_owned()));
    }
    let new = world.send(0, &bumped(110, 110)).unwrap();
    world.mine(0);
    assert_eq!((world.status(&old), world.status(&new).as_deref()), (None, Some("0x1")));
    assert!(world.get("eth_getTransactionByHash", json!([old])).is_null());
}

#[test]
fn refusals_are_in_geths_words() {
    let (mut world, alice, poor) = (World::new(1), Wallet::new(0), Wallet::new(9));
    let known = alice.raw(payment(0, alice.address));
    world.send(0, &known).unwrap();
    world.mine(0);
    let waiting = alice.raw(payment(1, alice.address));
    world.send(0, &waiting).unwrap();
    let with = |change: &dyn Fn(&mut TxEip1559)| {
        let mut transaction = payment(1, alice.address);
        change(&mut transaction);
        alice.raw(transaction)
    };
    let check = |world: &mut World, raw: String, expected: &str| {
        let refused = world.send(0, &raw).unwrap_err();
        assert!(refused.starts_with(expected), "{refused:?} instead of {expected:?}");
    };
    check(&mut world, known, "nonce too low: next nonce 1, tx nonce 0");
    check(&mut world, waiting, "already known");
    let (low, high) = (with(&|tx| tx.gas_limit = 20_999), with(&|tx| tx.gas_limit = 30_000_001));
    check(&mut world, low, "intrinsic gas too low: gas 20999, minimum needed 21000");
    check(&mut world, high, "exceeds block gas limit");
    let above = with(&|tx| tx.max_priority_fee_per_gas = tx.max_fee_per_gas + 1);
    check(&mut world, above, "max priority fee per gas higher than max fee per gas");
    let rich = with(&|tx| tx.value = U256::from(11 * ETHER));
    check(&mut world, rich, "insufficient funds for gas * price + value: balance ");
    check(&mut world, poor.raw(payment(0, poor.address)), "insufficient funds for gas * price");
    let elsewhere = with(&|tx| tx.chain_id = 1);
    let words = format!("invalid chain id for signer: have 1 want {CHAIN_ID}");
    check(&mut world, elsewhere, &words);
    check(&mut world, "0x02".to_owned(), "rlp: ");
    check(&mut world, "0x7f01".to_owned(), "transaction type not supported");
}

#[test]
fn a_fee_below_the_base_fee_is_taken_and_waits() {
    let (mut world, alice) = (World::new(1), Wallet::new(0));
    let cheap = TxEip1559 {
        max_fee_per_gas: 800_000_000,
        max_priority_fee_per_gas: 1,
        ..payment(0, alice.address)
    };
    let hash = world.send(0, &alice.raw(cheap)).unwrap();
    world.mine(0);
    assert_eq!(world.status(&hash), None);
    // The base fee falls with every empty block.
    world.mine(0);
    assert_eq!(world.status(&hash).as_deref(), Some("0x1"));
}

#[test]
fn an_original_may_win_over_its_replacement_on_another_node() {
    let (mut world, alice) = (World::new(2), Wallet::new(0));
    let old = alice.raw(payment(0, alice.address));
    let hash = world.send(0, &old).unwrap();
    world.ledger.gossip();
    let bump = TxEip1559 {
        max_fee_per_gas: 6 * GWEI,
        max_priority_fee_per_gas: 2 * GWEI,
        ..payment(0, alice.address)
    };
    let bumped = world.send(0, &alice.raw(bump)).unwrap();
    world.mine(1);
    assert_eq!(world.status(&hash).as_deref(), Some("0x1"), "the other node made the block");
    assert!(world.get("eth_getTransactionByHash", json!([bumped])).is_null());
}

#[test]
fn what_only_one_node_has_is_told_on() {
    let (mut world, alice) = (World::new(2), Wallet::new(0));
    let hash = world.send(0, &alice.raw(payment(0, alice.address))).unwrap();
    world.mine(1);
    assert_eq!(world.status(&hash), None);
    world.ledger.gossip();
    world.mine(1);
    assert_eq!(world.status(&hash).as_deref(), Some("0x1"));
}

#[test]
fn a_spike_of_the_base_fee_lets_wait_what_was_priced_before_it() {
    let (mut world, alice) = (World::new(1), Wallet::new(0));
    world.ledger.force_base_fee((4 * GWEI) as u64);
    let hash = world.send(0, &alice.raw(payment(0, alice.address))).unwrap();
    world.mine(0);
    assert_eq!(world.status(&hash), None);
    while world.status(&hash).is_none() {
        world.mine(0);
    }
    let receipts = world.get("eth_getBlockReceipts", json!(["latest"]));
    assert_eq!(receipts[0], world.get("eth_getTransactionReceipt", json!([hash])));
    // Empty blocks bring it down by an eighth each: 3.5, then 3.06, then below 3 with its tip.
    assert!(world.ledger.height() > 3);
}
