//! The one writer: jobs of many callers in one transaction, one fsync for all of them.
//!
//! **Invariant:** a job is answered after the commit that holds it, or told that there was none.
//! **Rule:** a job that meets a fault cannot spoil the others: the transaction is rolled back and
//! each of its jobs is done again in one of its own. So a job must be able to run twice.
//! **Rule:** urgent jobs go first, and a group is cut off before it takes long: a crowd of patient
//! ones must not hold up whoever is at the door.
//! **Rule:** the line has an end: while the disk stalls, who is at the door is sent away, and the
//! patient wait outside.
//! Not here: what the jobs do, and what is remembered from one transaction to the next.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::fault::{Done, Fault};
use crate::open::Lock;

/// Urgent records taken into one transaction: more than there are callers, short of a long pause.
const GROUP_URGENT: usize = 4096;
/// Patient records taken in beside them: about 3 ms of work, ten times its fsync.
const GROUP_PATIENT: usize = 200;

/// Records in line or under way: a few groups' worth. More would wait longer than their callers do.
const LINE_URGENT: usize = 4 * GROUP_URGENT;
const LINE_PATIENT: usize = 20 * GROUP_PATIENT;

/// Who keeps a file: its connection, and what is remembered from one transaction to the next.
pub trait Keeper: Sized + Send + 'static {
    /// A transaction in progress, as jobs see it.
    type Tx<'a>;
    /// What the file is called in threads and logs.
    const NAME: &'static str;

    /// Runs the jobs in order, all in one [`transaction`]. MUST leave no trace of those that were
    /// not committed.
    fn commit(&mut self, group: &mut [Box<dyn Job<Self>>]) -> Done<()>;
}

/// Does `work` and commits it, or rolls it back.
pub fn transaction<T>(db: &Connection, work: impl FnOnce() -> Done<T>) -> Done<T> {
    let committed = || {
        db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let answer = work()?;
        db.prepare_cached("COMMIT")?.execute([])?;
        Ok(answer)
    };
    let done = committed();
    if done.is_err() && !db.is_autocommit() {
        db.execute_batch("ROLLBACK")?;
    }
    done
}

/// Work for the writer, which may have to run twice.
pub trait Job<K: Keeper>: Send {
    fn run(&mut self, tx: &mut K::Tx<'_>) -> Done<()>;
    /// Sends the answer of the last run, or the failure of its commit.
    fn finish(self: Box<Self>, committed: Done<()>);
}

/// What a job costs the others in its group, by the records it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// A client waits for it.
    Urgent(usize),
    /// Nobody waits at a socket.
    Patient(usize),
}

/// A job on its way to the writer.
type Asked<K> = (Load, Box<dyn Job<K>>);

struct Work<F, T> {
    run: F,
    answer: Option<T>,
    reply: oneshot::Sender<Done<T>>,
    /// Its room in line, until it is answered.
    _room: OwnedSemaphorePermit,
}

impl<K, F, T> Job<K> for Work<F, T>
where
    K: Keeper,
    F: FnMut(&mut K::Tx<'_>) -> Done<T> + Send,
    T: Send,
{
    fn run(&mut self, tx: &mut K::Tx<'_>) -> Done<()> {
        self.answer = Some((self.run)(tx)?);
        Ok(())
    }

    fn finish(self: Box<Self>, committed: Done<()>) {
        let Work { answer, reply, _room: room, .. } = *self;
        drop(room);
        let lost = || Fault::Unavailable("the job never ran".into());
        // A caller that has gone away does not want its answer.
        let _ = reply.send(committed.and_then(|()| answer.ok_or_else(lost)));
    }
}

/// The handle to the writer's thread, which ends when this is dropped.
pub struct Writer<K: Keeper> {
    jobs: Option<Sender<Asked<K>>>,
    thread: Option<JoinHandle<()>>,
    urgent: Arc<Semaphore>,
    patient: Arc<Semaphore>,
}

impl<K: Keeper> Writer<K> {
    /// Starts the thread. It keeps `lock` until the keeper has closed its connection.
    pub fn start(mut keeper: K, lock: Lock) -> Done<Writer<K>> {
        let (jobs, inbox) = channel();
        let work = move || {
            serve(&mut keeper, &inbox);
            drop(keeper);
            drop(lock);
        };
        let thread = std::thread::Builder::new()
            .name(format!("{}-writer", K::NAME))
            .spawn(work)
            .map_err(|error| Fault::Unavailable(error.to_string()))?;
        let [urgent, patient] =
            [LINE_URGENT, LINE_PATIENT].map(|most| Arc::new(Semaphore::new(most)));
        Ok(Writer { jobs: Some(jobs), thread: Some(thread), urgent, patient })
    }

    /// Has the job done in one of the next transactions and waits for its commit.
    pub async fn call<T: Send + 'static>(
        &self,
        load: Load,
        run: impl FnMut(&mut K::Tx<'_>) -> Done<T> + Send + 'static,
    ) -> Done<T> {
        let gone = || Fault::Unavailable("the writer has stopped".into());
        let room = self.room(load).await?;
        let (reply, answer) = oneshot::channel();
        let job = Box::new(Work { run, answer: None, reply, _room: room });
        self.jobs.as_ref().ok_or_else(gone)?.send((load, job)).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// Whoever brings more than there ever is room for has to have all of it.
    async fn room(&self, load: Load) -> Done<OwnedSemaphorePermit> {
        let needs = |count: usize, most: usize| count.min(most) as u32;
        let full = || Fault::Unavailable("too much is waiting to be written".into());
        match load {
            Load::Urgent(count) => {
                let room = self.urgent.clone().try_acquire_many_owned(needs(count, LINE_URGENT));
                room.map_err(|_| full())
            }
            Load::Patient(count) => {
                let room = self.patient.clone().acquire_many_owned(needs(count, LINE_PATIENT));
                room.await.map_err(|_| full())
            }
        }
    }
}

impl<K: Keeper> Drop for Writer<K> {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve<K: Keeper>(keeper: &mut K, inbox: &Receiver<Asked<K>>) {
    let mut waiting = Waiting::new();
    while waiting.fill(inbox) {
        let mut group = waiting.next_group();
        match keeper.commit(&mut group) {
            Err(fault) if group.len() > 1 => {
                let error = format_args!("{} {fault}", K::NAME);
                tracing::warn!(%error, jobs = group.len(), "group failed; doing each alone");
                for job in group {
                    let mut alone = [job];
                    let committed = keeper.commit(&mut alone);
                    let [job] = alone;
                    job.finish(committed);
                }
            }
            committed => group.into_iter().for_each(|job| job.finish(committed.clone())),
        }
    }
}

/// Jobs, oldest first, each with its weight.
type Line<K> = VecDeque<(usize, Box<dyn Job<K>>)>;

/// Jobs that no transaction has taken yet.
struct Waiting<K> {
    urgent: Line<K>,
    patient: Line<K>,
}

impl<K: Keeper> Waiting<K> {
    fn new() -> Waiting<K> {
        Waiting { urgent: Line::new(), patient: Line::new() }
    }

    /// Takes in whatever was asked; waits if nothing is left to do. False when nobody can ask any
    /// more and everything is done.
    fn fill(&mut self, inbox: &Receiver<Asked<K>>) -> bool {
        if self.urgent.is_empty() && self.patient.is_empty() {
            match inbox.recv() {
                Ok(first) => self.put(first),
                Err(_) => return false,
            }
        }
        inbox.try_iter().for_each(|job| self.put(job));
        true
    }

    fn put(&mut self, (load, job): Asked<K>) {
        match load {
            Load::Urgent(count) => self.urgent.push_back((count, job)),
            Load::Patient(count) => self.patient.push_back((count, job)),
        }
    }

    /// The next transaction's jobs: at least one of each kind that waits.
    fn next_group(&mut self) -> Vec<Box<dyn Job<K>>> {
        let mut group = Vec::new();
        take(&mut self.urgent, GROUP_URGENT, &mut group);
        take(&mut self.patient, GROUP_PATIENT, &mut group);
        group
    }
}

/// Moves jobs from the front into the group until they weigh enough.
fn take<K: Keeper>(from: &mut Line<K>, enough: usize, group: &mut Vec<Box<dyn Job<K>>>) {
    let mut weight = 0;
    while weight < enough {
        let Some((count, job)) = from.pop_front() else { return };
        weight += count.max(1);
        group.push(job);
    }
}

#[cfg(test)]
mod tests;
