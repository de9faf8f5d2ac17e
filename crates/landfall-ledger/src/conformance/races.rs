//! Many callers at once.

use std::sync::Arc;

use futures::future::join_all;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{ALICE, World, checks, commit, deposit, fund, rollback, withdraw};
use crate::book::Span;
use crate::words::{AccountId, Answer, Operation, Refusal};

/// Callers at once.
const CALLERS: usize = 64;
/// What each of them asks for.
const ROUNDS: u128 = 25;

checks!(World:
    of_many_callers_with_the_same_operation_one_acts,
    of_a_commit_and_a_rollback_at_once_one_is_done,
    no_more_is_withdrawn_than_there_is,
    a_crowd_of_callers_leaves_a_statement_that_adds_up,
    whoever_reads_while_others_write_never_misses_a_line,
);

/// Asks all at once, each from a task of its own.
async fn at_once(world: &Arc<World>, operations: Vec<Operation>) -> Vec<Answer> {
    let asked = operations.into_iter().map(|operation| {
        let world = world.clone();
        tokio::spawn(async move { world.ask(operation).await })
    });
    join_all(asked).await.into_iter().map(|answer| answer.expect("no caller fails")).collect()
}

async fn of_many_callers_with_the_same_operation_one_acts(world: World) {
    let world = Arc::new(world);
    world.done(fund("a", ALICE, 1_000)).await;
    for operation in [withdraw(1, ALICE, 10), commit(1), deposit(1, ALICE, 3), fund("b", ALICE, 7)]
    {
        let answers = at_once(&world, vec![operation; CALLERS]).await;
        assert_eq!(answers, vec![Answer::DONE; CALLERS]);
    }
    let poor = Answer::refused(Refusal::INSUFFICIENT_FUNDS);
    let answers = at_once(&world, vec![withdraw(2, ALICE, 1_001); CALLERS]).await;
    assert_eq!(answers, vec![poor; CALLERS]);
    assert_eq!(world.held(ALICE).await, (1_000, 0));
    assert_eq!(world.adds_up().await, 6);
}

async fn of_a_commit_and_a_rollback_at_once_one_is_done(world: World) {
    let world = Arc::new(world);
    world.done(fund("a", ALICE, 1_000)).await;
    for id in 0..ROUNDS {
        world.done(withdraw(id, ALICE, 1)).await;
        let answers = at_once(&world, vec![rollback(id), commit(id)]).await;
        let done = answers.iter().filter(|answer| **answer == Answer::DONE).count();
        assert_eq!(done, 1, "{answers:?}");
    }
    let (_, frozen) = world.held(ALICE).await;
    assert_eq!(frozen, 0);
    world.adds_up().await;
}

async fn no_more_is_withdrawn_than_there_is(world: World) {
    let world = Arc::new(world);
    world.done(fund("a", ALICE, 10)).await;
    let all = (0..CALLERS as u128).map(|id| withdraw(id, ALICE, 1)).collect();
    let answers = at_once(&world, all).await;
    let done = answers.iter().filter(|answer| **answer == Answer::DONE).count();
    assert_eq!(done, 10);
    assert_eq!(world.held(ALICE).await, (0, world.frozen(10)));
    world.adds_up().await;
}

async fn a_crowd_of_callers_leaves_a_statement_that_adds_up(world: World) {
    let world = Arc::new(world);
    let callers = (0..CALLERS).map(|number| {
        let world = world.clone();
        tokio::spawn(async move {
            let mut random = StdRng::seed_from_u64(number as u64);
            for _ in 0..ROUNDS {
                world.ask(anything(&mut random)).await;
            }
        })
    });
    for ended in join_all(callers).await {
        ended.expect("no caller fails");
    }
    world.adds_up().await;
}

async fn whoever_reads_while_others_write_never_misses_a_line(world: World) {
    let world = Arc::new(world);
    let callers = (0..CALLERS as u128).map(|number| {
        let world = world.clone();
        tokio::spawn(async move {
            for round in 0..ROUNDS {
                world.done(deposit(number << 32 | round, ALICE, 1)).await;
            }
        })
    });
    let callers: Vec<_> = callers.collect();
    let (mut seen, mut is_last) = (0, false);
    while !is_last {
        is_last = callers.iter().all(|caller| caller.is_finished());
        let page = world.book.statement(Span::after(seen, usize::MAX)).await.expect("a page");
        for line in &page.entries {
            assert_eq!(line.seq, seen + 1, "a line is missing, or came later");
            seen = line.seq;
        }
        assert_eq!(page.head, seen, "the page and its head are of two moments");
        tokio::task::yield_now().await;
    }
    for ended in join_all(callers).await {
        ended.expect("no caller fails");
    }
    assert_eq!(u128::from(seen), CALLERS as u128 * ROUNDS);
}

/// Some operation on few accounts under few ids, so that callers meet.
fn anything(random: &mut StdRng) -> Operation {
    let account = AccountId { user_id: random.random_range(0..5), asset_id: 1 };
    let (id, amount) = (random.random_range(0..400), random.random_range(1..4));
    match random.random_range(0..6) {
        0 => fund(&id.to_string(), account, amount),
        1 | 2 => withdraw(id, account, amount),
        3 => deposit(id, account, amount),
        4 => commit(id),
        _ => rollback(id),
    }
}
