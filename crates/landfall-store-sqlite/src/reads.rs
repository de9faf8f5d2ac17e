//! What workers, the sweeper, operators and metrics ask.

use landfall_core::store::ListFilter;
use landfall_core::{
    AttemptId, Fingerprint, Payload, Stage, State, TrailEntry, Transfer, TransferId, trail,
};
use rusqlite::{Connection, OptionalExtension, Row, ToSql};

use crate::attempts::unpack;
use crate::codes::{Codes, rail_named};
use crate::fault::{Done, corrupt, int, time, uint};
use crate::writer::Tx;

/// A connection as reads see it, whether a reader's or the writer's.
pub(crate) struct Reader<'a> {
    pub db: &'a Connection,
    pub codes: &'a Codes,
}

impl Tx<'_> {
    /// Takes what is due and pushes it on. `(push, horizon)` in milliseconds.
    pub(crate) fn sweep(
        &mut self,
        stage: Stage,
        limit: usize,
        (push_ms, horizon_ms): (u64, u64),
    ) -> Done<Vec<TransferId>> {
        let now = time(self.now_ms);
        let horizon = time(self.now_ms.saturating_add(horizon_ms));
        let mut due: Vec<(i64, i64)> = Vec::new();
        for (code, _) in self.codes.all().filter(|(_, state)| state.stage() == Some(stage)) {
            for range in ["due_ms <= ?2", "due_ms > ?2"] {
                let bound = if range.contains("<=") { now } else { horizon };
                let sql = format!(
                    "SELECT due_ms, id FROM transfers WHERE state = ?1 AND {range}
                     ORDER BY due_ms, id LIMIT ?3"
                );
                let mut statement = self.db.prepare_cached(&sql)?;
                let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
                let rows = statement.query_map((code, bound, limit as i64), read)?;
                due.extend(rows.collect::<rusqlite::Result<Vec<_>>>()?);
            }
        }
        due.sort_unstable();
        due.truncate(limit);
        let pushed = time(self.now_ms.saturating_add(push_ms));
        let sql = "UPDATE transfers SET due_ms = ?2 WHERE id = ?1";
        for (_, id) in &due {
            self.db.prepare_cached(sql)?.execute((id, pushed))?;
        }
        due.into_iter().map(|(_, id)| Ok(TransferId(uint(id)?))).collect()
    }
}

const COLUMNS: &str = "SELECT t.id, t.state, t.version, t.attempt, t.due_ms, t.stage_retries,
        t.retry_count, t.updated_ms, t.completed_ms, t.tx_hash, t.aside, t.error,
        p.created_ms, p.payload, k.tenant, k.key, k.fingerprint, t.confirmed
    FROM transfers t JOIN payloads p ON p.id = t.id JOIN keys k ON k.id = t.id";

impl Reader<'_> {
    pub(crate) fn transfers(&self, ids: &[TransferId]) -> Done<Vec<Transfer>> {
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            found.extend(self.transfer(int(id.0)?)?);
        }
        Ok(found)
    }

    pub(crate) fn transfer(&self, id: i64) -> Done<Option<Transfer>> {
        let mut statement = self.db.prepare_cached(&format!("{COLUMNS} WHERE t.id = ?1"))?;
        let mut rows = statement.query([id])?;
        rows.next()?.map(|row| self.transfer_from(row)).transpose()
    }

    fn transfer_from(&self, row: &Row<'_>) -> Done<Transfer> {
        let ms = |column| row.get::<_, Option<i64>>(column)?.map(uint).transpose();
        let error: Option<&str> = row.get_ref(11)?.as_str_or_null().map_err(unreadable)?;
        let payload = row.get_ref(13)?.as_str().map_err(unreadable)?;
        let attempt: Option<i64> = row.get(3)?;
        Ok(Transfer {
            id: TransferId(uint(row.get(0)?)?),
            tenant: row.get(14)?,
            key: row.get(15)?,
            fingerprint: Fingerprint(row.get(16)?),
            payload: serde_json::from_str::<Payload>(payload)?,
            state: self.codes.state(row.get(1)?)?,
            confirmed: row.get(17)?,
            version: uint(row.get(2)?)?,
            attempt: attempt.map(uint).transpose()?.map(AttemptId),
            stage_retries: row.get(5)?,
            retry_count: row.get(6)?,
            due_ms: ms(4)?,
            aside: row.get(10)?,
            tx_hash: row.get(9)?,
            error: error.map(serde_json::from_str).transpose()?,
            created_ms: uint(row.get(12)?)?,
            updated_ms: uint(row.get(7)?)?,
            completed_ms: ms(8)?,
        })
    }

    pub(crate) fn trail(&self, id: TransferId) -> Done<Vec<TrailEntry>> {
        let id = int(id.0)?;
        let sql = "SELECT p.trail, k.rail FROM payloads p JOIN keys k ON k.id = p.id
            WHERE p.id = ?1";
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let first = self.db.prepare_cached(sql)?.query_row([id], read).optional()?;
        let Some((first, rail)): Option<(Vec<u8>, String)> = first else {
            return Ok(Vec::new());
        };
        let rail = rail_named(&rail)?;
        let mut entries = trail::decode(rail, &first).map_err(corrupt)?;
        let sql = "SELECT entries FROM trail WHERE transfer = ?1 ORDER BY seq";
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query([id])?;
        while let Some(row) = rows.next()? {
            let bytes = row.get_ref(0)?.as_blob().map_err(unreadable)?;
            entries.extend(trail::decode(rail, bytes).map_err(corrupt)?);
        }
        Ok(entries)
    }

    pub(crate) fn list(&self, filter: &ListFilter) -> Done<Vec<Transfer>> {
        match filter.adrift_before_ms {
            Some(before_ms) => self.list_adrift(filter, before_ms),
            None => self.list_plain(filter),
        }
    }

    fn list_plain(&self, filter: &ListFilter) -> Done<Vec<Transfer>> {
        let mut sql = format!("{COLUMNS} WHERE 1");
        let mut values: Vec<Box<dyn ToSql>> = Vec::new();
        let mut add = |condition: &str, value: Box<dyn ToSql>| {
            sql.push_str(" AND ");
            sql.push_str(condition);
            values.push(value);
        };
        if let Some(rail) = filter.rail {
            add("k.rail = ?", Box::new(rail.as_str()));
        }
        if let Some(tenant) = &filter.tenant {
            add("k.tenant = ?", Box::new(tenant.clone()));
        }
        if let Some(state) = filter.state {
            let dead = if state.is_failed() { " AND t.dead = 1" } else { "" };
            add(&format!("t.state = ?{dead}"), Box::new(self.codes.code(state)?));
        }
        if let Some(receiver) = &filter.receiver {
            add("p.receiver = ?", Box::new(receiver.clone()));
        }
        if let Some(from_ms) = filter.created_from_ms {
            add("p.created_ms >= ?", Box::new(time(from_ms)));
        }
        if let Some(until_ms) = filter.created_until_ms {
            add("p.created_ms < ?", Box::new(time(until_ms)));
        }
        if let Some(before) = filter.before {
            add("t.id < ?", Box::new(time(before.0)));
        }
        // The order is by the table that the narrowest index belongs to.
        let ordered = if filter.receiver.is_some() { "p.id" } else { "t.id" };
        sql.push_str(&format!(" ORDER BY {ordered} DESC LIMIT ?"));
        values.push(Box::new(filter.limit as i64));
        let mut statement = self.db.prepare_cached(&sql)?;
        let mut rows = statement.query(rusqlite::params_from_iter(values))?;
        let mut page = Vec::new();
        while let Some(row) = rows.next()? {
            page.push(self.transfer_from(row)?);
        }
        Ok(page)
    }

    /// Starts from the few attempts that are open, not from the many transfers.
    fn list_adrift(&self, filter: &ListFilter, before_ms: u64) -> Done<Vec<Transfer>> {
        let sql = "SELECT b.members FROM attempts a JOIN bodies b ON b.attempt = a.id
            WHERE a.decided_ms IS NULL AND a.opened_ms < ?1";
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query([time(before_ms)])?;
        let mut ids = Vec::new();
        while let Some(row) = rows.next()? {
            ids.extend(unpack(row.get_ref(0)?.as_blob().map_err(unreadable)?)?);
        }
        ids.retain(|id| filter.before.is_none_or(|before| *id < before));
        ids.sort_unstable_by(|a, b| b.cmp(a));
        let mut page = Vec::new();
        for id in ids {
            if page.len() >= filter.limit {
                break;
            }
            let found = self.transfer(int(id.0)?)?;
            page.extend(found.filter(|transfer| passes(filter, transfer)));
        }
        Ok(page)
    }

    /// States that have transfers, in the order of their codes.
    pub(crate) fn counts(&self) -> Done<Vec<(State, u64)>> {
        let sql = "SELECT code, transfers FROM states WHERE transfers > 0 ORDER BY code";
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query([])?;
        let mut counts = Vec::new();
        while let Some(row) = rows.next()? {
            counts.push((self.codes.state(row.get(0)?)?, uint(row.get(1)?)?));
        }
        Ok(counts)
    }
}

/// The filter for a transfer already found by its attempt.
fn passes(filter: &ListFilter, transfer: &Transfer) -> bool {
    transfer.attempt.is_some()
        && filter.rail.is_none_or(|rail| transfer.payload.rail() == rail)
        && filter.tenant.as_ref().is_none_or(|tenant| transfer.tenant == *tenant)
        && filter.state.is_none_or(|state| transfer.state == state)
        && filter.receiver.as_ref().is_none_or(|name| transfer.payload.receiver() == *name)
        && filter.created_from_ms.is_none_or(|from| transfer.created_ms >= from)
        && filter.created_until_ms.is_none_or(|until| transfer.created_ms < until)
}

fn unreadable(error: rusqlite::types::FromSqlError) -> crate::fault::Fault {
    corrupt(format!("a stored value is of another type: {error}"))
}
