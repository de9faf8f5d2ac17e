//! What workers, the sweeper, operators and metrics ask.
//!
//! A read of several statements sees one moment: it is a transaction of its own that only reads.

use std::collections::HashMap;

use landfall_core::attempt::{
    Attempt, BaseBlock, Fate, Purpose, Sighting, Signed, Variant, VariantKind,
};
use landfall_core::store::ListFilter;
use landfall_core::{
    AttemptId, Epoch, Fingerprint, LaneId, Nonce, Payload, RailName, Stage, TrailEntry, Transfer,
    TransferId, trail,
};
use mysql_async::Row;

use crate::Core;
use crate::attempts::{NONE, unpack};
use crate::codes::rail_named;
use crate::connections::{Session, take, take_digest, take_maybe_text, take_text, transaction};
use crate::fault::{Done, corrupt, int, time, uint};
use crate::sql::Script;

/// Transfers read at a time while looking for what is adrift.
const ADRIFT_PAGE: usize = 500;

const TRANSFER: &str = "t.id, t.state, t.version, t.attempt, t.due_ms, t.stage_retries,
    t.retry_count, t.updated_ms, t.completed_ms, t.tx_hash, t.aside, t.error, p.created_ms,
    p.payload, k.tenant, k.name, k.fingerprint, t.confirmed";

/// Attempts come first, by the index that is named: lanes are few, but so are their statistics.
const ATTEMPT: &str =
    "SELECT STRAIGHT_JOIN a.id, l.rail, l.id, a.epoch, a.nonce, b.purpose, b.hash,
        b.bytes, b.base_block, b.base_height, b.expires_height, b.members, a.opened_ms, f.fate,
        a.decided_ms, a.seq, a.variants
    FROM landfall_attempts a FORCE INDEX (";
const AND_MORE: &str = ") JOIN landfall_lanes l ON l.code = a.lane
    JOIN landfall_bodies b ON b.attempt = a.id LEFT JOIN landfall_fates f ON f.attempt = a.id";

impl Core {
    /// Takes what is due and pushes it on. `(push, horizon)` in milliseconds. What somebody else
    /// has locked is being moved, or swept, and is passed over.
    pub(crate) async fn sweep(
        &self,
        stage: Stage,
        limit: usize,
        (push_ms, horizon_ms): (u64, u64),
    ) -> Done<Vec<TransferId>> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let states: Vec<i64> = self
            .codes
            .all()
            .filter(|(_, state)| state.stage() == Some(stage))
            .map(|(code, _)| code)
            .collect();
        let by = (push_ms, horizon_ms);
        transaction!(self.connections, session => self.sweep_once(&mut session, &states, limit, by))
    }

    async fn sweep_once(
        &self,
        session: &mut Session,
        states: &[i64],
        limit: usize,
        (push_ms, horizon_ms): (u64, u64),
    ) -> Done<Vec<TransferId>> {
        let mut script = Script::transaction();
        script.say("SET @now = ");
        script.text(&self.now_sql());
        script.say("SET @horizon = @now + ");
        script.int(time(horizon_ms).min(i64::MAX / 4));
        let now = script.say("SELECT @now");
        for state in states {
            for range in ["due_ms <= @now", "due_ms > @horizon"] {
                script.say("SELECT due_ms, id FROM landfall_transfers FORCE INDEX (due)");
                script.text(" WHERE live = ").int(*state).text(" AND ").text(range);
                script.text(" ORDER BY due_ms, id LIMIT ").int(count(limit));
                script.text(" FOR UPDATE SKIP LOCKED");
            }
        }
        let mut answers = session.run(script).await?;
        let mut due: Vec<(i64, i64)> = Vec::new();
        for mut row in answers.drain(now + 1..).flat_map(|answer| answer.rows) {
            due.push((take(&mut row, 0)?, take(&mut row, 1)?));
        }
        due.sort_unstable();
        due.truncate(limit);
        let pushed_ms = crate::now_from(&mut answers[now])?.saturating_add(push_ms);
        let mut script = Script::default();
        if !due.is_empty() {
            script.say("UPDATE landfall_transfers SET due_ms = ");
            script.int(time(pushed_ms)).text(" WHERE id IN ");
            script.ints(due.iter().map(|(_, id)| *id));
        }
        script.say("COMMIT");
        session.run(script).await?;
        due.into_iter().map(|(_, id)| Ok(TransferId(uint(id)?))).collect()
    }

    pub(crate) async fn transfers(&self, ids: &[TransferId]) -> Done<Vec<Transfer>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut numbers = Vec::with_capacity(ids.len());
        for id in ids {
            numbers.push(int(id.0)?);
        }
        let found = self.transfers_where(|script| {
            script.text(" WHERE t.id IN ").ints(numbers.iter().copied());
        });
        let found: HashMap<TransferId, Transfer> =
            found.await?.into_iter().map(|transfer| (transfer.id, transfer)).collect();
        Ok(ids.iter().filter_map(|id| found.get(id).cloned()).collect())
    }

    pub(crate) async fn transfers_where(
        &self,
        narrow: impl Fn(&mut Script) + Send + Sync,
    ) -> Done<Vec<Transfer>> {
        let script = || {
            let mut script = Script::default();
            script.say("SELECT ");
            script.text(TRANSFER).text(
                " FROM landfall_transfers t JOIN landfall_payloads p ON p.id = t.id
                 JOIN landfall_keys k ON k.id = t.id",
            );
            narrow(&mut script);
            script
        };
        let answer = self.connections.ask(script).await?.remove(0);
        answer.rows.into_iter().map(|row| self.transfer_from(row)).collect()
    }

    fn transfer_from(&self, mut row: Row) -> Done<Transfer> {
        let row = &mut row;
        let ms = |value: Option<i64>| value.map(uint).transpose();
        let error: Option<Vec<u8>> = take(row, 11)?;
        let payload: Vec<u8> = take(row, 13)?;
        let attempt: Option<i64> = take(row, 3)?;
        Ok(Transfer {
            id: TransferId(uint(take(row, 0)?)?),
            tenant: take_text(row, 14)?,
            key: take_text(row, 15)?,
            fingerprint: Fingerprint(take_digest(row, 16)?),
            payload: serde_json::from_slice::<Payload>(&payload)?,
            state: self.codes.state(take(row, 1)?)?,
            confirmed: take(row, 17)?,
            version: uint(take(row, 2)?)?,
            attempt: attempt.map(uint).transpose()?.map(AttemptId),
            stage_retries: take(row, 5)?,
            retry_count: take(row, 6)?,
            due_ms: ms(take(row, 4)?)?,
            aside: take_maybe_text(row, 10)?,
            tx_hash: take_maybe_text(row, 9)?,
            error: error.map(|error| serde_json::from_slice(&error)).transpose()?,
            created_ms: uint(take(row, 12)?)?,
            updated_ms: uint(take(row, 7)?)?,
            completed_ms: ms(take(row, 8)?)?,
        })
    }

    pub(crate) async fn trail(&self, id: TransferId) -> Done<Vec<TrailEntry>> {
        let id = int(id.0)?;
        let script = || {
            let mut script = Script::snapshot();
            script.say(
                "SELECT p.trail, k.rail FROM landfall_payloads p
                 JOIN landfall_keys k ON k.id = p.id WHERE p.id = ",
            );
            script.int(id);
            script.say("SELECT entries FROM landfall_trail WHERE transfer = ");
            script.int(id).text(" ORDER BY version");
            script.say("COMMIT");
            script
        };
        let mut answers = self.connections.ask(script).await?;
        let Some(mut first) = answers[2].rows.pop() else { return Ok(Vec::new()) };
        let rail = rail_named(&take_text(&mut first, 1)?)?;
        let mut entries = trail::decode(rail, &take::<Vec<u8>>(&mut first, 0)?).map_err(corrupt)?;
        for mut row in answers.remove(3).rows {
            let bytes: Vec<u8> = take(&mut row, 0)?;
            entries.extend(trail::decode(rail, &bytes).map_err(corrupt)?);
        }
        Ok(entries)
    }

    pub(crate) async fn list(&self, filter: &ListFilter) -> Done<Vec<Transfer>> {
        match filter.adrift_before_ms {
            Some(before_ms) => self.list_adrift(filter, before_ms).await,
            None => self.list_plain(filter).await,
        }
    }

    /// Starts from the table and index that narrow the most, in the order of ids.
    async fn list_plain(&self, filter: &ListFilter) -> Done<Vec<Transfer>> {
        let dead = filter.state.is_some_and(|state| state.is_failed());
        let (first, id) = match (&filter.receiver, dead) {
            (Some(_), _) => ("landfall_payloads p FORCE INDEX (receiver)", "p.id"),
            (None, true) => ("landfall_transfers t FORCE INDEX (dead)", "t.id"),
            (None, false) => ("landfall_transfers t FORCE INDEX (PRIMARY)", "t.id"),
        };
        let second = match id {
            "p.id" => "landfall_transfers t ON t.id = p.id",
            _ => "landfall_payloads p ON p.id = t.id",
        };
        let state = filter.state.map(|state| self.codes.code(state)).transpose()?;
        let script = || {
            let mut script = Script::default();
            script.say("SELECT STRAIGHT_JOIN ");
            script.text(TRANSFER).text(" FROM ").text(first).text(" JOIN ").text(second);
            script.text(" JOIN landfall_keys k ON k.id = ").text(id).text(" WHERE TRUE");
            narrow(&mut script, filter, state);
            if dead {
                script.text(" AND t.dead = 1");
            }
            if let Some(before) = filter.before {
                script.text(" AND ").text(id).text(" < ").int(time(before.0));
            }
            script.text(" ORDER BY ").text(id).text(" DESC LIMIT ");
            script.int(count(filter.limit));
            script
        };
        let answer = self.connections.ask(script).await?.remove(0);
        answer.rows.into_iter().map(|row| self.transfer_from(row)).collect()
    }

    /// Starts from the few attempts that are open, not from the many transfers.
    async fn list_adrift(&self, filter: &ListFilter, before_ms: u64) -> Done<Vec<Transfer>> {
        let script = || {
            let mut script = Script::default();
            script.say(
                "SELECT b.members FROM landfall_attempts a FORCE INDEX (open)
                 JOIN landfall_bodies b ON b.attempt = a.id WHERE a.open = 1 AND a.opened_ms < ",
            );
            script.int(time(before_ms));
            script
        };
        let mut ids = Vec::new();
        for mut row in self.connections.ask(script).await?.remove(0).rows {
            ids.extend(unpack(&take::<Vec<u8>>(&mut row, 0)?)?);
        }
        ids.retain(|id| filter.before.is_none_or(|before| *id < before));
        ids.sort_unstable_by(|a, b| b.cmp(a));
        ids.dedup();
        let mut page = Vec::new();
        for some in ids.chunks(ADRIFT_PAGE) {
            let found = self.transfers(some).await?;
            page.extend(found.into_iter().filter(|transfer| passes(filter, transfer)));
            if page.len() >= filter.limit {
                break;
            }
        }
        page.truncate(filter.limit);
        Ok(page)
    }

    pub(crate) async fn open_attempts(&self, lane: &LaneId) -> Done<Vec<Attempt>> {
        self.attempts("open", |script| {
            of_lane(script.text(" WHERE a.open = 1 AND"), lane).text(" ORDER BY a.nonce");
        })
        .await
    }

    pub(crate) async fn open_attempts_of(&self, rail: RailName) -> Done<Vec<Attempt>> {
        self.attempts("open", |script| {
            script.text(" WHERE a.open = 1 AND l.rail = ").bytes(rail.as_str());
            script.text(" ORDER BY l.id, a.nonce");
        })
        .await
    }

    pub(crate) async fn attempts_after(
        &self,
        lane: &LaneId,
        above: Nonce,
        limit: usize,
    ) -> Done<Vec<Attempt>> {
        let above = int(above.0)?;
        self.attempts("nonce", |script| {
            of_lane(script.text(" WHERE"), lane).text(" AND a.nonce > ").int(above);
            // As a fate is written: its name comes first.
            script.text(r#" AND (f.fate IS NULL OR f.fate NOT LIKE '{"fate":"sunk"%')"#);
            script.text(" ORDER BY a.nonce LIMIT ").int(count(limit));
        })
        .await
    }

    pub(crate) async fn attempt(&self, id: AttemptId) -> Done<Option<Attempt>> {
        let id = int(id.0)?;
        let found = self.attempts("PRIMARY", |script| {
            script.text(" WHERE a.id = ").int(id);
        });
        Ok(found.await?.pop())
    }

    pub(crate) async fn attempt_at(&self, lane: &LaneId, nonce: Nonce) -> Done<Option<Attempt>> {
        let nonce = int(nonce.0)?;
        let found = self.attempts("nonce", |script| {
            of_lane(script.text(" WHERE"), lane).text(" AND a.nonce = ").int(nonce);
        });
        Ok(found.await?.pop())
    }

    pub(crate) async fn attempt_of(&self, rail: RailName, hash: &str) -> Done<Option<Attempt>> {
        let found = self.attempts("PRIMARY", |script| {
            script.text(
                " WHERE a.id = (SELECT MAX(h.attempt) FROM (
                    SELECT attempt FROM landfall_bodies WHERE hash = ",
            );
            script
                .bytes(hash)
                .text(" UNION ALL SELECT attempt FROM landfall_variants WHERE hash = ");
            script.bytes(hash).text(
                ") h JOIN landfall_attempts o ON o.id = h.attempt
                    JOIN landfall_lanes m ON m.code = o.lane WHERE m.rail = ",
            );
            script.bytes(rail.as_str()).text(")");
        });
        Ok(found.await?.pop())
    }

    pub(crate) async fn attempts_page(
        &self,
        rail: RailName,
        after: AttemptId,
        limit: usize,
    ) -> Done<Vec<Attempt>> {
        let after = int(after.0)?;
        self.attempts("PRIMARY", |script| {
            script.text(" WHERE a.decided_ms IS NOT NULL AND a.id > ").int(after);
            script.text(" AND l.rail = ").bytes(rail.as_str());
            script.text(" ORDER BY a.id LIMIT ").int(count(limit));
        })
        .await
    }

    async fn attempts(
        &self,
        index: &str,
        narrow: impl Fn(&mut Script) + Send + Sync,
    ) -> Done<Vec<Attempt>> {
        transaction!(self.connections, session => attempts_once(&mut session, index, &narrow))
    }
}

async fn attempts_once(
    session: &mut Session,
    index: &str,
    narrow: &(impl Fn(&mut Script) + Send + Sync),
) -> Done<Vec<Attempt>> {
    let mut script = Script::snapshot();
    let found = script.say(ATTEMPT);
    script.text(index).text(AND_MORE);
    narrow(&mut script);
    let rows = session.run(script).await?.remove(found).rows;
    let mut attempts = Vec::with_capacity(rows.len());
    let mut varied = Vec::new();
    for row in rows {
        let (attempt, variants) = attempt_from(row)?;
        if variants > 0 {
            varied.push(attempt.id.0 as i64);
        }
        attempts.push(attempt);
    }
    let mut script = Script::default();
    if !attempts.is_empty() {
        script.say("SELECT attempt, sighting FROM landfall_sightings WHERE attempt IN ");
        script.ints(attempts.iter().map(|attempt| attempt.id.0 as i64));
        script.text(" ORDER BY seq");
    }
    if !varied.is_empty() {
        script.say(VARIANT);
        script.ints(varied.iter().copied()).text(" ORDER BY attempt, number");
    }
    script.say("COMMIT");
    let mut answers = session.run(script).await?.into_iter();
    let mut sightings: HashMap<i64, Vec<Sighting>> = HashMap::new();
    for mut row in answers.next().unwrap_or_default().rows {
        let sighting = serde_json::from_slice(&take::<Vec<u8>>(&mut row, 1)?)?;
        sightings.entry(take(&mut row, 0)?).or_default().push(sighting);
    }
    let mut variants: HashMap<i64, Vec<Variant>> = HashMap::new();
    if !varied.is_empty() {
        for row in answers.next().unwrap_or_default().rows {
            let (attempt, variant) = variant_from(row)?;
            variants.entry(attempt).or_default().push(variant);
        }
    }
    for attempt in &mut attempts {
        let id = attempt.id.0 as i64;
        attempt.sightings = sightings.remove(&id).unwrap_or_default();
        attempt.variants = variants.remove(&id).unwrap_or_default();
    }
    Ok(attempts)
}

fn of_lane<'a>(script: &'a mut Script, lane: &LaneId) -> &'a mut Script {
    script.text(" a.lane = (SELECT code FROM landfall_lanes WHERE id = ");
    script.bytes(lane.as_str()).text(")")
}

/// A number of rows.
fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Adds the conditions of a list that need no index of their own.
fn narrow(script: &mut Script, filter: &ListFilter, state: Option<i64>) {
    if let Some(rail) = filter.rail {
        script.text(" AND k.rail = ").bytes(rail.as_str());
    }
    if let Some(tenant) = &filter.tenant {
        script.text(" AND k.tenant = ").bytes(tenant);
    }
    if let Some(state) = state {
        script.text(" AND t.state = ").int(state);
    }
    if let Some(receiver) = &filter.receiver {
        script.text(" AND p.receiver = ").bytes(receiver);
    }
    if let Some(from_ms) = filter.created_from_ms {
        script.text(" AND p.created_ms >= ").int(time(from_ms));
    }
    if let Some(until_ms) = filter.created_until_ms {
        script.text(" AND p.created_ms < ").int(time(until_ms));
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

const VARIANT: &str =
    "SELECT attempt, number, kind, epoch, seq, opened_ms, hash, bytes, base_block,
        base_height, expires_height
    FROM landfall_variants WHERE attempt IN ";

fn variant_from(mut row: Row) -> Done<(i64, Variant)> {
    let row = &mut row;
    let attempt = take(row, 0)?;
    let kind = take_text(row, 2)?;
    let unknown = || corrupt(format!("unknown variant {kind:?} of attempt {attempt}"));
    let (base, expires_height) = terms_from(row, 8)?;
    let (bytes, hash) = (take(row, 7)?, take_text(row, 6)?);
    let variant = Variant {
        number: take(row, 1)?,
        kind: VariantKind::parse(&kind).ok_or_else(unknown)?,
        epoch: Epoch(uint(take(row, 3)?)?),
        seq: uint(take(row, 4)?)?,
        signed: Signed { bytes, hash, base, expires_height },
        opened_ms: uint(take(row, 5)?)?,
    };
    Ok((attempt, variant))
}

/// Base and expiry from three columns in a row.
fn terms_from(row: &mut Row, first: usize) -> Done<(Option<BaseBlock>, Option<u64>)> {
    let height = |value: i64| (value != NONE).then(|| uint(value)).transpose();
    let hash = take_text(row, first)?;
    let base = height(take(row, first + 1)?)?.map(|height| BaseBlock { hash, height });
    Ok((base, height(take(row, first + 2)?)?))
}

/// An attempt without its sightings and variants, and how many of the latter it has.
fn attempt_from(mut row: Row) -> Done<(Attempt, u32)> {
    let row = &mut row;
    let id: i64 = take(row, 0)?;
    let purpose = take_text(row, 5)?;
    let purpose = Purpose::parse(&purpose)
        .ok_or_else(|| corrupt(format!("unknown purpose {purpose:?} of attempt {id}")))?;
    let fate: Option<Vec<u8>> = take(row, 13)?;
    let fate: Option<Fate> = fate.map(|fate| serde_json::from_slice(&fate)).transpose()?;
    let decided_ms: Option<i64> = take(row, 14)?;
    if fate.is_some() != decided_ms.is_some() {
        return Err(corrupt(format!("attempt {id} is half decided")));
    }
    let (base, expires_height) = terms_from(row, 8)?;
    let attempt = Attempt {
        id: AttemptId(uint(id)?),
        rail: rail_named(&take_text(row, 1)?)?,
        lane: LaneId::new(take_text(row, 2)?),
        epoch: Epoch(uint(take(row, 3)?)?),
        nonce: Nonce(uint(take(row, 4)?)?),
        purpose,
        seq: uint(take(row, 15)?)?,
        hash: take_text(row, 6)?,
        bytes: take(row, 7)?,
        base,
        expires_height,
        variants: Vec::new(),
        members: unpack(&take::<Vec<u8>>(row, 11)?)?,
        opened_ms: uint(take(row, 12)?)?,
        sightings: Vec::new(),
        fate,
        decided_ms: decided_ms.map(uint).transpose()?,
    };
    Ok((attempt, take(row, 16)?))
}
