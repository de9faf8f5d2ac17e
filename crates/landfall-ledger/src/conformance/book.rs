//! One caller at a time: what is done, refused, repeated and told.

use super::{ALICE, AT_MS, BOB, World, checks, commit, deposit, fund, rollback, terms, withdraw};
use crate::book::Span;
use crate::words::{AccountId, Answer, Key, Operation, Outcome, Refusal, ReqId, Verb};

checks!(World:
    a_withdrawal_is_set_aside_and_then_committed,
    a_withdrawal_is_rolled_back,
    what_is_repeated_is_answered_the_same_and_does_not_act,
    a_refusal_stays_a_refusal_whatever_becomes_possible,
    the_same_key_with_other_parameters_is_a_conflict,
    a_commit_before_its_withdrawal_is_not_recorded,
    what_was_committed_cannot_be_rolled_back_nor_the_other_way_round,
    a_refused_withdrawal_can_be_neither_committed_nor_rolled_back,
    a_blocked_account_takes_nothing_new_but_finishes_what_was_begun,
    money_from_outside_comes_once_per_reference,
    an_account_holds_no_more_than_64_bits,
    the_largest_numbers_are_kept_exactly,
    operations_of_one_batch_see_those_before_them,
    a_declined_deposit_is_on_record,
    a_statement_is_read_in_pages_and_up_to_a_line,
    a_statement_of_one_account_has_its_lines_alone,
    accounts_are_listed_in_pages_with_their_last_change,
    nobody_is_known_before_the_first_deposit,
);

async fn a_withdrawal_is_set_aside_and_then_committed(world: World) {
    world.done(fund("a", ALICE, 100)).await;
    world.done(withdraw(1, ALICE, 30)).await;
    assert_eq!(world.held(ALICE).await, (70, world.frozen(30)));
    world.done(commit(1)).await;
    assert_eq!(world.held(ALICE).await, (70, 0));
    assert_eq!(world.adds_up().await, 3);
}

async fn a_withdrawal_is_rolled_back(world: World) {
    world.done(fund("a", ALICE, 100)).await;
    world.done(withdraw(1, ALICE, 30)).await;
    world.done(rollback(1)).await;
    assert_eq!(world.held(ALICE).await, (100, 0));
    assert_eq!(world.adds_up().await, 3);
}

async fn what_is_repeated_is_answered_the_same_and_does_not_act(world: World) {
    let operations = [
        fund("a", ALICE, 100),
        withdraw(1, ALICE, 30),
        deposit(2, BOB, 5),
        commit(1),
        withdraw(3, ALICE, 20),
        rollback(3),
        withdraw(4, BOB, 6),
    ];
    let mut first = Vec::new();
    for operation in &operations {
        first.push(world.ask(operation.clone()).await);
    }
    let lines = world.adds_up().await;
    for _ in 0..3 {
        let again = world.book.apply(operations.to_vec(), AT_MS + 1).await;
        assert_eq!(again, Ok(first.clone()));
    }
    assert_eq!(world.adds_up().await, lines);
    assert_eq!((world.held(ALICE).await, world.held(BOB).await), ((70, 0), (5, 0)));
}

async fn a_refusal_stays_a_refusal_whatever_becomes_possible(world: World) {
    let unknown = Answer::refused(Refusal::UNKNOWN_ACCOUNT);
    let poor = Answer::refused(Refusal::INSUFFICIENT_FUNDS);
    assert_eq!(world.ask(withdraw(1, ALICE, 10)).await, unknown);
    world.done(deposit(2, ALICE, 5)).await;
    assert_eq!(world.ask(withdraw(3, ALICE, 10)).await, poor);
    world.done(deposit(4, ALICE, 50)).await;
    assert_eq!(world.ask(withdraw(1, ALICE, 10)).await, unknown);
    assert_eq!(world.ask(withdraw(3, ALICE, 10)).await, poor);
    let told = world.book.query(ReqId(3), Verb::Withdraw).await;
    assert_eq!(told, Ok(Some(Outcome::Refused(Refusal::INSUFFICIENT_FUNDS))));
    assert_eq!(world.held(ALICE).await, (55, 0));
    assert_eq!(world.adds_up().await, 4);
}

async fn the_same_key_with_other_parameters_is_a_conflict(world: World) {
    world.done(fund("a", ALICE, 100)).await;
    world.done(withdraw(1, ALICE, 10)).await;
    world.done(deposit(1, ALICE, 10)).await;
    let asset = AccountId { asset_id: 2, ..ALICE };
    for other in [
        withdraw(1, ALICE, 11),
        withdraw(1, BOB, 10),
        withdraw(1, asset, 10),
        deposit(1, ALICE, 11),
        deposit(1, BOB, 10),
        fund("a", ALICE, 99),
        fund("a", BOB, 100),
    ] {
        assert_eq!(world.ask(other.clone()).await, Answer::Conflict, "{other:?}");
    }
    assert_eq!(world.held(BOB).await, (0, 0));
    assert_eq!(world.adds_up().await, 3);
}

async fn a_commit_before_its_withdrawal_is_not_recorded(world: World) {
    world.done(fund("a", ALICE, 100)).await;
    for early in [commit(1), rollback(1)] {
        assert_eq!(world.ask(early).await, Answer::NotYet);
    }
    assert_eq!(world.book.query(ReqId(1), Verb::Commit).await, Ok(None));
    assert_eq!(world.adds_up().await, 1);
    world.done(withdraw(1, ALICE, 10)).await;
    world.done(commit(1)).await;
    // A deposit of the same id is no withdrawal.
    world.done(deposit(2, ALICE, 10)).await;
    assert_eq!(world.ask(rollback(2)).await, Answer::NotYet);
}

async fn what_was_committed_cannot_be_rolled_back_nor_the_other_way_round(world: World) {
    world.done(fund("a", ALICE, 100)).await;
    for (id, first, second, refusal) in [
        (1, commit(1), rollback(1), Refusal::COMMITTED),
        (2, rollback(2), commit(2), Refusal::ROLLED_BACK),
    ] {
        world.done(withdraw(id, ALICE, 10)).await;
        world.done(first).await;
        let before = world.held(ALICE).await;
        for _ in 0..2 {
            assert_eq!(world.ask(second.clone()).await, Answer::refused(refusal.clone()));
        }
        let told = world.book.query(ReqId(id), second.verb()).await;
        assert_eq!(told, Ok(Some(Outcome::Refused(refusal))));
        assert_eq!(world.held(ALICE).await, before);
    }
    assert_eq!(world.adds_up().await, 7);
}

async fn a_refused_withdrawal_can_be_neither_committed_nor_rolled_back(world: World) {
    world.done(fund("a", ALICE, 5)).await;
    world.ask(withdraw(1, ALICE, 10)).await;
    world.ask(withdraw(2, BOB, 10)).await;
    for end in [commit(1), rollback(1), commit(2), rollback(2)] {
        assert_eq!(world.ask(end).await, Answer::refused(Refusal::NOT_WITHDRAWN));
    }
    assert_eq!(world.held(ALICE).await, (5, 0));
    assert_eq!(world.book.accounts(BOB.user_id).await, Ok(vec![]));
    assert_eq!(world.adds_up().await, 7);
}

async fn a_blocked_account_takes_nothing_new_but_finishes_what_was_begun(world: World) {
    assert_eq!(world.book.block(ALICE, true).await, Ok(false));
    world.done(fund("a", ALICE, 100)).await;
    world.done(withdraw(1, ALICE, 10)).await;
    world.done(withdraw(2, ALICE, 10)).await;
    assert_eq!(world.book.block(ALICE, true).await, Ok(true));
    for refused in [withdraw(3, ALICE, 1), deposit(4, ALICE, 1)] {
        assert_eq!(world.ask(refused).await, Answer::refused(Refusal::ACCOUNT_FROZEN));
    }
    world.done(withdraw(1, ALICE, 10)).await;
    world.done(commit(1)).await;
    world.done(rollback(2)).await;
    let accounts = world.book.accounts(ALICE.user_id).await.expect("accounts");
    assert!(accounts[0].blocked, "still blocked after it changed");
    assert_eq!(world.book.block(ALICE, false).await, Ok(true));
    world.done(deposit(5, ALICE, 1)).await;
    assert_eq!(world.ask(deposit(4, ALICE, 1)).await, Answer::refused(Refusal::ACCOUNT_FROZEN));
    assert_eq!(world.held(ALICE).await, (91, 0));
    world.adds_up().await;
}

async fn money_from_outside_comes_once_per_reference(world: World) {
    for _ in 0..3 {
        world.done(fund("a", ALICE, 100)).await;
    }
    world.done(fund("b", ALICE, 100)).await;
    assert_eq!(world.held(ALICE).await, (200, 0));
    assert_eq!(world.adds_up().await, 2);
}

async fn an_account_holds_no_more_than_64_bits(world: World) {
    world.done(fund("a", ALICE, u64::MAX)).await;
    for more in [deposit(1, ALICE, 1), fund("b", ALICE, u64::MAX)] {
        assert_eq!(world.ask(more).await, Answer::refused(Refusal::TOO_MUCH));
    }
    world.done(withdraw(2, ALICE, u64::MAX)).await;
    // Its room is kept for the rollback, which always goes through.
    assert_eq!(world.ask(deposit(3, ALICE, 1)).await, Answer::refused(Refusal::TOO_MUCH));
    world.done(rollback(2)).await;
    assert_eq!(world.held(ALICE).await, (u64::MAX, 0));
    world.done(withdraw(4, ALICE, u64::MAX)).await;
    world.done(commit(4)).await;
    world.done(deposit(5, ALICE, u64::MAX)).await;
    world.adds_up().await;
}

async fn the_largest_numbers_are_kept_exactly(world: World) {
    let far = AccountId { user_id: u64::MAX, asset_id: u32::MAX };
    let (id, amount) = (u128::MAX, u64::MAX - 1);
    world.done(fund(&"é".repeat(100), far, amount)).await;
    world.done(withdraw(id, far, amount)).await;
    assert_eq!(world.held(far).await, (0, world.frozen(amount)));
    let lines = world.book.statement(Span::after(1, 10)).await.expect("a statement").entries;
    assert_eq!(lines[0].key, Key::Request(ReqId(id)));
    assert_eq!(lines[0].terms, terms(far, amount));
    assert_eq!((lines[0].seq, lines[0].at_ms), (2, AT_MS));
    assert_eq!(world.book.query(ReqId(id), Verb::Withdraw).await, Ok(Some(Outcome::Done)));
}

async fn operations_of_one_batch_see_those_before_them(world: World) {
    let batch = vec![
        withdraw(1, ALICE, 10),
        fund("a", ALICE, 10),
        withdraw(2, ALICE, 10),
        withdraw(2, ALICE, 10),
        withdraw(3, ALICE, 1),
        commit(2),
        commit(9),
    ];
    let answers = world.book.apply(batch, AT_MS).await.expect("answers");
    let expected = [
        Answer::refused(Refusal::UNKNOWN_ACCOUNT),
        Answer::DONE,
        Answer::DONE,
        Answer::DONE,
        Answer::refused(Refusal::INSUFFICIENT_FUNDS),
        Answer::DONE,
        Answer::NotYet,
    ];
    assert_eq!(answers, expected);
    assert_eq!(world.book.apply(vec![], AT_MS).await, Ok(vec![]));
    assert_eq!(world.adds_up().await, 5);
}

async fn a_declined_deposit_is_on_record(world: World) {
    let (req_id, terms) = (ReqId(1), terms(ALICE, 10));
    let declined = Operation::Deposit { req_id, terms, declined: true };
    for operation in [declined, deposit(1, ALICE, 10)] {
        assert_eq!(world.ask(operation).await, Answer::refused(Refusal::DECLINED));
    }
    assert_eq!(world.book.accounts(ALICE.user_id).await, Ok(vec![]));
    assert_eq!(world.adds_up().await, 1);
}

async fn a_statement_is_read_in_pages_and_up_to_a_line(world: World) {
    for id in 0..10 {
        world.done(deposit(id, ALICE, 1)).await;
    }
    let read = async |after, until, limit| {
        let span = Span { account: None, after, until, limit };
        let statement = world.book.statement(span).await.expect("a statement");
        let lines: Vec<u64> = statement.entries.iter().map(|entry| entry.seq).collect();
        (lines, statement.head)
    };
    assert_eq!(read(0, u64::MAX, 4).await, (vec![1, 2, 3, 4], 10));
    assert_eq!(read(4, 6, 100).await, (vec![5, 6], 10));
    assert_eq!(read(9, u64::MAX, 100).await, (vec![10], 10));
    assert_eq!(read(10, u64::MAX, 100).await, (vec![], 10));
    assert_eq!(read(u64::MAX, u64::MAX, 1).await, (vec![], 10));
}

async fn a_statement_of_one_account_has_its_lines_alone(world: World) {
    world.done(deposit(1, ALICE, 1)).await;
    world.done(deposit(2, BOB, 1)).await;
    world.done(withdraw(3, ALICE, 1)).await;
    world.ask(withdraw(4, ALICE, 1)).await;
    world.done(commit(3)).await;
    let span = Span { account: Some(ALICE), ..Span::after(1, 2) };
    let statement = world.book.statement(span).await.expect("a statement");
    let lines: Vec<_> = statement.entries.iter().map(|line| (line.seq, line.verb)).collect();
    assert_eq!(lines, [(3, Verb::Withdraw), (4, Verb::Withdraw)]);
    let refusal = Outcome::Refused(Refusal::INSUFFICIENT_FUNDS);
    assert_eq!(statement.entries[1].outcome, refusal);
    assert_eq!(statement.head, 5);
}

async fn accounts_are_listed_in_pages_with_their_last_change(world: World) {
    let asset = AccountId { asset_id: 0, ..BOB };
    world.done(deposit(1, BOB, 1)).await;
    world.done(deposit(2, ALICE, 1)).await;
    world.done(deposit(3, asset, 1)).await;
    world.done(deposit(4, BOB, 1)).await;
    world.ask(withdraw(5, ALICE, 2)).await;
    let page = world.book.balances(0, 2).await.expect("balances");
    let told: Vec<_> = page.balances.iter().map(|one| (one.account, one.seq)).collect();
    assert_eq!((told, page.head), (vec![(BOB, 4), (ALICE, 2)], 5));
    let rest = world.book.balances(page.balances[1].number, 2).await.expect("balances");
    assert_eq!(rest.balances.iter().map(|one| one.account).collect::<Vec<_>>(), [asset]);
    let of_bob = world.book.accounts(BOB.user_id).await.expect("accounts");
    assert_eq!(of_bob.iter().map(|one| one.account).collect::<Vec<_>>(), [asset, BOB]);
}

async fn nobody_is_known_before_the_first_deposit(world: World) {
    world.ask(withdraw(1, ALICE, 1)).await;
    assert_eq!(world.book.accounts(ALICE.user_id).await, Ok(vec![]));
    assert_eq!(world.book.query(ReqId(2), Verb::Deposit).await, Ok(None));
    world.done(deposit(2, ALICE, 1)).await;
    assert_eq!(world.book.query(ReqId(2), Verb::Deposit).await, Ok(Some(Outcome::Done)));
    assert_eq!(world.book.query(ReqId(2), Verb::Withdraw).await, Ok(None));
}
