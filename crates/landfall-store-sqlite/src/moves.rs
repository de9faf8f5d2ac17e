//! Moves: the compare-and-set of one transfer, with its trail and the claims it ends.
//!
//! **Invariant:** a plain move never changes which attempt carries a transfer; opening and
//! settling alone do.

use landfall_core::store::{Applied, AppliedBatch};
use landfall_core::{Move, TransferId, trail};

use crate::fault::{Done, corrupt, int, time};
use crate::writer::Tx;

/// A move with everything worked out that does not need the writer.
pub(crate) struct Prepared {
    pub step: Move,
    trail: Option<Vec<u8>>,
    error: Option<String>,
}

impl Prepared {
    pub(crate) fn new(step: Move) -> Done<Prepared> {
        Ok(Prepared {
            trail: (!step.trail.is_empty()).then(|| trail::encode(&step.trail)),
            error: step.error.as_ref().map(serde_json::to_string).transpose()?,
            step,
        })
    }

    pub(crate) fn all(moves: Vec<Move>) -> Done<Vec<Prepared>> {
        moves.into_iter().map(Prepared::new).collect()
    }

    /// Plain moves, which leave every transfer in the attempt it is in.
    pub(crate) fn plain(moves: Vec<Move>) -> Done<Vec<Prepared>> {
        if let Some(broken) = moves.iter().find(|step| step.attempt != step.from_attempt) {
            return Err(corrupt(format!(
                "a move of transfer {} changes its attempt without opening or settling one",
                broken.id
            )));
        }
        Prepared::all(moves)
    }
}

impl Tx<'_> {
    pub(crate) fn apply(&mut self, moves: &[Prepared]) -> Done<AppliedBatch> {
        let mut batch = AppliedBatch::default();
        for prepared in moves {
            let attempt = prepared.step.attempt.map(|id| int(id.0)).transpose()?;
            let applied = self.write_move(prepared, attempt, &mut batch.released)?;
            batch.moves.push(if applied { Applied::Applied } else { Applied::Stale });
        }
        Ok(batch)
    }

    /// Writes a move and leaves `attempt` to carry the transfer; false, and nothing written, if the
    /// transfer is not as the move expects it.
    pub(crate) fn write_move(
        &mut self,
        prepared: &Prepared,
        attempt: Option<i64>,
        released: &mut Vec<TransferId>,
    ) -> Done<bool> {
        let step = &prepared.step;
        let id = int(step.id.0)?;
        let (from, to) = (self.codes.code(step.from_state)?, self.codes.code(step.state)?);
        let sql = "UPDATE transfers SET
                state = ?5, version = version + 1, attempt = ?6, due_ms = ?7, stage_retries = ?8,
                retry_count = ?9, updated_ms = ?10, completed_ms = ?11, dead = ?12, tx_hash = ?13,
                aside = ?14, error = ?15, confirmed = ?16
            WHERE id = ?1 AND state = ?2 AND version = coalesce(?3, version) AND attempt IS ?4
                AND (?3 IS NULL OR updated_ms = ?17)";
        let changed = self.db.prepare_cached(sql)?.execute(rusqlite::params![
            id,
            from,
            step.from_version.map(int).transpose()?,
            step.from_attempt.map(|id| int(id.0)).transpose()?,
            to,
            attempt,
            step.due_ms.map(time),
            step.stage_retries,
            step.retry_count,
            time(step.at_ms),
            step.completed_ms.map(time),
            step.state.is_failed().then_some(1),
            step.tx_hash,
            step.aside,
            prepared.error,
            step.confirmed,
            time(step.from_updated_ms),
        ])?;
        if changed == 0 {
            return Ok(false);
        }
        if from != to {
            self.count(from, -1);
            self.count(to, 1);
        }
        if let Some(entries) = &prepared.trail {
            let sql = "INSERT INTO trail (transfer, entries) VALUES (?1, ?2)";
            self.db.prepare_cached(sql)?.execute((id, entries))?;
        }
        for end in &step.claims {
            self.end_claim(end, step.id, released)?;
        }
        Ok(true)
    }
}
