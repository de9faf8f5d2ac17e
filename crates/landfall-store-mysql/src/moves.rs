//! Moves: the compare-and-set of transfers, with their trails and the claims they end.
//!
//! A batch goes in two round trips: the rows it is about are locked and read; then, in memory, each
//! move is applied or found stale, in order; then what has changed is written and committed. Locks
//! are taken in a fixed order (lanes, claims, transfers; each by its key), so that batches wait for
//! each other instead of deadlocking. Waiters of a claim come last and out of order: there a
//! deadlock is possible, and the batch is done again.
//! **Invariant:** a plain move never changes which attempt carries a transfer; opening and
//! settling alone do.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use landfall_core::store::Applied;
use landfall_core::{AttemptId, Move, TransferId, trail};

use crate::Core;
use crate::claims::Claims;
use crate::codes::Codes;
use crate::connections::{Answer, Session, take, transaction};
use crate::counts::Entered;
use crate::fault::{Done, corrupt, int, time, uint};
use crate::sql::Script;

/// A move with everything worked out that does not need the server.
pub(crate) struct Prepared {
    pub step: Move,
    id: i64,
    trail: Option<Vec<u8>>,
    error: Option<String>,
}

impl Prepared {
    pub(crate) fn new(step: Move) -> Done<Prepared> {
        Ok(Prepared {
            id: int(step.id.0)?,
            trail: (!step.trail.is_empty()).then(|| trail::encode(&step.trail)),
            error: step.error.as_ref().map(serde_json::to_string).transpose()?,
            step,
        })
    }

    pub(crate) fn all(moves: Vec<Move>) -> Done<Vec<Prepared>> {
        moves.into_iter().map(Prepared::new).collect()
    }

    /// Plain moves, which leave every transfer in the attempt it is in.
    pub(crate) fn plain(moves: Vec<Move>) -> Done<Vec<Prepared>> {
        if let Some(broken) = moves.iter().find(|step| step.attempt != step.from_attempt) {
            return Err(corrupt(format!(
                "a move of transfer {} changes its attempt without opening or settling one",
                broken.id
            )));
        }
        Prepared::all(moves)
    }
}

/// Which attempt carries a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carrier {
    Nobody,
    Attempt(i64),
    /// The attempt that this batch opens as its so-many-th, whose id the server has yet to draw.
    New(u64),
}

impl Carrier {
    fn is(self, expected: Option<AttemptId>) -> bool {
        match (self, expected) {
            (Carrier::Nobody, None) => true,
            (Carrier::Attempt(id), Some(expected)) => id as u64 == expected.0,
            _ => false,
        }
    }
}

/// What a move is compared with.
#[derive(Debug, Clone, Copy)]
struct Hot {
    state: i64,
    version: i64,
    updated_ms: i64,
    carrier: Carrier,
}

/// The last move of a transfer in this batch.
struct Written<'a> {
    prepared: &'a Prepared,
    state: i64,
    version: i64,
    carrier: Carrier,
    due_ms: Option<i64>,
}

/// The rows that a batch has locked, as they will be.
pub(crate) struct Batch<'a> {
    codes: &'a Codes,
    pub now_ms: u64,
    hot: HashMap<i64, Hot>,
    written: BTreeMap<i64, Written<'a>>,
    trail: Vec<(i64, i64, &'a [u8])>,
    /// Waiters made due that do not move.
    woken: BTreeSet<i64>,
    claims: Claims,
    entered: Entered,
}

impl<'a> Batch<'a> {
    /// Adds to `script` what locks and reads the rows that `moves` are about. Returns what
    /// [`Batch::locked`] needs to find them in the answers.
    pub(crate) fn lock(
        core: &Core,
        script: &mut Script,
        moves: impl Iterator<Item = &'a Prepared> + Clone,
    ) -> Locks {
        let claims = Claims::lock(script, moves.clone().flat_map(|prepared| &prepared.step.claims));
        let ids: BTreeSet<i64> = moves.map(|prepared| prepared.id).collect();
        let transfers = (!ids.is_empty()).then(|| lock_transfers(script, ids));
        let now = core.say_now(script);
        Locks { claims, transfers, now }
    }

    pub(crate) async fn locked(
        core: &'a Core,
        session: &mut Session,
        locks: Locks,
        answers: &mut [Answer],
    ) -> Done<Batch<'a>> {
        let mut batch = Batch {
            codes: &core.codes,
            now_ms: crate::now_from(&mut answers[locks.now])?,
            hot: HashMap::new(),
            written: BTreeMap::new(),
            trail: Vec::new(),
            woken: BTreeSet::new(),
            claims: Claims::read(&locks.claims, answers)?,
            entered: Entered::default(),
        };
        if let Some(transfers) = locks.transfers {
            batch.read_hot(std::mem::take(&mut answers[transfers]))?;
        }
        let waiting = batch.claims.waiters().filter(|id| !batch.hot.contains_key(id));
        batch.lock_more(session, waiting.collect()).await?;
        Ok(batch)
    }

    /// Locks transfers that the moves did not name.
    pub(crate) async fn lock_more(
        &mut self,
        session: &mut Session,
        mut ids: BTreeSet<i64>,
    ) -> Done<()> {
        ids.retain(|id| !self.hot.contains_key(id));
        if ids.is_empty() {
            return Ok(());
        }
        let mut script = Script::default();
        lock_transfers(&mut script, ids);
        let answer = session.run(script).await?.remove(0);
        self.read_hot(answer)
    }

    fn read_hot(&mut self, answer: Answer) -> Done<()> {
        for mut row in answer.rows {
            let attempt: Option<i64> = take(&mut row, 3)?;
            let carrier = attempt.map_or(Carrier::Nobody, Carrier::Attempt);
            let (state, version) = (take(&mut row, 1)?, take(&mut row, 2)?);
            let hot = Hot { state, version, updated_ms: take(&mut row, 4)?, carrier };
            self.hot.insert(take(&mut row, 0)?, hot);
        }
        Ok(())
    }

    /// Who carries a transfer now; none if there is no such transfer.
    pub(crate) fn carrier(&self, id: i64) -> Option<Carrier> {
        self.hot.get(&id).map(|hot| hot.carrier)
    }

    /// Whether the transfer is as the move expects it.
    pub(crate) fn fits(&self, prepared: &Prepared) -> Done<bool> {
        let step = &prepared.step;
        let Some(hot) = self.hot.get(&prepared.id) else { return Ok(false) };
        let version = step.from_version.map(int).transpose()?;
        Ok(hot.state == self.codes.code(step.from_state)?
            && version.is_none_or(|version| {
                version == hot.version && time(step.from_updated_ms) == hot.updated_ms
            })
            && hot.carrier.is(step.from_attempt))
    }

    /// Moves a transfer for which the move fits and leaves `carrier` to carry it.
    pub(crate) fn take(
        &mut self,
        prepared: &'a Prepared,
        carrier: Carrier,
        released: &mut Vec<TransferId>,
    ) -> Done<()> {
        let (id, step) = (prepared.id, &prepared.step);
        let state = self.codes.code(step.state)?;
        let hot = self.hot.get_mut(&id).ok_or_else(|| corrupt("a move of nobody"))?;
        if hot.state != state {
            self.entered.count(hot.state, -1);
            self.entered.count(state, 1);
        }
        let updated_ms = time(step.at_ms);
        *hot = Hot { state, version: hot.version + 1, updated_ms, carrier };
        let version = hot.version;
        if let Some(entries) = &prepared.trail {
            self.trail.push((id, version, entries));
        }
        let due_ms = step.due_ms.map(time);
        self.written.insert(id, Written { prepared, state, version, carrier, due_ms });
        self.woken.remove(&id);
        for end in &step.claims {
            for waiter in self.claims.end(end, id) {
                if self.wake(waiter)? {
                    released.push(TransferId(uint(waiter)?));
                }
            }
        }
        Ok(())
    }

    /// Makes a waiter due, unless it is final or carried and so waits for nothing.
    fn wake(&mut self, waiter: i64) -> Done<bool> {
        let Some(hot) = self.hot.get(&waiter) else { return Ok(false) };
        if hot.carrier != Carrier::Nobody || self.codes.state(hot.state)?.is_final() {
            return Ok(false);
        }
        match self.written.get_mut(&waiter) {
            Some(written) => written.due_ms = Some(time(self.now_ms)),
            None => {
                self.woken.insert(waiter);
            }
        }
        Ok(true)
    }

    /// Adds to `script` what writes all of it. Ids of new attempts are in `@attempt` and above.
    pub(crate) fn write(&self, script: &mut Script, session: &Session) {
        let step = session.id_step();
        let head = "INSERT INTO landfall_transfers (id,state,version,attempt,live,due_ms,\
            stage_retries,retry_count,updated_ms,completed_ms,dead,confirmed,tx_hash,aside,error) \
            VALUES";
        // The rows are there and locked: the other half always applies.
        let tail = " ON DUPLICATE KEY UPDATE state=VALUES(state),version=VALUES(version),\
            attempt=VALUES(attempt),live=VALUES(live),due_ms=VALUES(due_ms),\
            stage_retries=VALUES(stage_retries),retry_count=VALUES(retry_count),\
            updated_ms=VALUES(updated_ms),completed_ms=VALUES(completed_ms),dead=VALUES(dead),\
            confirmed=VALUES(confirmed),tx_hash=VALUES(tx_hash),aside=VALUES(aside),\
            error=VALUES(error)";
        script.rows(head, &self.written, tail, |row, (id, written)| {
            let moved = &written.prepared.step;
            row.int(*id).int(written.state).int(written.version);
            match written.carrier {
                Carrier::Nobody => row.maybe_int(None),
                Carrier::Attempt(id) => row.int(id),
                Carrier::New(number) => row.above("@attempt", number * step),
            };
            row.maybe_int(written.due_ms.map(|_| written.state)).maybe_int(written.due_ms);
            row.int(moved.stage_retries).int(moved.retry_count).int(time(moved.at_ms));
            row.maybe_int(moved.completed_ms.map(time));
            row.maybe_int(moved.state.is_failed().then_some(1)).int(moved.confirmed);
            row.maybe_bytes(moved.tx_hash.as_ref()).maybe_bytes(moved.aside.as_ref());
            row.maybe_bytes(written.prepared.error.as_ref());
        });
        let head = "INSERT INTO landfall_trail (transfer, version, entries) VALUES";
        script.rows(head, &self.trail, "", |row, (id, version, entries)| {
            row.int(*id).int(*version).bytes(entries);
        });
        if !self.woken.is_empty() {
            script.say("UPDATE landfall_transfers SET live = state, due_ms = ");
            script.int(time(self.now_ms)).text(" WHERE id IN ").ints(self.woken.iter().copied());
        }
        self.claims.write(script);
        self.entered.write(script, session.number());
    }
}

/// Where the locked rows are among the answers.
pub(crate) struct Locks {
    claims: crate::claims::Locks,
    transfers: Option<usize>,
    now: usize,
}

fn lock_transfers(script: &mut Script, ids: BTreeSet<i64>) -> usize {
    let statement = script.say(
        "SELECT id, state, version, attempt, updated_ms FROM landfall_transfers
         FORCE INDEX (PRIMARY) WHERE id IN ",
    );
    script.ints(ids).text(" ORDER BY id FOR UPDATE");
    statement
}

impl Core {
    /// Applies plain moves, each or not at all; returns with each the waiters it released.
    pub(crate) async fn apply(&self, moves: &[Prepared]) -> Done<Vec<(Applied, Vec<TransferId>)>> {
        transaction!(self.connections, session => self.apply_once(&mut session, moves))
    }

    async fn apply_once(
        &self,
        session: &mut Session,
        moves: &[Prepared],
    ) -> Done<Vec<(Applied, Vec<TransferId>)>> {
        let mut script = Script::transaction();
        let locks = Batch::lock(self, &mut script, moves.iter());
        let mut answers = session.run(script).await?;
        let mut batch = Batch::locked(self, session, locks, &mut answers).await?;
        let mut applied = Vec::with_capacity(moves.len());
        for prepared in moves {
            let mut released = Vec::new();
            if batch.fits(prepared)? {
                let carrier = batch.carrier(prepared.id).unwrap_or(Carrier::Nobody);
                batch.take(prepared, carrier, &mut released)?;
                applied.push((Applied::Applied, released));
            } else {
                applied.push((Applied::Stale, released));
            }
        }
        let mut script = Script::default();
        batch.write(&mut script, session);
        script.say("COMMIT");
        session.run(script).await?;
        Ok(applied)
    }
}
