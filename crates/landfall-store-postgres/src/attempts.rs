//! Attempts: opened with their members moved, seen, settled once.
//!
//! **Invariant:** a lane's nonce is used by one stored attempt and never given back.
//! **Invariant:** once an attempt is decided, no transfer is carried by it.

use std::collections::HashSet;

use landfall_core::attempt::{Attempt, Fate, Purpose, Sighting};
use landfall_core::store::{OpenAttempt, Opened, Result, Settled, Settlement, StoreError};
use landfall_core::{AttemptId, Epoch, LaneId, Nonce, RailName, TransferId};
use tokio_postgres::Row;

use crate::codes::rail_named;
use crate::connections::{Connections, Value, Values, Write};
use crate::fault::{Done, corrupt, get, given, int, text, time, uint};
use crate::lanes::LaneRow;
use crate::moves::Prepared;
use crate::writer::Sheet;

/// An attempt to open, its moves worked out.
pub(crate) struct Opening {
    open: OpenAttempt,
    pub lane: LaneId,
    pub marks: Vec<(LaneId, Nonce)>,
    pub moves: Vec<Prepared>,
    members: Vec<TransferId>,
}

impl Opening {
    pub(crate) fn new(mut open: OpenAttempt) -> Done<Opening> {
        let moves = Prepared::all(std::mem::take(&mut open.moves))?;
        let members = moves.iter().map(|prepared| prepared.step.id).collect();
        let marks = std::mem::take(&mut open.marks);
        Ok(Opening { lane: open.lane.clone(), marks, moves, members, open })
    }

    fn attempt(&self, id: i64) -> Done<Attempt> {
        let attempt = self.open.opened_as(AttemptId(uint(id)?));
        Ok(Attempt { members: self.members.clone(), ..attempt })
    }
}

/// A decision, its moves worked out.
pub(crate) struct Decision {
    pub attempt: AttemptId,
    pub lane: LaneId,
    epoch: Epoch,
    fate: String,
    pub moves: Vec<Prepared>,
    now_ms: u64,
}

impl Decision {
    pub(crate) fn new(settlement: Settlement) -> Done<Decision> {
        let Settlement { attempt, lane, epoch, fate, moves, now_ms } = settlement;
        let fate = serde_json::to_string(&fate)?;
        Ok(Decision { attempt, lane, epoch, fate, moves: Prepared::all(moves)?, now_ms })
    }
}

/// What settling needs to know of an attempt.
#[derive(Debug, Clone)]
pub(crate) struct AttemptRow {
    lane: i64,
    is_decided: bool,
    members: Vec<i64>,
}

/// Under the lock of its lane nobody decides it meanwhile.
pub(crate) const LOOK: &str =
    "SELECT id, lane, decided_ms IS NOT NULL, members FROM attempts WHERE id = ANY($1)";

pub(crate) fn looked_from(row: &Row) -> Done<(i64, AttemptRow)> {
    let looked = AttemptRow { lane: get(row, 1)?, is_decided: get(row, 2)?, members: get(row, 3)? };
    Ok((get(row, 0)?, looked))
}

impl<'a> Sheet<'a> {
    /// The lane, if the epoch still is its own.
    fn held_lane(&self, id: &LaneId, epoch: Epoch) -> Done<Option<&LaneRow>> {
        let epoch = int(epoch.0)?;
        Ok(self.lanes.get(id).filter(|lane| lane.is_held && lane.epoch == epoch))
    }

    pub(crate) fn open_attempt(&mut self, opening: &'a Opening) -> Done<Opened> {
        let open = &opening.open;
        if open.incarnation != self.incarnation {
            return Ok(Opened::Restarted);
        }
        let Some(lane) = self.held_lane(&open.lane, open.epoch)? else {
            let (id, epoch) = (&open.lane, open.epoch);
            return Ok(Opened::Fenced(format!("epoch {epoch} of lane {id} is over")));
        };
        let is_fence = open.purpose == Purpose::Fence;
        if let Some(reason) = lane.halt_reason.as_ref().filter(|_| !is_fence) {
            return Ok(Opened::Fenced(format!("lane {} is halted: {reason}", open.lane)));
        }
        if let Some((lane, mark)) = self.behind(&opening.marks)? {
            let why = format!("nonce {mark} of lane {lane} is no longer stored");
            return Ok(Opened::Behind(why));
        }
        let nonce = int(open.nonce.0)?;
        if !lane.next_nonce.is_some_and(|next| nonce == next || is_fence && nonce > next) {
            return Ok(Opened::StaleNonce);
        }
        let stale = self.stale(&opening.moves)?;
        if !stale.is_empty() {
            return Ok(Opened::StaleMembers(stale));
        }
        let id = self.attempt_ids.pop().ok_or_else(|| corrupt("no id for an attempt"))?;
        if let Some(lane) = self.lanes.get_mut(&open.lane) {
            lane.next_nonce = Some(int(open.nonce.next().0)?);
        }
        for prepared in &opening.moves {
            self.write_move(prepared, Some(id), &mut Vec::new())?;
        }
        self.opened.push((id, opening));
        Ok(Opened::Stored(Box::new(opening.attempt(id)?)))
    }

    /// The first mark that the stored lanes are behind. What jobs of this very batch have stored is
    /// nobody's mark yet.
    fn behind<'m>(&self, marks: &'m [(LaneId, Nonce)]) -> Done<Option<&'m (LaneId, Nonce)>> {
        for mark in marks {
            let nonce = int(mark.1.0)?;
            if self.marks.get(&text(mark.0.as_str())).is_none_or(|next| *next <= nonce) {
                return Ok(Some(mark));
            }
        }
        Ok(None)
    }

    /// The members that moved meanwhile, are carried, or are named before.
    fn stale(&self, moves: &[Prepared]) -> Done<Vec<TransferId>> {
        let mut stale = Vec::new();
        let mut named = HashSet::with_capacity(moves.len());
        for prepared in moves {
            let id = prepared.step.id;
            let carried = prepared.step.from_attempt.is_some();
            if carried || !named.insert(id) || !self.fits(prepared)? {
                stale.push(id);
            }
        }
        Ok(stale)
    }

    pub(crate) fn settle(&mut self, decision: &'a Decision) -> Done<Result<Settled>> {
        let id = int(decision.attempt.0)?;
        let Some(attempt) = self.attempts.get(&id) else {
            return Ok(Err(StoreError::Corrupt(format!("attempt {id} is not in the store"))));
        };
        let lane = self.held_lane(&decision.lane, decision.epoch)?;
        if lane.is_none_or(|lane| lane.code != attempt.lane) {
            return Ok(Ok(Settled::Fenced));
        }
        if attempt.is_decided {
            return Ok(Ok(Settled::AlreadyDecided));
        }
        let landing = self.landing(decision)?;
        if let Some(member) = self.stranded(attempt, &landing, id) {
            return Ok(Err(StoreError::Corrupt(format!(
                "the settlement of attempt {id} has no move that fits its member {member}"
            ))));
        }
        if let Some(attempt) = self.attempts.get_mut(&id) {
            attempt.is_decided = true;
        }
        let (mut moved, mut released) = (Vec::with_capacity(landing.len()), Vec::new());
        for prepared in landing {
            self.write_move(prepared, None, &mut released)?;
            moved.push(prepared.step.id);
        }
        self.decided.push(decision);
        Ok(Ok(Settled::Done { moved, released }))
    }

    /// The moves of members that the attempt still carries.
    fn landing(&self, decision: &'a Decision) -> Done<Vec<&'a Prepared>> {
        let mut landing = Vec::with_capacity(decision.moves.len());
        let mut named = HashSet::with_capacity(decision.moves.len());
        for prepared in &decision.moves {
            let ours = prepared.step.from_attempt == Some(decision.attempt);
            if ours && self.fits(prepared)? && named.insert(prepared.step.id) {
                landing.push(prepared);
            }
        }
        Ok(landing)
    }

    /// A member that no move takes out of the attempt.
    fn stranded(&self, attempt: &AttemptRow, landing: &[&Prepared], id: i64) -> Option<i64> {
        let landing: HashSet<u64> = landing.iter().map(|prepared| prepared.step.id.0).collect();
        attempt.members.iter().copied().find(|member| {
            let carried = self.transfers.get(member).is_some_and(|held| held.attempt == Some(id));
            carried && !landing.contains(&member.unsigned_abs())
        })
    }
}

const OPEN: &str = "INSERT INTO attempts (id, lane, nonce, epoch, opened_ms, purpose, hash,
        base_block, base_height, expires_height, members, bytes)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";

const ADVANCE: &str = "UPDATE lanes l SET next_nonce = u.next_nonce
    FROM unnest($1::bigint[], $2::bigint[]) AS u(code, next_nonce) WHERE l.code = u.code";

const DECIDE: &str = "UPDATE attempts a SET decided_ms = u.decided_ms, fate = u.fate
    FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS u(id, decided_ms, fate)
    WHERE a.id = u.id AND a.decided_ms IS NULL";

pub(crate) fn write(sheet: &Sheet<'_>, writes: &mut Vec<Write>) -> Done<()> {
    let mut advanced = std::collections::BTreeMap::new();
    for (id, opening) in &sheet.opened {
        let open = &opening.open;
        let lane = sheet.lanes.get(&open.lane).ok_or_else(|| corrupt("a lane vanished"))?;
        if let Some(next) = lane.next_nonce {
            advanced.insert(lane.code, next);
        }
        let members = opening.members.iter().map(|id| int(id.0)).collect::<Done<Vec<i64>>>()?;
        let values: Vec<Value> = vec![
            Box::new(*id),
            Box::new(lane.code),
            Box::new(int(open.nonce.0)?),
            Box::new(int(open.epoch.0)?),
            Box::new(time(open.now_ms)),
            Box::new(open.purpose.as_str()),
            Box::new(text(&open.signed.hash)),
            Box::new(text(&open.signed.base_block)),
            Box::new(int(open.signed.base_height)?),
            Box::new(int(open.signed.expires_height)?),
            Box::new(members),
            Box::new(open.signed.bytes.clone()),
        ];
        writes.push(Write { sql: OPEN, values, rows: Some(1) });
    }
    if !advanced.is_empty() {
        let (codes, next): (Vec<i64>, Vec<i64>) = advanced.into_iter().unzip();
        let rows = Some(codes.len());
        writes.push(Write { sql: ADVANCE, values: vec![Box::new(codes), Box::new(next)], rows });
    }
    if !sheet.decided.is_empty() {
        let ids = sheet.decided.iter().map(|decision| int(decision.attempt.0));
        let ids = ids.collect::<Done<Vec<i64>>>()?;
        let at: Vec<i64> = sheet.decided.iter().map(|decision| time(decision.now_ms)).collect();
        let fates: Vec<String> = sheet.decided.iter().map(|d| d.fate.clone()).collect();
        let rows = Some(ids.len());
        let values: Vec<Value> = vec![Box::new(ids), Box::new(at), Box::new(fates)];
        writes.push(Write { sql: DECIDE, values, rows });
    }
    Ok(())
}

/// Locks lane and attempt, so that neither a new epoch nor a decision comes between.
const SIGHT: &str = "WITH seen AS MATERIALIZED (
        SELECT a.id FROM lanes l JOIN attempts a ON a.lane = l.code
        WHERE a.id = $1 AND a.decided_ms IS NULL AND l.epoch = $2 AND l.holder IS NOT NULL
        FOR SHARE OF l, a)
    INSERT INTO sightings (attempt, sighting) SELECT id, $3 FROM seen RETURNING seq";

const COLUMNS: &str = "SELECT a.id, l.rail, l.id, a.epoch, a.nonce, a.purpose, a.hash, a.bytes,
        a.base_block, a.base_height, a.expires_height, a.members, a.opened_ms, a.fate, a.decided_ms,
        ARRAY(SELECT s.sighting FROM sightings s WHERE s.attempt = a.id ORDER BY s.seq)
    FROM attempts a JOIN lanes l ON l.code = a.lane";

impl Connections {
    pub(crate) async fn sight(
        &self,
        id: AttemptId,
        epoch: Epoch,
        sighting: &Sighting,
    ) -> Result<bool> {
        let sighting = serde_json::to_string(sighting).map_err(crate::fault::Fault::from)?;
        let values: Values<'_> = &[&int(id.0)?, &int(epoch.0)?, &sighting];
        Ok(!self.query(SIGHT, values).await?.is_empty())
    }

    pub(crate) async fn open_attempts(&self, lane: &LaneId) -> Result<Vec<Attempt>> {
        let end = "WHERE l.id = $1 AND a.decided_ms IS NULL ORDER BY a.nonce";
        self.attempts(end, &[&text(lane.as_str())]).await
    }

    pub(crate) async fn open_attempts_of(&self, rail: RailName) -> Result<Vec<Attempt>> {
        let end = "WHERE l.rail = $1 AND a.decided_ms IS NULL ORDER BY l.id, a.nonce";
        self.attempts(end, &[&rail.as_str()]).await
    }

    pub(crate) async fn attempts_after(
        &self,
        lane: &LaneId,
        above: Nonce,
        limit: usize,
    ) -> Result<Vec<Attempt>> {
        // As a fate is written: its name comes first. Not as JSON: that refuses texts with \u0000.
        let end = r#"WHERE l.id = $1 AND a.nonce > $2
            AND (a.fate IS NULL OR a.fate NOT LIKE '{"fate":"sunk"%')
            ORDER BY a.nonce LIMIT $3"#;
        let limit = time(limit as u64);
        self.attempts(end, &[&text(lane.as_str()), &int(above.0)?, &limit]).await
    }

    pub(crate) async fn attempt(&self, id: AttemptId) -> Result<Option<Attempt>> {
        Ok(self.attempts("WHERE a.id = $1", &[&int(id.0)?]).await?.pop())
    }

    pub(crate) async fn attempt_at(&self, lane: &LaneId, nonce: Nonce) -> Result<Option<Attempt>> {
        let end = "WHERE l.id = $1 AND a.nonce = $2";
        Ok(self.attempts(end, &[&text(lane.as_str()), &int(nonce.0)?]).await?.pop())
    }

    pub(crate) async fn attempts_page(
        &self,
        rail: RailName,
        after: AttemptId,
        limit: usize,
    ) -> Result<Vec<Attempt>> {
        let end = "WHERE a.id > $1 AND a.decided_ms IS NOT NULL AND l.rail = $2
            ORDER BY a.id LIMIT $3";
        let limit = time(limit as u64);
        self.attempts(end, &[&int(after.0)?, &rail.as_str(), &limit]).await
    }

    async fn attempts(&self, end: &str, values: Values<'_>) -> Result<Vec<Attempt>> {
        let rows = self.query(&format!("{COLUMNS} {end}"), values).await?;
        Ok(rows.iter().map(attempt_from).collect::<Done<_>>()?)
    }
}

fn attempt_from(row: &Row) -> Done<Attempt> {
    let id: i64 = get(row, 0)?;
    let purpose: &str = get(row, 5)?;
    let purpose = Purpose::parse(purpose)
        .ok_or_else(|| corrupt(format!("unknown purpose {purpose:?} of attempt {id}")))?;
    let fate: Option<&str> = get(row, 13)?;
    let fate: Option<Fate> = fate.map(serde_json::from_str).transpose()?;
    let decided_ms: Option<i64> = get(row, 14)?;
    if fate.is_some() != decided_ms.is_some() {
        return Err(corrupt(format!("attempt {id} is half decided")));
    }
    let members: Vec<i64> = get(row, 11)?;
    let sightings: Vec<&str> = get(row, 15)?;
    Ok(Attempt {
        id: AttemptId(uint(id)?),
        rail: rail_named(get(row, 1)?)?,
        lane: LaneId::new(given(get(row, 2)?)),
        epoch: Epoch(uint(get(row, 3)?)?),
        nonce: Nonce(uint(get(row, 4)?)?),
        purpose,
        hash: given(get(row, 6)?),
        bytes: get(row, 7)?,
        base_block: given(get(row, 8)?),
        base_height: uint(get(row, 9)?)?,
        expires_height: uint(get(row, 10)?)?,
        members: members.into_iter().map(|id| uint(id).map(TransferId)).collect::<Done<_>>()?,
        opened_ms: uint(get(row, 12)?)?,
        sightings: sightings
            .into_iter()
            .map(|text| Ok(serde_json::from_str::<Sighting>(text)?))
            .collect::<Done<_>>()?,
        fate,
        decided_ms: decided_ms.map(uint).transpose()?,
    })
}
