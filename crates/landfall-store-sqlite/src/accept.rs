//! New transfers: created, already there, in conflict, or after something that is claimed.
//!
//! **Invariant:** a key, once taken, belongs to its transfer for ever.
//! A key is found by a hash of it. The full key is compared on every hit; a hash taken by
//! another key sends the search to the next number.

use landfall_core::store::Accepted;
use landfall_core::transfer::FIRST_VERSION;
use landfall_core::{Fingerprint, NewTransfer, RailName, Transfer, TransferId, trail};
use rusqlite::{Connection, OptionalExtension};
use sha2::{Digest, Sha256};

use crate::fault::{Done, corrupt, time, uint};
use crate::reads::Reader;
use crate::writer::Tx;

/// A new transfer with everything worked out that does not need the writer.
pub(crate) struct Prepared {
    new: NewTransfer,
    hash: i64,
    payload: String,
    trail: Vec<u8>,
}

impl Prepared {
    pub(crate) fn new(new: NewTransfer) -> Done<Prepared> {
        Ok(Prepared {
            hash: key_hash(new.payload.rail(), &new.tenant, &new.key),
            payload: serde_json::to_string(&new.payload)?,
            trail: trail::encode(&new.trail),
            new,
        })
    }
}

/// A number that stands for the key; two keys may share it.
pub(crate) fn key_hash(rail: RailName, tenant: &str, key: &str) -> i64 {
    let mut hasher = Sha256::new();
    for part in [rail.as_str(), tenant, key] {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let digest = hasher.finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    i64::from_le_bytes(first)
}

impl Tx<'_> {
    pub(crate) fn accept(&mut self, batch: &[Prepared]) -> Done<Vec<Accepted>> {
        batch.iter().map(|prepared| self.accept_one(prepared)).collect()
    }

    fn accept_one(&mut self, prepared: &Prepared) -> Done<Accepted> {
        let claims = &prepared.new.claims;
        if claims.is_empty() {
            return self.accept_by_key(prepared);
        }
        let accepted = self.whole(|tx| {
            let accepted = tx.accept_by_key(prepared)?;
            let Accepted::Created(new) = &accepted else { return Ok(Ok(accepted)) };
            Ok(tx.claim_at_the_door(claims, new.id)?.map_or(Ok(accepted), Err))
        })?;
        Ok(accepted.unwrap_or_else(|claimed| claimed))
    }

    fn accept_by_key(&mut self, prepared: &Prepared) -> Done<Accepted> {
        let new = &prepared.new;
        let id = *self.next_transfer;
        let mut hash = prepared.hash;
        loop {
            if self.take_hash(hash, id)? {
                *self.next_transfer += 1;
                return self.create(prepared, id).map(Accepted::Created);
            }
            let taken = taken_by(self.db, hash)?.ok_or_else(|| corrupt("a key hash vanished"))?;
            if taken.is(new.payload.rail(), &new.tenant, &new.key) {
                let stored = Reader { db: self.db, codes: self.codes }.transfer(taken.id)?;
                let stored = stored.ok_or_else(|| corrupt("a key outlived its transfer"))?;
                return Ok(if taken.fingerprint == new.fingerprint {
                    Accepted::Already(stored)
                } else {
                    Accepted::Conflict(stored)
                });
            }
            hash = hash.wrapping_add(1);
        }
    }

    /// False if the hash is taken.
    fn take_hash(&self, hash: i64, id: i64) -> Done<bool> {
        let sql = "INSERT INTO key_hashes (hash, transfer) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        Ok(self.db.prepare_cached(sql)?.execute((hash, id))? == 1)
    }

    fn create(&mut self, prepared: &Prepared, id: i64) -> Done<Transfer> {
        let new = &prepared.new;
        let state = self.codes.code(new.state)?;
        let rail = new.payload.rail().as_str();
        let created = time(new.created_ms);
        let sql = "INSERT INTO keys (id, rail, tenant, key, fingerprint)
                   VALUES (?1, ?2, ?3, ?4, ?5)";
        let key = (id, rail, &new.tenant, &new.key, &new.fingerprint.0);
        self.db.prepare_cached(sql)?.execute(key)?;
        let sql = "INSERT INTO payloads (id, created_ms, receiver, payload, trail)
                   VALUES (?1, ?2, ?3, ?4, ?5)";
        let receiver = new.payload.receiver();
        let payload = (id, created, receiver, &prepared.payload, &prepared.trail);
        self.db.prepare_cached(sql)?.execute(payload)?;
        let sql = "INSERT INTO transfers
                       (id, state, version, due_ms, stage_retries, retry_count, updated_ms, dead)
                   VALUES (?1, ?2, ?3, ?4, 0, 0, ?5, ?6)";
        let dead = new.state.is_failed().then_some(1);
        let hot = (id, state, FIRST_VERSION as i64, new.due_ms.map(time), created, dead);
        self.db.prepare_cached(sql)?.execute(hot)?;
        self.count(state, 1);
        Ok(new.accepted_as(TransferId(uint(id)?)))
    }
}

/// The key behind a hash.
struct Taken {
    id: i64,
    rail: String,
    tenant: String,
    key: String,
    fingerprint: Fingerprint,
}

impl Taken {
    fn is(&self, rail: RailName, tenant: &str, key: &str) -> bool {
        self.rail == rail.as_str() && self.tenant == tenant && self.key == key
    }
}

fn taken_by(db: &Connection, hash: i64) -> Done<Option<Taken>> {
    let sql = "SELECT k.id, k.rail, k.tenant, k.key, k.fingerprint
               FROM key_hashes h JOIN keys k ON k.id = h.transfer WHERE h.hash = ?1";
    let read = |row: &rusqlite::Row<'_>| {
        Ok(Taken {
            id: row.get(0)?,
            rail: row.get(1)?,
            tenant: row.get(2)?,
            key: row.get(3)?,
            fingerprint: Fingerprint(row.get(4)?),
        })
    };
    Ok(db.prepare_cached(sql)?.query_row([hash], read).optional()?)
}

impl Reader<'_> {
    pub(crate) fn by_key(&self, rail: RailName, tenant: &str, key: &str) -> Done<Option<Transfer>> {
        let mut hash = key_hash(rail, tenant, key);
        while let Some(taken) = taken_by(self.db, hash)? {
            if taken.is(rail, tenant, key) {
                return self.transfer(taken.id);
            }
            hash = hash.wrapping_add(1);
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests;
