//! The shield pool.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use landfall_sim_solana::ledger::shield::{self, Refused};
use serde_json::{Value, json};
use solana_address::Address;

use crate::world::{Asked, SOL, World, payer, recipient};

fn custom(refused: Refused) -> Value {
    json!({ "InstructionError": [1, { "Custom": refused as u32 }] })
}

fn account(world: &mut World, address: String) -> Vec<u8> {
    let options = json!({ "encoding": "base64", "commitment": "processed" });
    let shown = world.get("getAccountInfo", json!([address, options]));
    STANDARD.decode(shown["value"]["data"][0].as_str().unwrap()).unwrap()
}

#[test]
fn a_withdraw_pays_each_output_and_the_treasury_and_nobody_else() {
    let mut world = World::new(1);
    let own = world.ledger.shield().addresses;
    let (before, total) = (0, world.ledger.balances().total(0));
    let amounts = [SOL, 2 * SOL, 3 * SOL, 4 * SOL, 5 * SOL];
    let asked = world.asked(1, &amounts);
    world.send(&asked.signed(&payer(0), world.blockhash()));
    world.slot();
    let balances = world.ledger.balances();
    let gained = |of: &Address| balances.at(1, of) as i128 - balances.at(before, of) as i128;
    for (index, amount) in amounts.into_iter().enumerate() {
        assert_eq!(gained(&recipient(1, index as u8)), i128::from(amount));
    }
    assert_eq!(gained(&own.pool), -i128::from(asked.amount));
    assert_eq!(gained(&own.treasury), i128::from(shield::fee(asked.amount)));
    assert_eq!(balances.total(1) + 5_000, total, "but for the fee of the transaction");
    let spent = world.ledger.shield().spent(1);
    assert_eq!((spent.len(), &spent[0].outputs), (1, &asked.outputs));
}

#[test]
fn the_accounts_show_what_is_spent_and_which_roots_are_known() {
    let mut world = World::new(1);
    let own = world.ledger.shield().addresses;
    for number in 1..=3 {
        world.send(&world.asked(number, &[SOL]).signed(&payer(0), world.blockhash()));
        world.slot();
    }
    let shard = account(&mut world, own.nullifier_shard.to_string());
    assert_eq!(shard[..4], 3_u32.to_le_bytes());
    assert_eq!(shard[4..], [[1; 32], [2; 32], [3; 32]].concat());
    let old = world.asked(9, &[SOL]);
    for number in 0..64 {
        assert_eq!(world.preflight(&old.signed(&payer(0), world.blockhash())), Value::Null);
        world.ledger.push_root([number; 32]);
    }
    let ring = account(&mut world, own.roots_ring.to_string());
    assert_eq!((ring.len(), ring[0]), (2_056, 0), "the newest is where the first was");
    assert_eq!(ring[8..40], [63; 32]);
    let refused = world.preflight(&old.signed(&payer(0), world.blockhash()));
    assert_eq!(refused, custom(Refused::RootNotFound), "64 newer ones");
}

#[test]
fn a_nullifier_spends_once_whoever_is_paid() {
    let mut world = World::new(1);
    let first = world.asked(1, &[SOL]).signed(&payer(0), world.blockhash());
    world.send(&first);
    world.slot();
    let again = Asked { nullifier: [1; 32], ..world.asked(2, &[SOL]) };
    let again = again.signed(&payer(1), world.blockhash());
    assert_eq!(world.preflight(&again), custom(Refused::DoubleSpend));
    world.send(&again);
    world.slot();
    assert_eq!(world.status(&again)["err"], custom(Refused::DoubleSpend));
    assert_eq!(world.ledger.shield().spent(2).len(), 1);
}

#[test]
fn two_of_the_same_nullifier_in_one_block_spend_once() {
    let mut world = World::new(1);
    let one = world.asked(1, &[SOL]);
    let other = Asked { nullifier: [1; 32], ..world.asked(2, &[SOL]) };
    world.send(&one.signed(&payer(0), world.blockhash()));
    world.send(&other.signed(&payer(1), world.blockhash()));
    world.slot();
    assert_eq!(world.ledger.head().transactions.len(), 2);
    assert_eq!(world.ledger.shield().spent(1).len(), 1);
}

#[test]
fn what_the_program_refuses_it_refuses_by_its_own_codes() {
    let mut world = World::new(1);
    let good = world.asked(1, &[SOL, SOL]);
    let check = |world: &mut World, asked: Asked, expected| {
        let signed = asked.signed(&payer(0), world.blockhash());
        assert_eq!(world.preflight(&signed), custom(expected));
    };
    let spoilt = |change: &dyn Fn(&mut Asked)| {
        let mut asked = good.clone();
        change(&mut asked);
        asked
    };
    check(&mut world, spoilt(&|asked| asked.root = [8; 32]), Refused::RootNotFound);
    check(&mut world, spoilt(&|asked| asked.amount += 1), Refused::Conservation);
    check(&mut world, spoilt(&|asked| asked.outputs[0].amount += 1), Refused::Conservation);
    check(&mut world, spoilt(&|asked| asked.outputs.clear()), Refused::BadLength);
    let rich = world.asked(1, &[2_000 * SOL]);
    check(&mut world, rich, Refused::InsufficientLamports);
    let mut data = good.instruction();
    data.data[400] ^= 1;
    let limit = solana_compute_budget_interface::ComputeBudgetInstruction::set_compute_unit_limit;
    let mut refuse = |instruction, expected| {
        let instructions = [limit(400_000), instruction];
        let signed = crate::world::sign(&payer(0), &instructions, world.blockhash());
        assert_eq!(world.preflight(&signed), custom(expected));
    };
    refuse(data, Refused::InvalidRecipient);
    let mut nullifier = good.instruction();
    nullifier.data[1 + 260 + 104] ^= 1;
    refuse(nullifier, Refused::InvalidNullifier);
    let mut hash = good.instruction();
    hash.data[1 + 260 + 64] ^= 1;
    refuse(hash, Refused::InvalidOutputsHash);
    let mut accounts = good.instruction();
    accounts.accounts.swap(0, 1);
    refuse(accounts, Refused::BadAccounts);
    let mut readonly = good.instruction();
    readonly.accounts[4].is_writable = false;
    refuse(readonly, Refused::RecipientNotWritable);
}

#[test]
fn the_amount_for_a_sum_leaves_exactly_that_sum() {
    for sum in (0..2_000).chain([890_880, SOL, 123_456_789_012, u64::MAX / 2]) {
        let amount = shield::amount_for(sum).unwrap();
        assert_eq!(amount - shield::fee(amount), sum);
    }
}
