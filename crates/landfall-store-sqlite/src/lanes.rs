//! Lanes: leases with epochs, nonces, halts.
//!
//! **Invariant:** every lease has a new epoch, and an epoch ends with its lease: whoever gave a
//! lane back, or lost it, stores nothing on it any more.

use std::collections::HashMap;

use landfall_core::lane::{Halt, Lane};
use landfall_core::opening::{Reached, Standing};
use landfall_core::store::{LEASE_MAX_MS, Leased, Result, StoreError};
use landfall_core::{Epoch, LaneId, Nonce, RailName};
use rusqlite::{Connection, OptionalExtension, Row};

use crate::codes::rail_named;
use crate::fault::{Done, int, time, uint};
use crate::reads::Reader;
use crate::writer::Tx;

/// What signing on a lane needs to know of it.
pub(crate) struct LaneRow {
    pub code: i64,
    pub standing: Standing,
}

const COLUMNS: &str = "SELECT id, rail, epoch, holder, lease_until_ms, base_nonce, next_nonce,
    halt_reason, halt_at_ms, seq, code FROM lanes";

fn lane_from(row: &Row<'_>) -> Done<Lane> {
    let nonce = |value: Option<i64>| value.map(uint).transpose().map(|nonce| nonce.map(Nonce));
    let halted = match (row.get(7)?, row.get::<_, Option<i64>>(8)?) {
        (Some(reason), Some(at_ms)) => Some(Halt { reason, at_ms: uint(at_ms)? }),
        _ => None,
    };
    Ok(Lane {
        id: LaneId::new(row.get::<_, String>(0)?),
        rail: rail_named(&row.get::<_, String>(1)?)?,
        epoch: Epoch(uint(row.get(2)?)?),
        holder: row.get(3)?,
        lease_until_ms: uint(row.get(4)?)?,
        base_nonce: nonce(row.get(5)?)?,
        next_nonce: nonce(row.get(6)?)?,
        seq: uint(row.get(9)?)?,
        halted,
    })
}

fn lane_named(db: &Connection, id: &LaneId) -> Done<Option<Lane>> {
    let mut statement = db.prepare_cached(&format!("{COLUMNS} WHERE id = ?1"))?;
    let mut rows = statement.query([id.as_str()])?;
    rows.next()?.map(lane_from).transpose()
}

impl Tx<'_> {
    pub(crate) fn lease(
        &mut self,
        id: &LaneId,
        rail: RailName,
        holder: &str,
        ttl_ms: u64,
    ) -> Done<Leased> {
        let mut lane = match lane_named(self.db, id)? {
            Some(lane) => lane,
            None => self.create_lane(id, rail)?,
        };
        match lane.holder {
            // A lease further away than it could last was given before the clock was set back.
            Some(other)
                if other != holder
                    && lane.lease_until_ms > self.now_ms
                    && lane.lease_until_ms <= self.now_ms.saturating_add(LEASE_MAX_MS) =>
            {
                return Ok(Leased::Busy { holder: other, until_ms: lane.lease_until_ms });
            }
            _ => {}
        }
        lane.epoch = Epoch(lane.epoch.0 + 1);
        lane.holder = Some(holder.to_owned());
        lane.lease_until_ms = self.now_ms.saturating_add(ttl_ms);
        let sql = "UPDATE lanes SET epoch = ?2, holder = ?3, lease_until_ms = ?4 WHERE id = ?1";
        let until = time(lane.lease_until_ms);
        let row = (id.as_str(), int(lane.epoch.0)?, holder, until);
        self.db.prepare_cached(sql)?.execute(row)?;
        Ok(Leased::Yours(lane))
    }

    fn create_lane(&mut self, id: &LaneId, rail: RailName) -> Done<Lane> {
        let sql = "INSERT INTO lanes (id, rail, epoch, lease_until_ms) VALUES (?1, ?2, 0, 0)";
        self.db.prepare_cached(sql)?.execute((id.as_str(), rail.as_str()))?;
        Ok(Lane {
            id: id.clone(),
            rail,
            epoch: Epoch(0),
            holder: None,
            lease_until_ms: 0,
            base_nonce: None,
            next_nonce: None,
            seq: 0,
            halted: None,
        })
    }

    pub(crate) fn renew(&mut self, lanes: &[(LaneId, Epoch)], ttl_ms: u64) -> Done<Vec<bool>> {
        let until = time(self.now_ms.saturating_add(ttl_ms));
        let sql = "UPDATE lanes SET lease_until_ms = ?3
            WHERE id = ?1 AND epoch = ?2 AND holder IS NOT NULL";
        let renew = |(id, epoch): &(LaneId, Epoch)| {
            let row = (id.as_str(), int(epoch.0)?, until);
            Ok(self.db.prepare_cached(sql)?.execute(row)? == 1)
        };
        lanes.iter().map(renew).collect()
    }

    pub(crate) fn release(&mut self, lanes: &[(LaneId, Epoch)]) -> Done<()> {
        let sql = "UPDATE lanes SET holder = NULL, lease_until_ms = 0
            WHERE id = ?1 AND epoch = ?2";
        for (id, epoch) in lanes {
            self.db.prepare_cached(sql)?.execute((id.as_str(), int(epoch.0)?))?;
        }
        Ok(())
    }

    pub(crate) fn start_lane(&mut self, id: &LaneId, epoch: Epoch, ledger: Nonce) -> Done<bool> {
        let sql = "UPDATE lanes SET base_nonce = ?3, next_nonce = ?4
            WHERE id = ?1 AND epoch = ?2 AND holder IS NOT NULL AND next_nonce IS NULL";
        let row = (id.as_str(), int(epoch.0)?, int(ledger.0)?, int(ledger.next().0)?);
        Ok(self.db.prepare_cached(sql)?.execute(row)? == 1)
    }

    pub(crate) fn halt(&mut self, id: &LaneId, reason: &str) -> Done<Result<()>> {
        let sql = "UPDATE lanes SET halt_reason = coalesce(halt_reason, ?2),
            halt_at_ms = coalesce(halt_at_ms, ?3) WHERE id = ?1";
        let row = (id.as_str(), reason, time(self.now_ms));
        Ok(known(id, self.db.prepare_cached(sql)?.execute(row)?))
    }

    pub(crate) fn adopt(&mut self, id: &LaneId, ledger: Nonce) -> Done<Result<()>> {
        let sql = "UPDATE lanes SET halt_reason = NULL, halt_at_ms = NULL,
            holder = NULL, lease_until_ms = 0, epoch = max(epoch + 1, ?4),
            seq = max(seq, ?4),
            base_nonce = max(coalesce(base_nonce, 0), ?2),
            next_nonce = max(coalesce(next_nonce, 0), ?3) WHERE id = ?1";
        let row = (id.as_str(), int(ledger.0)?, int(ledger.next().0)?, time(self.now_ms));
        Ok(known(id, self.db.prepare_cached(sql)?.execute(row)?))
    }

    /// Whether the epoch still is the lane's; then its code.
    pub(crate) fn held(&self, id: &LaneId, epoch: Epoch) -> Done<Option<i64>> {
        let sql = "SELECT code FROM lanes WHERE id = ?1 AND epoch = ?2 AND holder IS NOT NULL";
        let row = (id.as_str(), int(epoch.0)?);
        Ok(self.db.prepare_cached(sql)?.query_row(row, |row| row.get(0)).optional()?)
    }

    pub(crate) fn lane_row(&self, id: &LaneId) -> Done<Option<LaneRow>> {
        let mut statement = self.db.prepare_cached(&format!("{COLUMNS} WHERE id = ?1"))?;
        let mut rows = statement.query([id.as_str()])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let standing = Standing::from(&lane_from(row)?);
        Ok(Some(LaneRow { code: row.get(10)?, standing }))
    }

    /// How far every lane has come. They are few.
    pub(crate) fn reached(&self) -> Done<HashMap<LaneId, Reached>> {
        let sql = "SELECT id, next_nonce, seq FROM lanes";
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query(())?;
        let mut reached = HashMap::new();
        while let Some(row) = rows.next()? {
            let next: Option<i64> = row.get(1)?;
            let next_nonce = next.map(uint).transpose()?.map(Nonce);
            let lane = Reached { next_nonce, seq: uint(row.get(2)?)? };
            reached.insert(LaneId::new(row.get::<_, String>(0)?), lane);
        }
        Ok(reached)
    }

    /// Counts one more signature of the lane, and its next nonce if that has changed.
    pub(crate) fn sign(&self, lane: &LaneRow, next: Option<Nonce>) -> Done<u64> {
        let seq = lane.standing.reached.seq + 1;
        let sql = "UPDATE lanes SET seq = ?2, next_nonce = coalesce(?3, next_nonce)
            WHERE code = ?1";
        let row = (lane.code, int(seq)?, next.map(|next| int(next.0)).transpose()?);
        self.db.prepare_cached(sql)?.execute(row)?;
        Ok(seq)
    }
}

fn known(id: &LaneId, changed: usize) -> Result<()> {
    if changed == 0 {
        return Err(StoreError::Corrupt(format!("lane {id} is not in the store")));
    }
    Ok(())
}

impl Reader<'_> {
    pub(crate) fn lanes(&self) -> Done<Vec<Lane>> {
        let mut statement = self.db.prepare_cached(&format!("{COLUMNS} ORDER BY id"))?;
        let mut rows = statement.query([])?;
        let mut lanes = Vec::new();
        while let Some(row) = rows.next()? {
            lanes.push(lane_from(row)?);
        }
        Ok(lanes)
    }
}
