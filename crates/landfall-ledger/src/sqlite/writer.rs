//! The one writer: operations of many callers in one transaction, one fsync for all of them.
//!
//! **Invariant:** a job is answered after the commit that holds it, or told that there was none.
//! **Rule:** a job that meets a fault cannot spoil the others: the transaction is rolled back and
//! each of its jobs is done again in one of its own. So a job must be able to run twice.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use landfall_sqlite::Lock;
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::fault::{Done, Fault, corrupt, told};
use super::rows;
use crate::rules::{self, Account, Decision};
use crate::words::{Answer, Entry, Kind, Operation, Outcome, Terms};

/// Jobs taken into one transaction: more than there are callers, short of a long pause.
const GROUP_JOBS: usize = 4096;

/// A transaction in progress, as jobs see it.
pub(crate) struct Tx<'a> {
    pub db: &'a Connection,
    kind: Kind,
    /// The newest line, those of this transaction included.
    head: u64,
}

impl Tx<'_> {
    pub(crate) fn apply(&mut self, asked: &Operation, at_ms: u64) -> Done<Answer> {
        let history = rows::history(self.db, &asked.key())?;
        let account = match rules::concerns(&history, asked) {
            Some(id) => rows::account(self.db, id)?,
            None => None,
        };
        let decision = rules::decide(self.kind, account, &history, asked)
            .map_err(|error| corrupt(error.to_string()))?;
        Ok(match decision {
            Decision::Known(outcome) => Answer::Recorded(outcome),
            Decision::Conflict => Answer::Conflict,
            Decision::NotYet => Answer::NotYet,
            Decision::New { account, terms, outcome } => {
                self.write(asked, at_ms, (account, terms, outcome.clone()))?;
                Answer::Recorded(outcome)
            }
        })
    }

    fn write(
        &mut self,
        asked: &Operation,
        at_ms: u64,
        (account, terms, outcome): (Option<Account>, Terms, Outcome),
    ) -> Done<()> {
        self.head += 1;
        let after = account.unwrap_or_default();
        if outcome == Outcome::Done {
            rows::keep_account(self.db, terms.account, after, self.head)?;
        }
        let entry = Entry {
            seq: self.head,
            key: asked.key(),
            verb: asked.verb(),
            terms,
            outcome,
            at_ms,
            available: after.available,
            frozen: after.frozen,
        };
        rows::append(self.db, &entry)
    }
}

/// Work for the writer, which may have to run twice.
trait Job: Send {
    fn run(&mut self, tx: &mut Tx<'_>) -> Done<()>;
    /// Sends the answer of the last run, or the failure of its commit.
    fn finish(self: Box<Self>, committed: Done<()>);
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
    jobs: Option<Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread. It keeps `lock` until the connection is closed.
    pub(crate) fn start(db: Connection, kind: Kind, lock: Lock) -> Done<Writer> {
        let (jobs, inbox) = channel();
        let mut room = Room { head: rows::head(&db)?, db, kind };
        let work = move || {
            room.serve(&inbox);
            drop(room);
            drop(lock);
        };
        let thread = std::thread::Builder::new()
            .name("book-writer".into())
            .spawn(work)
            .map_err(|error| Fault::Unavailable(error.to_string()))?;
        Ok(Writer { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Has the job done in the next transaction and waits for its commit.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        run: impl FnMut(&mut Tx<'_>) -> Done<T> + Send + 'static,
    ) -> Done<T> {
        let gone = || Fault::Unavailable("the writer has stopped".into());
        let (reply, answer) = oneshot::channel();
        let job = Box::new(Work { run, answer: None, reply });
        self.jobs.as_ref().ok_or_else(gone)?.send(job).map_err(|_| gone())?;
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
    kind: Kind,
    /// The newest line that is committed.
    head: u64,
}

impl Room {
    fn serve(&mut self, inbox: &Receiver<Box<dyn Job>>) {
        while let Ok(first) = inbox.recv() {
            let mut group = vec![first];
            group.extend(inbox.try_iter().take(GROUP_JOBS - 1));
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
        self.head = done?;
        Ok(())
    }

    fn run(&self, group: &mut [Box<dyn Job>]) -> Done<u64> {
        self.db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let mut tx = Tx { db: &self.db, kind: self.kind, head: self.head };
        for job in group {
            job.run(&mut tx)?;
        }
        let head = tx.head;
        self.db.prepare_cached("COMMIT")?.execute([])?;
        Ok(head)
    }
}
