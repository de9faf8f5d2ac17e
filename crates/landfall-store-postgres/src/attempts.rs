//! Attempts: opened with their members moved, given variants, seen, settled once.
//!
//! **Invariant:** a lane's nonce is used by one stored attempt and never given back.
//! **Invariant:** once an attempt is decided, no transfer is carried by it.

use std::collections::{BTreeMap, HashMap, HashSet};

use landfall_core::attempt::{Attempt, BaseBlock, Fate, Purpose, Sighting, Signed};
use landfall_core::attempt::{Variant, VariantKind};
use landfall_core::opening::{Known, Reached, Underway, refusal, stale_members, variant_refusal};
use landfall_core::store::{
    AddVariant, Added, OpenAttempt, Opened, Result, Settled, Settlement, Sight, StoreError,
};
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
    /// Without its moves.
    pub open: OpenAttempt,
    pub moves: Vec<Prepared>,
    members: Vec<TransferId>,
}

impl Opening {
    pub(crate) fn new(mut open: OpenAttempt) -> Done<Opening> {
        let moves = Prepared::all(std::mem::take(&mut open.moves))?;
        let members = moves.iter().map(|prepared| prepared.step.id).collect();
        Ok(Opening { moves, members, open })
    }

    fn attempt(&self, id: i64, seq: u64) -> Done<Attempt> {
        let attempt = self.open.opened_as(AttemptId(uint(id)?), seq);
        Ok(Attempt { members: self.members.clone(), ..attempt })
    }
}

/// What was seen, its moves worked out.
pub(crate) struct Seen {
    pub sight: Sight,
    sightings: Vec<String>,
    pub moves: Vec<Prepared>,
}

impl Seen {
    pub(crate) fn new(mut sight: Sight) -> Done<Seen> {
        let moves = Prepared::all(std::mem::take(&mut sight.moves))?;
        let sightings = sight.sightings.iter().map(serde_json::to_string);
        Ok(Seen { sightings: sightings.collect::<std::result::Result<_, _>>()?, sight, moves })
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

/// What whoever decides, varies or sees an attempt needs to know of it.
#[derive(Debug, Clone)]
pub(crate) struct AttemptRow {
    lane: i64,
    is_decided: bool,
    members: Vec<i64>,
    variants: u32,
}

/// Under the lock of its lane nobody decides or varies it meanwhile.
pub(crate) const LOOK: &str = "SELECT id, lane, decided_ms IS NOT NULL, members, variants
    FROM attempts WHERE id = ANY($1)";

pub(crate) fn looked_from(row: &Row) -> Done<(i64, AttemptRow)> {
    let looked = AttemptRow {
        lane: get(row, 1)?,
        is_decided: get(row, 2)?,
        members: get(row, 3)?,
        variants: count(get(row, 4)?)?,
    };
    Ok((get(row, 0)?, looked))
}

fn count(value: i32) -> Done<u32> {
    u32::try_from(value).map_err(|_| corrupt(format!("{value} variants")))
}

impl<'a> Sheet<'a> {
    /// The lane, if the epoch still is its own.
    fn held_lane(&self, id: &LaneId, epoch: Epoch) -> Option<&LaneRow> {
        self.lanes.get(id).filter(|lane| lane.standing.held == Some(epoch))
    }

    /// How far a lane has come: those that are locked, as the jobs so far have left them.
    fn reached(&self, lane: &LaneId) -> Option<Reached> {
        let locked = self.lanes.get(lane).map(|lane| lane.standing.reached);
        locked.or_else(|| self.marks.get(lane).copied())
    }

    /// Counts one more signature of the lane, and its next nonce if that has changed.
    fn sign(&mut self, lane: &LaneId, next: Option<Nonce>) -> Done<u64> {
        let row = self.lanes.get_mut(lane).ok_or_else(|| corrupt("a lane vanished"))?;
        let reached = &mut row.standing.reached;
        reached.next_nonce = next.or(reached.next_nonce);
        reached.seq += 1;
        self.signed.insert(row.code, *reached);
        Ok(reached.seq)
    }

    pub(crate) fn open_attempt(&mut self, opening: &'a Opening) -> Done<Opened> {
        let open = &opening.open;
        let reached = |lane: &LaneId| self.reached(lane);
        let lane = self.lanes.get(&open.lane).map(|lane| &lane.standing);
        let known = Known { incarnation: Some(&self.incarnation), lane, reached: &reached };
        let moves = opening.moves.iter().map(|prepared| (&prepared.step, prepared));
        let stale = || stale_members(moves, |prepared| self.fits(prepared));
        if let Some(refused) = refusal(open, &known, stale)? {
            return Ok(refused);
        }
        let id = self.attempt_ids.pop().ok_or_else(|| corrupt("no id for an attempt"))?;
        let seq = self.sign(&open.lane, Some(open.nonce.next()))?;
        for prepared in &opening.moves {
            self.write_move(prepared, Some(id), &mut Vec::new())?;
        }
        self.opened.push((id, seq, opening));
        Ok(Opened::Stored(Box::new(opening.attempt(id, seq)?)))
    }

    pub(crate) fn add_variant(&mut self, add: &'a AddVariant) -> Done<Result<Added>> {
        let reached = |lane: &LaneId| self.reached(lane);
        let lane = self.lanes.get(&add.lane);
        let standing = lane.map(|lane| &lane.standing);
        let known =
            Known { incarnation: Some(&self.incarnation), lane: standing, reached: &reached };
        let id = int(add.attempt.0)?;
        let underway = self.attempts.get(&id).map(|attempt| Underway {
            is_of_lane: lane.is_some_and(|lane| lane.code == attempt.lane),
            is_decided: attempt.is_decided,
            variants: attempt.variants,
        });
        match variant_refusal(add, &known, underway) {
            Err(contradiction) => return Ok(Err(contradiction)),
            Ok(Some(refused)) => return Ok(Ok(refused)),
            Ok(None) => {}
        }
        let variant = add.stored_as(self.sign(&add.lane, None)?);
        if let Some(attempt) = self.attempts.get_mut(&id) {
            attempt.variants = variant.number;
        }
        self.varied.push((id, variant.clone()));
        Ok(Ok(Added::Stored(Box::new(variant))))
    }

    /// Moves the members that are as the moves expect them. Every move is known to be of this
    /// attempt, and to leave its transfer there.
    pub(crate) fn sight(&mut self, seen: &'a Seen) -> Done<bool> {
        let Sight { attempt, lane, epoch, .. } = &seen.sight;
        let id = int(attempt.0)?;
        let lane = self.held_lane(lane, *epoch).map(|lane| lane.code);
        let is_open = |attempt: &AttemptRow| !attempt.is_decided && lane == Some(attempt.lane);
        if !self.attempts.get(&id).is_some_and(is_open) {
            return Ok(false);
        }
        for prepared in &seen.moves {
            if self.fits(prepared)? {
                self.write_move(prepared, Some(id), &mut Vec::new())?;
            }
        }
        self.seen.extend(seen.sightings.iter().map(|sighting| (id, sighting.as_str())));
        Ok(true)
    }

    pub(crate) fn settle(&mut self, decision: &'a Decision) -> Done<Result<Settled>> {
        let id = int(decision.attempt.0)?;
        let Some(attempt) = self.attempts.get(&id) else {
            return Ok(Err(StoreError::Corrupt(format!("attempt {id} is not in the store"))));
        };
        let lane = self.held_lane(&decision.lane, decision.epoch);
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
        base_block, base_height, expires_height, members, bytes, seq)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";

const ADVANCE: &str = "UPDATE lanes l SET next_nonce = u.next_nonce, seq = u.seq
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS u(code, next_nonce, seq)
    WHERE l.code = u.code";

const VARY: &str = "INSERT INTO variants (attempt, number, kind, epoch, seq, opened_ms, hash,
        base_block, base_height, expires_height, bytes)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";

const COUNT_VARIANT: &str = "UPDATE attempts SET variants = $2 WHERE id = $1";

const SIGHT: &str = "INSERT INTO sightings (attempt, sighting)
    SELECT * FROM unnest($1::bigint[], $2::text[])";

const DECIDE: &str = "UPDATE attempts a SET decided_ms = u.decided_ms, fate = u.fate
    FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS u(id, decided_ms, fate)
    WHERE a.id = u.id AND a.decided_ms IS NULL";

/// A height that is not there.
const NONE: i64 = -1;

/// Base and expiry as the database keeps them.
fn terms(signed: &Signed) -> Done<(String, i64, i64)> {
    let height = |height: Option<u64>| height.map_or(Ok(NONE), int);
    let base = signed.base.as_ref();
    let hash = base.map_or(String::new(), |base| text(&base.hash));
    Ok((hash, height(base.map(|base| base.height))?, height(signed.expires_height)?))
}

/// Base and expiry from three columns in a row.
fn terms_from(row: &Row, first: usize) -> Done<(Option<BaseBlock>, Option<u64>)> {
    let height = |value: i64| (value != NONE).then(|| uint(value)).transpose();
    let hash = given(get(row, first)?);
    let base = height(get(row, first + 1)?)?.map(|height| BaseBlock { hash, height });
    Ok((base, height(get(row, first + 2)?)?))
}

pub(crate) fn write(sheet: &Sheet<'_>, writes: &mut Vec<Write>) -> Done<()> {
    for (id, seq, opening) in &sheet.opened {
        let open = &opening.open;
        let lane = sheet.lanes.get(&open.lane).ok_or_else(|| corrupt("a lane vanished"))?;
        let members = opening.members.iter().map(|id| int(id.0)).collect::<Done<Vec<i64>>>()?;
        let (base_block, base_height, expires_height) = terms(&open.signed)?;
        let values: Vec<Value> = vec![
            Box::new(*id),
            Box::new(lane.code),
            Box::new(int(open.nonce.0)?),
            Box::new(int(open.epoch.0)?),
            Box::new(time(open.now_ms)),
            Box::new(open.purpose.as_str()),
            Box::new(text(&open.signed.hash)),
            Box::new(base_block),
            Box::new(base_height),
            Box::new(expires_height),
            Box::new(members),
            Box::new(open.signed.bytes.clone()),
            Box::new(int(*seq)?),
        ];
        writes.push(Write { sql: OPEN, values, rows: Some(1) });
    }
    if !sheet.signed.is_empty() {
        writes.push(advance(&sheet.signed)?);
    }
    write_variants(sheet, writes)?;
    if !sheet.seen.is_empty() {
        let ids: Vec<i64> = sheet.seen.iter().map(|(id, _)| *id).collect();
        let texts: Vec<String> = sheet.seen.iter().map(|(_, text)| (*text).to_owned()).collect();
        let rows = Some(ids.len());
        writes.push(Write { sql: SIGHT, values: vec![Box::new(ids), Box::new(texts)], rows });
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

/// How far the lanes have come now.
fn advance(signed: &BTreeMap<i64, Reached>) -> Done<Write> {
    let (mut codes, mut next, mut seqs) = (Vec::new(), Vec::new(), Vec::new());
    for (code, reached) in signed {
        codes.push(*code);
        next.push(reached.next_nonce.map(|next| int(next.0)).transpose()?);
        seqs.push(int(reached.seq)?);
    }
    let rows = Some(codes.len());
    let values: Vec<Value> = vec![Box::new(codes), Box::new(next), Box::new(seqs)];
    Ok(Write { sql: ADVANCE, values, rows })
}

fn write_variants(sheet: &Sheet<'_>, writes: &mut Vec<Write>) -> Done<()> {
    for (attempt, variant) in &sheet.varied {
        let number = i32::try_from(variant.number).map_err(|_| corrupt("too many variants"))?;
        let (base_block, base_height, expires_height) = terms(&variant.signed)?;
        let values: Vec<Value> = vec![
            Box::new(*attempt),
            Box::new(number),
            Box::new(variant.kind.as_str()),
            Box::new(int(variant.epoch.0)?),
            Box::new(int(variant.seq)?),
            Box::new(time(variant.opened_ms)),
            Box::new(text(&variant.signed.hash)),
            Box::new(base_block),
            Box::new(base_height),
            Box::new(expires_height),
            Box::new(variant.signed.bytes.clone()),
        ];
        writes.push(Write { sql: VARY, values, rows: Some(1) });
        let values: Vec<Value> = vec![Box::new(*attempt), Box::new(number)];
        writes.push(Write { sql: COUNT_VARIANT, values, rows: Some(1) });
    }
    Ok(())
}

const COLUMNS: &str = "SELECT a.id, l.rail, l.id, a.epoch, a.nonce, a.purpose, a.hash, a.bytes,
        a.base_block, a.base_height, a.expires_height, a.members, a.opened_ms, a.fate, a.decided_ms,
        ARRAY(SELECT s.sighting FROM sightings s WHERE s.attempt = a.id ORDER BY s.seq), a.seq,
        a.variants
    FROM attempts a JOIN lanes l ON l.code = a.lane";

const VARIANTS: &str = "SELECT attempt, number, kind, epoch, seq, opened_ms, hash, bytes,
        base_block, base_height, expires_height
    FROM variants WHERE attempt = ANY($1) ORDER BY attempt, number";

impl Connections {
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

    pub(crate) async fn attempt_of(&self, rail: RailName, hash: &str) -> Result<Option<Attempt>> {
        let end = "WHERE l.rail = $2 AND a.id = ANY(ARRAY(
                SELECT id FROM attempts WHERE hash = $1
                UNION ALL SELECT attempt FROM variants WHERE hash = $1))
            ORDER BY a.id DESC LIMIT 1";
        Ok(self.attempts(end, &[&text(hash), &rail.as_str()]).await?.pop())
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
        let mut attempts = rows.iter().map(attempt_from).collect::<Done<Vec<_>>>()?;
        let mut varied: HashMap<i64, (u32, usize)> = HashMap::new();
        for (place, row) in rows.iter().enumerate() {
            let variants = count(get(row, 17)?)?;
            if variants > 0 {
                varied.insert(get(row, 0)?, (variants, place));
            }
        }
        if varied.is_empty() {
            return Ok(attempts);
        }
        let ids: Vec<i64> = varied.keys().copied().collect();
        for row in &self.query(VARIANTS, &[&ids]).await? {
            let (attempt, variant) = variant_from(row)?;
            // One that was added since is not of the moment that is read.
            if let Some((_, place)) = varied.get(&attempt).filter(|(n, _)| variant.number <= *n) {
                attempts[*place].variants.push(variant);
            }
        }
        Ok(attempts)
    }
}

fn variant_from(row: &Row) -> Done<(i64, Variant)> {
    let attempt = get(row, 0)?;
    let kind: &str = get(row, 2)?;
    let unknown = || corrupt(format!("unknown variant {kind:?} of attempt {attempt}"));
    let (base, expires_height) = terms_from(row, 8)?;
    let (bytes, hash) = (get(row, 7)?, given(get(row, 6)?));
    let variant = Variant {
        number: count(get(row, 1)?)?,
        kind: VariantKind::parse(kind).ok_or_else(unknown)?,
        epoch: Epoch(uint(get(row, 3)?)?),
        seq: uint(get(row, 4)?)?,
        signed: Signed { bytes, hash, base, expires_height },
        opened_ms: uint(get(row, 5)?)?,
    };
    Ok((attempt, variant))
}

/// An attempt without its variants.
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
    let (base, expires_height) = terms_from(row, 8)?;
    Ok(Attempt {
        id: AttemptId(uint(id)?),
        rail: rail_named(get(row, 1)?)?,
        lane: LaneId::new(given(get(row, 2)?)),
        epoch: Epoch(uint(get(row, 3)?)?),
        nonce: Nonce(uint(get(row, 4)?)?),
        purpose,
        seq: uint(get(row, 16)?)?,
        hash: given(get(row, 6)?),
        bytes: get(row, 7)?,
        base,
        expires_height,
        variants: Vec::new(),
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
