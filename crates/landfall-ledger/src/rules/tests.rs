use std::num::NonZeroU64;

use super::*;
use crate::words::ReqId;

const ACCOUNT: AccountId = AccountId { user_id: 4001, asset_id: 1 };
const ID: ReqId = ReqId(7);

fn terms(amount: u64) -> Terms {
    Terms { account: ACCOUNT, amount: NonZeroU64::new(amount).expect("an amount") }
}

fn operation(verb: Verb, amount: u64) -> Operation {
    match verb {
        Verb::Fund => Operation::Fund { reference: "set-up".into(), terms: terms(amount) },
        Verb::Withdraw => Operation::Withdraw { req_id: ID, terms: terms(amount) },
        Verb::Deposit => Operation::Deposit { req_id: ID, terms: terms(amount), declined: false },
        Verb::Commit => Operation::Commit { req_id: ID },
        Verb::Rollback => Operation::Rollback { req_id: ID },
    }
}

fn past(verb: Verb, outcome: Outcome) -> Past {
    Past { verb, terms: terms(10), outcome }
}

/// The history in which these were done.
fn done(verbs: &[Verb]) -> History {
    History(verbs.iter().map(|verb| past(*verb, Outcome::Done)).collect())
}

fn held(available: u64, frozen: u64, reserved: u64) -> Option<Account> {
    Some(Account { available, frozen, reserved, blocked: false })
}

fn blocked(account: Option<Account>) -> Option<Account> {
    account.map(|account| Account { blocked: true, ..account })
}

fn check(
    kind: Kind,
    before: Option<Account>,
    history: &[Verb],
    asked: &Operation,
    after: Option<Account>,
    outcome: Outcome,
) {
    let decision = decide(kind, before, &done(history), asked);
    let expected = Decision::New { account: after, terms: terms(10), outcome };
    assert_eq!(decision, Ok(expected), "{kind:?} {before:?} {history:?} {asked:?}");
}

#[test]
fn every_operation_changes_the_account_as_the_table_says() {
    use {Kind as K, Verb as V};
    let w = [V::Withdraw];
    let table = [
        (K::Freeze, V::Fund, None, &[][..], held(10, 0, 0)),
        (K::Freeze, V::Fund, held(5, 1, 0), &[], held(15, 1, 0)),
        (K::Freeze, V::Withdraw, held(15, 1, 0), &[], held(5, 11, 0)),
        (K::Freeze, V::Withdraw, held(10, 0, 0), &[], held(0, 10, 0)),
        (K::Freeze, V::Commit, held(5, 11, 0), &w, held(5, 1, 0)),
        (K::Freeze, V::Rollback, held(5, 11, 0), &w, held(15, 1, 0)),
        (K::Freeze, V::Deposit, None, &[], held(10, 0, 0)),
        (K::Freeze, V::Deposit, held(5, 1, 0), &w, held(15, 1, 0)),
        (K::Direct, V::Fund, None, &[], held(10, 0, 0)),
        (K::Direct, V::Fund, held(5, 0, 1), &[], held(15, 0, 1)),
        (K::Direct, V::Withdraw, held(15, 0, 1), &[], held(5, 0, 11)),
        (K::Direct, V::Withdraw, held(10, 0, 0), &[], held(0, 0, 10)),
        (K::Direct, V::Commit, held(5, 0, 11), &w, held(5, 0, 1)),
        (K::Direct, V::Rollback, held(5, 0, 11), &w, held(15, 0, 1)),
        (K::Direct, V::Deposit, None, &[], held(10, 0, 0)),
        (K::Direct, V::Deposit, held(5, 0, 1), &w, held(15, 0, 1)),
    ];
    for (kind, verb, before, history, after) in table {
        check(kind, before, history, &operation(verb, 10), after, Outcome::Done);
    }
}

#[test]
fn refusals_leave_the_account_as_it_was() {
    use Verb as V;
    let full = held(u64::MAX - 9, 0, 0);
    let (c, r) = ([V::Withdraw, V::Commit], [V::Withdraw, V::Rollback]);
    let table = [
        (V::Fund, full, &[][..], Refusal::TOO_MUCH),
        (V::Withdraw, None, &[], Refusal::UNKNOWN_ACCOUNT),
        (V::Withdraw, held(9, 100, 0), &[], Refusal::INSUFFICIENT_FUNDS),
        (V::Withdraw, held(9, 0, 100), &[], Refusal::INSUFFICIENT_FUNDS),
        (V::Withdraw, blocked(held(50, 0, 0)), &[], Refusal::ACCOUNT_FROZEN),
        (V::Deposit, full, &[], Refusal::TOO_MUCH),
        (V::Deposit, blocked(held(50, 0, 0)), &[], Refusal::ACCOUNT_FROZEN),
        (V::Commit, held(50, 0, 0), &r, Refusal::ROLLED_BACK),
        (V::Rollback, held(50, 0, 0), &c, Refusal::COMMITTED),
    ];
    for kind in [Kind::Freeze, Kind::Direct] {
        for (verb, account, history, refusal) in table.clone() {
            let asked = operation(verb, 10);
            check(kind, account, history, &asked, account, Outcome::Refused(refusal));
        }
    }
}

#[test]
fn a_declined_deposit_opens_no_account() {
    let asked = Operation::Deposit { req_id: ID, terms: terms(10), declined: true };
    check(Kind::Direct, None, &[], &asked, None, Outcome::Refused(Refusal::DECLINED));
}

#[test]
fn a_withdrawal_that_was_refused_can_be_neither_committed_nor_rolled_back() {
    let history = History(vec![past(Verb::Withdraw, Outcome::Refused(Refusal::UNKNOWN_ACCOUNT))]);
    for verb in [Verb::Commit, Verb::Rollback] {
        let decision = decide(Kind::Freeze, None, &history, &operation(verb, 1));
        let outcome = Outcome::Refused(Refusal::NOT_WITHDRAWN);
        assert_eq!(decision, Ok(Decision::New { account: None, terms: terms(10), outcome }));
    }
}

#[test]
fn a_withdrawal_not_seen_yet_is_not_decided_about() {
    for verb in [Verb::Commit, Verb::Rollback] {
        for history in [done(&[]), done(&[Verb::Deposit])] {
            let decision = decide(Kind::Direct, None, &history, &operation(verb, 1));
            assert_eq!(decision, Ok(Decision::NotYet));
        }
    }
}

#[test]
fn what_is_on_record_is_said_again_whatever_the_account_holds_now() {
    let refused = Outcome::Refused(Refusal::INSUFFICIENT_FUNDS);
    for verb in Verb::ALL {
        for outcome in [Outcome::Done, refused.clone()] {
            for account in [None, held(1_000, 1_000, 0), blocked(held(0, 0, 0))] {
                let history = History(vec![past(verb, outcome.clone())]);
                let decision = decide(Kind::Freeze, account, &history, &operation(verb, 10));
                assert_eq!(decision, Ok(Decision::Known(outcome.clone())));
            }
        }
    }
}

#[test]
fn the_same_key_with_another_amount_user_or_asset_is_a_conflict() {
    let others = [
        Terms { account: AccountId { user_id: 1, ..ACCOUNT }, ..terms(10) },
        Terms { account: AccountId { asset_id: 2, ..ACCOUNT }, ..terms(10) },
        terms(11),
    ];
    for other in others {
        for verb in [Verb::Fund, Verb::Withdraw, Verb::Deposit] {
            let asked = match verb {
                Verb::Fund => Operation::Fund { reference: "set-up".into(), terms: other },
                Verb::Withdraw => Operation::Withdraw { req_id: ID, terms: other },
                _ => Operation::Deposit { req_id: ID, terms: other, declined: false },
            };
            let history = History(vec![past(verb, Outcome::Done)]);
            let decision = decide(Kind::Freeze, held(100, 100, 0), &history, &asked);
            assert_eq!(decision, Ok(Decision::Conflict));
        }
    }
}

#[test]
fn a_blocked_account_finishes_and_undoes_what_was_withdrawn_and_takes_money_from_outside() {
    for (verb, after) in [(Verb::Commit, held(5, 0, 0)), (Verb::Rollback, held(15, 0, 0))] {
        let before = blocked(held(5, 10, 0));
        let asked = operation(verb, 10);
        check(Kind::Freeze, before, &[Verb::Withdraw], &asked, blocked(after), Outcome::Done);
    }
    let (before, after) = (blocked(held(0, 0, 0)), blocked(held(10, 0, 0)));
    check(Kind::Freeze, before, &[], &operation(Verb::Fund, 10), after, Outcome::Done);
}

#[test]
fn no_deposit_takes_the_room_that_a_rollback_needs() {
    for (kind, before) in
        [(Kind::Freeze, held(u64::MAX - 15, 10, 0)), (Kind::Direct, held(u64::MAX - 15, 0, 10))]
    {
        let refused = Outcome::Refused(Refusal::TOO_MUCH);
        check(kind, before, &[], &operation(Verb::Deposit, 10), before, refused);
        let after = held(u64::MAX - 5, 0, 0);
        let asked = operation(Verb::Rollback, 10);
        check(kind, before, &[Verb::Withdraw], &asked, after, Outcome::Done);
    }
}

#[test]
fn a_commit_of_more_than_is_frozen_is_a_contradiction() {
    for account in [None, held(100, 9, 0)] {
        let decision =
            decide(Kind::Freeze, account, &done(&[Verb::Withdraw]), &operation(Verb::Commit, 10));
        assert_eq!(decision, Err(Contradiction));
    }
}

#[test]
fn a_commit_and_a_rollback_after_each_other_are_refused_in_either_order() {
    let table = [(Verb::Commit, Verb::Rollback), (Verb::Rollback, Verb::Commit)];
    for (first, second) in table {
        for kind in [Kind::Freeze, Kind::Direct] {
            let history = done(&[Verb::Withdraw, first]);
            let decision = decide(kind, held(0, 0, 0), &history, &operation(second, 1));
            let Ok(Decision::New { account, outcome: Outcome::Refused(_), .. }) = decision else {
                panic!("{first} then {second}: {decision:?}");
            };
            assert_eq!(account, held(0, 0, 0));
        }
    }
}

#[test]
fn a_refused_rollback_does_not_forbid_the_commit() {
    let mut history = done(&[Verb::Withdraw]);
    history.0.push(past(Verb::Rollback, Outcome::Refused(Refusal::DECLINED)));
    let decision = decide(Kind::Freeze, held(0, 10, 0), &history, &operation(Verb::Commit, 1));
    let outcome = Outcome::Done;
    assert_eq!(decision, Ok(Decision::New { account: held(0, 0, 0), terms: terms(10), outcome }));
}
