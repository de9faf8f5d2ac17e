//! Claims: asked for by transfers, ended by moves.
//!
//! **Invariant:** a claim has waiters only while it is held; whatever ends it makes them due in the
//! same commit.

use landfall_core::TransferId;
use landfall_core::claim::{ClaimEnd, ClaimKey, Claimed};
use rusqlite::{Connection, OptionalExtension, Row};

use crate::fault::{Done, int, time, uint};
use crate::reads::Reader;
use crate::writer::Tx;

/// A claim that somebody holds or that stands as a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    Held { owner: i64 },
    Kept,
}

fn claim_of(db: &Connection, key: &ClaimKey) -> Done<Option<Claim>> {
    let sql = "SELECT owner FROM claims WHERE space = ?1 AND key = ?2";
    let read = |row: &Row<'_>| row.get::<_, Option<i64>>(0);
    let found = db.prepare_cached(sql)?.query_row((&key.space, &key.key), read).optional()?;
    Ok(found.map(|owner| owner.map_or(Claim::Kept, |owner| Claim::Held { owner })))
}

impl Tx<'_> {
    pub(crate) fn claim_all(&mut self, claims: &[(ClaimKey, TransferId)]) -> Done<Vec<Claimed>> {
        claims.iter().map(|(key, asker)| self.claim(key, *asker)).collect()
    }

    fn claim(&mut self, key: &ClaimKey, asker: TransferId) -> Done<Claimed> {
        let asking = int(asker.0)?;
        Ok(match claim_of(self.db, key)? {
            Some(Claim::Kept) => Claimed::Kept,
            Some(Claim::Held { owner }) if owner == asking => Claimed::Yours,
            Some(Claim::Held { owner }) => {
                let sql = "INSERT OR IGNORE INTO claim_waiters VALUES (?1, ?2, ?3)";
                self.db.prepare_cached(sql)?.execute((&key.space, &key.key, asking))?;
                Claimed::Held { owner: TransferId(uint(owner)?) }
            }
            None => {
                let sql = "INSERT INTO claims VALUES (?1, ?2, ?3)";
                self.db.prepare_cached(sql)?.execute((&key.space, &key.key, asking))?;
                Claimed::Yours
            }
        })
    }

    /// Ends a claim for the mover; adds the waiters that were made due.
    pub(crate) fn end_claim(
        &mut self,
        end: &ClaimEnd,
        mover: TransferId,
        released: &mut Vec<TransferId>,
    ) -> Done<()> {
        let (ClaimEnd::Keep(key) | ClaimEnd::Release(key) | ClaimEnd::Forget(key)) = end;
        let mover = int(mover.0)?;
        let before = claim_of(self.db, key)?;
        let ended = match (before, end) {
            (Some(Claim::Held { owner }), ClaimEnd::Keep(_) | ClaimEnd::Release(_)) => {
                owner == mover
            }
            (None, ClaimEnd::Keep(_)) | (Some(Claim::Kept), ClaimEnd::Forget(_)) => true,
            _ => false,
        };
        if !ended {
            return Ok(());
        }
        let sql = match end {
            ClaimEnd::Keep(_) => "INSERT OR REPLACE INTO claims VALUES (?1, ?2, NULL)",
            _ => "DELETE FROM claims WHERE space = ?1 AND key = ?2",
        };
        self.db.prepare_cached(sql)?.execute((&key.space, &key.key))?;
        match before {
            Some(Claim::Held { .. }) => self.release_waiters(key, released),
            _ => Ok(()),
        }
    }

    fn release_waiters(&mut self, key: &ClaimKey, released: &mut Vec<TransferId>) -> Done<()> {
        let named = (&key.space, &key.key);
        let sql = "SELECT waiter FROM claim_waiters WHERE space = ?1 AND key = ?2 ORDER BY waiter";
        let waiters: Vec<i64> = self
            .db
            .prepare_cached(sql)?
            .query_map(named, |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        if waiters.is_empty() {
            return Ok(());
        }
        let sql = "DELETE FROM claim_waiters WHERE space = ?1 AND key = ?2";
        self.db.prepare_cached(sql)?.execute(named)?;
        for waiter in waiters {
            if self.make_due(waiter)? {
                released.push(TransferId(uint(waiter)?));
            }
        }
        Ok(())
    }

    /// Makes a waiter due, unless it is final or carried and so waits for nothing.
    fn make_due(&mut self, waiter: i64) -> Done<bool> {
        let sql = "SELECT state FROM transfers WHERE id = ?1 AND attempt IS NULL";
        let read = |row: &Row<'_>| row.get(0);
        let found = self.db.prepare_cached(sql)?.query_row([waiter], read).optional()?;
        let Some(state) = found else { return Ok(false) };
        if self.codes.state(state)?.is_final() {
            return Ok(false);
        }
        let sql = "UPDATE transfers SET due_ms = ?2 WHERE id = ?1";
        self.db.prepare_cached(sql)?.execute((waiter, time(self.now_ms)))?;
        Ok(true)
    }
}

impl Reader<'_> {
    pub(crate) fn kept(&self, keys: &[ClaimKey]) -> Done<Vec<bool>> {
        keys.iter().map(|key| Ok(claim_of(self.db, key)? == Some(Claim::Kept))).collect()
    }
}
