//! Attempts: opened with their members moved, given variants, seen, settled once.
//!
//! **Invariant:** a lane's nonce is used by one stored attempt and never given back.
//! **Invariant:** once an attempt is decided, no transfer is carried by it.

use landfall_core::attempt::{Attempt, BaseBlock, Fate, Purpose, Variant, VariantKind};
use landfall_core::store::{AddVariant, Added, OpenAttempt, Opened, Settled, Settlement, Sight};
use landfall_core::{AttemptId, Epoch, LaneId, Mark, Nonce, RailName, TransferId};
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
const FIELDS: [&str; 16] = [
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
    "seq",
    "variants",
];

/// Elements of the list of variants for each of them.
const VARIANT_PARTS: usize = 3;

fn height(height: Option<u64>) -> Vec<u8> {
    height.map_or(Vec::new(), |height| height.to_string().into())
}

fn add_marks(marks: &[(LaneId, Mark)], args: &mut Args) {
    args.push(marks.len().to_string().into());
    for (lane, mark) in marks {
        args.extend([
            lane.as_str().into(),
            mark.nonce.to_string().into(),
            mark.seq.to_string().into(),
        ]);
    }
}

/// Adds an opening to the arguments, as `scripts/open.lua` reads it.
fn opening(open: &OpenAttempt, args: &mut Args) -> Done<()> {
    let signed = &open.signed;
    let members: Vec<String> = open.moves.iter().map(|step| step.id.to_string()).collect();
    args.extend([open.lane.as_str().into(), open.epoch.to_string().into()]);
    args.extend(with_next(open.nonce)?);
    args.extend([
        padded(open.nonce).into(),
        open.rail.as_str().into(),
        open.purpose.as_str().into(),
        signed.hash.clone().into(),
        signed.base.as_ref().map_or(Vec::new(), |base| base.hash.clone().into()),
        height(signed.base.as_ref().map(|base| base.height)),
        height(signed.expires_height),
        open.now_ms.to_string().into(),
        members.join(",").into(),
        signed.bytes.clone(),
        open.incarnation.clone().into(),
    ]);
    add_marks(&open.marks, args);
    args.push(open.moves.len().to_string().into());
    open.moves.iter().try_for_each(|step| moves::encode(step, args))
}

/// Why nothing may be signed, as `scripts/signing.lua` puts it.
enum Barred {
    Restarted,
    Fenced(String),
    Behind(String),
}

fn barred(
    word: &str,
    (lane, epoch): (&LaneId, Epoch),
    mut next: impl FnMut() -> Value,
) -> Done<Option<Barred>> {
    let mut text = || Ok(answer::text(next())?.unwrap_or_default());
    Ok(Some(match word {
        "restarted" => Barred::Restarted,
        "over" => Barred::Fenced(format!("epoch {epoch} of lane {lane} is over")),
        "halted" => Barred::Fenced(format!("lane {lane} is halted: {}", text()?)),
        "behind" => {
            let lacking = text()?;
            Barred::Behind(format!("{lacking} of lane {} is no longer stored", text()?))
        }
        _ => return Ok(None),
    }))
}

fn opened(open: &OpenAttempt, answer: Value) -> Done<Opened> {
    let mut parts = answer::list(answer)?.into_iter();
    let word = answer::required(answer::text(parts.next().unwrap_or(Value::Nil))?)?;
    let mut next = || parts.next().unwrap_or(Value::Nil);
    match barred(&word, (&open.lane, open.epoch), &mut next)? {
        Some(Barred::Restarted) => return Ok(Opened::Restarted),
        Some(Barred::Fenced(why)) => return Ok(Opened::Fenced(why)),
        Some(Barred::Behind(why)) => return Ok(Opened::Behind(why)),
        None => {}
    }
    Ok(match word.as_str() {
        "stored" => {
            let (id, seq) = (answer::text(next())?, answer::text(next())?);
            let id = AttemptId(answer::parsed(&answer::required(id)?)?);
            let seq = answer::parsed(&answer::required(seq)?)?;
            Opened::Stored(Box::new(open.opened_as(id, seq)))
        }
        "stale nonce" => Opened::StaleNonce,
        "stale members" => Opened::StaleMembers(answer::ids(next(), TransferId)?),
        other => return Err(corrupt(format!("opening an attempt came to {other:?}"))),
    })
}

impl RedisStore {
    pub(crate) async fn open_batch(&self, batch: Vec<OpenAttempt>) -> Done<Vec<Opened>> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let mut args = Args::new();
        batch.iter().try_for_each(|open| opening(open, &mut args))?;
        let answers = answer::list(self.link.run(&SCRIPTS.open, args).await?)?;
        if answers.len() != batch.len() {
            let (given, asked) = (answers.len(), batch.len());
            return Err(corrupt(format!("a script answered {given} of {asked} openings")));
        }
        batch.iter().zip(answers).map(|(open, answer)| opened(open, answer)).collect()
    }

    pub(crate) async fn add_one_variant(&self, add: AddVariant) -> Done<Added> {
        let id = add.attempt;
        // The script counts it.
        let about = serde_json::to_vec(&add.stored_as(0)).map_err(unreadable)?;
        let cancels = add.kind == VariantKind::Cancels;
        let mut args: Args = vec![
            add.incarnation.clone().into(),
            id.to_string().into(),
            add.lane.as_str().into(),
            add.epoch.to_string().into(),
            add.number.to_string().into(),
            u8::from(cancels).to_string().into(),
            add.signed.hash.clone().into(),
            about,
            add.signed.bytes.clone(),
        ];
        add_marks(&add.marks, &mut args);
        let mut parts = answer::list(self.link.run(&SCRIPTS.vary, args).await?)?.into_iter();
        let mut next = || parts.next().unwrap_or(Value::Nil);
        let word = answer::required(answer::text(next())?)?;
        match barred(&word, (&add.lane, add.epoch), &mut next)? {
            Some(Barred::Restarted) => return Ok(Added::Restarted),
            Some(Barred::Fenced(why)) => return Ok(Added::Fenced(why)),
            Some(Barred::Behind(why)) => return Ok(Added::Behind(why)),
            None => {}
        }
        Ok(match word.as_str() {
            "stored" => {
                let seq = answer::parsed(&answer::required(answer::text(next())?)?)?;
                Added::Stored(Box::new(add.stored_as(seq)))
            }
            "elsewhere" => Added::Fenced(format!("attempt {id} is not of lane {}", add.lane)),
            "decided" => Added::Decided,
            "stale number" => Added::StaleNumber,
            _ => return Err(corrupt(format!("attempt {id} is not in the store"))),
        })
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

    pub(crate) async fn add_sight(&self, sight: Sight) -> Done<bool> {
        sight.check()?;
        let mut args: Args = vec![
            sight.attempt.to_string().into(),
            sight.lane.as_str().into(),
            sight.epoch.to_string().into(),
            sight.sightings.len().to_string().into(),
        ];
        for sighting in &sight.sightings {
            args.push(serde_json::to_vec(sighting).map_err(unreadable)?);
        }
        for step in &sight.moves {
            moves::encode(step, &mut args)?;
        }
        answer::yes(self.link.run(&SCRIPTS.sight, args).await?)
    }

    /// The attempt behind a hash.
    pub(crate) async fn of_hash(&self, rail: RailName, hash: &str) -> Done<Option<Attempt>> {
        let mut ask = redis::cmd("HGET");
        ask.arg(self.link.keys.hashes(rail)).arg(hash);
        let Some(id) = answer::text(self.link.command(&ask).await?)? else { return Ok(None) };
        Ok(self.read_attempts(&[AttemptId(answer::parsed(&id)?)]).await?.pop())
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
        let (mut found, mut varied) = (Vec::with_capacity(ids.len()), Vec::new());
        for id in ids {
            let fields = values.next().unwrap_or(Value::Nil);
            let sightings = values.next().unwrap_or(Value::Nil);
            let Some((attempt, variants)) = attempt_from(*id, Fields::of(fields)?, sightings)?
            else {
                continue;
            };
            if variants > 0 {
                varied.push((found.len(), variants));
            }
            found.push(attempt);
        }
        self.read_variants(&mut found, &varied).await?;
        Ok(found)
    }

    /// Gives the attempts at these places so many variants each: one that was added since is not of
    /// the moment that was read.
    async fn read_variants(&self, found: &mut [Attempt], varied: &[(usize, usize)]) -> Done<()> {
        let mut pipeline = Pipeline::with_capacity(varied.len());
        for (place, variants) in varied {
            let key = self.link.keys.variants(found[*place].id);
            pipeline.cmd("LRANGE").arg(key).arg(0).arg(VARIANT_PARTS * variants - 1);
        }
        let lists = self.link.pipeline(&pipeline).await?;
        for ((place, _), list) in varied.iter().zip(lists) {
            let parts = answer::list(list)?;
            found[*place].variants =
                parts.chunks(VARIANT_PARTS).map(variant_from).collect::<Done<_>>()?;
        }
        Ok(())
    }
}

/// From its count, what it is, and its bytes.
fn variant_from(parts: &[Value]) -> Done<Variant> {
    let [seq, about, bytes] = parts else { return Err(corrupt("a variant is cut off")) };
    let about = answer::required(answer::text(about.clone())?)?;
    let mut variant: Variant = serde_json::from_str(&about).map_err(unreadable)?;
    variant.seq = answer::parsed(&answer::required(answer::text(seq.clone())?)?)?;
    variant.signed.bytes = answer::bytes(bytes.clone())?.unwrap_or_default();
    Ok(variant)
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

/// An attempt without its variants, and how many of them it has.
fn attempt_from(
    id: AttemptId,
    mut fields: Fields,
    sightings: Value,
) -> Done<Option<(Attempt, usize)>> {
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
        base: base_from(&mut fields)?,
        expires_height: fields.parsed()?,
        members: members_of(&fields.text()?.unwrap_or_default())?,
        opened_ms: answer::required(fields.parsed()?)?,
        seq: 0,
        variants: Vec::new(),
        sightings: Vec::new(),
        fate: None,
        decided_ms: None,
    };
    let fate = fields.text()?.map(|fate| serde_json::from_str(&fate)).transpose();
    attempt.fate = fate.map_err(unreadable)?;
    attempt.decided_ms = fields.parsed()?;
    attempt.seq = fields.parsed()?.unwrap_or(0);
    let variants = fields.parsed()?.unwrap_or(0);
    if attempt.fate.is_some() != attempt.decided_ms.is_some() {
        return Err(corrupt(format!("attempt {id} is half decided")));
    }
    for sighting in answer::texts(sightings)? {
        attempt.sightings.push(serde_json::from_str(&sighting).map_err(unreadable)?);
    }
    Ok(Some((attempt, variants)))
}

fn base_from(fields: &mut Fields) -> Done<Option<BaseBlock>> {
    let hash = fields.text()?.unwrap_or_default();
    Ok(fields.parsed()?.map(|height| BaseBlock { hash, height }))
}
