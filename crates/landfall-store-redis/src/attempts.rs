//! Attempts: opened with their members moved, seen, settled once.
//!
//! **Invariant:** a lane's nonce is used by one stored attempt and never given back.
//! **Invariant:** once an attempt is decided, no transfer is carried by it.

use landfall_core::attempt::{Attempt, Fate, Purpose, Sighting};
use landfall_core::store::{OpenAttempt, Opened, Settled, Settlement};
use landfall_core::{AttemptId, Epoch, LaneId, Nonce, RailName, TransferId};
use redis::{Pipeline, Value};

use crate::RedisStore;
use crate::answer::{self, Fields};
use crate::codes;
use crate::fault::{Done, corrupt, unreadable};
use crate::keys::padded;
use crate::lanes::with_next;
use crate::moves;
use crate::script::{Args, SCRIPTS};

/// The fields of an attempt, in the order in which they are read.
const FIELDS: [&str; 14] = [
    "rail",
    "lane",
    "epoch",
    "nonce",
    "purpose",
    "hash",
    "bytes",
    "base_block",
    "base_height",
    "expires_height",
    "members",
    "opened_ms",
    "fate",
    "decided_ms",
];

fn opening(open: &OpenAttempt) -> Done<Args> {
    let signed = &open.signed;
    let members: Vec<String> = open.moves.iter().map(|step| step.id.to_string()).collect();
    let mut args: Args = vec![open.lane.as_str().into(), open.epoch.to_string().into()];
    args.extend(with_next(open.nonce)?);
    args.extend([
        open.incarnation.clone().into(),
        padded(open.nonce).into(),
        open.rail.as_str().into(),
        open.purpose.as_str().into(),
        signed.hash.clone().into(),
        signed.base_block.clone().into(),
        signed.base_height.to_string().into(),
        signed.expires_height.to_string().into(),
        open.now_ms.to_string().into(),
        members.join(",").into(),
        signed.bytes.clone(),
        open.marks.len().to_string().into(),
    ]);
    for (lane, nonce) in &open.marks {
        args.extend([lane.as_str().into(), nonce.to_string().into()]);
    }
    for step in &open.moves {
        moves::encode(step, &mut args)?;
    }
    Ok(args)
}

fn opened(open: &OpenAttempt, answer: Value) -> Done<Opened> {
    let mut parts = answer::list(answer)?.into_iter();
    let word = answer::required(answer::text(parts.next().unwrap_or(Value::Nil))?)?;
    let mut next = || parts.next().unwrap_or(Value::Nil);
    let (lane, epoch) = (&open.lane, open.epoch);
    Ok(match word.as_str() {
        "stored" => {
            let id = answer::required(answer::text(next())?)?;
            Opened::Stored(Box::new(open.opened_as(AttemptId(answer::parsed(&id)?))))
        }
        "over" => Opened::Fenced(format!("epoch {epoch} of lane {lane} is over")),
        "halted" => {
            let reason = answer::text(next())?.unwrap_or_default();
            Opened::Fenced(format!("lane {lane} is halted: {reason}"))
        }
        "behind" => {
            let (lane, mark) = (answer::text(next())?, answer::text(next())?);
            let (lane, mark) = (lane.unwrap_or_default(), mark.unwrap_or_default());
            Opened::Behind(format!("nonce {mark} of lane {lane} is no longer stored"))
        }
        "restarted" => Opened::Restarted,
        "stale nonce" => Opened::StaleNonce,
        "stale members" => Opened::StaleMembers(answer::ids(next(), TransferId)?),
        other => return Err(corrupt(format!("opening an attempt came to {other:?}"))),
    })
}

impl RedisStore {
    pub(crate) async fn open_one(&self, open: OpenAttempt) -> Done<Opened> {
        let answer = self.link.run(&SCRIPTS.open, opening(&open)?).await?;
        opened(&open, answer)
    }

    pub(crate) async fn settle_attempt(&self, settlement: Settlement) -> Done<Settled> {
        let id = settlement.attempt;
        let mut args: Args = vec![
            id.to_string().into(),
            settlement.lane.as_str().into(),
            settlement.epoch.to_string().into(),
            serde_json::to_vec(&settlement.fate).map_err(unreadable)?,
            settlement.now_ms.to_string().into(),
        ];
        for step in &settlement.moves {
            moves::encode(step, &mut args)?;
        }
        let mut parts = answer::list(self.link.run(&SCRIPTS.settle, args).await?)?.into_iter();
        let mut next = || parts.next().unwrap_or(Value::Nil);
        let word = answer::required(answer::text(next())?)?;
        match word.as_str() {
            "done" => Ok(Settled::Done {
                moved: answer::ids(next(), TransferId)?,
                released: answer::ids(next(), TransferId)?,
            }),
            "already" => Ok(Settled::AlreadyDecided),
            "fenced" => Ok(Settled::Fenced),
            "unknown" => Err(corrupt(format!("attempt {id} is not in the store"))),
            _ => Err(corrupt(format!(
                "the settlement of attempt {id} has no move that fits its member {}",
                answer::text(next())?.unwrap_or_default()
            ))),
        }
    }

    pub(crate) async fn add_sighting(
        &self,
        id: AttemptId,
        epoch: Epoch,
        sighting: &Sighting,
    ) -> Done<bool> {
        let sighting = serde_json::to_vec(sighting).map_err(unreadable)?;
        let args = vec![id.to_string().into(), epoch.to_string().into(), sighting];
        answer::yes(self.link.run(&SCRIPTS.sight, args).await?)
    }

    pub(crate) async fn open_of_lane(&self, lane: &LaneId) -> Done<Vec<Attempt>> {
        let mut ask = redis::cmd("ZRANGE");
        ask.arg(self.link.keys.lane_open(lane)).arg(0).arg(-1);
        let entries = answer::texts(self.link.command(&ask).await?)?;
        Ok(still_open(self.read_attempts(&of_entries(&entries)?).await?))
    }

    pub(crate) async fn open_of_rail(&self, rail: RailName) -> Done<Vec<Attempt>> {
        let ids = self.open_since(rail, "+inf").await?;
        let mut found = still_open(self.read_attempts(&ids).await?);
        found.sort_by(|a, b| (&a.lane, a.nonce).cmp(&(&b.lane, b.nonce)));
        Ok(found)
    }

    /// Ids of the rail's open attempts that were opened up to a time.
    async fn open_since(&self, rail: RailName, until: &str) -> Done<Vec<AttemptId>> {
        let mut ask = redis::cmd("ZRANGEBYSCORE");
        ask.arg(self.link.keys.open(rail)).arg("-inf").arg(until);
        answer::ids(self.link.command(&ask).await?, AttemptId)
    }

    /// The transfers carried by attempts that are open since before this time, newest first.
    pub(crate) async fn adrift_before(&self, before_ms: u64) -> Done<Vec<TransferId>> {
        let mut members = Vec::new();
        for rail in RailName::ALL {
            let ids = self.open_since(rail, &format!("({before_ms}")).await?;
            let mut pipeline = Pipeline::with_capacity(ids.len());
            for id in &ids {
                pipeline.cmd("HGET").arg(self.link.keys.attempt(*id)).arg("members");
            }
            for value in self.link.pipeline(&pipeline).await? {
                members.extend(members_of(&answer::text(value)?.unwrap_or_default())?);
            }
        }
        members.sort_unstable_by(|a, b| b.cmp(a));
        Ok(members)
    }

    pub(crate) async fn after(
        &self,
        lane: &LaneId,
        above: Nonce,
        limit: usize,
    ) -> Done<Vec<Attempt>> {
        let (mut above, mut found) = (above, Vec::new());
        loop {
            let Some(from) = above.0.checked_add(1) else { return Ok(found) };
            let page =
                self.by_nonce(lane, &format!("[{}", padded(Nonce(from))), "+", limit).await?;
            let Some(last) = page.last() else { return Ok(found) };
            above = last.nonce;
            let is_all = page.len() < limit;
            let is_sunk = |attempt: &Attempt| matches!(attempt.fate, Some(Fate::Sunk(_)));
            found.extend(page.into_iter().filter(|attempt| !is_sunk(attempt)));
            if is_all || found.len() >= limit {
                found.truncate(limit);
                return Ok(found);
            }
        }
    }

    pub(crate) async fn at(&self, lane: &LaneId, nonce: Nonce) -> Done<Option<Attempt>> {
        let padded = padded(nonce);
        // A semicolon is what comes after a colon.
        let (from, to) = (format!("[{padded}:"), format!("({padded};"));
        Ok(self.by_nonce(lane, &from, &to, 1).await?.pop())
    }

    async fn by_nonce(
        &self,
        lane: &LaneId,
        from: &str,
        to: &str,
        limit: usize,
    ) -> Done<Vec<Attempt>> {
        let mut ask = redis::cmd("ZRANGEBYLEX");
        let key = self.link.keys.lane_attempts(lane);
        ask.arg(key).arg(from).arg(to).arg("LIMIT").arg(0).arg(limit.min(i64::MAX as usize));
        let entries = answer::texts(self.link.command(&ask).await?)?;
        self.read_attempts(&of_entries(&entries)?).await
    }

    pub(crate) async fn decided_page(
        &self,
        rail: RailName,
        after: AttemptId,
        limit: usize,
    ) -> Done<Vec<Attempt>> {
        let mut ask = redis::cmd("ZRANGEBYSCORE");
        ask.arg(self.link.keys.decided(rail)).arg(format!("({after}")).arg("+inf");
        ask.arg("LIMIT").arg(0).arg(limit.min(i64::MAX as usize));
        let ids = answer::ids(self.link.command(&ask).await?, AttemptId)?;
        self.read_attempts(&ids).await
    }

    /// The attempts that exist, in the order of `ids`.
    pub(crate) async fn read_attempts(&self, ids: &[AttemptId]) -> Done<Vec<Attempt>> {
        let mut pipeline = Pipeline::with_capacity(2 * ids.len());
        for id in ids {
            pipeline.cmd("HMGET").arg(self.link.keys.attempt(*id)).arg(&FIELDS);
            pipeline.cmd("LRANGE").arg(self.link.keys.sightings(*id)).arg(0).arg(-1);
        }
        let mut values = self.link.pipeline(&pipeline).await?.into_iter();
        let mut found = Vec::with_capacity(ids.len());
        for id in ids {
            let fields = values.next().unwrap_or(Value::Nil);
            let sightings = values.next().unwrap_or(Value::Nil);
            found.extend(attempt_from(*id, Fields::of(fields)?, sightings)?);
        }
        Ok(found)
    }
}

/// What was decided between finding and reading an attempt is not open any more.
fn still_open(mut attempts: Vec<Attempt>) -> Vec<Attempt> {
    attempts.retain(|attempt| attempt.fate.is_none());
    attempts
}

/// The ids behind `NONCE:ID`.
fn of_entries(entries: &[String]) -> Done<Vec<AttemptId>> {
    let id = |entry: &String| {
        let id = entry.split_once(':').map(|(_, id)| id);
        answer::parsed(answer::required(id)?).map(AttemptId)
    };
    entries.iter().map(id).collect()
}

fn members_of(text: &str) -> Done<Vec<TransferId>> {
    let ids = text.split(',').filter(|id| !id.is_empty());
    ids.map(|id| answer::parsed(id).map(TransferId)).collect()
}

fn attempt_from(id: AttemptId, mut fields: Fields, sightings: Value) -> Done<Option<Attempt>> {
    let Some(rail) = fields.text()? else { return Ok(None) };
    let purpose_of = |name: String| {
        let unknown = || corrupt(format!("unknown purpose {name:?} of attempt {id}"));
        Purpose::parse(&name).ok_or_else(unknown)
    };
    let mut attempt = Attempt {
        id,
        rail: codes::rail(&rail)?,
        lane: LaneId::new(fields.required()?),
        epoch: Epoch(answer::required(fields.parsed()?)?),
        nonce: Nonce(answer::required(fields.parsed()?)?),
        purpose: purpose_of(fields.required()?)?,
        hash: fields.text()?.unwrap_or_default(),
        bytes: fields.bytes()?.unwrap_or_default(),
        base_block: fields.text()?.unwrap_or_default(),
        base_height: answer::required(fields.parsed()?)?,
        expires_height: answer::required(fields.parsed()?)?,
        members: members_of(&fields.text()?.unwrap_or_default())?,
        opened_ms: answer::required(fields.parsed()?)?,
        sightings: Vec::new(),
        fate: None,
        decided_ms: None,
    };
    let fate = fields.text()?.map(|fate| serde_json::from_str(&fate)).transpose();
    attempt.fate = fate.map_err(unreadable)?;
    attempt.decided_ms = fields.parsed()?;
    if attempt.fate.is_some() != attempt.decided_ms.is_some() {
        return Err(corrupt(format!("attempt {id} is half decided")));
    }
    for sighting in answer::texts(sightings)? {
        attempt.sightings.push(serde_json::from_str(&sighting).map_err(unreadable)?);
    }
    Ok(Some(attempt))
}
