//! What was found out of transfers instead of signing for them, stored by the dispatcher.
//!
//! **Rule:** nothing was signed, so that a move that is not stored is found out anew.
//! Not here: what it means for a transfer (`settle`), who finds it out (the rails).

use landfall_core::Move;
use landfall_core::ledger::Beforehand;
use landfall_core::store::Applied;

use crate::runner::Runner;
use crate::settle;

pub(crate) async fn store(runner: &Runner) {
    let found = std::mem::take(&mut *runner.beforehand.lock());
    if found.is_empty() {
        return;
    }
    let (now_ms, retries) = (runner.now_ms(), runner.rail.pace().pay_retries);
    let moves = found.iter().filter_map(|(member, what)| {
        let wait_ms = match what {
            Beforehand::NotNow { charged: true, .. } => runner.backoff_ms(member.stage_retries),
            _ => runner.core.settings.aside_ms,
        };
        settle::beforehand(member, what, retries, (now_ms, wait_ms))
    });
    let moves: Vec<Move> = moves.collect();
    let applied = runner.core.store.apply(moves.clone()).await;
    runner.pools.lock().release(found.iter().map(|(member, _)| member.id));
    let applied = match applied {
        Ok(applied) => applied,
        Err(error) => {
            tracing::warn!(%error, "not stored; the sweeper brings them back");
            return;
        }
    };
    let each = moves.iter().zip(&applied.moves).filter(|(_, now)| **now == Applied::Applied);
    for (step, _) in each {
        let (member, what) = found.iter().find(|(one, _)| one.id == step.id).expect("ours");
        tracing::info!(
            transfer = %member.id, key = %member.key, %what, state = %step.state, "not signed for"
        );
        if step.state.is_final() {
            runner.core.finished(&step.applied_to(member));
        }
    }
    runner.fetch(&applied.released).await;
}
