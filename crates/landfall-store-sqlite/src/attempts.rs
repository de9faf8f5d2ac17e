//! Attempts: opened with their members moved, given variants, seen, settled once.
//!
//! **Invariant:** a lane's nonce is used by one stored attempt and never given back.
//! **Invariant:** once an attempt is decided, no transfer is carried by it.

use landfall_core::attempt::{Attempt, BaseBlock, Fate, Purpose, Sighting, Signed};
use landfall_core::attempt::{Variant, VariantKind};
use landfall_core::opening::{Known, Underway, refusal, stale_members, variant_refusal};
use landfall_core::store::{
    AddVariant, Added, OpenAttempt, Opened, Result, Settled, Settlement, Sight, StoreError,
};
use landfall_core::{AttemptId, Epoch, LaneId, Nonce, RailName, TransferId};
use rusqlite::{OptionalExtension, Row, ToSql};

use crate::INCARNATION;
use crate::codes::rail_named;
use crate::fault::{Done, corrupt, int, time, uint};
use crate::lanes::LaneRow;
use crate::moves::Prepared;
use crate::reads::Reader;
use crate::writer::Tx;

/// An attempt to open, its moves worked out.
pub(crate) struct Opening {
    /// Without its moves.
    open: OpenAttempt,
    pub moves: Vec<Prepared>,
}

impl Opening {
    pub(crate) fn new(mut open: OpenAttempt) -> Done<Opening> {
        let moves = Prepared::all(std::mem::take(&mut open.moves))?;
        Ok(Opening { open, moves })
    }

    fn members(&self) -> Vec<TransferId> {
        self.moves.iter().map(|prepared| prepared.step.id).collect()
    }

    fn opened_as(&self, id: i64, seq: u64) -> Done<Attempt> {
        let attempt = self.open.opened_as(AttemptId(uint(id)?), seq);
        Ok(Attempt { members: self.members(), ..attempt })
    }
}

/// What was seen, its moves worked out.
pub(crate) struct Seen {
    sight: Sight,
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
    attempt: AttemptId,
    lane: LaneId,
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

impl Tx<'_> {
    pub(crate) fn open(&mut self, batch: &[Opening]) -> Done<Vec<Opened>> {
        batch.iter().map(|opening| self.open_attempt(opening)).collect()
    }

    fn open_attempt(&mut self, opening: &Opening) -> Done<Opened> {
        let open = &opening.open;
        let lane = self.lane_row(&open.lane)?;
        let reached = if open.marks.is_empty() { Default::default() } else { self.reached()? };
        let reached = |lane: &LaneId| reached.get(lane).copied();
        let standing = lane.as_ref().map(|lane| &lane.standing);
        let known = Known { incarnation: Some(INCARNATION), lane: standing, reached: &reached };
        let opened = self.whole(|tx| {
            let mut stored = None;
            // Writing a member is how it is found to be stale; what was written is undone then.
            let board = || {
                let lane = lane.as_ref().ok_or_else(|| corrupt("a lane vanished"))?;
                let (id, seq) = tx.insert_attempt(opening, lane)?;
                stored = Some((id, seq));
                tx.board(&opening.moves, id)
            };
            let refused = refusal(open, &known, board)?;
            Ok(match (refused, stored) {
                (None, Some(stored)) => Ok(stored),
                (Some(refused), _) => Err(refused),
                (None, None) => return Err(corrupt("an attempt was let pass and not stored")),
            })
        })?;
        Ok(match opened {
            Ok((id, seq)) => Opened::Stored(Box::new(opening.opened_as(id, seq)?)),
            Err(refused) => refused,
        })
    }

    /// Stores the attempt; returns its id and which of the lane's signatures it is.
    fn insert_attempt(&mut self, opening: &Opening, lane: &LaneRow) -> Done<(i64, u64)> {
        let open = &opening.open;
        let seq = self.sign(lane, Some(open.nonce.next()))?;
        let sql = "INSERT INTO attempts (lane, nonce, epoch, opened_ms, seq)
            VALUES (?1, ?2, ?3, ?4, ?5)";
        let (nonce, epoch) = (int(open.nonce.0)?, int(open.epoch.0)?);
        let row = (lane.code, nonce, epoch, time(open.now_ms), int(seq)?);
        self.db.prepare_cached(sql)?.execute(row)?;
        let id = self.db.last_insert_rowid();
        let sql = "INSERT INTO bodies
            (attempt, purpose, hash, base_block, base_height, expires_height, members, bytes)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let signed = &open.signed;
        let (base_block, base_height, expires_height) = terms(signed)?;
        self.db.prepare_cached(sql)?.execute((
            id,
            open.purpose.as_str(),
            &signed.hash,
            base_block,
            base_height,
            expires_height,
            pack(&opening.members()),
            &signed.bytes,
        ))?;
        Ok((id, seq))
    }

    /// Moves the members into the attempt; returns those that cannot be carried.
    fn board(&mut self, moves: &[Prepared], attempt: i64) -> Done<Vec<TransferId>> {
        let moves = moves.iter().map(|prepared| (&prepared.step, prepared));
        stale_members(moves, |prepared| self.write_move(prepared, Some(attempt), &mut Vec::new()))
    }

    pub(crate) fn add_variant(&mut self, add: &AddVariant) -> Done<Result<Added>> {
        let lane = self.lane_row(&add.lane)?;
        let reached = self.reached()?;
        let reached = |lane: &LaneId| reached.get(lane).copied();
        let standing = lane.as_ref().map(|lane| &lane.standing);
        let known = Known { incarnation: Some(INCARNATION), lane: standing, reached: &reached };
        let id = int(add.attempt.0)?;
        let sql = "SELECT lane, decided_ms IS NOT NULL, variants FROM attempts WHERE id = ?1";
        let code = lane.as_ref().map(|lane| lane.code);
        let read = |row: &Row<'_>| {
            let is_of_lane = code == Some(row.get(0)?);
            Ok(Underway { is_of_lane, is_decided: row.get(1)?, variants: row.get(2)? })
        };
        let underway = self.db.prepare_cached(sql)?.query_row([id], read).optional()?;
        match (variant_refusal(add, &known, underway), &lane) {
            (Err(contradiction), _) => Ok(Err(contradiction)),
            (Ok(Some(refused)), _) => Ok(Ok(refused)),
            (Ok(None), None) => Err(corrupt("a lane vanished")),
            (Ok(None), Some(lane)) => {
                let variant = add.stored_as(self.sign(lane, None)?);
                self.insert_variant(id, &variant)?;
                Ok(Ok(Added::Stored(Box::new(variant))))
            }
        }
    }

    fn insert_variant(&mut self, attempt: i64, variant: &Variant) -> Done<()> {
        let sql = "UPDATE attempts SET variants = ?2 WHERE id = ?1";
        self.db.prepare_cached(sql)?.execute((attempt, variant.number))?;
        let sql = "INSERT INTO variants (attempt, number, kind, epoch, seq, opened_ms, hash,
                base_block, base_height, expires_height, bytes)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        let signed = &variant.signed;
        let (base_block, base_height, expires_height) = terms(signed)?;
        self.db.prepare_cached(sql)?.execute(rusqlite::params![
            attempt,
            variant.number,
            variant.kind.as_str(),
            int(variant.epoch.0)?,
            int(variant.seq)?,
            time(variant.opened_ms),
            signed.hash,
            base_block,
            base_height,
            expires_height,
            signed.bytes,
        ])?;
        Ok(())
    }

    pub(crate) fn settle(&mut self, decision: &Decision) -> Done<Result<Settled>> {
        let id = int(decision.attempt.0)?;
        let sql = "SELECT a.decided_ms IS NOT NULL, l.id, b.members FROM attempts a
            JOIN lanes l ON l.code = a.lane JOIN bodies b ON b.attempt = a.id WHERE a.id = ?1";
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let found = self.db.prepare_cached(sql)?.query_row([id], read).optional()?;
        let Some((decided, lane, members)): Option<(bool, String, Vec<u8>)> = found else {
            return Ok(Err(StoreError::Corrupt(format!("attempt {id} is not in the store"))));
        };
        let fenced = lane != decision.lane.as_str();
        if fenced || self.held(&decision.lane, decision.epoch)?.is_none() {
            return Ok(Ok(Settled::Fenced));
        }
        if decided {
            return Ok(Ok(Settled::AlreadyDecided));
        }
        let members = unpack(&members)?;
        self.whole(|tx| {
            let sql = "UPDATE attempts SET decided_ms = ?2 WHERE id = ?1";
            tx.db.prepare_cached(sql)?.execute((id, time(decision.now_ms)))?;
            let sql = "INSERT INTO fates (attempt, fate) VALUES (?1, ?2)";
            tx.db.prepare_cached(sql)?.execute((id, &decision.fate))?;
            let (moved, released) = tx.land(decision)?;
            Ok(match tx.stranded(&members, &moved, id)? {
                None => Ok(Settled::Done { moved, released }),
                Some(member) => Err(StoreError::Corrupt(format!(
                    "the settlement of attempt {id} has no move that fits its member {member}"
                ))),
            })
        })
    }

    /// Moves the members that the attempt still carries; returns them and whom they released.
    fn land(&mut self, decision: &Decision) -> Done<(Vec<TransferId>, Vec<TransferId>)> {
        let (mut moved, mut released) = (Vec::new(), Vec::new());
        for prepared in &decision.moves {
            let ours = prepared.step.from_attempt == Some(decision.attempt);
            if ours && self.write_move(prepared, None, &mut released)? {
                moved.push(prepared.step.id);
            }
        }
        Ok((moved, released))
    }

    /// A member that no move took out of the attempt.
    fn stranded(
        &self,
        members: &[TransferId],
        moved: &[TransferId],
        attempt: i64,
    ) -> Done<Option<TransferId>> {
        if members == moved {
            return Ok(None);
        }
        let sql = "SELECT 1 FROM transfers WHERE id = ?1 AND attempt = ?2";
        for member in members {
            if self.db.prepare_cached(sql)?.exists((int(member.0)?, attempt))? {
                return Ok(Some(*member));
            }
        }
        Ok(None)
    }

    pub(crate) fn sight(&mut self, seen: &Seen) -> Done<bool> {
        let Sight { attempt, lane, epoch, .. } = &seen.sight;
        let id = int(attempt.0)?;
        let Some(code) = self.held(lane, *epoch)? else { return Ok(false) };
        let sql = "SELECT 1 FROM attempts WHERE id = ?1 AND lane = ?2 AND decided_ms IS NULL";
        if !self.db.prepare_cached(sql)?.exists((id, code))? {
            return Ok(false);
        }
        let sql = "INSERT INTO sightings (attempt, sighting) VALUES (?1, ?2)";
        for sighting in &seen.sightings {
            self.db.prepare_cached(sql)?.execute((id, sighting))?;
        }
        for prepared in &seen.moves {
            self.write_move(prepared, Some(id), &mut Vec::new())?;
        }
        Ok(true)
    }
}

/// A height that is not there.
const NONE: i64 = -1;

/// Base and expiry as the file keeps them.
fn terms(signed: &Signed) -> Done<(&str, i64, i64)> {
    let height = |height: Option<u64>| height.map_or(Ok(NONE), int);
    let base = signed.base.as_ref();
    let hash = base.map_or("", |base| base.hash.as_str());
    Ok((hash, height(base.map(|base| base.height))?, height(signed.expires_height)?))
}

/// Base and expiry from three columns in a row.
fn terms_from(row: &Row<'_>, first: usize) -> Done<(Option<BaseBlock>, Option<u64>)> {
    let height = |value: i64| (value != NONE).then(|| uint(value)).transpose();
    let hash = row.get(first)?;
    let base = height(row.get(first + 1)?)?.map(|height| BaseBlock { hash, height });
    Ok((base, height(row.get(first + 2)?)?))
}

fn pack(members: &[TransferId]) -> Vec<u8> {
    members.iter().flat_map(|id| id.0.to_le_bytes()).collect()
}

pub(crate) fn unpack(bytes: &[u8]) -> Done<Vec<TransferId>> {
    let (ids, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(corrupt("the members of an attempt are cut off"));
    }
    Ok(ids.iter().map(|id| TransferId(u64::from_le_bytes(*id))).collect())
}

const COLUMNS: &str = "SELECT a.id, l.rail, l.id, a.epoch, a.nonce, b.purpose, b.hash, b.bytes,
        b.base_block, b.base_height, b.expires_height, b.members, a.opened_ms, f.fate, a.decided_ms,
        a.seq, a.variants
    FROM attempts a JOIN lanes l ON l.code = a.lane JOIN bodies b ON b.attempt = a.id
    LEFT JOIN fates f ON f.attempt = a.id";

impl Reader<'_> {
    pub(crate) fn open_attempts(&self, lane: &LaneId) -> Done<Vec<Attempt>> {
        let end = "WHERE l.id = ?1 AND a.decided_ms IS NULL ORDER BY a.nonce";
        self.attempts(end, &[&lane.as_str()])
    }

    pub(crate) fn open_attempts_of(&self, rail: RailName) -> Done<Vec<Attempt>> {
        let end = "WHERE l.rail = ?1 AND a.decided_ms IS NULL ORDER BY l.id, a.nonce";
        self.attempts(end, &[&rail.as_str()])
    }

    pub(crate) fn attempts_after(
        &self,
        lane: &LaneId,
        above: Nonce,
        limit: usize,
    ) -> Done<Vec<Attempt>> {
        // As a fate is written: its name comes first.
        let end = r#"WHERE l.id = ?1 AND a.nonce > ?2
            AND (f.fate IS NULL OR f.fate NOT LIKE '{"fate":"sunk"%')
            ORDER BY a.nonce LIMIT ?3"#;
        self.attempts(end, &[&lane.as_str(), &int(above.0)?, &(limit as i64)])
    }

    pub(crate) fn attempt(&self, id: AttemptId) -> Done<Option<Attempt>> {
        Ok(self.attempts("WHERE a.id = ?1", &[&int(id.0)?])?.pop())
    }

    pub(crate) fn attempt_at(&self, lane: &LaneId, nonce: Nonce) -> Done<Option<Attempt>> {
        let end = "WHERE l.id = ?1 AND a.nonce = ?2";
        Ok(self.attempts(end, &[&lane.as_str(), &int(nonce.0)?])?.pop())
    }

    pub(crate) fn attempt_of(&self, rail: RailName, hash: &str) -> Done<Option<Attempt>> {
        let end = "WHERE l.rail = ?2 AND a.id IN (SELECT attempt FROM bodies WHERE hash = ?1
                UNION ALL SELECT attempt FROM variants WHERE hash = ?1)
            ORDER BY a.id DESC LIMIT 1";
        Ok(self.attempts(end, &[&hash, &rail.as_str()])?.pop())
    }

    pub(crate) fn attempts_page(
        &self,
        rail: RailName,
        after: AttemptId,
        limit: usize,
    ) -> Done<Vec<Attempt>> {
        let end = "WHERE a.id > ?1 AND a.decided_ms IS NOT NULL AND l.rail = ?2
            ORDER BY a.id LIMIT ?3";
        self.attempts(end, &[&int(after.0)?, &rail.as_str(), &(limit as i64)])
    }

    fn attempts(&self, end: &str, values: &[&dyn ToSql]) -> Done<Vec<Attempt>> {
        let mut statement = self.db.prepare_cached(&format!("{COLUMNS} {end}"))?;
        let mut rows = statement.query(values)?;
        let mut attempts = Vec::new();
        while let Some(row) = rows.next()? {
            attempts.push(self.attempt_from(row)?);
        }
        Ok(attempts)
    }

    fn attempt_from(&self, row: &Row<'_>) -> Done<Attempt> {
        let id = row.get(0)?;
        let purpose: String = row.get(5)?;
        let purpose = Purpose::parse(&purpose)
            .ok_or_else(|| corrupt(format!("unknown purpose {purpose:?} of attempt {id}")))?;
        let fate: Option<String> = row.get(13)?;
        let fate: Option<Fate> = fate.map(|fate| serde_json::from_str(&fate)).transpose()?;
        let decided_ms: Option<i64> = row.get(14)?;
        if fate.is_some() != decided_ms.is_some() {
            return Err(corrupt(format!("attempt {id} is half decided")));
        }
        let (base, expires_height) = terms_from(row, 8)?;
        let has_variants = row.get::<_, u32>(16)? > 0;
        Ok(Attempt {
            id: AttemptId(uint(id)?),
            rail: rail_named(&row.get::<_, String>(1)?)?,
            lane: LaneId::new(row.get::<_, String>(2)?),
            epoch: Epoch(uint(row.get(3)?)?),
            nonce: Nonce(uint(row.get(4)?)?),
            purpose,
            seq: uint(row.get(15)?)?,
            hash: row.get(6)?,
            bytes: row.get(7)?,
            base,
            expires_height,
            variants: if has_variants { self.variants(id)? } else { Vec::new() },
            members: unpack(&row.get::<_, Vec<u8>>(11)?)?,
            opened_ms: uint(row.get(12)?)?,
            sightings: self.sightings(id)?,
            fate,
            decided_ms: decided_ms.map(uint).transpose()?,
        })
    }

    fn sightings(&self, attempt: i64) -> Done<Vec<Sighting>> {
        let sql = "SELECT sighting FROM sightings WHERE attempt = ?1 ORDER BY seq";
        let mut statement = self.db.prepare_cached(sql)?;
        let rows = statement.query_map([attempt], |row| row.get::<_, String>(0))?;
        rows.map(|row| Ok(serde_json::from_str(&row?)?)).collect()
    }
    fn variants(&self, attempt: i64) -> Done<Vec<Variant>> {
        let sql =
            "SELECT number, kind, epoch, seq, opened_ms, hash, bytes, base_block, base_height,
                expires_height
            FROM variants WHERE attempt = ?1 ORDER BY number";
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query([attempt])?;
        let mut variants = Vec::new();
        while let Some(row) = rows.next()? {
            let kind: String = row.get(1)?;
            let unknown = || corrupt(format!("unknown variant {kind:?} of attempt {attempt}"));
            let (base, expires_height) = terms_from(row, 7)?;
            let (bytes, hash) = (row.get(6)?, row.get(5)?);
            variants.push(Variant {
                number: row.get(0)?,
                kind: VariantKind::parse(&kind).ok_or_else(unknown)?,
                epoch: Epoch(uint(row.get(2)?)?),
                seq: uint(row.get(3)?)?,
                signed: Signed { bytes, hash, base, expires_height },
                opened_ms: uint(row.get(4)?)?,
            });
        }
        Ok(variants)
    }
}
