//! Lanes: leases with epochs, nonces, halts.
//!
//! **Invariant:** every lease has a new epoch, and an epoch ends with its lease: whoever gave a
//! lane back, or lost it, stores nothing on it any more. Each of these is one statement that locks
//! the lane's row, and is judged by the database's own clock once it has the lock.

use landfall_core::lane::{Halt, Lane};
use landfall_core::opening::{Reached, Standing};
use landfall_core::store::{LEASE_MAX_MS, Leased, Result, StoreError, StoreIdentity};
use landfall_core::{Epoch, LaneId, Nonce, RailName};
use tokio_postgres::Row;

use crate::codes::rail_named;
use crate::connections::Connections;
use crate::fault::{Done, corrupt, get, given, int, span, text, uint};

/// What signing and settling need to know of a lane.
#[derive(Debug, Clone)]
pub(crate) struct LaneRow {
    pub code: i64,
    pub standing: Standing,
}

pub(crate) const LOCK: &str = "SELECT id, code, epoch, holder IS NOT NULL, next_nonce, halt_reason,
        seq
    FROM lanes WHERE id = ANY($1) ORDER BY id FOR UPDATE";

pub(crate) fn locked_from(row: &Row) -> Done<(LaneId, LaneRow)> {
    let epoch = Epoch(uint(get(row, 2)?)?);
    let standing = Standing {
        held: get::<bool>(row, 3)?.then_some(epoch),
        halted: get::<Option<&str>>(row, 5)?.map(given),
        reached: Reached { next_nonce: nonce(get(row, 4)?)?, seq: uint(get(row, 6)?)? },
    };
    Ok((LaneId::new(given(get(row, 0)?)), LaneRow { code: get(row, 1)?, standing }))
}

fn nonce(value: Option<i64>) -> Done<Option<Nonce>> {
    Ok(value.map(uint).transpose()?.map(Nonce))
}

/// How far lanes have come. They only come further, so it needs no lock.
pub(crate) const REACHED: &str = "SELECT id, next_nonce, seq FROM lanes WHERE id = ANY($1)";

pub(crate) fn reached_from(row: &Row) -> Done<(LaneId, Reached)> {
    let reached = Reached { next_nonce: nonce(get(row, 1)?)?, seq: uint(get(row, 2)?)? };
    Ok((LaneId::new(given(get(row, 0)?)), reached))
}

/// Names the life of the server: a restart has another start, a promoted replica had its own. A
/// backup that is loaded into a running server makes its tables anew, or fills them anew, and so in
/// new files.
pub(crate) const INCARNATION: &str = "SELECT
    (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint::text || '-' ||
    pg_relation_filenode('lanes')::text";

const IDENTITY: &str = "SELECT (SELECT value FROM meta WHERE name = 'identity'),
    (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint::text || '-' ||
    pg_relation_filenode('lanes')::text";

const LEASE: &str = "INSERT INTO lanes AS l (id, rail, epoch, holder, lease_until_ms)
    VALUES ($1, $2, 1, $3, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $4)
    ON CONFLICT (id) DO UPDATE SET epoch = l.epoch + 1, holder = $3,
        lease_until_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $4
    WHERE l.holder IS NULL OR l.holder = $3
        OR l.lease_until_ms <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint
        -- Further away than it could last: given before the clock was set back.
        OR l.lease_until_ms > (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $5
    RETURNING l.id, l.rail, l.epoch, l.holder, l.lease_until_ms, l.base_nonce, l.next_nonce,
        l.halt_reason, l.halt_at_ms, l.seq";

const COLUMNS: &str = "SELECT id, rail, epoch, holder, lease_until_ms, base_nonce, next_nonce,
    halt_reason, halt_at_ms, seq FROM lanes";

/// Locked in the order of their names first, like by everybody.
const RENEW: &str = "WITH held AS MATERIALIZED (
        SELECT l.code FROM unnest($1::text[], $2::bigint[]) AS u(id, epoch)
            JOIN lanes l ON l.id = u.id AND l.epoch = u.epoch AND l.holder IS NOT NULL
        ORDER BY l.id FOR UPDATE OF l)
    UPDATE lanes l SET lease_until_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $3
    FROM held WHERE l.code = held.code RETURNING l.id, l.epoch";

const RELEASE: &str = "WITH held AS MATERIALIZED (
        SELECT l.code FROM unnest($1::text[], $2::bigint[]) AS u(id, epoch)
            JOIN lanes l ON l.id = u.id AND l.epoch = u.epoch
        ORDER BY l.id FOR UPDATE OF l)
    UPDATE lanes l SET holder = NULL, lease_until_ms = 0 FROM held WHERE l.code = held.code";

const START: &str = "UPDATE lanes SET base_nonce = $3, next_nonce = $4
    WHERE id = $1 AND epoch = $2 AND holder IS NOT NULL AND next_nonce IS NULL RETURNING code";

const HALT: &str = "UPDATE lanes SET halt_reason = coalesce(halt_reason, $2),
        halt_at_ms = coalesce(halt_at_ms, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
    WHERE id = $1 RETURNING code";

const ADOPT: &str = "UPDATE lanes SET halt_reason = NULL, halt_at_ms = NULL,
        holder = NULL, lease_until_ms = 0,
        epoch = greatest(epoch + 1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint),
        seq = greatest(seq, (extract(epoch FROM clock_timestamp()) * 1000)::bigint),
        base_nonce = greatest(base_nonce, $2), next_nonce = greatest(next_nonce, $3)
    WHERE id = $1 RETURNING code";

fn lane_from(row: &Row) -> Done<Lane> {
    let reason = get::<Option<&str>>(row, 7)?.map(given);
    let halted = match (reason, get::<Option<i64>>(row, 8)?) {
        (Some(reason), Some(at_ms)) => Some(Halt { reason, at_ms: uint(at_ms)? }),
        (None, None) => None,
        _ => return Err(corrupt("a lane is half halted")),
    };
    Ok(Lane {
        id: LaneId::new(given(get(row, 0)?)),
        rail: rail_named(get(row, 1)?)?,
        epoch: Epoch(uint(get(row, 2)?)?),
        holder: get::<Option<&str>>(row, 3)?.map(given),
        lease_until_ms: uint(get(row, 4)?)?,
        base_nonce: nonce(get(row, 5)?)?,
        next_nonce: nonce(get(row, 6)?)?,
        seq: uint(get(row, 9)?)?,
        halted,
    })
}

fn columns(lanes: &[(LaneId, Epoch)]) -> Done<(Vec<String>, Vec<i64>)> {
    let pairs = lanes.iter().map(|(id, epoch)| Ok((text(id.as_str()), int(epoch.0)?)));
    Ok(pairs.collect::<Done<Vec<_>>>()?.into_iter().unzip())
}

impl Connections {
    pub(crate) async fn identity(&self) -> Result<StoreIdentity> {
        let rows = self.query(IDENTITY, &[]).await?;
        let row = rows.first().ok_or_else(|| corrupt("the store has no identity"))?;
        Ok(StoreIdentity { id: get(row, 0)?, incarnation: get(row, 1)?, shared: true })
    }

    pub(crate) async fn lease(
        &self,
        id: &LaneId,
        rail: RailName,
        holder: &str,
        ttl_ms: u64,
    ) -> Result<Leased> {
        let (name, holder, ttl) = (text(id.as_str()), text(holder), span(ttl_ms));
        let longest = LEASE_MAX_MS as i64;
        loop {
            let values = [&name as _, &rail.as_str() as _, &holder as _, &ttl as _, &longest as _];
            let rows = self.query(LEASE, &values).await?;
            if let Some(row) = rows.first() {
                return Ok(Leased::Yours(lane_from(row)?));
            }
            let rows = self.query(&format!("{COLUMNS} WHERE id = $1"), &[&name]).await?;
            let row = rows.first().ok_or_else(|| corrupt("a lane vanished"))?;
            let lane = lane_from(row)?;
            // Given back between the two statements: once more.
            if let Some(holder) = lane.holder {
                return Ok(Leased::Busy { holder, until_ms: lane.lease_until_ms });
            }
        }
    }

    pub(crate) async fn renew(&self, lanes: &[(LaneId, Epoch)], ttl_ms: u64) -> Result<Vec<bool>> {
        let (ids, epochs) = columns(lanes)?;
        let ttl = span(ttl_ms);
        let rows = self.query(RENEW, &[&ids, &epochs, &ttl]).await?;
        let renewed = rows.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?)));
        let renewed = renewed.collect::<Done<Vec<(String, i64)>>>()?;
        Ok(ids.into_iter().zip(epochs).map(|lane| renewed.contains(&lane)).collect())
    }

    pub(crate) async fn release(&self, lanes: &[(LaneId, Epoch)]) -> Result<()> {
        let (ids, epochs) = columns(lanes)?;
        self.query(RELEASE, &[&ids, &epochs]).await.map(|_| ())
    }

    pub(crate) async fn start_lane(&self, id: &LaneId, epoch: Epoch, at: Nonce) -> Result<bool> {
        let (name, epoch) = (text(id.as_str()), int(epoch.0)?);
        let (base, next) = (int(at.0)?, int(at.next().0)?);
        Ok(!self.query(START, &[&name, &epoch, &base, &next]).await?.is_empty())
    }

    pub(crate) async fn halt(&self, id: &LaneId, reason: &str) -> Result<()> {
        known(id, self.query(HALT, &[&text(id.as_str()), &text(reason)]).await?)
    }

    pub(crate) async fn adopt(&self, id: &LaneId, ledger: Nonce) -> Result<()> {
        let (base, next) = (int(ledger.0)?, int(ledger.next().0)?);
        known(id, self.query(ADOPT, &[&text(id.as_str()), &base, &next]).await?)
    }

    pub(crate) async fn lanes(&self) -> Result<Vec<Lane>> {
        let rows = self.query(&format!("{COLUMNS} ORDER BY id"), &[]).await?;
        Ok(rows.iter().map(lane_from).collect::<Done<_>>()?)
    }
}

fn known(id: &LaneId, changed: Vec<Row>) -> Result<()> {
    if changed.is_empty() {
        return Err(StoreError::Corrupt(format!("lane {id} is not in the store")));
    }
    Ok(())
}
