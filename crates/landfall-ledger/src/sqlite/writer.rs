//! What the one writer does with operations, and what it remembers between transactions.
//!
//! Not here: threads and groups (`landfall_sqlite::Writer`).

use landfall_sqlite::{Job, Keeper, transaction};
use rusqlite::Connection;

use super::fault::{Done, corrupt};
use super::rows;
use crate::rules::{self, Account, Decision};
use crate::words::{Answer, Entry, Kind, Operation, Outcome, Terms};

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

/// What the writer's thread works with.
pub(crate) struct BookKeeper {
    db: Connection,
    kind: Kind,
    /// The newest line that is committed.
    head: u64,
}

impl BookKeeper {
    pub(crate) fn new(db: Connection, kind: Kind) -> Done<BookKeeper> {
        Ok(BookKeeper { head: rows::head(&db)?, db, kind })
    }
}

impl Keeper for BookKeeper {
    type Tx<'a> = Tx<'a>;
    const NAME: &'static str = "book";

    fn commit(&mut self, group: &mut [Box<dyn Job<BookKeeper>>]) -> Done<()> {
        self.head = transaction(&self.db, || {
            let mut tx = Tx { db: &self.db, kind: self.kind, head: self.head };
            for job in group {
                job.run(&mut tx)?;
            }
            Ok(tx.head)
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
