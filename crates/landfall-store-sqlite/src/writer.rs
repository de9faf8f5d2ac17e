//! The one writer: jobs of many callers in one transaction, one fsync for all of them.
//!
//! **Invariant:** a job is answered after the commit that holds it, or told that there was none.
//! **Rule:** a job that meets a fault cannot spoil the others: the transaction is rolled back and
//! each of its jobs is done again in one of its own. So a job must be able to run twice.
//! **Rule:** clients wait for acceptances, so those go first, and a group is cut off before it
//! takes long: a block's worth of settlements must not hold up whoever is at the door.
//! Not here: what the jobs do (`accept`, `moves`, `attempts`, `claims`, `lanes`, `reads`).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use landfall_core::Clock;
use landfall_sqlite::Lock;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::codes::Codes;
use crate::fault::{Done, Fault, told};

/// Acceptances taken into one transaction: more than there are callers, short of a long pause.
const GROUP_ACCEPTED: usize = 4096;
/// Transfers moved by one transaction beside them: about 3 ms of work, ten times its fsync.
const GROUP_MOVED: usize = 200;

/// A transaction in progress, as jobs see it.
pub(crate) struct Tx<'a> {
    pub db: &'a Connection,
    pub codes: &'a Codes,
    pub now_ms: u64,
    /// How many transfers entered (or left) each state, by code.
    pub entered: Vec<(i64, i64)>,
    /// The id of the next transfer. Ids skipped by a rollback are not missed.
    pub next_transfer: &'a mut i64,
}

impl Tx<'_> {
    pub(crate) fn count(&mut self, code: i64, by: i64) {
        match self.entered.iter_mut().find(|(known, _)| *known == code) {
            Some((_, entered)) => *entered += by,
            None => self.entered.push((code, by)),
        }
    }

    /// Runs `work` whole or not at all: what it wrote is undone if it answers `Err`.
    pub(crate) fn whole<T, N>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Done<std::result::Result<T, N>>,
    ) -> Done<std::result::Result<T, N>> {
        let entered = self.entered.clone();
        self.db.prepare_cached("SAVEPOINT whole")?.execute([])?;
        let answer = work(self)?;
        if answer.is_err() {
            self.db.prepare_cached("ROLLBACK TO whole")?.execute([])?;
            self.entered = entered;
        }
        self.db.prepare_cached("RELEASE whole")?.execute([])?;
        Ok(answer)
    }

    /// Writes the counts, once for the whole group.
    fn write_counts(&mut self) -> Done<()> {
        for (code, by) in self.entered.drain(..).filter(|(_, by)| *by != 0) {
            let sql = "UPDATE states SET transfers = transfers + ?2 WHERE code = ?1";
            self.db.prepare_cached(sql)?.execute((code, by))?;
        }
        Ok(())
    }
}

/// Work for the writer, which may have to run twice.
trait Job: Send {
    fn run(&mut self, tx: &mut Tx<'_>) -> Done<()>;
    /// Sends the answer of the last run, or the failure of its commit.
    fn finish(self: Box<Self>, committed: Done<()>);
}

/// What a job costs the others in its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// A client waits for it.
    Accepts(usize),
    /// This many transfers are moved; nobody waits at a socket.
    Moves(usize),
}

struct Work<F, T> {
    run: F,
    answer: Option<T>,
    reply: oneshot::Sender<Done<T>>,
}

impl<F, T> Job for Work<F, T>
where
    F: FnMut(&mut Tx<'_>) -> Done<T> + Send,
    T: Send,
{
    fn run(&mut self, tx: &mut Tx<'_>) -> Done<()> {
        self.answer = Some((self.run)(tx)?);
        Ok(())
    }

    fn finish(self: Box<Self>, committed: Done<()>) {
        let Work { answer, reply, .. } = *self;
        let lost = || Fault::Unavailable("the job never ran".into());
        // A caller that has gone away does not want its answer.
        let _ = reply.send(committed.and_then(|()| answer.ok_or_else(lost)));
    }
}

/// The handle to the writer's thread, which ends when this is dropped.
pub(crate) struct Writer {
    jobs: Option<Sender<(Load, Box<dyn Job>)>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread. It keeps `lock` until the connection is closed.
    pub(crate) fn start(
        db: Connection,
        codes: Codes,
        clock: Arc<dyn Clock>,
        lock: Lock,
    ) -> Done<Writer> {
        let sql = "SELECT coalesce(max(id), 0) + 1 FROM keys";
        let next_transfer = db.query_row(sql, [], |row| row.get(0))?;
        let (jobs, inbox) = channel();
        let mut room = Room { db, codes, clock, next_transfer };
        let work = move || {
            room.serve(&inbox);
            drop(room);
            drop(lock);
        };
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(work)
            .map_err(|error| Fault::Unavailable(error.to_string()))?;
        Ok(Writer { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Has the job done in one of the next transactions and waits for its commit.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        load: Load,
        run: impl FnMut(&mut Tx<'_>) -> Done<T> + Send + 'static,
    ) -> Done<T> {
        let gone = || Fault::Unavailable("the writer has stopped".into());
        let (reply, answer) = oneshot::channel();
        let job = Box::new(Work { run, answer: None, reply });
        self.jobs.as_ref().ok_or_else(gone)?.send((load, job)).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the thread works with.
struct Room {
    db: Connection,
    codes: Codes,
    clock: Arc<dyn Clock>,
    next_transfer: i64,
}

impl Room {
    fn serve(&mut self, inbox: &Receiver<(Load, Box<dyn Job>)>) {
        let mut waiting = Waiting::default();
        while waiting.fill(inbox) {
            let mut group = waiting.next_group();
            match self.commit(&mut group) {
                Err(fault) if group.len() > 1 => {
                    let error = told(fault);
                    tracing::warn!(%error, jobs = group.len(), "group failed; doing each alone");
                    for job in group {
                        let mut alone = [job];
                        let committed = self.commit(&mut alone);
                        let [job] = alone;
                        job.finish(committed);
                    }
                }
                committed => {
                    group.into_iter().for_each(|job| job.finish(committed.clone()));
                }
            }
        }
    }

    fn commit(&mut self, group: &mut [Box<dyn Job>]) -> Done<()> {
        let done = self.run(group);
        if done.is_err() && !self.db.is_autocommit() {
            self.db.execute_batch("ROLLBACK")?;
        }
        done
    }

    fn run(&mut self, group: &mut [Box<dyn Job>]) -> Done<()> {
        self.db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let mut tx = Tx {
            db: &self.db,
            codes: &self.codes,
            now_ms: 0,
            entered: Vec::new(),
            next_transfer: &mut self.next_transfer,
        };
        for job in group {
            tx.now_ms = self.clock.now_ms();
            job.run(&mut tx)?;
        }
        tx.write_counts()?;
        self.db.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }
}

/// Jobs that no transaction has taken yet.
#[derive(Default)]
struct Waiting {
    accepts: VecDeque<(usize, Box<dyn Job>)>,
    moves: VecDeque<(usize, Box<dyn Job>)>,
}

impl Waiting {
    /// Takes in whatever was asked; waits if nothing is left to do. False when nobody can ask any
    /// more and everything is done.
    fn fill(&mut self, inbox: &Receiver<(Load, Box<dyn Job>)>) -> bool {
        if self.accepts.is_empty() && self.moves.is_empty() {
            match inbox.recv() {
                Ok(first) => self.put(first),
                Err(_) => return false,
            }
        }
        inbox.try_iter().for_each(|job| self.put(job));
        true
    }

    fn put(&mut self, (load, job): (Load, Box<dyn Job>)) {
        match load {
            Load::Accepts(count) => self.accepts.push_back((count, job)),
            Load::Moves(count) => self.moves.push_back((count, job)),
        }
    }

    /// The next transaction's jobs: at least one of each kind that waits.
    fn next_group(&mut self) -> Vec<Box<dyn Job>> {
        let mut group = Vec::new();
        take(&mut self.accepts, GROUP_ACCEPTED, &mut group);
        take(&mut self.moves, GROUP_MOVED, &mut group);
        group
    }
}

/// Moves jobs from the front into the group until they weigh enough.
fn take(from: &mut VecDeque<(usize, Box<dyn Job>)>, enough: usize, group: &mut Vec<Box<dyn Job>>) {
    let mut weight = 0;
    while weight < enough {
        let Some((count, job)) = from.pop_front() else { return };
        weight += count.max(1);
        group.push(job);
    }
}

#[cfg(test)]
mod tests;
