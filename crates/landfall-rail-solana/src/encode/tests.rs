use landfall_sim_solana::keys::keypair;
use landfall_sim_solana::ledger::{Genesis, Ledger, Place, Transaction as Landing, shield as pool};
use solana_signer::Signer;

use super::*;
use crate::shield::{PROGRAM, fee};

const SOL: u64 = 1_000_000_000;

fn key() -> Key {
    Key::parse(&keypair(0, 0).to_base58_string()).unwrap()
}

fn chain() -> Ledger {
    let payers = vec![keypair(0, 0).pubkey()];
    let (payer_lamports, pool_lamports) = (SOL, 1_000 * SOL);
    let genesis = Genesis { time_s: 0, payers, payer_lamports, pool_lamports, limits: true };
    Ledger::new(genesis, 1)
}

fn draft(chain: &Ledger, outputs: u8) -> Draft {
    let output = |byte| Output {
        recipient: Address::new_from_array([byte; 32]),
        amount: u64::from(byte) * SOL,
    };
    let outputs: Vec<Output> = (10..10 + outputs).map(output).collect();
    let amount = pool::amount_for(outputs.iter().map(|output| output.amount).sum()).unwrap();
    let root = chain.shield().roots(0)[0].1;
    let withdraw = Withdraw { proof: [3; PROOF_BYTES], root, nullifier: [4; 32], amount, outputs };
    let blockhash = chain.head().hash;
    Draft { program: PROGRAM, withdraw, blockhash, units: UNITS, price: 1_000 }
}

#[test]
fn what_is_signed_is_what_the_pool_takes_and_pays() {
    for outputs in 1..=5 {
        let mut chain = chain();
        let draft = draft(&chain, outputs);
        let (bytes, signature) = sign(&draft, &key()).unwrap();
        let landing = Landing::read(bytes).unwrap();
        assert!(landing.is_signed());
        assert_eq!((landing.signature, landing.units, landing.price), (signature, 400_000, 1_000));
        chain.submit(0, landing);
        chain.append(1, chain.best());
        let block = chain.head();
        assert_eq!(block.metas[0].error, None);
        let spent = &chain.shield().spent(1)[0];
        assert_eq!((spent.nullifier, spent.amount), ([4; 32], draft.withdraw.amount));
        for output in &draft.withdraw.outputs {
            assert_eq!(chain.balances().at(1, &output.recipient), output.amount);
        }
        let treasury = Accounts::of(&PROGRAM).treasury;
        let gained = chain.balances().at(1, &treasury) - chain.balances().at(0, &treasury);
        assert_eq!(gained, fee(draft.withdraw.amount));
    }
}

#[test]
fn one_output_takes_858_bytes_and_five_1150_and_what_does_not_fit_is_not_signed() {
    let chain = chain();
    let sizes: Vec<usize> = (1..=5)
        .map(|outputs| {
            let draft = draft(&chain, outputs);
            let (bytes, _) = sign(&draft, &key()).unwrap();
            assert_eq!(bytes.len(), size(PROGRAM, &draft.withdraw));
            bytes.len()
        })
        .collect();
    assert_eq!((sizes[0], sizes[4]), (858, 1_150));
    assert_eq!(sign(&draft(&chain, 7), &key()), Err(TooLarge(1_296)));
}

#[test]
fn what_was_signed_is_read_back() {
    let chain = chain();
    let draft = draft(&chain, 3);
    let (bytes, signature) = sign(&draft, &key()).unwrap();
    let Withdraw { nullifier, amount, outputs, .. } = draft.withdraw;
    assert_eq!(spends(&bytes, &PROGRAM), Ok(vec![Spend { nullifier, amount, outputs }]));
    assert_eq!(super::signature(&bytes), Ok(signature));
    assert_eq!(blockhash(&bytes), Ok(draft.blockhash));
    assert_eq!(spends(&bytes, &system::ID), Ok(vec![]), "of another program");
}

#[test]
fn another_offer_is_other_bytes_and_the_same_payment() {
    let chain = chain();
    let low = draft(&chain, 2);
    let high = Draft { price: 9_000, blockhash: Hash::new_from_array([1; 32]), ..low.clone() };
    let ((low, first), (high, second)) =
        (sign(&low, &key()).unwrap(), sign(&high, &key()).unwrap());
    assert_ne!((&low, first), (&high, second));
    assert_eq!(spends(&low, &PROGRAM), spends(&high, &PROGRAM));
}

#[test]
fn the_same_draft_is_signed_into_the_same_bytes() {
    let draft = draft(&chain(), 1);
    assert_eq!(sign(&draft, &key()), sign(&draft, &key()));
}

#[test]
fn damaged_bytes_are_no_transaction_and_have_no_signature() {
    let (bytes, _) = sign(&draft(&chain(), 1), &key()).unwrap();
    for damaged in [&bytes[..0], &bytes[..bytes.len() - 1], &[&bytes[..], &[0]].concat()] {
        assert!(spends(damaged, &PROGRAM).is_err());
        assert!(signature(damaged).is_err());
    }
    let mut changed = bytes.clone();
    changed[bytes.len() - 1] ^= 1;
    assert!(signature(&changed).is_err(), "signed for another amount");
}

/// A preflight on the block that it was signed on says nothing against it.
#[test]
fn a_preflight_finds_nothing_wrong() {
    let chain = chain();
    let (bytes, _) = sign(&draft(&chain, 5), &key()).unwrap();
    assert_eq!(chain.check(&Landing::read(bytes).unwrap(), Place::upon(0)), Ok(()));
}
