use landfall_sim_solana::keys::keypair;
use landfall_sim_solana::ledger::shield::amount_for;
use landfall_sim_solana::ledger::{Genesis, Ledger, Transaction};
use landfall_sim_solana::rpc::{Node, handle};
use solana_signer::Signer;

use super::*;
use crate::answer;
use crate::encode::{self, Draft, UNITS};
use crate::keys::Key;
use crate::shield::{self, Accounts, Output, PROGRAM, Withdraw};
use solana_address::Address;

const SOL: u64 = 1_000_000_000;

/// What is wrong with a node.
#[derive(Clone, Copy, Default)]
struct Fault {
    lag_blocks: u64,
    history_blocks: u64,
    lies: bool,
}

const HONEST: Fault = Fault { lag_blocks: 0, history_blocks: 0, lies: false };
const LAGGING: Fault = Fault { lag_blocks: 20, ..HONEST };
const PRUNED: Fault = Fault { history_blocks: 100, ..HONEST };
const LYING: Fault = Fault { lies: true, ..HONEST };

/// A chain of nodes, and one attempt on it.
struct World {
    chain: Ledger,
    faults: Vec<Fault>,
    signed: Signed,
    bytes: Vec<u8>,
    signature: String,
}

impl World {
    fn new(faults: &[Fault]) -> World {
        let payers = vec![keypair(0, 0).pubkey()];
        let (payer_lamports, pool_lamports) = (10 * SOL, 1_000 * SOL);
        let genesis = Genesis { time_s: 0, payers, payer_lamports, pool_lamports, limits: true };
        let mut chain = Ledger::new(genesis, faults.len());
        (0..40).for_each(|_| {
            chain.append(1, Vec::new());
        });
        let recipient = Address::new_from_array([9; 32]);
        let withdraw = Withdraw {
            proof: [0; shield::PROOF_BYTES],
            root: chain.shield().roots(0)[0].1,
            nullifier: [4; 32],
            amount: amount_for(SOL).unwrap(),
            outputs: vec![Output { recipient, amount: SOL }],
        };
        let head = chain.head();
        let signed = Signed { last_valid_height: head.height + 150, base_slot: head.slot };
        let (blockhash, units) = (head.hash, UNITS);
        let draft = Draft { program: PROGRAM, withdraw, blockhash, units, price: 0 };
        let key = Key::parse(&keypair(0, 0).to_base58_string()).unwrap();
        let (bytes, signature) = encode::sign(&draft, &key).unwrap();
        World { chain, faults: faults.to_vec(), signed, bytes, signature: signature.to_string() }
    }

    fn blocks(&mut self, count: u64) {
        for _ in 0..count {
            let best = self.chain.best();
            self.chain.append(1, best);
        }
    }

    fn land(&mut self) {
        self.chain.submit(0, Transaction::read(self.bytes.clone()).unwrap());
        self.blocks(1);
    }

    fn get(&mut self, index: usize, method: &str, params: Value) -> Value {
        let body = json!({ "id": 1, "method": method, "params": params });
        let Fault { lag_blocks, history_blocks, lies } = self.faults[index];
        let ledger = &mut self.chain;
        let mut node = Node { ledger, index, lag_blocks, history_blocks, forgets: false, lies };
        handle(&mut node, &body)["result"].clone()
    }

    /// A node's words, asked for as the module says.
    fn testimony(&mut self, index: usize) -> Testimony {
        let finalized = json!([{ "commitment": "finalized" }]);
        let final_height = self.get(index, "getBlockHeight", finalized.clone());
        let final_slot = self.get(index, "getSlot", finalized);
        let search = json!({ "searchTransactionHistory": true });
        let asked = json!([[self.signature], search]);
        let statuses = self.get(index, "getSignatureStatuses", asked);
        let statuses = answer::statuses(&statuses, 1).unwrap();
        let first_slot = self.get(index, "getFirstAvailableBlock", json!([]));
        let shard = Accounts::of(&PROGRAM).nullifier_shard.to_string();
        let shard = self.get(index, "getAccountInfo", json!([shard, { "encoding": "base64" }]));
        let spent = answer::account(&shard)
            .and_then(|(slot, data)| Some((slot, shield::is_spent(&data, &[4; 32])?)));
        Testimony {
            node: format!("node {index}"),
            final_height: final_height.as_u64().unwrap(),
            final_slot: final_slot.as_u64().unwrap(),
            status_slot: statuses.slot,
            status: statuses.each[0].clone(),
            first_slot: first_slot.as_u64().unwrap(),
            spent,
        }
    }

    fn verdict(&mut self) -> Verdict {
        let nodes = 0..self.faults.len();
        let said: Vec<Testimony> = nodes.map(|index| self.testimony(index)).collect();
        judge(&self.signed, &said, self.faults.len() / 2 + 1)
    }
}

fn is_adrift(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Adrift { .. })
}

#[test]
fn it_has_landed_when_a_quorum_says_so_of_the_same_final_block() {
    let mut world = World::new(&[HONEST; 3]);
    assert!(is_adrift(&world.verdict()));
    world.land();
    for _ in 0..32 {
        let verdict = world.verdict();
        assert!(
            matches!(&verdict, Verdict::Adrift { sightings, .. } if *sightings == [41; 3]),
            "{verdict:?}"
        );
        world.blocks(1);
    }
    assert_eq!(world.verdict(), Verdict::Landed { slot: 41, error: Value::Null });
}

/// In the last block in which it may be, one past `lastValidBlockHeight`.
#[test]
fn what_lands_at_the_last_moment_is_never_called_dead() {
    let mut world = World::new(&[HONEST; 3]);
    world.blocks(150);
    world.land();
    assert_eq!(world.chain.height(), world.signed.last_valid_height + 1);
    for _ in 0..200 {
        match world.verdict() {
            Verdict::Adrift { .. } => world.blocks(1),
            landed => {
                assert_eq!(landed, Verdict::Landed { slot: 191, error: Value::Null });
                return;
            }
        }
    }
    panic!("it never became final");
}

#[test]
fn what_was_never_seen_sinks_once_a_final_block_is_past_its_expiry() {
    let mut world = World::new(&[HONEST; 3]);
    world.blocks(150 + 32);
    assert!(is_adrift(&world.verdict()), "the final block is the last that may have it");
    world.blocks(1);
    let Verdict::Sunk { evidence } = world.verdict() else { panic!("dead") };
    assert_eq!(evidence["witnesses"].as_array().map(Vec::len), Some(3));
    assert_eq!(evidence["last_valid_height"], 190);
}

#[test]
fn a_null_of_nodes_that_lag_or_prune_sinks_nothing() {
    for fault in [LAGGING, PRUNED] {
        let mut world = World::new(&[HONEST, fault, fault]);
        world.blocks(150 + 33);
        let verdict = world.verdict();
        assert!(is_adrift(&verdict), "{verdict:?}");
        let mut world = World::new(&[HONEST, HONEST, fault]);
        world.blocks(150 + 33);
        assert!(matches!(world.verdict(), Verdict::Sunk { .. }), "two others know");
    }
}

/// The liar says that a landed one is unknown, that it is far ahead, and that nothing is spent.
#[test]
fn one_liar_of_three_decides_nothing() {
    let mut world = World::new(&[LYING, HONEST, HONEST]);
    let verdict = world.verdict();
    assert!(is_adrift(&verdict), "seen by the liar alone: {verdict:?}");
    world.land();
    assert!(is_adrift(&world.verdict()));
    world.blocks(32);
    assert_eq!(world.verdict(), Verdict::Landed { slot: 41, error: Value::Null });
    world.blocks(300);
    assert_eq!(world.verdict(), Verdict::Landed { slot: 41, error: Value::Null });
}

#[test]
fn one_sighting_vetoes_a_death() {
    let mut world = World::new(&[HONEST, HONEST, HONEST]);
    world.blocks(150 + 33);
    let mut said: Vec<Testimony> = (0..3).map(|index| world.testimony(index)).collect();
    assert!(matches!(judge(&world.signed, &said, 2), Verdict::Sunk { .. }));
    said[2].status = Some(Status { slot: 50, surety: Surety::Processed, error: Value::Null });
    let verdict = judge(&world.signed, &said, 2);
    assert!(matches!(&verdict, Verdict::Adrift { sightings, .. } if *sightings == [50]));
}

/// As a balancer would: each question goes to another machine.
#[test]
fn answers_from_behind_the_final_block_prove_nothing() {
    let mut world = World::new(&[HONEST; 3]);
    world.blocks(150 + 33);
    let said: Vec<Testimony> = (0..3).map(|index| world.testimony(index)).collect();
    let spoilt = |change: &dyn Fn(&mut Testimony)| {
        let mut said = said.clone();
        said[..2].iter_mut().for_each(change);
        is_adrift(&judge(&world.signed, &said, 2))
    };
    assert!(spoilt(&|one| one.status_slot = one.final_slot - 1));
    assert!(spoilt(&|one| one.spent = Some((one.final_slot - 1, false))));
    assert!(spoilt(&|one| one.spent = None));
    assert!(spoilt(&|one| one.first_slot = world.signed.base_slot + 1));
    assert!(spoilt(&|one| one.final_height = world.signed.last_valid_height));
    assert!(!spoilt(&|_| {}));
}

#[test]
fn a_nullifier_that_another_transaction_has_spent_sinks_nothing_by_itself() {
    let mut world = World::new(&[HONEST; 3]);
    world.blocks(150 + 33);
    let mut said: Vec<Testimony> = (0..3).map(|index| world.testimony(index)).collect();
    said.iter_mut().for_each(|one| one.spent = Some((one.final_slot, true)));
    assert!(matches!(judge(&world.signed, &said, 2), Verdict::Spent { .. }));
    said[0].spent = Some((said[0].final_slot, false));
    said[1].spent = None;
    assert!(is_adrift(&judge(&world.signed, &said, 2)), "nobody has a quorum");
}

#[test]
fn outcomes_that_differ_are_no_outcome() {
    let mut world = World::new(&[HONEST; 3]);
    world.land();
    world.blocks(32);
    let said: Vec<Testimony> = (0..3).map(|index| world.testimony(index)).collect();
    let mut other = said.clone();
    other[0].status.as_mut().unwrap().error = json!("AccountInUse");
    other[1].status.as_mut().unwrap().slot = 42;
    assert!(is_adrift(&judge(&world.signed, &other, 2)));
    let mut early = said;
    early[..2].iter_mut().for_each(|one| one.status.as_mut().unwrap().surety = Surety::Confirmed);
    assert!(is_adrift(&judge(&world.signed, &early, 2)), "confirmed is not final");
}
