//! One transaction of many callers' moves: lock, decide, write.
//!
//! Two flights of pipelined statements. The first locks every row that the batch may touch and
//! reads it; then each job is decided here, in order, against those rows as the jobs before it left
//! them; the second writes what came of it, one statement per table, and commits.
//!
//! READ COMMITTED is enough. Each statement sees all that was committed before it began, and a row
//! once locked (`FOR UPDATE`) changes no more; all that decides an answer is read under such a
//! lock:
//! - a transfer's state, version and attempt, under its own;
//! - a lane's epoch, halt, next nonce and count of signatures, and whether one of its attempts is
//!   decided and how many variants it has, under the lane's: whoever writes any of these holds it;
//! - a claim's owner and its waiters, under the claim's: whoever waits has locked it. A claim that
//!   is not there cannot be locked; writing it then meets its primary key, and the batch starts
//!   over.
//!
//! What is read without a lock only grows or never changes: how far lanes have come that are only
//! marks of the opener, members.
//!
//! **Rule:** locks are taken in one order by everybody: lanes, claims, transfers, counts; each by
//! its key. So no two batches wait for each other; if the server sees it otherwise, the batch
//! starts over.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use landfall_core::attempt::Variant;
use landfall_core::claim::ClaimKey;
use landfall_core::opening::Reached;
use landfall_core::store::{AddVariant, Added, AppliedBatch, Opened, Result, Settled};
use landfall_core::{LaneId, State, TransferId};

use crate::attempts::{AttemptRow, Decision, Opening, Seen};
use crate::claims::ClaimRow;
use crate::codes::Codes;
use crate::connections::{Ask, Connection, Value, Values, Work, Write};
use crate::fault::{Done, corrupt, get, int, text, time, uint};
use crate::lanes::LaneRow;
use crate::moves::{Moved, Prepared, TrailRows};
use crate::{attempts, claims, lanes, moves};

/// Something to be done with others in one transaction.
pub(crate) enum Job {
    Apply(Vec<Prepared>),
    Open(Vec<Opening>),
    Vary(Box<AddVariant>),
    Sight(Box<Seen>),
    Settle(Box<Decision>),
}

/// What came of a job.
pub(crate) enum Answer {
    Applied(AppliedBatch),
    Opened(Vec<Opened>),
    Varied(Result<Added>),
    Sighted(bool),
    Settled(Result<Settled>),
}

impl Job {
    fn moves(&self) -> Vec<&Prepared> {
        match self {
            Job::Apply(moves) => moves.iter().collect(),
            Job::Open(batch) => batch.iter().flat_map(|opening| &opening.moves).collect(),
            Job::Vary(_) => Vec::new(),
            Job::Sight(seen) => seen.moves.iter().collect(),
            Job::Settle(decision) => decision.moves.iter().collect(),
        }
    }
}

/// Jobs on their way into one transaction.
pub(crate) struct Batch<'a> {
    pub jobs: &'a [Job],
    pub codes: &'a Codes,
}

/// What a batch has to lock and read.
#[derive(Default)]
struct Needs {
    lanes: Vec<String>,
    marks: Vec<String>,
    attempts: Vec<i64>,
    /// Those of the attempts whose members may leave.
    settled: Vec<i64>,
    openings: i64,
    /// Whether anything is signed.
    signs: bool,
    spaces: Vec<String>,
    keys: Vec<String>,
    transfers: Vec<i64>,
}

impl Needs {
    fn of(jobs: &[Job]) -> Done<Needs> {
        let mut needs = Needs::default();
        let (mut lanes, mut marks) = (BTreeSet::new(), BTreeSet::new());
        let (mut claims, mut transfers) = (BTreeSet::new(), BTreeSet::new());
        for job in jobs {
            match job {
                Job::Apply(_) => {}
                Job::Open(batch) => {
                    for Opening { open, .. } in batch {
                        lanes.insert(text(open.lane.as_str()));
                        marks.extend(open.marks.iter().map(|(lane, _)| text(lane.as_str())));
                    }
                    needs.openings += time(batch.len() as u64);
                    needs.signs = true;
                }
                Job::Vary(add) => {
                    lanes.insert(text(add.lane.as_str()));
                    marks.extend(add.marks.iter().map(|(lane, _)| text(lane.as_str())));
                    needs.attempts.push(int(add.attempt.0)?);
                    needs.signs = true;
                }
                Job::Sight(seen) => {
                    lanes.insert(text(seen.sight.lane.as_str()));
                    needs.attempts.push(int(seen.sight.attempt.0)?);
                }
                Job::Settle(decision) => {
                    lanes.insert(text(decision.lane.as_str()));
                    needs.attempts.push(int(decision.attempt.0)?);
                    needs.settled.push(int(decision.attempt.0)?);
                }
            }
            for prepared in job.moves() {
                transfers.insert(int(prepared.step.id.0)?);
                for end in &prepared.step.claims {
                    let key = claims::key_of(end);
                    claims.insert((text(&key.space), text(&key.key)));
                }
            }
        }
        needs.lanes = lanes.into_iter().collect();
        needs.marks = marks.into_iter().collect();
        needs.transfers = transfers.into_iter().collect();
        (needs.spaces, needs.keys) = claims.into_iter().unzip();
        Ok(needs)
    }
}

/// A transfer whose row is locked, as the jobs so far have left it.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub state: State,
    pub version: i64,
    pub updated_ms: i64,
    pub attempt: Option<i64>,
}

/// The locked rows, and what is to be written to them.
pub(crate) struct Sheet<'a> {
    pub codes: &'a Codes,
    /// Read only where somebody may be woken.
    pub now_ms: i64,
    pub incarnation: String,
    pub lanes: HashMap<LaneId, LaneRow>,
    pub marks: HashMap<LaneId, Reached>,
    pub attempts: HashMap<i64, AttemptRow>,
    /// The next one is the last.
    pub attempt_ids: Vec<i64>,
    pub claims: HashMap<ClaimKey, ClaimRow>,
    pub transfers: HashMap<i64, Held>,
    /// The newest move of each transfer, with the attempt that carries it after it.
    pub moved: BTreeMap<i64, Moved<'a>>,
    /// Waiters made due that did not move.
    pub woken: BTreeSet<i64>,
    pub trail: TrailRows<'a>,
    /// With the id and the lane's count of signatures.
    pub opened: Vec<(i64, u64, &'a Opening)>,
    pub varied: Vec<(i64, Variant)>,
    pub seen: Vec<(i64, &'a str)>,
    /// How far lanes have come, by code.
    pub signed: BTreeMap<i64, Reached>,
    pub decided: Vec<&'a Decision>,
    counts: BTreeMap<i16, i64>,
}

const LOCK: &str = "SELECT id, state, version, attempt, updated_ms FROM transfers
    WHERE id = ANY($1) ORDER BY id FOR UPDATE";

/// With the members of attempts and the waiters of claims, which the caller has locked.
const LOCK_MORE: &str = "SELECT id, state, version, attempt, updated_ms FROM transfers
    WHERE id = ANY(ARRAY(
        SELECT unnest($1::bigint[])
        UNION SELECT unnest(a.members) FROM attempts a WHERE a.id = ANY($2)
        UNION SELECT w.waiter FROM unnest($3::text[], $4::text[]) AS c(space, key)
            JOIN claim_waiters w ON w.space = c.space AND w.key = c.key
    )) ORDER BY id FOR UPDATE";

const NOW: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

const ATTEMPT_IDS: &str = "SELECT nextval('attempt_ids') FROM generate_series(1, $1::bigint)";

/// Writers of one shard wait for each other until they have committed: with as many shards as there
/// are likely to be sessions, hardly anybody does. Rows are few, so the sum over them is cheap, and
/// it is exact: they are written with the moves they count.
pub(crate) const COUNT: &str = "INSERT INTO counts (shard, state, transfers)
    SELECT pg_backend_pid() % 64, c.state, c.by FROM unnest($1::smallint[], $2::bigint[])
        AS c(state, by) ORDER BY c.state
    ON CONFLICT (shard, state) DO UPDATE SET transfers = counts.transfers + excluded.transfers";

impl Work for Batch<'_> {
    type Answer = Vec<Answer>;

    async fn run(&self, db: &mut Connection) -> Done<Vec<Answer>> {
        let needs = Needs::of(self.jobs)?;
        let mut sheet = self.lock(db, &needs).await?;
        let answers = self.jobs.iter().map(|job| sheet.decide(job)).collect::<Done<Vec<_>>>()?;
        sheet.write(db).await?;
        Ok(answers)
    }
}

impl<'a> Batch<'a> {
    /// The first flight.
    async fn lock(&self, db: &mut Connection, needs: &Needs) -> Done<Sheet<'a>> {
        let claims: Values<'_> = &[&needs.spaces, &needs.keys];
        let all: Values<'_> = &[&needs.transfers, &needs.settled, &needs.spaces, &needs.keys];
        let (held, marked): (Values<'_>, Values<'_>) = (&[&needs.lanes], &[&needs.marks]);
        let (looked, opened): (Values<'_>, Values<'_>) = (&[&needs.attempts], &[&needs.openings]);
        let has_claims = !needs.keys.is_empty();
        let has_settlements = !needs.settled.is_empty();
        let transfers =
            if has_claims || has_settlements { (LOCK_MORE, all) } else { (LOCK, &all[..1]) };
        let asks: [Ask<'_>; 9] = [
            (!needs.lanes.is_empty()).then_some((lanes::LOCK, held)),
            (!needs.marks.is_empty()).then_some((lanes::REACHED, marked)),
            (!needs.attempts.is_empty()).then_some((attempts::LOOK, looked)),
            has_claims.then_some((claims::LOCK, claims)),
            has_claims.then_some((claims::WAITERS, claims)),
            Some(transfers),
            has_claims.then_some((NOW, &[])),
            (needs.openings > 0).then_some((ATTEMPT_IDS, opened)),
            needs.signs.then_some((lanes::INCARNATION, &[])),
        ];
        let answers = db.begin(&asks).await?;
        let [lanes, marks, attempts, claimed, waiters, held, now, ids, life] = &answers[..] else {
            return Err(corrupt("a flight came back with other answers"));
        };
        let number = |row: &tokio_postgres::Row| get(row, 0);
        let mut sheet = Sheet {
            codes: self.codes,
            now_ms: now.first().map(number).transpose()?.unwrap_or_default(),
            incarnation: life.first().map(|row| get(row, 0)).transpose()?.unwrap_or_default(),
            lanes: lanes.iter().map(lanes::locked_from).collect::<Done<_>>()?,
            marks: marks.iter().map(lanes::reached_from).collect::<Done<_>>()?,
            attempts: attempts.iter().map(attempts::looked_from).collect::<Done<_>>()?,
            attempt_ids: ids.iter().rev().map(number).collect::<Done<_>>()?,
            claims: claims::locked_from(needs.spaces.iter().zip(&needs.keys), claimed, waiters)?,
            transfers: HashMap::with_capacity(held.len()),
            moved: BTreeMap::new(),
            woken: BTreeSet::new(),
            trail: TrailRows::default(),
            opened: Vec::new(),
            varied: Vec::new(),
            seen: Vec::new(),
            signed: BTreeMap::new(),
            decided: Vec::new(),
            counts: BTreeMap::new(),
        };
        for row in held {
            let state = self.codes.state(get(row, 1)?)?;
            let (version, updated_ms) = (get(row, 2)?, get(row, 4)?);
            let held = Held { state, version, updated_ms, attempt: get(row, 3)? };
            sheet.transfers.insert(get(row, 0)?, held);
        }
        Ok(sheet)
    }
}

impl<'a> Sheet<'a> {
    fn decide(&mut self, job: &'a Job) -> Done<Answer> {
        Ok(match job {
            Job::Apply(moves) => Answer::Applied(self.apply(moves)?),
            Job::Open(batch) => {
                let opened = batch.iter().map(|opening| self.open_attempt(opening));
                Answer::Opened(opened.collect::<Done<_>>()?)
            }
            Job::Vary(add) => Answer::Varied(self.add_variant(add)?),
            Job::Sight(seen) => Answer::Sighted(self.sight(seen)?),
            Job::Settle(decision) => Answer::Settled(self.settle(decision)?),
        })
    }

    pub(crate) fn count(&mut self, from: State, to: State) -> Done<()> {
        if from != to {
            *self.counts.entry(self.codes.code(from)?).or_default() -= 1;
            *self.counts.entry(self.codes.code(to)?).or_default() += 1;
        }
        Ok(())
    }

    /// Makes a waiter due, unless it is final or carried and so waits for nothing.
    pub(crate) fn wake(&mut self, waiter: i64, released: &mut Vec<TransferId>) -> Done<()> {
        let Some(held) = self.transfers.get(&waiter) else { return Ok(()) };
        if held.attempt.is_some() || held.state.is_final() {
            return Ok(());
        }
        match self.moved.get_mut(&waiter) {
            Some(moved) => moved.due_ms = Some(self.now_ms),
            None => drop(self.woken.insert(waiter)),
        }
        released.push(TransferId(uint(waiter)?));
        Ok(())
    }

    /// The second flight.
    async fn write(&mut self, db: &mut Connection) -> Done<()> {
        let mut writes: Vec<Write> = Vec::new();
        moves::write(self, &mut writes)?;
        attempts::write(self, &mut writes)?;
        claims::write(self, &mut writes)?;
        self.counts.retain(|_, by| *by != 0);
        if !self.counts.is_empty() {
            let (states, by): (Vec<i16>, Vec<i64>) = self.counts.iter().unzip();
            let values: Vec<Value> = vec![Box::new(states), Box::new(by)];
            writes.push(Write { sql: COUNT, values, rows: None });
        }
        if writes.is_empty() {
            return db.roll_back().await;
        }
        db.commit(&writes).await
    }
}
