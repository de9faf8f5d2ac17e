//! Lanes: leases with epochs, nonces, halts.
//!
//! **Invariant:** every lease has a new epoch, and an epoch ends with its lease: whoever gave a
//! lane back, or lost it, stores nothing on it any more.
//! All of it happens under the lock of the lane's row.

use std::collections::{BTreeSet, HashMap};

use landfall_core::lane::{Halt, Lane};
use landfall_core::opening::{Reached, Standing};
use landfall_core::store::{LEASE_MAX_MS, Leased};
use landfall_core::{Epoch, LaneId, Nonce, RailName};
use mysql_async::Row;

use crate::Core;
use crate::codes::rail_named;
use crate::connections::{Answer, Session, take, take_maybe_text, take_text, transaction};
use crate::fault::{Done, corrupt, int, time, uint};
use crate::sql::Script;

/// What signing and settling need to know of a lane that they have locked.
pub(crate) struct HeldLane {
    pub code: i64,
    pub standing: Standing,
}

impl HeldLane {
    /// Adds to `script` what locks the lanes, in the order of their names.
    pub(crate) fn lock<'a>(script: &mut Script, lanes: impl Iterator<Item = &'a LaneId>) -> usize {
        let names: BTreeSet<&str> = lanes.map(LaneId::as_str).collect();
        let statement = script.say(
            "SELECT id, code, next_nonce, halt_reason, IF(holder IS NULL, NULL, epoch), seq
             FROM landfall_lanes FORCE INDEX (id) WHERE id IN ",
        );
        script.keys(names).text(" ORDER BY id FOR UPDATE");
        statement
    }

    pub(crate) fn read(answer: &mut Answer) -> Done<HashMap<LaneId, HeldLane>> {
        let lane = |mut row: Row| {
            let epoch: Option<i64> = take(&mut row, 4)?;
            let (next_nonce, seq) = (nonce(take(&mut row, 2)?)?, uint(take(&mut row, 5)?)?);
            let standing = Standing {
                held: epoch.map(uint).transpose()?.map(Epoch),
                halted: take_maybe_text(&mut row, 3)?,
                reached: Reached { next_nonce, seq },
            };
            let held = HeldLane { code: take(&mut row, 1)?, standing };
            Ok((LaneId::new(take_text(&mut row, 0)?), held))
        };
        answer.rows.drain(..).map(lane).collect()
    }

    pub(crate) fn is_held(&self, epoch: Epoch) -> bool {
        self.standing.held == Some(epoch)
    }
}

fn nonce(value: Option<i64>) -> Done<Option<Nonce>> {
    Ok(value.map(uint).transpose()?.map(Nonce))
}

/// How far every lane has come. They are few.
pub(crate) const REACHED: &str = "SELECT id, next_nonce, seq FROM landfall_lanes";

pub(crate) fn reached_from(answer: &mut Answer) -> Done<HashMap<LaneId, Reached>> {
    let lane = |mut row: Row| {
        let (next_nonce, seq) = (nonce(take(&mut row, 1)?)?, uint(take(&mut row, 2)?)?);
        Ok((LaneId::new(take_text(&mut row, 0)?), Reached { next_nonce, seq }))
    };
    answer.rows.drain(..).map(lane).collect()
}

const COLUMNS: &str = "SELECT id, rail, epoch, holder, lease_until_ms, base_nonce, next_nonce,
    halt_reason, halt_at_ms, seq FROM landfall_lanes";

fn lane_from(mut row: Row) -> Done<Lane> {
    let row = &mut row;
    let halted = match (take_maybe_text(row, 7)?, take::<Option<i64>>(row, 8)?) {
        (Some(reason), Some(at_ms)) => Some(Halt { reason, at_ms: uint(at_ms)? }),
        _ => None,
    };
    Ok(Lane {
        id: LaneId::new(take_text(row, 0)?),
        rail: rail_named(&take_text(row, 1)?)?,
        epoch: Epoch(uint(take(row, 2)?)?),
        holder: take_maybe_text(row, 3)?,
        lease_until_ms: uint(take(row, 4)?)?,
        base_nonce: nonce(take(row, 5)?)?,
        next_nonce: nonce(take(row, 6)?)?,
        seq: uint(take(row, 9)?)?,
        halted,
    })
}

impl Core {
    pub(crate) async fn lease(
        &self,
        id: &LaneId,
        rail: RailName,
        holder: &str,
        ttl_ms: u64,
    ) -> Done<Leased> {
        let by = (holder, ttl_ms);
        transaction!(self.connections, session => self.lease_once(&mut session, id, rail, by))
    }

    async fn lease_once(
        &self,
        session: &mut Session,
        id: &LaneId,
        rail: RailName,
        (holder, ttl_ms): (&str, u64),
    ) -> Done<Leased> {
        let mut script = Script::transaction();
        let found = script.say(COLUMNS);
        script.text(" WHERE id = ").bytes(id.as_str()).text(" FOR UPDATE");
        // Asked under the lock: it may have been waited for.
        let now = self.say_now(&mut script);
        let mut answers = session.run(script).await?;
        let now_ms = crate::now_from(&mut answers[now])?;
        let lane = answers[found].rows.pop().map(lane_from).transpose()?;
        let (leased, script) = leased(id, rail, holder, lane, (now_ms, ttl_ms))?;
        session.run(script).await?;
        Ok(leased)
    }

    pub(crate) async fn renew(&self, lanes: &[(LaneId, Epoch)], ttl_ms: u64) -> Done<Vec<bool>> {
        if lanes.is_empty() {
            return Ok(Vec::new());
        }
        transaction!(self.connections, session => self.renew_once(&mut session, lanes, ttl_ms))
    }

    async fn renew_once(
        &self,
        session: &mut Session,
        lanes: &[(LaneId, Epoch)],
        ttl_ms: u64,
    ) -> Done<Vec<bool>> {
        let mut script = Script::transaction();
        let held = HeldLane::lock(&mut script, lanes.iter().map(|(id, _)| id));
        let now = self.say_now(&mut script);
        let mut answers = session.run(script).await?;
        let until_ms = crate::now_from(&mut answers[now])?.saturating_add(ttl_ms);
        let held = HeldLane::read(&mut answers[held])?;
        let current =
            |(id, epoch): &(LaneId, Epoch)| held.get(id).filter(|lane| lane.is_held(*epoch));
        let codes: BTreeSet<i64> = lanes.iter().filter_map(current).map(|lane| lane.code).collect();
        let mut script = Script::default();
        if !codes.is_empty() {
            script.say("UPDATE landfall_lanes SET lease_until_ms = ");
            script.int(time(until_ms)).text(" WHERE code IN ").ints(codes);
        }
        script.say("COMMIT");
        let renewed = lanes.iter().map(|lane| current(lane).is_some()).collect();
        session.run(script).await?;
        Ok(renewed)
    }

    pub(crate) async fn release(&self, lanes: &[(LaneId, Epoch)]) -> Done<()> {
        let mut sorted = Vec::with_capacity(lanes.len());
        for (id, epoch) in lanes {
            sorted.push((id.as_str(), int(epoch.0)?));
        }
        sorted.sort_unstable();
        let script = || {
            let mut script = Script::transaction();
            for (id, epoch) in &sorted {
                script
                    .say("UPDATE landfall_lanes SET holder = NULL, lease_until_ms = 0 WHERE id = ");
                script.bytes(id).text(" AND epoch = ").int(*epoch);
            }
            script.say("COMMIT");
            script
        };
        self.connections.ask(script).await.map(|_| ())
    }

    pub(crate) async fn start_lane(&self, id: &LaneId, epoch: Epoch, ledger: Nonce) -> Done<bool> {
        let (epoch, base, next) = (int(epoch.0)?, int(ledger.0)?, int(ledger.next().0)?);
        let script = || {
            let mut script = Script::default();
            script.say("UPDATE landfall_lanes SET base_nonce = ");
            script.int(base).text(", next_nonce = ").int(next).text(" WHERE id = ");
            script.bytes(id.as_str()).text(" AND epoch = ").int(epoch);
            script.text(" AND holder IS NOT NULL AND next_nonce IS NULL");
            script
        };
        Ok(self.connections.ask(script).await?[0].changed == 1)
    }

    pub(crate) async fn halt(&self, id: &LaneId, reason: &str) -> Done<()> {
        let script = || {
            let mut script = Script::default();
            // The time first: each assignment sees those before it.
            script.say("UPDATE landfall_lanes SET halt_at_ms = COALESCE(halt_at_ms, ");
            script.text(&self.now_sql()).text("), halt_reason = COALESCE(halt_reason, ");
            script.bytes(reason).text(") WHERE id = ").bytes(id.as_str());
            script
        };
        known(id, &self.connections.ask(script).await?)
    }

    pub(crate) async fn adopt(&self, id: &LaneId, ledger: Nonce) -> Done<()> {
        let (base, next) = (int(ledger.0)?, int(ledger.next().0)?);
        let script = || {
            let mut script = Script::default();
            script.say("UPDATE landfall_lanes SET halt_reason = NULL, halt_at_ms = NULL,");
            script.text(" holder = NULL, lease_until_ms = 0, epoch = GREATEST(epoch + 1, ");
            script
                .text(&self.now_sql())
                .text("), seq = GREATEST(seq, ")
                .text(&self.now_sql())
                .text("), base_nonce = GREATEST(COALESCE(base_nonce, 0), ")
                .int(base);
            script.text("), next_nonce = GREATEST(COALESCE(next_nonce, 0), ").int(next);
            script.text(") WHERE id = ").bytes(id.as_str());
            script
        };
        known(id, &self.connections.ask(script).await?)
    }

    pub(crate) async fn lanes(&self) -> Done<Vec<Lane>> {
        let script = || {
            let mut script = Script::default();
            script.say(COLUMNS);
            script.text(" ORDER BY id");
            script
        };
        self.connections.ask(script).await?.remove(0).rows.into_iter().map(lane_from).collect()
    }
}

/// What becomes of a lane that `holder` asks for, and the script that makes it so.
fn leased(
    id: &LaneId,
    rail: RailName,
    holder: &str,
    lane: Option<Lane>,
    (now_ms, ttl_ms): (u64, u64),
) -> Done<(Leased, Script)> {
    let is_new = lane.is_none();
    let mut lane = lane.unwrap_or_else(|| new_lane(id, rail));
    let mut script = Script::default();
    if let Some(other) = &lane.holder
        && other != holder
        && lane.lease_until_ms > now_ms
        // A lease further away than it could last was given before the clock was set back.
        && lane.lease_until_ms <= now_ms.saturating_add(LEASE_MAX_MS)
    {
        script.say("COMMIT");
        let busy = Leased::Busy { holder: other.clone(), until_ms: lane.lease_until_ms };
        return Ok((busy, script));
    }
    lane.epoch = Epoch(lane.epoch.0 + 1);
    lane.holder = Some(holder.to_owned());
    lane.lease_until_ms = now_ms.saturating_add(ttl_ms);
    let (epoch, until_ms) = (int(lane.epoch.0)?, time(lane.lease_until_ms));
    if is_new {
        script.say("INSERT INTO landfall_lanes (id, rail, epoch, holder, lease_until_ms) VALUES");
        script.values([()], |row, ()| {
            row.bytes(id.as_str()).bytes(rail.as_str()).int(epoch).bytes(holder).int(until_ms);
        });
    } else {
        script.say("UPDATE landfall_lanes SET epoch = ");
        script.int(epoch).text(", holder = ").bytes(holder).text(", lease_until_ms = ");
        script.int(until_ms).text(" WHERE id = ").bytes(id.as_str());
    }
    script.say("COMMIT");
    Ok((Leased::Yours(lane), script))
}

fn new_lane(id: &LaneId, rail: RailName) -> Lane {
    Lane {
        id: id.clone(),
        rail,
        epoch: Epoch(0),
        holder: None,
        lease_until_ms: 0,
        base_nonce: None,
        next_nonce: None,
        seq: 0,
        halted: None,
    }
}

fn known(id: &LaneId, answers: &[Answer]) -> Done<()> {
    if answers[0].changed == 0 {
        return Err(corrupt(format!("lane {id} is not in the store")));
    }
    Ok(())
}
