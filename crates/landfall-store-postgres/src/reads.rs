//! What workers, the sweeper, operators and metrics ask.
//!
//! Each is one statement, and so sees one moment.

use landfall_core::store::{ListFilter, Result};
use landfall_core::{
    AttemptId, Fingerprint, Payload, Stage, State, TrailEntry, Transfer, TransferId, trail,
};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::codes::{Codes, rail_named};
use crate::connections::Connections;
use crate::fault::{Done, corrupt, get, given, int, span, text, time, uint};

/// What is due, oldest first, then what is due further away than anything can be. Rows that
/// somebody works on are not waited for: they are taken, or about to move. Nothing is locked that
/// is not taken, so nothing is missed by everybody.
const SWEEP: &str = "WITH due AS MATERIALIZED (
        SELECT id, due_ms FROM transfers
        WHERE stage = $1 AND due_ms <= (extract(epoch FROM now()) * 1000)::bigint
        ORDER BY stage, due_ms, id LIMIT $2 FOR UPDATE SKIP LOCKED),
    far AS MATERIALIZED (
        SELECT id, due_ms FROM transfers
        WHERE stage = $1 AND due_ms > (extract(epoch FROM now()) * 1000)::bigint + $4
        ORDER BY stage, due_ms, id LIMIT $2 - (SELECT count(*) FROM due) FOR UPDATE SKIP LOCKED),
    taken AS MATERIALIZED (SELECT * FROM due UNION ALL SELECT * FROM far)
    UPDATE transfers t SET due_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $3
    FROM taken WHERE t.id = taken.id RETURNING taken.due_ms, t.id";

const COLUMNS: &str = "SELECT t.id, t.state, t.version, t.attempt, t.due_ms, t.stage_retries,
        t.retry_count, t.updated_ms, t.completed_ms, t.tx_hash, t.aside, t.error,
        p.created_ms, p.payload, p.tenant, p.key, p.fingerprint, t.confirmed";

const TABLES: &str = "FROM transfers t JOIN payloads p ON p.id = t.id";

/// Transfers by an array of ids, in its order.
pub(crate) fn by_ids() -> String {
    format!(
        "{COLUMNS} FROM unnest($1::bigint[]) WITH ORDINALITY AS u(id, number)
         JOIN transfers t ON t.id = u.id JOIN payloads p ON p.id = t.id ORDER BY u.number"
    )
}

/// The transfer that a key belongs to.
pub(crate) fn by_hash() -> String {
    format!("{COLUMNS} {TABLES} JOIN keys k ON k.transfer = t.id WHERE k.hash = $1")
}

/// The first entries are kept with the payload, as version 0.
const TRAIL: &str = "SELECT p.rail, e.entries FROM payloads p JOIN LATERAL (
        SELECT 0 AS version, p.trail AS entries
        UNION ALL SELECT version, entries FROM trail WHERE transfer = p.id) e ON true
    WHERE p.id = $1 ORDER BY e.version";

const COUNTS: &str = "SELECT state, sum(transfers)::bigint FROM counts
    GROUP BY state HAVING sum(transfers) <> 0 ORDER BY state";

pub(crate) fn transfer_from(codes: &Codes, row: &Row) -> Done<Transfer> {
    let ms = |column| get::<Option<i64>>(row, column)?.map(uint).transpose();
    let count = |column| -> Done<u32> {
        let count: i64 = get(row, column)?;
        u32::try_from(count).map_err(|_| corrupt(format!("{count} retries")))
    };
    let error: Option<&str> = get(row, 11)?;
    let fingerprint: &[u8] = get(row, 16)?;
    let fingerprint = fingerprint.try_into().map_err(|_| corrupt("a fingerprint is cut off"))?;
    Ok(Transfer {
        id: TransferId(uint(get(row, 0)?)?),
        tenant: given(get(row, 14)?),
        key: given(get(row, 15)?),
        fingerprint: Fingerprint(fingerprint),
        payload: serde_json::from_str::<Payload>(get(row, 13)?)?,
        state: codes.state(get(row, 1)?)?,
        confirmed: get(row, 17)?,
        version: uint(get(row, 2)?)?,
        attempt: get::<Option<i64>>(row, 3)?.map(uint).transpose()?.map(AttemptId),
        stage_retries: count(5)?,
        retry_count: count(6)?,
        due_ms: ms(4)?,
        aside: get::<Option<&str>>(row, 10)?.map(given),
        tx_hash: get::<Option<&str>>(row, 9)?.map(given),
        error: error.map(serde_json::from_str).transpose()?,
        created_ms: uint(get(row, 12)?)?,
        updated_ms: uint(get(row, 7)?)?,
        completed_ms: ms(8)?,
    })
}

/// Conditions of a list, with their values.
#[derive(Default)]
struct Conditions {
    sql: String,
    values: Vec<Box<dyn ToSql + Sync + Send>>,
}

impl Conditions {
    /// `?` in the condition is the value.
    fn add(&mut self, condition: &str, value: impl ToSql + Sync + Send + 'static) {
        self.values.push(Box::new(value));
        let number = format!("${}", self.values.len());
        self.sql.push_str(if self.sql.is_empty() { " WHERE " } else { " AND " });
        self.sql.push_str(&condition.replace('?', &number));
    }

    fn of(codes: &Codes, filter: &ListFilter) -> Done<Conditions> {
        let mut conditions = Conditions::default();
        if let Some(rail) = filter.rail {
            conditions.add("p.rail = ?", rail.as_str());
        }
        if let Some(tenant) = &filter.tenant {
            conditions.add("p.tenant = ?", text(tenant));
        }
        if let Some(state) = filter.state {
            let dead = if state.is_failed() { " AND t.dead" } else { "" };
            conditions.add(&format!("t.state = ?{dead}"), codes.code(state)?);
        }
        if let Some(receiver) = &filter.receiver {
            conditions.add("p.receiver = ?", text(receiver));
        }
        if let Some(from_ms) = filter.created_from_ms {
            conditions.add("p.created_ms >= ?", time(from_ms));
        }
        if let Some(until_ms) = filter.created_until_ms {
            conditions.add("p.created_ms < ?", time(until_ms));
        }
        if let Some(before) = filter.before {
            conditions.add("t.id < ?", time(before.0));
        }
        if let Some(before_ms) = filter.adrift_before_ms {
            // Starts from the few attempts that are open, not from the many transfers.
            let carried = "t.attempt IS NOT NULL AND t.id = ANY(ARRAY(
                SELECT unnest(a.members) FROM attempts a
                WHERE a.decided_ms IS NULL AND a.opened_ms < ?))";
            conditions.add(carried, time(before_ms));
        }
        Ok(conditions)
    }
}

impl Connections {
    /// Takes what is due and pushes it on. `(push, horizon)` in milliseconds.
    pub(crate) async fn sweep(
        &self,
        codes: &Codes,
        stage: Stage,
        limit: usize,
        (push_ms, horizon_ms): (u64, u64),
    ) -> Result<Vec<TransferId>> {
        let (stage, limit) = (codes.stage(stage)?, time(limit as u64));
        let (push, horizon) = (span(push_ms), span(horizon_ms));
        let rows = self.query(SWEEP, &[&stage, &limit, &push, &horizon]).await?;
        let due = rows.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?)));
        let mut due: Vec<(i64, i64)> = due.collect::<Done<_>>()?;
        due.sort_unstable();
        Ok(due.into_iter().map(|(_, id)| uint(id).map(TransferId)).collect::<Done<_>>()?)
    }

    pub(crate) async fn transfers(
        &self,
        codes: &Codes,
        ids: &[TransferId],
    ) -> Result<Vec<Transfer>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let ids = ids.iter().map(|id| int(id.0)).collect::<Done<Vec<i64>>>()?;
        let rows = self.query(&by_ids(), &[&ids]).await?;
        Ok(rows.iter().map(|row| transfer_from(codes, row)).collect::<Done<_>>()?)
    }

    pub(crate) async fn trail(&self, id: TransferId) -> Result<Vec<TrailEntry>> {
        let mut entries = Vec::new();
        for row in self.query(TRAIL, &[&int(id.0)?]).await? {
            let rail = rail_named(get(&row, 0)?)?;
            entries.extend(trail::decode(rail, get(&row, 1)?).map_err(corrupt)?);
        }
        Ok(entries)
    }

    pub(crate) async fn list(&self, codes: &Codes, filter: &ListFilter) -> Result<Vec<Transfer>> {
        let Conditions { sql, mut values } = Conditions::of(codes, filter)?;
        values.push(Box::new(time(filter.limit as u64)));
        let last = values.len();
        // The order is by the table that the narrowest index belongs to.
        let ordered = if filter.receiver.is_some() { "p.id" } else { "t.id" };
        let sql = format!("{COLUMNS} {TABLES}{sql} ORDER BY {ordered} DESC LIMIT ${last}");
        let values: Vec<&(dyn ToSql + Sync)> =
            values.iter().map(|value| value.as_ref() as _).collect();
        let rows = self.query(&sql, &values).await?;
        Ok(rows.iter().map(|row| transfer_from(codes, row)).collect::<Done<_>>()?)
    }

    /// States that have transfers, in the order of their codes.
    pub(crate) async fn counts(&self, codes: &Codes) -> Result<Vec<(State, u64)>> {
        let rows = self.query(COUNTS, &[]).await?;
        let count = |row: &Row| Ok((codes.state(get(row, 0)?)?, uint(get(row, 1)?)?));
        Ok(rows.iter().map(count).collect::<Done<_>>()?)
    }
}
