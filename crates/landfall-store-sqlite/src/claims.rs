//! Claims: asked for by transfers, ended by moves.
//!
//! **Invariant:** a claim has waiters only while it is held; whatever ends it makes them due in the
//! same commit.

use landfall_core::TransferId;
use landfall_core::claim::{ClaimEnd, ClaimKey, Claimed};
use landfall_core::store::Accepted;
use rusqlite::{Connection, OptionalExtension, Row};

use crate::fault::{Done, int, time, uint};
use crate::reads::Reader;
use crate::writer::Tx;

/// A claim that somebody holds or that stands as a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    Held { owner: i64 },
    Kept { by: Option<i64> },
}

fn claim_of(db: &Connection, key: &ClaimKey) -> Done<Option<Claim>> {
    let sql = "SELECT owner, kept_by FROM claims WHERE space = ?1 AND key = ?2";
    let read = |row: &Row<'_>| {
        let by = row.get(1)?;
        let owner: Option<i64> = row.get(0)?;
        Ok(owner.map_or(Claim::Kept { by }, |owner| Claim::Held { owner }))
    };
    Ok(db.prepare_cached(sql)?.query_row((&key.space, &key.key), read).optional()?)
}

fn named(owner: Option<i64>) -> Done<Option<TransferId>> {
    owner.map(|owner| uint(owner).map(TransferId)).transpose()
}

impl Tx<'_> {
    pub(crate) fn claim_all(&mut self, claims: &[(ClaimKey, TransferId)]) -> Done<Vec<Claimed>> {
        claims.iter().map(|(key, asker)| self.claim(key, *asker)).collect()
    }

    fn claim(&mut self, key: &ClaimKey, asker: TransferId) -> Done<Claimed> {
        let asking = int(asker.0)?;
        Ok(match claim_of(self.db, key)? {
            Some(Claim::Kept { by }) => Claimed::Kept { owner: named(by)? },
            Some(Claim::Held { owner }) if owner == asking => Claimed::Yours,
            Some(Claim::Held { owner }) => {
                let sql = "INSERT OR IGNORE INTO claim_waiters VALUES (?1, ?2, ?3)";
                self.db.prepare_cached(sql)?.execute((&key.space, &key.key, asking))?;
                Claimed::Held { owner: TransferId(uint(owner)?) }
            }
            None => {
                self.hold(key, asking)?;
                Claimed::Yours
            }
        })
    }

    fn hold(&mut self, key: &ClaimKey, owner: i64) -> Done<()> {
        let sql = "INSERT INTO claims (space, key, owner) VALUES (?1, ?2, ?3)";
        self.db.prepare_cached(sql)?.execute((&key.space, &key.key, owner))?;
        Ok(())
    }

    /// Claims all of these for a new transfer, or tells the first that is taken, and by whom.
    pub(crate) fn claim_at_the_door(
        &mut self,
        keys: &[ClaimKey],
        new: TransferId,
    ) -> Done<Option<Accepted>> {
        let new = int(new.0)?;
        for key in keys {
            let owner = match claim_of(self.db, key)? {
                None => {
                    self.hold(key, new)?;
                    continue;
                }
                Some(Claim::Held { owner }) if owner == new => continue,
                Some(Claim::Held { owner }) => Some(owner),
                Some(Claim::Kept { by }) => by,
            };
            return Ok(Some(Accepted::Claimed { key: key.clone(), owner: named(owner)? }));
        }
        Ok(None)
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
            (None, ClaimEnd::Keep(_)) | (Some(Claim::Kept { .. }), ClaimEnd::Forget(_)) => true,
            _ => false,
        };
        if !ended {
            return Ok(());
        }
        if matches!(end, ClaimEnd::Keep(_)) {
            let sql = "INSERT OR REPLACE INTO claims (space, key, kept_by) VALUES (?1, ?2, ?3)";
            let row = (&key.space, &key.key, before.map(|_| mover));
            self.db.prepare_cached(sql)?.execute(row)?;
        } else {
            let sql = "DELETE FROM claims WHERE space = ?1 AND key = ?2";
            self.db.prepare_cached(sql)?.execute((&key.space, &key.key))?;
        }
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
        let is_kept = |claim| matches!(claim, Some(Claim::Kept { .. }));
        keys.iter().map(|key| Ok(is_kept(claim_of(self.db, key)?))).collect()
    }
}
