use std::num::NonZeroU64;

use landfall_ledger::{AccountId, Refusal};

use super::*;

const ACCOUNT: AccountId = AccountId { user_id: 4001, asset_id: 1 };
const ID: ReqId = ReqId(7);

fn terms(amount: u64) -> Terms {
    Terms { account: ACCOUNT, amount: NonZeroU64::new(amount).expect("not zero") }
}

/// A freezing and a direct service that write their lines down well, and one transfer of 30.
struct World(Facts);

impl World {
    fn new(end: Option<End>) -> World {
        let records = |name: &str, kind| Records {
            name: name.to_owned(),
            kind,
            deposits_until: 0,
            until: 0,
            lines: Vec::new(),
            balances: Vec::new(),
        };
        let asked = Asked {
            source: "funding".to_owned(),
            target: "trading".to_owned(),
            terms: terms(30),
            end,
        };
        let services = vec![records("funding", Kind::Freeze), records("trading", Kind::Direct)];
        let world = World(Facts { transfers: BTreeMap::from([(ID, asked)]), services });
        world.line("funding", Key::Reference("opening".into()), Verb::Fund, 100, Outcome::Done)
    }

    /// The other way round: from the direct service to the freezing one.
    fn reversed(end: Option<End>) -> World {
        let mut world = World::new(end);
        let asked = world.0.transfers.get_mut(&ID).expect("the transfer");
        std::mem::swap(&mut asked.source, &mut asked.target);
        world.line("trading", Key::Reference("opening".into()), Verb::Fund, 100, Outcome::Done)
    }

    fn records(&mut self, name: &str) -> &mut Records {
        let found = self.0.services.iter_mut().find(|records| records.name == name);
        found.expect("a service of that name")
    }

    fn line(mut self, name: &str, key: Key, verb: Verb, amount: u64, outcome: Outcome) -> World {
        let records = self.records(name);
        let last = records.balances.first().copied();
        let (mut free, mut held) = last.map_or((0, 0), |last| (last.available, last.frozen));
        if outcome == Outcome::Done {
            let freezes = records.kind == Kind::Freeze;
            match verb {
                Verb::Fund | Verb::Deposit => free += amount,
                Verb::Withdraw => free -= amount,
                Verb::Commit => {}
                Verb::Rollback => free += amount,
            }
            match verb {
                Verb::Withdraw if freezes => held += amount,
                Verb::Commit | Verb::Rollback if freezes => held -= amount,
                _ => {}
            }
        }
        let seq = records.until + 1;
        (records.until, records.deposits_until) = (seq, seq);
        let terms = terms(amount);
        let (at_ms, available, frozen) = (0, free, held);
        records.lines.push(Entry { seq, key, verb, terms, outcome, at_ms, available, frozen });
        let (account, blocked) = (ACCOUNT, false);
        records.balances = vec![Balance { number: 1, account, available, frozen, blocked, seq }];
        self
    }

    fn did(self, name: &str, verb: Verb) -> World {
        self.did_of(name, verb, ID, 30)
    }

    fn did_of(self, name: &str, verb: Verb, req_id: ReqId, amount: u64) -> World {
        self.line(name, Key::Request(req_id), verb, amount, Outcome::Done)
    }

    fn refused(self, name: &str, verb: Verb) -> World {
        let refusal = Outcome::Refused(Refusal::INSUFFICIENT_FUNDS);
        self.line(name, Key::Request(ID), verb, 30, refusal)
    }

    /// The kinds of differences that are found, in order.
    fn check(self, kinds: &[&str]) {
        let verdict = compare(&self.0);
        let found: Vec<&str> = verdict.differences.iter().map(|one| one.kind).collect();
        assert_eq!(found, kinds, "{:#?}", verdict.differences);
    }
}

#[test]
fn every_way_a_transfer_may_end_is_clean() {
    let committed = World::new(Some(End::Committed));
    let committed = committed.did("funding", Verb::Withdraw).did("trading", Verb::Deposit);
    committed.did("funding", Verb::Commit).check(&[]);
    let back = World::reversed(Some(End::Committed));
    back.did("trading", Verb::Withdraw).did("funding", Verb::Deposit).check(&[]);
    World::new(Some(End::Failed)).refused("funding", Verb::Withdraw).check(&[]);
    World::new(Some(End::Failed)).check(&[]);
    let refused = World::new(Some(End::RolledBack)).did("funding", Verb::Withdraw);
    refused.refused("trading", Verb::Deposit).did("funding", Verb::Rollback).check(&[]);
}

#[test]
fn what_is_under_way_is_clean_at_every_step_and_counted() {
    World::new(None).check(&[]);
    let withdrawn = World::new(None).did("funding", Verb::Withdraw);
    assert_eq!(compare(&withdrawn.0).in_flight, 1);
    withdrawn.did("trading", Verb::Deposit).check(&[]);
    let refused = World::new(None).did("funding", Verb::Withdraw);
    refused.refused("trading", Verb::Deposit).did("funding", Verb::Rollback).check(&[]);
}

#[test]
fn a_deposit_after_the_cut_is_not_held_against_a_withdrawal_in_it() {
    let mut world = World::new(None).did("funding", Verb::Withdraw).did("trading", Verb::Deposit);
    // The commit is in the cut already, the deposit before it is not: heads are not read at once.
    world.records("trading").deposits_until = 0;
    let world = world.did("funding", Verb::Commit);
    assert_eq!(compare(&world.0).in_flight, 1);
    world.check(&[]);
}

#[test]
fn a_deposit_without_its_withdrawal_is_money_created() {
    World::new(None).did("trading", Verb::Deposit).check(&["created"]);
    let refused = World::new(None).refused("funding", Verb::Withdraw);
    refused.did("trading", Verb::Deposit).check(&["created"]);
}

#[test]
fn a_deposit_that_was_also_rolled_back_is_money_created() {
    let world = World::new(Some(End::RolledBack)).did("funding", Verb::Withdraw);
    let world = world.did("trading", Verb::Deposit).did("funding", Verb::Rollback);
    world.check(&["created", "rolled_back_but_deposited"]);
}

#[test]
fn a_final_transfer_whose_funds_rest_nowhere_is_a_loss() {
    let world = |end| World::new(Some(end)).did("funding", Verb::Withdraw);
    world(End::Committed).did("funding", Verb::Commit).check(&["lost", "never_deposited"]);
    world(End::RolledBack).check(&["lost", "not_restored"]);
    world(End::Failed).check(&["lost", "failed_but_withdrawn"]);
}

#[test]
fn a_committed_transfer_that_is_half_done_is_found() {
    let world = World::new(Some(End::Committed)).did("funding", Verb::Withdraw);
    world.did("trading", Verb::Deposit).check(&["not_committed"]);
    World::new(Some(End::Committed)).check(&["never_deposited"]);
    World::new(Some(End::RolledBack)).check(&["not_restored"]);
}

#[test]
fn what_is_done_at_two_services_is_done_twice() {
    let mut world = World::new(None).did("funding", Verb::Withdraw).did("trading", Verb::Deposit);
    let mut other = world.records("trading").clone();
    other.name = "savings".to_owned();
    world.0.services.push(other);
    world.check(&["moved_otherwise", "done_twice", "created"]);
}

#[test]
fn the_same_operation_twice_in_one_statement_does_not_add_up() {
    let world = World::new(None).did("funding", Verb::Withdraw).did("trading", Verb::Deposit);
    world.did("trading", Verb::Deposit).check(&["does_not_add_up", "done_twice", "created"]);
}

#[test]
fn another_amount_or_user_than_was_asked_for_is_found() {
    let world = World::new(None).did("funding", Verb::Withdraw);
    let less = world.did_of("trading", Verb::Deposit, ID, 29);
    less.check(&["moved_otherwise", "wrong_amount"]);
    let mut world = World::new(None).did("funding", Verb::Withdraw);
    world.0.transfers.get_mut(&ID).expect("it").terms.account.user_id = 1;
    world.check(&["moved_otherwise"]);
}

#[test]
fn a_request_that_no_transfer_asked_for_is_reported_refused_ones_too() {
    let foreign = ReqId(8);
    World::new(None).did_of("funding", Verb::Withdraw, foreign, 5).check(&["foreign_request"]);
    let refused = Outcome::Refused(Refusal::UNKNOWN_ACCOUNT);
    let key = Key::Request(foreign);
    let world = World::new(None).line("trading", key, Verb::Withdraw, 5, refused);
    world.check(&["foreign_request"]);
}

#[test]
fn balances_that_changed_without_a_line_are_found() {
    let mut world = World::new(None);
    world.records("funding").balances[0].available += 1;
    world.check(&["balance"]);
    let mut world = World::new(None);
    world.records("funding").balances.clear();
    world.check(&["balance"]);
    let mut world = World::new(None).did("funding", Verb::Withdraw);
    world.records("funding").lines[1].available += 1;
    world.check(&["does_not_add_up"]);
    let mut world = World::new(None);
    world.records("funding").until = 2;
    world.check(&["does_not_add_up"]);
}

#[test]
fn a_balance_that_changed_after_the_cut_is_not_compared() {
    let mut world = World::new(None);
    let balance = &mut world.records("funding").balances[0];
    (balance.available, balance.seq) = (1, 9);
    world.check(&[]);
}

#[test]
fn a_transfer_at_a_service_that_was_not_read_is_unproven() {
    let mut world = World::new(Some(End::Committed));
    world.0.services.pop();
    let verdict = compare(&world.0);
    assert_eq!((verdict.unproven, verdict.differences.len()), (1, 0));
}
