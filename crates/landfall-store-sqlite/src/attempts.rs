//! Attempts: opened with their members moved, seen, settled once.
//!
//! **Invariant:** a lane's nonce is used by one stored attempt and never given back.
//! **Invariant:** once an attempt is decided, no transfer is carried by it.

use std::collections::HashMap;

use landfall_core::attempt::{Attempt, Fate, Purpose, Sighting, Signed};
use landfall_core::store::{OpenAttempt, Opened, Result, Settled, Settlement, StoreError};
use landfall_core::{AttemptId, Epoch, LaneId, Nonce, RailName, TransferId};
use rusqlite::{OptionalExtension, Row, ToSql};

use crate::codes::rail_named;
use crate::fault::{Done, corrupt, int, time, uint};
use crate::moves::Prepared;
use crate::reads::Reader;
use crate::writer::Tx;

/// An attempt to open, its moves worked out.
pub(crate) struct Opening {
    pub rail: RailName,
    pub lane: LaneId,
    pub epoch: Epoch,
    pub nonce: Nonce,
    pub purpose: Purpose,
    pub signed: Signed,
    pub moves: Vec<Prepared>,
    pub marks: Vec<(LaneId, Nonce)>,
    pub now_ms: u64,
}

impl Opening {
    pub(crate) fn new(open: OpenAttempt) -> Done<Opening> {
        let OpenAttempt { rail, lane, epoch, nonce, purpose, signed, moves, marks, now_ms, .. } =
            open;
        let moves = Prepared::all(moves)?;
        Ok(Opening { rail, lane, epoch, nonce, purpose, signed, moves, marks, now_ms })
    }

    fn members(&self) -> Vec<TransferId> {
        self.moves.iter().map(|prepared| prepared.step.id).collect()
    }

    fn attempt(&self, id: i64) -> Done<Attempt> {
        Ok(Attempt {
            id: AttemptId(uint(id)?),
            rail: self.rail,
            lane: self.lane.clone(),
            epoch: self.epoch,
            nonce: self.nonce,
            purpose: self.purpose,
            hash: self.signed.hash.clone(),
            bytes: self.signed.bytes.clone(),
            base_block: self.signed.base_block.clone(),
            base_height: self.signed.base_height,
            expires_height: self.signed.expires_height,
            members: self.members(),
            opened_ms: self.now_ms,
            sightings: Vec::new(),
            fate: None,
            decided_ms: None,
        })
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
    pub(crate) fn open_attempt(&mut self, open: &Opening) -> Done<Opened> {
        let Some(lane) = self.held(&open.lane, open.epoch)? else {
            let (id, epoch) = (&open.lane, open.epoch);
            return Ok(Opened::Fenced(format!("epoch {epoch} of lane {id} is over")));
        };
        let is_fence = open.purpose == Purpose::Fence;
        if let Some(reason) = lane.halt_reason.filter(|_| !is_fence) {
            return Ok(Opened::Fenced(format!("lane {} is halted: {reason}", open.lane)));
        }
        if let Some((lane, mark)) = self.behind(&open.marks)? {
            let why = format!("nonce {mark} of lane {lane} is no longer stored");
            return Ok(Opened::Behind(why));
        }
        let nonce = int(open.nonce.0)?;
        if !lane.next_nonce.is_some_and(|next| nonce == next || is_fence && nonce > next) {
            return Ok(Opened::StaleNonce);
        }
        let opened = self.whole(|tx| {
            let id = tx.insert_attempt(open, lane.code)?;
            let stale = tx.board(&open.moves, id)?;
            Ok(if stale.is_empty() { Ok(id) } else { Err(stale) })
        })?;
        Ok(match opened {
            Ok(id) => Opened::Stored(Box::new(open.attempt(id)?)),
            Err(stale) => Opened::StaleMembers(stale),
        })
    }

    /// The first mark that the stored lanes are behind. All lanes are read at once: they are few.
    fn behind<'a>(&self, marks: &'a [(LaneId, Nonce)]) -> Done<Option<&'a (LaneId, Nonce)>> {
        let sql = "SELECT id, next_nonce FROM lanes WHERE next_nonce IS NOT NULL";
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query(())?;
        let mut next: HashMap<String, i64> = HashMap::new();
        while let Some(row) = rows.next()? {
            next.insert(row.get(0)?, row.get(1)?);
        }
        for mark in marks {
            let nonce = int(mark.1.0)?;
            if next.get(mark.0.as_str()).is_none_or(|next| *next <= nonce) {
                return Ok(Some(mark));
            }
        }
        Ok(None)
    }

    fn insert_attempt(&mut self, open: &Opening, lane: i64) -> Done<i64> {
        let nonce = int(open.nonce.0)?;
        let sql = "UPDATE lanes SET next_nonce = ?2 WHERE code = ?1";
        self.db.prepare_cached(sql)?.execute((lane, int(open.nonce.next().0)?))?;
        let sql = "INSERT INTO attempts (lane, nonce, epoch, opened_ms) VALUES (?1, ?2, ?3, ?4)";
        let row = (lane, nonce, int(open.epoch.0)?, time(open.now_ms));
        self.db.prepare_cached(sql)?.execute(row)?;
        let id = self.db.last_insert_rowid();
        let sql = "INSERT INTO bodies
            (attempt, purpose, hash, base_block, base_height, expires_height, members, bytes)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let signed = &open.signed;
        self.db.prepare_cached(sql)?.execute((
            id,
            open.purpose.as_str(),
            &signed.hash,
            &signed.base_block,
            int(signed.base_height)?,
            int(signed.expires_height)?,
            pack(&open.members()),
            &signed.bytes,
        ))?;
        Ok(id)
    }

    /// Moves the members into the attempt; returns those that moved meanwhile or are carried.
    fn board(&mut self, moves: &[Prepared], attempt: i64) -> Done<Vec<TransferId>> {
        let mut stale = Vec::new();
        for prepared in moves {
            let carried = prepared.step.from_attempt.is_some();
            if carried || !self.write_move(prepared, Some(attempt), &mut Vec::new())? {
                stale.push(prepared.step.id);
            }
        }
        Ok(stale)
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

    pub(crate) fn sight(&mut self, id: AttemptId, epoch: Epoch, sighting: &str) -> Done<bool> {
        let sql = "INSERT INTO sightings (attempt, sighting)
            SELECT a.id, ?3 FROM attempts a JOIN lanes l ON l.code = a.lane
            WHERE a.id = ?1 AND a.decided_ms IS NULL AND l.epoch = ?2 AND l.holder IS NOT NULL";
        let row = (int(id.0)?, int(epoch.0)?, sighting);
        Ok(self.db.prepare_cached(sql)?.execute(row)? == 1)
    }
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
        b.base_block, b.base_height, b.expires_height, b.members, a.opened_ms, f.fate, a.decided_ms
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
        Ok(Attempt {
            id: AttemptId(uint(id)?),
            rail: rail_named(&row.get::<_, String>(1)?)?,
            lane: LaneId::new(row.get::<_, String>(2)?),
            epoch: Epoch(uint(row.get(3)?)?),
            nonce: Nonce(uint(row.get(4)?)?),
            purpose,
            hash: row.get(6)?,
            bytes: row.get(7)?,
            base_block: row.get(8)?,
            base_height: uint(row.get(9)?)?,
            expires_height: uint(row.get(10)?)?,
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
}
