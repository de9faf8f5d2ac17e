//! Moves: the compare-and-set of one transfer, with its trail and the claims it ends.
//!
//! **Invariant:** a plain move never changes which attempt carries a transfer; opening and settling
//! alone do.

use landfall_core::store::{Applied, AppliedBatch};
use landfall_core::{Move, TransferId, trail};
use tokio_postgres::types::ToSql;

use crate::connections::{Value, Write};
use crate::fault::{Done, corrupt, int, text, time};
use crate::writer::Sheet;

/// A move with everything worked out that does not need the database.
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

/// What a transfer's row becomes.
pub(crate) struct Moved<'a> {
    prepared: &'a Prepared,
    version: i64,
    attempt: Option<i64>,
    pub due_ms: Option<i64>,
}

/// Trail entries to be written.
#[derive(Default)]
pub(crate) struct TrailRows<'a> {
    transfer: Vec<i64>,
    version: Vec<i64>,
    entries: Vec<&'a [u8]>,
}

impl<'a> Sheet<'a> {
    pub(crate) fn apply(&mut self, moves: &'a [Prepared]) -> Done<AppliedBatch> {
        let mut batch = AppliedBatch::default();
        for prepared in moves {
            let fits = self.fits(prepared)?;
            if fits {
                let attempt = prepared.step.attempt.map(|id| int(id.0)).transpose()?;
                self.write_move(prepared, attempt, &mut batch.released)?;
            }
            batch.moves.push(if fits { Applied::Applied } else { Applied::Stale });
        }
        Ok(batch)
    }

    /// Whether the transfer is as the move expects it.
    pub(crate) fn fits(&self, prepared: &Prepared) -> Done<bool> {
        let step = &prepared.step;
        let Some(held) = self.transfers.get(&int(step.id.0)?) else { return Ok(false) };
        let version = step.from_version.map(int).transpose()?;
        Ok(held.state == step.from_state
            && version.is_none_or(|version| {
                version == held.version && time(step.from_updated_ms) == held.updated_ms
            })
            && held.attempt == step.from_attempt.map(|id| int(id.0)).transpose()?)
    }

    /// Writes a move that fits and leaves `attempt` to carry the transfer.
    pub(crate) fn write_move(
        &mut self,
        prepared: &'a Prepared,
        attempt: Option<i64>,
        released: &mut Vec<TransferId>,
    ) -> Done<()> {
        let step = &prepared.step;
        let id = int(step.id.0)?;
        let Some(held) = self.transfers.get_mut(&id) else {
            return Err(corrupt(format!("transfer {id} is moved without being locked")));
        };
        let from = held.state;
        held.state = step.state;
        held.version += 1;
        held.updated_ms = time(step.at_ms);
        held.attempt = attempt;
        let version = held.version;
        self.count(from, step.state)?;
        self.woken.remove(&id);
        self.moved.insert(id, Moved { prepared, version, attempt, due_ms: step.due_ms.map(time) });
        if let Some(entries) = &prepared.trail {
            self.trail.transfer.push(id);
            self.trail.version.push(version);
            self.trail.entries.push(entries);
        }
        for end in &step.claims {
            self.end_claim(end, id, released)?;
        }
        Ok(())
    }
}

const MOVE: &str = "UPDATE transfers t SET
        state = u.state, version = u.version, attempt = u.attempt, due_ms = u.due_ms,
        stage = u.stage, stage_retries = u.stage_retries, retry_count = u.retry_count,
        updated_ms = u.updated_ms, completed_ms = u.completed_ms, dead = u.dead,
        confirmed = u.confirmed, tx_hash = u.tx_hash, aside = u.aside, error = u.error
    FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[],
        $6::smallint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::boolean[],
        $12::boolean[], $13::text[], $14::text[], $15::text[])
        AS u(id, state, version, attempt, due_ms, stage, stage_retries, retry_count, updated_ms,
            completed_ms, dead, confirmed, tx_hash, aside, error)
    WHERE t.id = u.id";

const WAKE: &str = "UPDATE transfers t SET due_ms = $3, stage = u.stage
    FROM unnest($1::bigint[], $2::smallint[]) AS u(id, stage) WHERE t.id = u.id";

const TRAIL: &str = "INSERT INTO trail (transfer, version, entries)
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[])";

/// A column of every moved transfer, in the order of their ids.
fn column<'a, T: ToSql + Sync + Send + 'static>(
    sheet: &Sheet<'a>,
    value: impl Fn(&Moved<'a>) -> T,
) -> Value {
    Box::new(sheet.moved.values().map(value).collect::<Vec<T>>())
}

pub(crate) fn write(sheet: &Sheet<'_>, writes: &mut Vec<Write>) -> Done<()> {
    let codes = sheet.codes;
    if !sheet.moved.is_empty() {
        let ids: Vec<i64> = sheet.moved.keys().copied().collect();
        let states = sheet.moved.values().map(|moved| codes.code(moved.prepared.step.state));
        let states = states.collect::<Done<Vec<i16>>>()?;
        let stages = sheet.moved.values();
        let stages = stages.map(|m| codes.due_stage(m.prepared.step.state, m.due_ms));
        let stages = stages.collect::<Done<Vec<Option<i16>>>>()?;
        let rows = Some(ids.len());
        let values: Vec<Value> = vec![
            Box::new(ids),
            Box::new(states),
            column(sheet, |moved| moved.version),
            column(sheet, |moved| moved.attempt),
            column(sheet, |moved| moved.due_ms),
            Box::new(stages),
            column(sheet, |moved| i64::from(moved.prepared.step.stage_retries)),
            column(sheet, |moved| i64::from(moved.prepared.step.retry_count)),
            column(sheet, |moved| time(moved.prepared.step.at_ms)),
            column(sheet, |moved| moved.prepared.step.completed_ms.map(time)),
            column(sheet, |moved| moved.prepared.step.state.is_failed()),
            column(sheet, |moved| moved.prepared.step.confirmed),
            column(sheet, |moved| moved.prepared.step.tx_hash.as_deref().map(text)),
            column(sheet, |moved| moved.prepared.step.aside.as_deref().map(text)),
            column(sheet, |moved| moved.prepared.error.clone()),
        ];
        writes.push(Write { sql: MOVE, values, rows });
    }
    if !sheet.woken.is_empty() {
        let ids: Vec<i64> = sheet.woken.iter().copied().collect();
        let stage = |id: &i64| codes.due_stage(sheet.transfers[id].state, Some(sheet.now_ms));
        let stages = ids.iter().map(stage).collect::<Done<Vec<_>>>()?;
        let rows = Some(ids.len());
        let values: Vec<Value> = vec![Box::new(ids), Box::new(stages), Box::new(sheet.now_ms)];
        writes.push(Write { sql: WAKE, values, rows });
    }
    if !sheet.trail.transfer.is_empty() {
        let TrailRows { transfer, version, entries } = &sheet.trail;
        let entries: Vec<Vec<u8>> = entries.iter().map(|entries| entries.to_vec()).collect();
        let rows = Some(entries.len());
        let values: Vec<Value> =
            vec![Box::new(transfer.clone()), Box::new(version.clone()), Box::new(entries)];
        writes.push(Write { sql: TRAIL, values, rows });
    }
    Ok(())
}
