//! The law, case by case.

use landfall_core::{AttemptId, BaseBlock, Epoch, LaneId, Nonce, Purpose, RailName};

use super::*;

fn attempt() -> Attempt {
    Attempt {
        id: AttemptId(1),
        rail: RailName::Near,
        lane: LaneId::new("near:n:a:k"),
        epoch: Epoch(1),
        nonce: Nonce(5),
        purpose: Purpose::Pay,
        hash: "H".into(),
        bytes: Vec::new(),
        seq: 1,
        base: Some(BaseBlock { hash: "B".into(), height: 100 }),
        expires_height: Some(200),
        variants: Vec::new(),
        members: Vec::new(),
        opened_ms: 0,
        sightings: Vec::new(),
        fate: None,
        decided_ms: None,
    }
}

fn later(nonce: u64, landed_height: Option<u64>) -> Later {
    Later { nonce: Nonce(nonce), hash: format!("H{nonce}"), landed_height }
}

fn witness(final_height: u64, nonce: Option<u64>, before: Option<u64>) -> Witness {
    Witness {
        endpoint: "http://a".into(),
        number: 0,
        final_height,
        expires_height: 200,
        nonce,
        nonce_before: before,
        sight: Testimony::Unknown,
    }
}

fn check(later: &[Later], witnesses: &[Witness], expected: &str) {
    let text = match judge(&attempt(), later, witnesses, 2) {
        Judgement::Adrift(_) => "adrift".to_owned(),
        Judgement::Sunk(CertificateKind::NoncePassed) => "passed".to_owned(),
        Judgement::Sunk(kind) => format!("{kind:?}").to_lowercase(),
        Judgement::Unexplained(nonce) => format!("unexplained {nonce}"),
    };
    assert_eq!(text, expected, "{witnesses:?}");
}

#[test]
fn a_nonce_passed_by_ours_sinks_it_by_a_quorum() {
    let ours = [later(6, Some(150))];
    let good = witness(160, Some(6), Some(4));
    check(&ours, &[good.clone(), good.clone()], "passed");
    check(&ours, std::slice::from_ref(&good), "adrift");
    check(&ours, &[], "adrift");
    check(&ours, &[good.clone(), witness(149, Some(4), None)], "adrift");
    let invalid = Witness { sight: Testimony::Invalid("InvalidNonce".into()), ..good.clone() };
    check(&ours, &[good, invalid], "passed");
}

#[test]
fn a_transaction_level_failure_before_the_nonce_is_passed_is_adrift() {
    let invalid = Testimony::Invalid("NotEnoughBalance".into());
    let early = Witness { sight: invalid, ..witness(160, Some(4), None) };
    check(&[], &[early.clone(), early], "adrift");
}

#[test]
fn an_expired_block_hash_sinks_it_by_a_quorum() {
    let past = witness(201, Some(4), None);
    check(&[], &[past.clone(), past.clone()], "expired");
    check(&[], &[past.clone(), witness(200, Some(4), None)], "adrift");
    let keyless = witness(201, None, None);
    check(&[], &[past.clone(), keyless], "expired");
    let knows_better = Witness { expires_height: 300, ..past.clone() };
    check(&[], &[past, knows_better], "adrift");
}

#[test]
fn a_nonce_that_nobody_of_ours_used_is_unexplained() {
    let exactly = witness(160, Some(5), None);
    check(&[], &[exactly.clone(), exactly], "unexplained 5");
    let above = witness(160, Some(9), None);
    check(&[], &[above.clone(), above], "unexplained 9");
    // Ours landed later, but the nonce was already gone before its block.
    let before = witness(160, Some(7), Some(5));
    check(&[later(7, Some(150))], &[before.clone(), before], "unexplained 5");
    // Even after the expiry: somebody else has the key.
    let late = witness(999, Some(5), None);
    check(&[], &[late.clone(), late], "unexplained 5");
}

/// One node's word may neither halt the lanes nor hide that they must be.
#[test]
fn a_use_that_one_node_alone_names_is_no_use() {
    let (five, nine) = (witness(160, Some(5), None), witness(160, Some(9), None));
    check(&[], &[five.clone(), nine.clone()], "adrift");
    check(&[], &[five.clone(), nine.clone(), nine], "unexplained 9");
    check(&[], &[five, witness(160, Some(4), None)], "adrift");
    let before = |nonce| witness(160, Some(7), Some(nonce));
    check(&[later(7, Some(150))], &[before(5), before(6)], "adrift");
    check(&[later(7, Some(150))], &[before(5), before(6), before(6)], "unexplained 6");
}

/// A node shows one outcome of a hash: who is shown as invalid may have used its nonce itself.
#[test]
fn what_is_shown_as_invalid_may_have_used_its_nonce_in_another_block() {
    let sight = Testimony::Invalid("NotEnoughBalance".into());
    let itself = Witness { sight, ..witness(160, Some(5), None) };
    check(&[], &[itself.clone(), itself.clone()], "adrift");
    let before = Witness { nonce: Some(7), nonce_before: Some(5), ..itself };
    check(&[later(7, Some(150))], &[before.clone(), before], "adrift");
}

#[test]
fn a_nonce_below_ours_at_the_block_that_decides_shows_that_it_never_ran() {
    let shows = |one: Witness| one.shows_it_never_ran(&attempt());
    assert!(shows(witness(160, Some(6), Some(4))), "not before the block that passed it");
    assert!(!shows(witness(160, Some(6), Some(5))));
    assert!(!shows(witness(160, Some(6), None)), "by whom it was passed is not known");
    assert!(shows(witness(201, Some(4), None)), "not before it expired");
    assert!(!shows(witness(200, Some(4), None)));
    assert!(!shows(witness(201, Some(5), None)), "its own nonce is used, perhaps by itself");
    assert!(!shows(witness(201, None, None)), "the key is gone");
}

#[test]
fn an_open_attempt_of_ours_may_be_the_explanation() {
    let passed = witness(160, Some(6), None);
    check(&[later(6, None)], &[passed.clone(), passed], "adrift");
    // 6 is open and landed before 7, which is settled: wait for 6.
    let before = witness(160, Some(7), Some(6));
    check(&[later(6, None), later(7, Some(150))], &[before.clone(), before], "adrift");
    // Beyond the newest that is stored: the lane's reconciliation decides that.
    let beyond = witness(160, Some(99), None);
    check(&[later(6, None)], &[beyond.clone(), beyond], "adrift");
}

#[test]
fn the_first_landed_of_the_later_ones_is_the_one_that_passed() {
    assert_eq!(passing(&[later(6, None)]), None);
    let some = [later(6, None), later(7, Some(20)), later(8, Some(19))];
    assert_eq!(passing(&some), Some(19));
}
