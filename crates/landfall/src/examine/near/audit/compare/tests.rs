use landfall_core::near;
use landfall_core::{
    AttemptId, BaseBlock, Certificate, CertificateKind, Epoch, Landing, Nonce, Outcome, RailName,
};
use serde_json::Value;

use super::*;

const COMPLETED: State = State::Near(near::State::Completed);
const FAILED: State = State::Near(near::State::Failed);
const WAITING: State = State::Near(near::State::QueuedVerification);

/// A store and a ledger, one transfer `t1` that asks for 10 to alice.
struct World(Facts);

impl World {
    fn new(state: State) -> World {
        let ledger = Ledger {
            network: "simnet".into(),
            account: "relay.near".into(),
            token: "token.near".into(),
        };
        let transfer =
            TransferFact { key: "t1".into(), state, receiver: "alice.near".into(), amount: 10 };
        let transfers = BTreeMap::from([(TransferId(1), transfer)]);
        World(Facts { ledger, transfers, attempts: Vec::new(), walk: Walk::default() })
    }

    fn attempt(mut self, fate: Option<Fate>, seen: Seen) -> World {
        let number = self.0.attempts.len() as u64 + 1;
        let attempt = Attempt {
            id: AttemptId(number),
            rail: RailName::Near,
            lane: LaneId::new("near:simnet:relay.near:ed25519:key"),
            epoch: Epoch(1),
            nonce: Nonce(number),
            purpose: Purpose::Pay,
            hash: format!("hash{number}"),
            bytes: Vec::new(),
            seq: 1,
            base: Some(BaseBlock { hash: "b".into(), height: 1 }),
            expires_height: Some(100),
            variants: Vec::new(),
            members: vec![TransferId(1)],
            opened_ms: 0,
            sightings: Vec::new(),
            fate,
            decided_ms: None,
        };
        self.0.attempts.push(AttemptFact { attempt, seen });
        self
    }

    fn found(mut self, hash: &str, receiver: &str, key: &str) -> World {
        self.0.walk.found.push(Found {
            hash: hash.into(),
            public_key: key.into(),
            receiver: receiver.into(),
            height: 5,
        });
        self
    }

    fn check(&self, kinds: &[&str], duplicates: u64, losses: u64) {
        let verdict = compare(&self.0);
        let found: Vec<&str> = verdict.differences.iter().map(|one| one.kind).collect();
        assert_eq!(found, kinds, "{:#?}", verdict.differences);
        assert_eq!((verdict.duplicates, verdict.losses), (duplicates, losses));
    }
}

fn landed(outcome: Outcome) -> Option<Fate> {
    Some(Fate::Landed(Landing {
        hash: None,
        block_height: 5,
        block_hash: "b5".into(),
        outcomes: vec![outcome],
    }))
}

fn sunk() -> Option<Fate> {
    Some(Fate::Sunk(Certificate {
        kind: CertificateKind::NoncePassed,
        summary: String::new(),
        evidence: Value::Null,
    }))
}

fn paid() -> Seen {
    Seen::Done(vec![("alice.near".into(), 10)])
}

#[test]
fn a_transfer_paid_once_is_as_it_should_be() {
    World::new(COMPLETED)
        .attempt(sunk(), Seen::Unknown)
        .attempt(landed(Outcome::Sibling), Seen::Reverted)
        .attempt(landed(Outcome::Done), paid())
        .found("hash3", "token.near", "ed25519:key")
        .check(&[], 0, 0);
}

#[test]
fn a_transfer_that_is_still_being_paid_is_no_difference() {
    World::new(WAITING).attempt(None, Seen::Unsettled).check(&[], 0, 0);
    World::new(WAITING).attempt(None, paid()).check(&[], 0, 0);
}

#[test]
fn a_second_payment_is_found_whoever_made_it() {
    World::new(COMPLETED)
        .attempt(landed(Outcome::Done), paid())
        .attempt(landed(Outcome::Done), paid())
        .check(&["paid_twice"], 1, 0);
    World::new(COMPLETED).attempt(sunk(), paid()).attempt(landed(Outcome::Done), paid()).check(
        &["sunk_but_there", "paid_twice"],
        1,
        0,
    );
}

#[test]
fn what_one_node_tells_of_a_sunk_attempt_is_weighed_against_the_blocks() {
    let told = || World::new(WAITING).attempt(sunk(), Seen::Unsettled);
    let mut world = told();
    world.0.walk.blocks = 9;
    world.check(&[], 0, 0);
    world.0.walk.gone_below = Some(2);
    world.check(&["sunk_but_there"], 0, 0);
    let mut world = told().found("hash1", "token.near", "ed25519:key");
    world.0.walk.blocks = 9;
    world.check(&["sunk_but_there"], 0, 0);
    told().check(&["sunk_but_there"], 0, 0);
}

#[test]
fn a_completed_transfer_without_a_payment_is_a_loss() {
    World::new(COMPLETED).check(&["never_paid"], 0, 1);
    World::new(COMPLETED).attempt(landed(Outcome::Done), Seen::Unknown).check(
        &["landed_otherwise", "never_paid"],
        0,
        1,
    );
}

#[test]
fn a_failed_transfer_that_was_paid_is_found() {
    World::new(FAILED).attempt(sunk(), Seen::Unknown).check(&[], 0, 0);
    World::new(FAILED).attempt(landed(Outcome::Sibling), paid()).check(
        &["landed_otherwise", "failed_but_paid"],
        1,
        0,
    );
}

#[test]
fn a_payment_of_another_amount_is_found() {
    World::new(COMPLETED)
        .attempt(landed(Outcome::Done), Seen::Done(vec![("alice.near".into(), 11)]))
        .check(&["paid_otherwise"], 1, 0);
}

#[test]
fn a_transaction_that_no_attempt_explains_is_found() {
    let world = World::new(COMPLETED).attempt(landed(Outcome::Done), paid());
    world.found("stranger", "token.near", "ed25519:other").check(&["unknown_transaction"], 1, 0);
    let world = World::new(COMPLETED).attempt(landed(Outcome::Done), paid());
    world.found("stranger", "else.near", "ed25519:key").check(&["unknown_transaction"], 0, 0);
}

#[test]
fn what_the_account_does_with_other_keys_elsewhere_is_its_own_business() {
    let world = World::new(COMPLETED).attempt(landed(Outcome::Done), paid());
    world.found("stranger", "else.near", "ed25519:other").check(&[], 0, 0);
}

#[test]
fn a_history_that_is_gone_proves_nothing_and_accuses_nobody() {
    let mut world = World::new(COMPLETED).attempt(landed(Outcome::Done), Seen::Unknown);
    world.0.walk.gone_below = Some(6);
    world.check(&[], 0, 0);
    assert_eq!(compare(&world.0).unproven, 1);
}
