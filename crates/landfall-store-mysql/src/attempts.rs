//! Attempts: opened with their members moved, seen, settled once.
//!
//! **Invariant:** a lane's nonce is used by one stored attempt and never given back.
//! **Invariant:** once an attempt is decided, no transfer is carried by it.
//! Whoever opens, sees or settles an attempt locks its lane first: under that lock the epoch, the
//! next nonce and the fates of the lane's attempts stay as they were read.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use landfall_core::attempt::{Purpose, Sighting};
use landfall_core::store::{OpenAttempt, Opened, Result, Settled, Settlement, StoreError};
use landfall_core::{AttemptId, Epoch, LaneId, Nonce, TransferId};

use crate::Core;
use crate::connections::{Answer, Session, take, take_text, transaction};
use crate::fault::{Done, corrupt, int, time};
use crate::lanes::HeldLane;
use crate::life;
use crate::moves::{Batch, Carrier, Prepared};
use crate::sql::Script;

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
        int(open.signed.base_height.max(open.signed.expires_height))?;
        Ok(Opening { open, moves })
    }

    fn members(&self) -> Vec<TransferId> {
        self.open.moves.iter().map(|step| step.id).collect()
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
    pub(crate) async fn open(&self, jobs: &[Opening]) -> Done<Vec<Opened>> {
        transaction!(self.connections, session => self.open_once(&mut session, jobs))
    }

    async fn open_once(&self, session: &mut Session, jobs: &[Opening]) -> Done<Vec<Opened>> {
        let mut script = Script::transaction();
        let held = HeldLane::lock(&mut script, jobs.iter().map(|job| &job.open.lane));
        let life = script.say(life::INCARNATION);
        let all =
            script.say("SELECT id, next_nonce FROM landfall_lanes WHERE next_nonce IS NOT NULL");
        let locks = Batch::lock(self, &mut script, jobs.iter().flat_map(|job| &job.moves));
        let mut answers = session.run(script).await?;
        let mut lanes = HeldLane::read(&mut answers[held])?;
        let known = Known {
            incarnation: life::incarnation_from(&mut answers[life])?,
            next: next_nonces(&mut answers[all])?,
        };
        let mut batch = Batch::locked(self, session, locks, &mut answers).await?;
        let mut new = Vec::new();
        let mut opened = Vec::with_capacity(jobs.len());
        for job in jobs {
            let lane = lanes.get_mut(job.open.lane.as_str());
            opened.push(match refusal(job, lane.as_deref(), &known, &batch)? {
                Some(refused) => Err(refused),
                None => {
                    let lane = lane.ok_or_else(|| corrupt("a lane vanished under its lock"))?;
                    let number = new.len() as u64;
                    for prepared in &job.moves {
                        batch.take(prepared, Carrier::New(number), &mut Vec::new())?;
                    }
                    lane.next_nonce = Some(int(job.open.nonce.next().0)?);
                    new.push((lane.code, job));
                    Ok(number)
                }
            });
        }
        let first = write_openings(session, &batch, &new).await?;
        let step = session.id_step();
        let answer = |(opened, job): (std::result::Result<u64, Opened>, &Opening)| match opened {
            Ok(number) => {
                let id = AttemptId(first + number * step);
                Opened::Stored(Box::new(job.open.opened_as(id)))
            }
            Err(refused) => refused,
        };
        Ok(opened.into_iter().zip(jobs).map(answer).collect())
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
            let lane = lanes.get(job.lane.as_str());
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

    pub(crate) async fn sight(
        &self,
        id: AttemptId,
        epoch: Epoch,
        sighting: &Sighting,
    ) -> Done<bool> {
        let (id, epoch, sighting) = (int(id.0)?, int(epoch.0)?, serde_json::to_string(sighting)?);
        transaction!(self.connections, session => sight_once(&mut session, id, epoch, &sighting))
    }
}

/// What is known of the store as a whole while attempts are opened.
struct Known {
    incarnation: Option<String>,
    /// By lane.
    next: HashMap<String, i64>,
}

/// The next nonce of every lane. They are few.
fn next_nonces(answer: &mut Answer) -> Done<HashMap<String, i64>> {
    let lane = |mut row| Ok((take_text(&mut row, 0)?, take(&mut row, 1)?));
    answer.rows.drain(..).map(lane).collect()
}

/// Why the attempt cannot be opened, if so.
fn refusal(
    job: &Opening,
    lane: Option<&HeldLane>,
    known: &Known,
    batch: &Batch<'_>,
) -> Done<Option<Opened>> {
    let open = &job.open;
    if known.incarnation.as_deref() != Some(open.incarnation.as_str()) {
        return Ok(Some(Opened::Restarted));
    }
    let Some(lane) = lane.filter(|lane| lane.is_held(open.epoch)) else {
        let why = format!("epoch {} of lane {} is over", open.epoch, open.lane);
        return Ok(Some(Opened::Fenced(why)));
    };
    let is_fence = open.purpose == Purpose::Fence;
    if let Some(reason) = lane.halt_reason.as_ref().filter(|_| !is_fence) {
        let why = format!("lane {} is halted: {reason}", open.lane);
        return Ok(Some(Opened::Fenced(why)));
    }
    for (lane, mark) in &open.marks {
        let nonce = int(mark.0)?;
        if known.next.get(lane.as_str()).is_none_or(|next| *next <= nonce) {
            let why = format!("nonce {mark} of lane {lane} is no longer stored");
            return Ok(Some(Opened::Behind(why)));
        }
    }
    let nonce = int(open.nonce.0)?;
    if !lane.next_nonce.is_some_and(|next| nonce == next || is_fence && nonce > next) {
        return Ok(Some(Opened::StaleNonce));
    }
    let mut aboard = HashSet::new();
    let mut stale = Vec::new();
    for prepared in &job.moves {
        let carried = prepared.step.from_attempt.is_some();
        if carried || !aboard.insert(prepared.step.id) || !batch.fits(prepared)? {
            stale.push(prepared.step.id);
        }
    }
    Ok((!stale.is_empty()).then_some(Opened::StaleMembers(stale)))
}

/// Writes the attempts with all that moved, and commits; returns the first one's id.
async fn write_openings(
    session: &mut Session,
    batch: &Batch<'_>,
    new: &[(i64, &Opening)],
) -> Done<u64> {
    let mut script = Script::default();
    let mut attempts = None;
    if !new.is_empty() {
        let next: BTreeMap<i64, Nonce> =
            new.iter().map(|(lane, job)| (*lane, job.open.nonce.next())).collect();
        script.say("UPDATE landfall_lanes SET next_nonce = CASE code");
        for (lane, nonce) in &next {
            script.text(" WHEN ").int(*lane).text(" THEN ").int(nonce.0 as i64);
        }
        script.text(" END WHERE code IN ").ints(next.into_keys());
        attempts = Some(
            script
                .say("INSERT INTO landfall_attempts (lane, nonce, epoch, opened_ms, open) VALUES"),
        );
        script.values(new, |row, (lane, job)| {
            let open = &job.open;
            row.int(*lane).int(open.nonce.0 as i64).int(open.epoch.0 as i64);
            row.int(time(open.now_ms)).int(1);
        });
        script.say("SET @attempt = LAST_INSERT_ID()");
    }
    let step = session.id_step();
    let head = "INSERT INTO landfall_bodies \
        (attempt,purpose,hash,base_block,base_height,expires_height,members,bytes) VALUES";
    script.rows(head, (0u64..).zip(new), "", |row, (number, (_, job))| {
        let signed = &job.open.signed;
        row.above("@attempt", number * step).bytes(job.open.purpose.as_str());
        row.bytes(&signed.hash).bytes(&signed.base_block);
        row.int(signed.base_height as i64).int(signed.expires_height as i64);
        row.bytes(pack(&job.members())).bytes(&signed.bytes);
    });
    batch.write(&mut script, session);
    script.say("COMMIT");
    let answers = session.run(script).await?;
    let Some(attempts) = attempts else { return Ok(0) };
    answers[attempts].first_id.ok_or_else(|| corrupt("a new attempt has no id"))
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

async fn sight_once(session: &mut Session, id: i64, epoch: i64, sighting: &str) -> Done<bool> {
    let mut script = Script::transaction();
    script.say("SET @lane = (SELECT lane FROM landfall_attempts WHERE id = ");
    script.int(id).text(")");
    let held = script.say(
        "SELECT code FROM landfall_lanes WHERE code = @lane AND holder IS NOT NULL AND epoch = ",
    );
    script.int(epoch).text(" FOR UPDATE");
    let open = script.say("SELECT id FROM landfall_attempts WHERE decided_ms IS NULL AND id = ");
    script.int(id);
    let answers = session.run(script).await?;
    let may = !answers[held].rows.is_empty() && !answers[open].rows.is_empty();
    let mut script = Script::default();
    if may {
        script.say("INSERT INTO landfall_sightings (attempt, sighting) VALUES");
        script.values([sighting], |row, sighting| {
            row.int(id).bytes(sighting);
        });
    }
    script.say("COMMIT");
    session.run(script).await?;
    Ok(may)
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
