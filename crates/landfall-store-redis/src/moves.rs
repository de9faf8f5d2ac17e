//! Moves: the compare-and-set of one transfer, with its trail and the claims it ends.
//!
//! **Invariant:** a plain move never changes which attempt carries a transfer; opening and
//! settling alone do.

use std::sync::Arc;

use landfall_core::store::{Applied, AppliedBatch};
use landfall_core::{ClaimEnd, Move, TransferId, trail};
use redis::Value;

use crate::RedisStore;
use crate::answer;
use crate::codes::code;
use crate::facts::{Facts, Trouble};
use crate::fault::{Done, corrupt};
use crate::link::Link;
use crate::script::{Args, SCRIPTS};

/// What one move came to.
pub(crate) type Moved = (Applied, Vec<TransferId>);

fn or_empty<T: ToString>(value: Option<T>) -> Vec<u8> {
    value.map_or(Vec::new(), |value| value.to_string().into_bytes())
}

/// Adds a move to the arguments, as `scripts/moves.lua` reads it.
pub(crate) fn encode(step: &Move, args: &mut Args) -> Done<()> {
    args.extend([
        step.id.to_string().into(),
        code(step.from_state).into(),
        or_empty(step.from_version),
        step.from_updated_ms.to_string().into(),
        or_empty(step.from_attempt),
        code(step.state).into(),
        or_empty(step.due_ms),
        Facts::of(step).to_string().into(),
        // No ledger names a transaction by nothing: an empty hash is none.
        step.tx_hash.as_ref().map_or(Vec::new(), |hash| hash.as_bytes().to_vec()),
        Trouble::of(step)?,
        if step.trail.is_empty() { Vec::new() } else { trail::encode(&step.trail) },
        step.claims.len().to_string().into(),
    ]);
    for end in &step.claims {
        let (how, key) = match end {
            ClaimEnd::Keep(key) => ("keep", key),
            ClaimEnd::Release(key) => ("release", key),
            ClaimEnd::Forget(key) => ("forget", key),
        };
        args.extend([how.into(), key.space.clone().into(), key.key.clone().into()]);
    }
    Ok(())
}

/// Applies a batch; one answer per move.
pub(crate) async fn apply(link: Arc<Link>, batch: Vec<Args>) -> Done<Vec<Moved>> {
    let args = batch.into_iter().flatten().collect();
    let answers = link.run(&SCRIPTS.apply, args).await?;
    answer::list(answers)?.into_iter().map(moved).collect()
}

fn moved(value: Value) -> Done<Moved> {
    let [applied, released] = <[Value; 2]>::try_from(answer::list(value)?)
        .map_err(|_| corrupt("the answer to a move has two parts"))?;
    let applied = if answer::yes(applied)? { Applied::Applied } else { Applied::Stale };
    Ok((applied, answer::ids(released, TransferId)?))
}

impl RedisStore {
    pub(crate) async fn apply_moves(&self, moves: Vec<Move>) -> Done<AppliedBatch> {
        if let Some(broken) = moves.iter().find(|step| step.attempt != step.from_attempt) {
            return Err(corrupt(format!(
                "a move of transfer {} changes its attempt without opening or settling one",
                broken.id
            )));
        }
        let mut jobs = Vec::with_capacity(moves.len());
        for step in &moves {
            let mut args = Args::new();
            encode(step, &mut args)?;
            jobs.push(args);
        }
        let mut batch = AppliedBatch::default();
        for (applied, released) in self.moves.call(jobs).await? {
            batch.moves.push(applied);
            batch.released.extend(released);
        }
        Ok(batch)
    }
}
