//! Attempts: opened with their members moved, given variants, seen, settled once.
//!
//! **Invariant:** a lane's nonce is used by one stored attempt and never given back.
//! **Invariant:** once an attempt is decided, no transfer is carried by it.
//! Whoever opens, varies, sees or settles an attempt locks its lane first: under that lock the
//! epoch, the next nonce, the count of signatures, and the fates and variants of the lane's
//! attempts stay as they were read.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use landfall_core::attempt::{Signed, Variant};
use landfall_core::opening::{Known, Reached, Underway, refusal, stale_members, variant_refusal};
use landfall_core::store::{
    AddVariant, Added, OpenAttempt, Opened, Result, Settled, Settlement, Sight, StoreError,
};
use landfall_core::{AttemptId, Epoch, LaneId, Nonce, TransferId};

use crate::Core;
use crate::connections::{Answer, Session, take, transaction};
use crate::fault::{Done, corrupt, int, time};
use crate::lanes::{self, HeldLane};
use crate::life;
use crate::moves::{Batch, Carrier, Prepared};
use crate::sql::{Row, Script};

/// An attempt to open, its moves worked out.
pub(crate) struct Opening {
    open: OpenAttempt,
    moves: Vec<Prepared>,
}

impl Opening {
    pub(crate) fn new(open: OpenAttempt) -> Done<Opening> {
        let moves = Prepared::all(open.moves.clone())?;
        int(open.nonce.next().0)?;
        int(open.epoch.0)?;
        check_terms(&open.signed)?;
        Ok(Opening { open, moves })
    }

    fn members(&self) -> Vec<TransferId> {
        self.open.moves.iter().map(|step| step.id).collect()
    }
}

/// What was seen, its moves worked out.
pub(crate) struct Seen {
    id: i64,
    lane: LaneId,
    epoch: Epoch,
    sightings: Vec<String>,
    moves: Vec<Prepared>,
}

impl Seen {
    pub(crate) fn new(sight: Sight) -> Done<Seen> {
        let Sight { attempt, lane, epoch, sightings, moves } = sight;
        let sightings = sightings.iter().map(serde_json::to_string);
        let sightings = sightings.collect::<std::result::Result<_, _>>()?;
        let moves = Prepared::all(moves)?;
        Ok(Seen { id: int(attempt.0)?, lane, epoch, sightings, moves })
    }
}

/// A decision, its moves worked out.
pub(crate) struct Decision {
    attempt: AttemptId,
    id: i64,
    lane: LaneId,
    epoch: Epoch,
    fate: String,
    moves: Vec<Prepared>,
    now_ms: u64,
}

impl Decision {
    pub(crate) fn new(settlement: Settlement) -> Done<Decision> {
        let Settlement { attempt, lane, epoch, fate, moves, now_ms } = settlement;
        let (id, fate) = (int(attempt.0)?, serde_json::to_string(&fate)?);
        Ok(Decision { attempt, id, lane, epoch, fate, moves: Prepared::all(moves)?, now_ms })
    }
}

impl Core {
    /// One answer for each of the batches, with one for each of its attempts.
    pub(crate) async fn open(&self, jobs: &[Vec<Opening>]) -> Done<Vec<Vec<Opened>>> {
        transaction!(self.connections, session => self.open_once(&mut session, jobs))
    }

    async fn open_once(
        &self,
        session: &mut Session,
        jobs: &[Vec<Opening>],
    ) -> Done<Vec<Vec<Opened>>> {
        let openings = || jobs.iter().flatten();
        let mut script = Script::transaction();
        let ground = Ground::ask(&mut script, openings().map(|job| &job.open.lane));
        let locks = Batch::lock(self, &mut script, openings().flat_map(|job| &job.moves));
        let mut answers = session.run(script).await?;
        let mut ground = Ground::read(ground, &mut answers)?;
        let mut batch = Batch::locked(self, session, locks, &mut answers).await?;
        let mut new = Vec::new();
        let mut opened = Vec::new();
        for job in openings() {
            opened.push(match ground.refusal(job, &batch)? {
                Some(refused) => Err(refused),
                None => {
                    let number = new.len() as u64;
                    for prepared in &job.moves {
                        batch.take(prepared, Carrier::New(number), &mut Vec::new())?;
                    }
                    let next = Some(job.open.nonce.next());
                    let (lane, seq) = ground.sign(&job.open.lane, next)?;
                    new.push((lane, seq, job));
                    Ok((number, seq))
                }
            });
        }
        let first = write_openings(session, &batch, &ground, &new).await?;
        let step = session.id_step();
        let answer = |(opened, job): (std::result::Result<(u64, u64), Opened>, &Opening)| {
            opened.map_or_else(
                |refused| refused,
                |(number, seq)| {
                    let id = AttemptId(first + number * step);
                    Opened::Stored(Box::new(job.open.opened_as(id, seq)))
                },
            )
        };
        let mut answers = opened.into_iter().zip(openings()).map(answer);
        Ok(jobs.iter().map(|job| answers.by_ref().take(job.len()).collect()).collect())
    }

    pub(crate) async fn add_variant(&self, add: &AddVariant) -> Done<Added> {
        int(add.epoch.0)?;
        check_terms(&add.signed)?;
        transaction!(self.connections, session => self.vary_once(&mut session, add))
    }

    async fn vary_once(&self, session: &mut Session, add: &AddVariant) -> Done<Added> {
        let id = int(add.attempt.0)?;
        let mut script = Script::transaction();
        let ground = Ground::ask(&mut script, std::iter::once(&add.lane));
        let found = script.say(
            "SELECT lane, decided_ms IS NOT NULL, variants FROM landfall_attempts WHERE id = ",
        );
        script.int(id);
        let mut answers = session.run(script).await?;
        let mut ground = Ground::read(ground, &mut answers)?;
        let code = ground.lanes.get(&add.lane).map(|lane| lane.code);
        let underway = answers[found].rows.pop().map(|mut row| -> Done<Underway> {
            let is_of_lane = code == Some(take(&mut row, 0)?);
            let (is_decided, variants) = (take(&mut row, 1)?, take(&mut row, 2)?);
            Ok(Underway { is_of_lane, is_decided, variants })
        });
        let added = match ground.variant_refusal(add, underway.transpose()?)? {
            Some(refused) => refused,
            None => {
                let (_, seq) = ground.sign(&add.lane, None)?;
                Added::Stored(Box::new(add.stored_as(seq)))
            }
        };
        let mut script = Script::default();
        if let Added::Stored(variant) = &added {
            ground.write(&mut script);
            write_variant(&mut script, id, variant);
        }
        script.say("COMMIT");
        session.run(script).await?;
        Ok(added)
    }

    pub(crate) async fn settle(&self, jobs: &[Decision]) -> Done<Vec<Result<Settled>>> {
        transaction!(self.connections, session => self.settle_once(&mut session, jobs))
    }

    async fn settle_once(
        &self,
        session: &mut Session,
        jobs: &[Decision],
    ) -> Done<Vec<Result<Settled>>> {
        let mut script = Script::transaction();
        let held = HeldLane::lock(&mut script, jobs.iter().map(|job| &job.lane));
        let found = script.say(
            "SELECT a.id, a.lane, a.decided_ms IS NOT NULL, b.members FROM landfall_attempts a
             JOIN landfall_bodies b ON b.attempt = a.id WHERE a.id IN ",
        );
        script.ints(jobs.iter().map(|job| job.id));
        let locks = Batch::lock(self, &mut script, jobs.iter().flat_map(|job| &job.moves));
        let mut answers = session.run(script).await?;
        let lanes = HeldLane::read(&mut answers[held])?;
        let mut carrying = Carrying::read(&mut answers[found])?;
        let mut batch = Batch::locked(self, session, locks, &mut answers).await?;
        let members = carrying.values().flat_map(|attempt| &attempt.members);
        batch.lock_more(session, members.map(|member| member.0 as i64).collect()).await?;
        let (mut settled, mut decided) = (Vec::with_capacity(jobs.len()), Vec::new());
        for job in jobs {
            let lane = lanes.get(&job.lane);
            let answer = decide(&mut batch, job, lane, carrying.get_mut(&job.id))?;
            if matches!(answer, Ok(Settled::Done { .. })) {
                decided.push(job);
            }
            settled.push(answer);
        }
        let mut script = Script::default();
        write_fates(&mut script, &decided);
        batch.write(&mut script, session);
        script.say("COMMIT");
        session.run(script).await?;
        Ok(settled)
    }

    pub(crate) async fn sight(&self, seen: &Seen) -> Done<bool> {
        transaction!(self.connections, session => self.sight_once(&mut session, seen))
    }

    async fn sight_once(&self, session: &mut Session, seen: &Seen) -> Done<bool> {
        let mut script = Script::transaction();
        let held = HeldLane::lock(&mut script, std::iter::once(&seen.lane));
        let open =
            script.say("SELECT lane FROM landfall_attempts WHERE decided_ms IS NULL AND id = ");
        script.int(seen.id);
        let locks = Batch::lock(self, &mut script, seen.moves.iter());
        let mut answers = session.run(script).await?;
        let lanes = HeldLane::read(&mut answers[held])?;
        let lane = lanes.get(&seen.lane).filter(|lane| lane.is_held(seen.epoch));
        let open: Option<i64> =
            answers[open].rows.pop().map(|mut row| take(&mut row, 0)).transpose()?;
        let is_wanted = lane.is_some_and(|lane| Some(lane.code) == open);
        let mut batch = Batch::locked(self, session, locks, &mut answers).await?;
        let mut script = Script::default();
        if is_wanted {
            for prepared in &seen.moves {
                if batch.fits(prepared)? {
                    batch.take(prepared, Carrier::Attempt(seen.id), &mut Vec::new())?;
                }
            }
            let head = "INSERT INTO landfall_sightings (attempt, sighting) VALUES";
            script.rows(head, &seen.sightings, "", |row, sighting| {
                row.int(seen.id).bytes(sighting);
            });
            batch.write(&mut script, session);
        }
        script.say("COMMIT");
        session.run(script).await?;
        Ok(is_wanted)
    }
}

/// What is known of the lanes and the store while something is signed; the lanes signed on are
/// locked.
struct Ground {
    incarnation: Option<String>,
    lanes: HashMap<LaneId, HeldLane>,
    /// Of every lane.
    reached: HashMap<LaneId, Reached>,
    /// Those that have come further, by code.
    signed: BTreeMap<i64, Reached>,
}

impl Ground {
    /// Adds to `script` what asks for it, and locks the lanes.
    fn ask<'a>(script: &mut Script, lanes: impl Iterator<Item = &'a LaneId>) -> [usize; 3] {
        let held = HeldLane::lock(script, lanes);
        [held, script.say(life::INCARNATION), script.say(lanes::REACHED)]
    }

    fn read([held, life, reached]: [usize; 3], answers: &mut [Answer]) -> Done<Ground> {
        Ok(Ground {
            incarnation: life::incarnation_from(&mut answers[life])?,
            lanes: HeldLane::read(&mut answers[held])?,
            reached: lanes::reached_from(&mut answers[reached])?,
            signed: BTreeMap::new(),
        })
    }

    fn known<'a>(
        &'a self,
        lane: &LaneId,
        reached: &'a dyn Fn(&LaneId) -> Option<Reached>,
    ) -> Known<'a> {
        Known {
            incarnation: self.incarnation.as_deref(),
            lane: self.lanes.get(lane).map(|lane| &lane.standing),
            reached,
        }
    }

    /// Why the attempt cannot be opened, if so.
    fn refusal(&self, job: &Opening, batch: &Batch<'_>) -> Done<Option<Opened>> {
        let reached = |lane: &LaneId| self.reached.get(lane).copied();
        let known = self.known(&job.open.lane, &reached);
        let moves = job.moves.iter().map(|prepared| (&prepared.step, prepared));
        refusal(&job.open, &known, || stale_members(moves, |prepared| batch.fits(prepared)))
    }

    fn variant_refusal(&self, add: &AddVariant, of: Option<Underway>) -> Done<Option<Added>> {
        let reached = |lane: &LaneId| self.reached.get(lane).copied();
        let refused = variant_refusal(add, &self.known(&add.lane, &reached), of);
        refused.map_err(|contradiction| match contradiction {
            StoreError::Corrupt(why) | StoreError::Unavailable(why) => corrupt(why),
        })
    }

    /// Counts one more signature of the lane, and its next nonce if that has changed; returns its
    /// code and which signature it is.
    fn sign(&mut self, id: &LaneId, next: Option<Nonce>) -> Done<(i64, u64)> {
        let vanished = || corrupt("a lane vanished under its lock");
        let lane = self.lanes.get_mut(id).ok_or_else(vanished)?;
        let reached = &mut lane.standing.reached;
        reached.next_nonce = next.or(reached.next_nonce);
        reached.seq += 1;
        self.reached.insert(id.clone(), *reached);
        self.signed.insert(lane.code, *reached);
        Ok((lane.code, reached.seq))
    }

    /// Adds to `script` what writes how far the lanes have come.
    fn write(&self, script: &mut Script) {
        if self.signed.is_empty() {
            return;
        }
        script.say("UPDATE landfall_lanes SET next_nonce = CASE code");
        for (code, reached) in &self.signed {
            // Whatever is signed on has been started, and its nonces were found to fit.
            let next = reached.next_nonce.map_or(0, |next| next.0 as i64);
            script.text(" WHEN ").int(*code).text(" THEN ").int(next);
        }
        script.text(" END, seq = CASE code");
        for (code, reached) in &self.signed {
            script.text(" WHEN ").int(*code).text(" THEN ").int(reached.seq as i64);
        }
        script.text(" END WHERE code IN ").ints(self.signed.keys().copied());
    }
}

/// Writes the attempts with all that moved, and commits; returns the first one's id.
async fn write_openings(
    session: &mut Session,
    batch: &Batch<'_>,
    ground: &Ground,
    new: &[(i64, u64, &Opening)],
) -> Done<u64> {
    let mut script = Script::default();
    let mut attempts = None;
    if !new.is_empty() {
        ground.write(&mut script);
        attempts = Some(script.say(
            "INSERT INTO landfall_attempts (lane, nonce, epoch, opened_ms, open, seq) VALUES",
        ));
        script.values(new, |row, (lane, seq, job)| {
            let open = &job.open;
            row.int(*lane).int(open.nonce.0 as i64).int(open.epoch.0 as i64);
            row.int(time(open.now_ms)).int(1).int(*seq as i64);
        });
        script.say("SET @attempt = LAST_INSERT_ID()");
    }
    let step = session.id_step();
    let head = "INSERT INTO landfall_bodies \
        (attempt,purpose,hash,base_block,base_height,expires_height,bytes,members) VALUES";
    script.rows(head, (0u64..).zip(new), "", |row, (number, (_, _, job))| {
        row.above("@attempt", number * step).bytes(job.open.purpose.as_str());
        write_signed(row, &job.open.signed);
        row.bytes(pack(&job.members()));
    });
    batch.write(&mut script, session);
    script.say("COMMIT");
    let answers = session.run(script).await?;
    let Some(attempts) = attempts else { return Ok(0) };
    answers[attempts].first_id.ok_or_else(|| corrupt("a new attempt has no id"))
}

fn write_variant(script: &mut Script, attempt: i64, variant: &Variant) {
    script.say("UPDATE landfall_attempts SET variants = ");
    script.int(variant.number).text(" WHERE id = ").int(attempt);
    let head = "INSERT INTO landfall_variants (attempt,number,kind,epoch,seq,opened_ms,\
        hash,base_block,base_height,expires_height,bytes) VALUES";
    script.rows(head, [variant], "", |row, variant| {
        row.int(attempt).int(variant.number).bytes(variant.kind.as_str());
        row.int(variant.epoch.0 as i64).int(variant.seq as i64).int(time(variant.opened_ms));
        write_signed(row, &variant.signed);
    });
}

/// A height that is not there.
pub(crate) const NONE: i64 = -1;

/// Whether its heights can be written.
fn check_terms(signed: &Signed) -> Done<()> {
    let base = signed.base.as_ref().map(|base| base.height);
    base.into_iter().chain(signed.expires_height).try_for_each(|height| int(height).map(|_| ()))
}

/// Hash, base block and height, expiry, bytes; the heights were checked.
fn write_signed(row: &mut Row<'_>, signed: &Signed) {
    let height = |height: Option<u64>| height.map_or(NONE, |height| height as i64);
    let base = signed.base.as_ref();
    row.bytes(&signed.hash).bytes(base.map_or("", |base| base.hash.as_str()));
    row.int(height(base.map(|base| base.height))).int(height(signed.expires_height));
    row.bytes(&signed.bytes);
}

/// An attempt that is to be settled.
struct Carrying {
    lane: i64,
    decided: bool,
    members: Vec<TransferId>,
}

impl Carrying {
    fn read(answer: &mut Answer) -> Done<HashMap<i64, Carrying>> {
        let one = |mut row| {
            let members: Vec<u8> = take(&mut row, 3)?;
            let (lane, decided) = (take(&mut row, 1)?, take(&mut row, 2)?);
            Ok((take(&mut row, 0)?, Carrying { lane, decided, members: unpack(&members)? }))
        };
        answer.rows.drain(..).map(one).collect()
    }
}

/// Moves the members that the attempt still carries, unless one would be left in it.
fn decide<'a>(
    batch: &mut Batch<'a>,
    job: &'a Decision,
    lane: Option<&HeldLane>,
    attempt: Option<&mut Carrying>,
) -> Done<Result<Settled>> {
    let id = job.id;
    let Some(attempt) = attempt else {
        return Ok(Err(StoreError::Corrupt(format!("attempt {id} is not in the store"))));
    };
    if lane.is_none_or(|lane| lane.code != attempt.lane || !lane.is_held(job.epoch)) {
        return Ok(Ok(Settled::Fenced));
    }
    if attempt.decided {
        return Ok(Ok(Settled::AlreadyDecided));
    }
    let mut leaving = BTreeSet::new();
    let mut fitting = Vec::new();
    for prepared in &job.moves {
        let ours = prepared.step.from_attempt == Some(job.attempt) && batch.fits(prepared)?;
        if ours && leaving.insert(prepared.step.id) {
            fitting.push(prepared);
        }
    }
    let stays = |member: &&TransferId| {
        !leaving.contains(member) && batch.carrier(member.0 as i64) == Some(Carrier::Attempt(id))
    };
    if let Some(member) = attempt.members.iter().find(stays) {
        return Ok(Err(StoreError::Corrupt(format!(
            "the settlement of attempt {id} has no move that fits its member {member}"
        ))));
    }
    attempt.decided = true;
    let (mut moved, mut released) = (Vec::with_capacity(fitting.len()), Vec::new());
    for prepared in fitting {
        batch.take(prepared, Carrier::Nobody, &mut released)?;
        moved.push(prepared.step.id);
    }
    Ok(Ok(Settled::Done { moved, released }))
}

fn write_fates(script: &mut Script, decided: &[&Decision]) {
    if decided.is_empty() {
        return;
    }
    script.say("UPDATE landfall_attempts SET open = NULL, decided_ms = CASE id");
    for job in decided {
        script.text(" WHEN ").int(job.id).text(" THEN ").int(time(job.now_ms));
    }
    script.text(" END WHERE id IN ").ints(decided.iter().map(|job| job.id));
    let head = "INSERT INTO landfall_fates (attempt, fate) VALUES";
    script.rows(head, decided, "", |row, job| {
        row.int(job.id).bytes(&job.fate);
    });
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
