//! What the one writer does around jobs, and what it remembers between transactions.
//!
//! Not here: threads and groups (`landfall_sqlite::Writer`), and what the jobs do (`accept`,
//! `moves`, `attempts`, `claims`, `lanes`, `reads`).

use std::sync::Arc;

use landfall_core::Clock;
use landfall_sqlite::{Job, Keeper, transaction};
use rusqlite::Connection;

use crate::codes::Codes;
use crate::fault::Done;

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

    /// Writes something, and so finds out whether anything can be written.
    pub(crate) fn touch(&mut self) -> Done<()> {
        let sql = "INSERT INTO meta VALUES ('touched', ?1)
            ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        self.db.prepare_cached(sql)?.execute([self.now_ms.to_string()])?;
        Ok(())
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

/// What the writer's thread works with.
pub(crate) struct StoreKeeper {
    db: Connection,
    codes: Codes,
    clock: Arc<dyn Clock>,
    next_transfer: i64,
}

impl StoreKeeper {
    pub(crate) fn new(db: Connection, codes: Codes, clock: Arc<dyn Clock>) -> Done<StoreKeeper> {
        let sql = "SELECT coalesce(max(id), 0) + 1 FROM keys";
        let next_transfer = db.query_row(sql, [], |row| row.get(0))?;
        Ok(StoreKeeper { db, codes, clock, next_transfer })
    }
}

impl Keeper for StoreKeeper {
    type Tx<'a> = Tx<'a>;
    const NAME: &'static str = "store";

    fn commit(&mut self, group: &mut [Box<dyn Job<StoreKeeper>>]) -> Done<()> {
        transaction(&self.db, || {
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
            tx.write_counts()
        })
    }
}

#[cfg(test)]
mod tests;
