//! The checks, each named by a sentence about a service that keeps the contract.

use futures::future::{BoxFuture, join_all};

use super::{Bench, Checked, Outcome, same};
use crate::adapter::{Answer, Operation};

type Check = fn(Bench<'_>) -> BoxFuture<'_, Checked>;

/// Lists async functions under their names.
macro_rules! checks {
    ($($name:ident),* $(,)?) => {
        pub(super) const CHECKS: &[(&str, Check)] =
            &[$((stringify!($name), |bench| Box::pin($name(bench)))),*];
    };
}

checks!(
    a_withdrawal_takes_the_amount_once,
    a_deposit_adds_the_amount_once,
    a_commit_is_done_once_and_gives_nothing_back,
    a_rollback_gives_back_once,
    a_refused_withdrawal_takes_nothing_and_stays_refused,
    a_refused_deposit_adds_nothing_and_stays_refused,
    what_was_never_asked_for_is_unknown,
    operations_of_one_id_are_told_apart,
    a_commit_or_rollback_without_its_withdrawal_is_not_done,
    a_refused_withdrawal_is_neither_committed_nor_rolled_back,
    a_committed_withdrawal_is_not_rolled_back,
    a_rolled_back_withdrawal_is_not_committed,
    a_withdrawal_that_comes_again_late_takes_nothing,
    an_id_used_for_another_amount_moves_nothing,
    of_many_calls_at_once_one_acts,
    whoever_holds_an_account_is_known,
);

/// Calls made at once under one id.
const CROWD: usize = 16;

async fn a_withdrawal_takes_the_amount_once(bench: Bench<'_>) -> Checked {
    let job = bench.job(100, 30).await;
    bench.ends(Operation::Withdraw, &job, Outcome::Done).await?;
    bench.holds("after a withdrawal", &job, 70).await?;
    bench.stands(Operation::Withdraw, &job, "done").await?;
    bench.ends(Operation::Withdraw, &job, Outcome::Done).await?;
    bench.holds("after it was repeated", &job, 70).await
}

async fn a_deposit_adds_the_amount_once(bench: Bench<'_>) -> Checked {
    let job = bench.job(100, 30).await;
    bench.ends(Operation::Deposit, &job, Outcome::Done).await?;
    bench.holds("after a deposit", &job, 130).await?;
    bench.stands(Operation::Deposit, &job, "done").await?;
    bench.ends(Operation::Deposit, &job, Outcome::Done).await?;
    bench.holds("after it was repeated", &job, 130).await
}

async fn a_commit_is_done_once_and_gives_nothing_back(bench: Bench<'_>) -> Checked {
    let job = bench.job(100, 30).await;
    bench.ends(Operation::Withdraw, &job, Outcome::Done).await?;
    for _ in 0..2 {
        bench.ends(Operation::Commit, &job, Outcome::Done).await?;
        bench.stands(Operation::Commit, &job, "done").await?;
        bench.holds("after a commit", &job, 70).await?;
    }
    Ok(())
}

async fn a_rollback_gives_back_once(bench: Bench<'_>) -> Checked {
    let job = bench.job(100, 30).await;
    bench.ends(Operation::Withdraw, &job, Outcome::Done).await?;
    for _ in 0..2 {
        bench.ends(Operation::Rollback, &job, Outcome::Done).await?;
        bench.stands(Operation::Rollback, &job, "done").await?;
        bench.holds("after a rollback", &job, 100).await?;
    }
    Ok(())
}

async fn a_refused_withdrawal_takes_nothing_and_stays_refused(bench: Bench<'_>) -> Checked {
    let job = bench.job(10, 30).await;
    bench.ends(Operation::Withdraw, &job, Outcome::Refused).await?;
    bench.stands(Operation::Withdraw, &job, "refused").await?;
    bench.ground.fund(job.account, 100).await;
    bench.ends(Operation::Withdraw, &job, Outcome::Refused).await?;
    bench.stands(Operation::Withdraw, &job, "refused").await?;
    bench.holds("after a refused withdrawal came again", &job, 110).await
}

async fn a_refused_deposit_adds_nothing_and_stays_refused(bench: Bench<'_>) -> Checked {
    let job = bench.job(10, 30).await;
    if !bench.ground.refuse_deposits(job.account, true).await {
        return Ok(());
    }
    bench.ends(Operation::Deposit, &job, Outcome::Refused).await?;
    bench.ground.refuse_deposits(job.account, false).await;
    bench.stands(Operation::Deposit, &job, "refused").await?;
    bench.ends(Operation::Deposit, &job, Outcome::Refused).await?;
    bench.holds("after a refused deposit came again", &job, 10).await
}

async fn what_was_never_asked_for_is_unknown(bench: Bench<'_>) -> Checked {
    let job = bench.job(100, 30).await;
    for operation in Operation::ALL {
        bench.stands(operation, &job, "unknown").await?;
    }
    bench.ends(Operation::Withdraw, &job, Outcome::Done).await?;
    bench.holds("after a withdrawal that was asked about before", &job, 70).await
}

async fn operations_of_one_id_are_told_apart(bench: Bench<'_>) -> Checked {
    let job = bench.job(100, 30).await;
    bench.ends(Operation::Withdraw, &job, Outcome::Done).await?;
    for other in [Operation::Deposit, Operation::Commit, Operation::Rollback] {
        bench.stands(other, &job, "unknown").await?;
    }
    bench.ends(Operation::Deposit, &job, Outcome::Done).await?;
    bench.holds("after a withdrawal and a deposit of one id", &job, 100).await
}

async fn a_commit_or_rollback_without_its_withdrawal_is_not_done(bench: Bench<'_>) -> Checked {
    for operation in [Operation::Commit, Operation::Rollback] {
        let job = bench.job(100, 30).await;
        let answer = bench.call(operation, &job).await;
        same("done without a withdrawal", answer == Answer::Done, false)?;
        bench.holds("without a withdrawal", &job, 100).await?;
    }
    Ok(())
}

async fn a_refused_withdrawal_is_neither_committed_nor_rolled_back(bench: Bench<'_>) -> Checked {
    for operation in [Operation::Commit, Operation::Rollback] {
        let job = bench.job(10, 30).await;
        bench.ends(Operation::Withdraw, &job, Outcome::Refused).await?;
        let answer = bench.call(operation, &job).await;
        same("done after a refused withdrawal", answer == Answer::Done, false)?;
        bench.holds("after a refused withdrawal", &job, 10).await?;
    }
    Ok(())
}

async fn a_committed_withdrawal_is_not_rolled_back(bench: Bench<'_>) -> Checked {
    let job = bench.job(100, 30).await;
    bench.ends(Operation::Withdraw, &job, Outcome::Done).await?;
    bench.ends(Operation::Commit, &job, Outcome::Done).await?;
    let answer = bench.call(Operation::Rollback, &job).await;
    same("rolled back after the commit", answer == Answer::Done, false)?;
    bench.holds("after a rollback of what was committed", &job, 70).await
}

async fn a_rolled_back_withdrawal_is_not_committed(bench: Bench<'_>) -> Checked {
    let job = bench.job(100, 30).await;
    bench.ends(Operation::Withdraw, &job, Outcome::Done).await?;
    bench.ends(Operation::Rollback, &job, Outcome::Done).await?;
    let answer = bench.call(Operation::Commit, &job).await;
    same("committed after the rollback", answer == Answer::Done, false)?;
    bench.holds("after a commit of what was rolled back", &job, 100).await
}

async fn a_withdrawal_that_comes_again_late_takes_nothing(bench: Bench<'_>) -> Checked {
    for (end, left) in [(Operation::Rollback, 100), (Operation::Commit, 70)] {
        let job = bench.job(100, 30).await;
        bench.ends(Operation::Withdraw, &job, Outcome::Done).await?;
        bench.ends(end, &job, Outcome::Done).await?;
        bench.ends(Operation::Withdraw, &job, Outcome::Done).await?;
        bench.holds(&format!("after a late withdrawal and a {end}"), &job, left).await?;
    }
    Ok(())
}

async fn an_id_used_for_another_amount_moves_nothing(bench: Bench<'_>) -> Checked {
    for (operation, left) in [(Operation::Withdraw, 70), (Operation::Deposit, 130)] {
        let job = bench.job(100, 30).await;
        bench.ends(operation, &job, Outcome::Done).await?;
        let answer = bench.call(operation, &job.of(31)).await;
        same("done for another amount", answer == Answer::Done, false)?;
        bench.holds("after another amount under the same id", &job, left).await?;
        bench.stands(operation, &job, "done").await?;
    }
    Ok(())
}

async fn of_many_calls_at_once_one_acts(bench: Bench<'_>) -> Checked {
    for (operation, left) in [(Operation::Withdraw, 70), (Operation::Deposit, 130)] {
        let job = bench.job(100, 30).await;
        let crowd = (0..CROWD).map(|_| bench.settled(operation, &job));
        for outcome in join_all(crowd).await {
            same(&format!("{operation} in a crowd"), outcome?, Outcome::Done)?;
        }
        bench.holds("after a crowd", &job, left).await?;
    }
    Ok(())
}

async fn whoever_holds_an_account_is_known(bench: Bench<'_>) -> Checked {
    let job = bench.job(100, 30).await;
    let known = bench.ground.service().knows_user(job.account.user_id).await;
    same("a user with an account is known", known.unwrap_or(true), true)
}
