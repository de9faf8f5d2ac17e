//! The ledger's parts, each alone. The whole is tested through its RPC in `tests/near`.

use std::sync::Arc;

use near_crypto::SecretKey;
use near_primitives::action::{Action, TransferAction};
use near_primitives::hash::CryptoHash;
use near_primitives::transaction::SignedTransaction;
use near_primitives::types::{AccountId, Balance};

use super::super::keys;
use super::block::{Block, Chain};
use super::fees::Gas;
use super::pool::{Pool, Taken};
use super::state::{Delta, Slot, State};

fn id(name: &str) -> AccountId {
    name.parse().expect("a well-formed account id")
}

fn key(index: usize) -> SecretKey {
    keys::secret_key(1, index)
}

fn fence(key_index: usize, nonce: u64) -> Arc<SignedTransaction> {
    let (relay, base) = (id("relay.near"), CryptoHash::default());
    let actions = keys::transfer_of_nothing();
    Arc::new(keys::sign(&relay, &key(key_index), nonce, &relay, base, actions))
}

#[test]
fn a_rolled_back_group_leaves_no_trace() {
    let slot = Slot::Near(id("alice.near"));
    let mut state = State::default();
    state.begin();
    state.set_amount(slot.clone(), 1);
    state.commit();
    state.seal();
    state.begin();
    state.set_amount(slot.clone(), 2);
    state.set(slot.clone(), None);
    state.rollback();
    assert_eq!(state.amount(&slot), Some(1));
    assert!(state.seal().is_empty());
}

#[test]
fn a_sealed_block_knows_each_cell_as_it_was_before_it() {
    let slot = Slot::Near(id("alice.near"));
    let mut state = State::default();
    for amount in [1, 2] {
        state.begin();
        state.set_amount(slot.clone(), amount);
        state.commit();
    }
    let delta = state.seal();
    assert_eq!(delta[&slot], None);
    state.undo(delta);
    assert_eq!(state.amount(&slot), None);
}

#[test]
fn keys_take_turns_and_nonces_their_order() {
    let mut pool = Pool::default();
    for (key_index, nonce) in [(0, 9), (0, 3), (0, 6), (1, 5)] {
        pool.insert(fence(key_index, nonce));
        pool.insert(fence(key_index, nonce));
    }
    assert_eq!(pool.len(), 4, "the same transaction waits once");
    let mut nonces = Vec::new();
    pool.drain(|signed| {
        nonces.push(signed.transaction.nonce().nonce());
        Taken::Yes
    });
    nonces[..2].sort_unstable();
    assert_eq!(nonces, [3, 5, 6, 9]);
}

#[test]
fn a_full_chunk_leaves_the_rest_in_the_pool() {
    let mut pool = Pool::default();
    (1..=5).for_each(|nonce| pool.insert(fence(0, nonce)));
    let mut taken = 0;
    pool.drain(|_| {
        taken += 1;
        if taken > 2 { Taken::Full } else { Taken::Yes }
    });
    assert_eq!(pool.len(), 3);
    pool.evict_rivals(&fence(0, 4));
    assert_eq!(pool.len(), 2);
}

#[test]
fn a_fence_costs_what_the_captured_one_did() {
    let gas = Gas::of(&fence(0, 1)).expect("no overflow");
    assert_eq!((gas.send, gas.run, gas.attached), (223_182_562_500, 223_182_562_500, 0));
    let relay = id("relay.near");
    let deposit = Balance::from_near(1);
    let actions = vec![Action::Transfer(TransferAction { deposit })];
    let paid = keys::sign(&relay, &key(0), 1, &id("bob.near"), CryptoHash::default(), actions);
    let cost = Gas::of(&paid).expect("no overflow").cost();
    assert_eq!(cost, 245_500_818_750_000_000_000, "as NotEnoughBalance.cost in the captures");
}

#[test]
fn an_orphan_is_known_by_hash_alone_and_collected_blocks_by_height_alone() {
    let seal = |height: u64, prev: CryptoHash, fork| Block::seal(height, prev, fork, 0, vec![], 0);
    let genesis = seal(0, CryptoHash::default(), 0);
    let mut prev = genesis.hash;
    let mut chain = Chain::new(genesis);
    for height in 1..=6 {
        let block = seal(height, prev, 0);
        prev = block.hash;
        chain.push(block, Delta::new());
    }
    let (orphan, _) = chain.pop();
    let replacement = seal(6, orphan.prev_hash, 1);
    assert_ne!(replacement.hash, orphan.hash);
    chain.push(replacement, Delta::new());
    assert!(chain.by_hash(&orphan.hash).is_some());
    assert_eq!(chain.canonical_height(&orphan.hash), None);
    let gone = chain.collect(4);
    assert_eq!(gone.len(), 3);
    assert_eq!(chain.earliest().height, 3);
    assert_eq!(chain.hash_at(1), Some(gone[1].hash));
    assert!(chain.by_hash(&gone[1].hash).is_none() && chain.at(1).is_none());
}
