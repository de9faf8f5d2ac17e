//! New transfers: created, already there, in conflict, or after something that is claimed.
//!
//! **Invariant:** a key, once taken, belongs to its transfer for ever: a unique index over a digest
//! of it decides, whoever else inserts at the same time.
//! **Invariant:** an id is larger than every id that was answered before this batch was begun: the
//! server draws it when the row is inserted, and draws upwards. Batches that run side by side may
//! commit in another order than their ids.
//!
//! New keys and free claims are the rule, so a batch is first inserted in one round trip as if all
//! of them were. If one is not, nothing was written, and those that are there are looked up before
//! the rest is inserted.

use std::collections::HashMap;

use landfall_core::accepting::{Owner, Verdict, verdicts};
use landfall_core::claim::ClaimKey;
use landfall_core::store::Accepted;
use landfall_core::transfer::FIRST_VERSION;
use landfall_core::{Fingerprint, NewTransfer, RailName, Transfer, TransferId, trail};
use sha2::{Digest, Sha256};

use crate::connections::{Session, Tries, take, take_digest, take_text, transaction};
use crate::counts::Entered;
use crate::fault::{Done, Fault, corrupt, time, uint};
use crate::migrations::{KEY_BYTES, RECEIVER_BYTES, TENANT_BYTES};
use crate::sql::Script;
use crate::{Core, claims};

/// A new transfer with everything worked out that does not need the server.
pub(crate) struct Prepared {
    new: NewTransfer,
    digest: [u8; 32],
    payload: String,
    trail: Vec<u8>,
}

impl Prepared {
    pub(crate) fn new(new: NewTransfer) -> Done<Prepared> {
        let lengths = [
            ("tenant", new.tenant.len(), TENANT_BYTES),
            ("key", new.key.len(), KEY_BYTES),
            ("receiver", new.payload.receiver().len(), RECEIVER_BYTES),
        ];
        for (what, bytes, most) in lengths {
            if bytes > most {
                return Err(corrupt(format!("a {what} of {bytes} bytes; {most} can be stored")));
            }
        }
        new.claims.iter().try_for_each(claims::check_name)?;
        Ok(Prepared {
            digest: key_digest(new.payload.rail(), &new.tenant, &new.key),
            payload: serde_json::to_string(&new.payload)?,
            trail: trail::encode(&new.trail),
            new,
        })
    }

    /// What a transfer that has this key already is to this one.
    fn against(&self, print: Fingerprint, stored: Transfer) -> Accepted {
        if print == self.new.fingerprint {
            Accepted::Already(stored)
        } else {
            Accepted::Conflict(stored)
        }
    }
}

/// A digest of the parts with their lengths, so that keys which run together are still two.
pub(crate) fn digest(parts: &[&str]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

pub(crate) fn key_digest(rail: RailName, tenant: &str, key: &str) -> [u8; 32] {
    digest(&[rail.as_str(), tenant, key])
}

/// A key that somebody has.
struct Taken {
    id: i64,
    fingerprint: Fingerprint,
}

/// New transfers, by their place in the batch.
type Created = HashMap<usize, Transfer>;
/// Keys that are taken, by their digests.
type Known = HashMap<[u8; 32], Taken>;

/// Judges a batch by the keys and claims that are stored.
fn judge(
    batch: &[Prepared],
    known: &Known,
    claimed: &HashMap<ClaimKey, Option<TransferId>>,
) -> Vec<Verdict> {
    let judged = batch.iter().map(|one| (one.digest, one.new.claims.as_slice()));
    verdicts(judged, |digest| known.contains_key(digest), claimed)
}

/// The places of those that are new.
fn new_ones(verdicts: &[Verdict]) -> Vec<usize> {
    let places = verdicts.iter().enumerate();
    places.filter(|(_, verdict)| **verdict == Verdict::New).map(|(place, _)| place).collect()
}

impl Core {
    pub(crate) async fn accept(&self, batch: &[Prepared]) -> Done<Vec<Accepted>> {
        let hoped = judge(batch, &Known::new(), &HashMap::new());
        let (verdicts, created, known) = match self.insert_new(batch, &new_ones(&hoped)).await {
            Err(Fault::Duplicate(_)) => self.insert_rest(batch).await?,
            created => (hoped, created?, Known::new()),
        };
        self.answer(batch, verdicts, created, known).await
    }

    /// Inserts all of them, or none if a key or a claim is taken.
    async fn insert_new(&self, batch: &[Prepared], fresh: &[usize]) -> Done<Created> {
        let tries = Tries::of_new_keys();
        transaction!(self.connections, tries, session => self.insert(&mut session, batch, fresh))
    }

    /// Inserts those whose keys and claims are free, and tells who has the others.
    async fn insert_rest(&self, batch: &[Prepared]) -> Done<(Vec<Verdict>, Created, Known)> {
        transaction!(self.connections, session => self.insert_free(&mut session, batch))
    }

    async fn insert_free(
        &self,
        session: &mut Session,
        batch: &[Prepared],
    ) -> Done<(Vec<Verdict>, Created, Known)> {
        let known = look_up(session, batch).await?;
        let keys = batch.iter().flat_map(|prepared| &prepared.new.claims);
        let verdicts = judge(batch, &known, &claims::taken(session, keys).await?);
        let created = self.insert(session, batch, &new_ones(&verdicts)).await?;
        Ok((verdicts, created, known))
    }

    /// Inserts those at `indexes` in one commit; returns them by index.
    async fn insert(
        &self,
        session: &mut Session,
        batch: &[Prepared],
        indexes: &[usize],
    ) -> Done<Created> {
        if indexes.is_empty() {
            return Ok(HashMap::new());
        }
        let chosen = || indexes.iter().map(|index| &batch[*index]);
        let mut script = Script::transaction();
        let keys =
            script.say("INSERT INTO landfall_keys (digest,fingerprint,rail,tenant,name) VALUES");
        script.values(chosen(), |row, prepared| {
            let new = &prepared.new;
            row.bytes(prepared.digest).bytes(new.fingerprint.0);
            row.bytes(new.payload.rail().as_str()).bytes(&new.tenant).bytes(&new.key);
        });
        script.say("SET @first = LAST_INSERT_ID()");
        let step = session.id_step();
        let numbered = || (0u64..).map(|number| number * step).zip(chosen());
        let head = "INSERT INTO landfall_payloads (id,created_ms,receiver,payload,trail) VALUES";
        script.rows(head, numbered(), "", |row, (above, prepared)| {
            let new = &prepared.new;
            row.above("@first", above).int(time(new.created_ms));
            row.bytes(new.payload.receiver().as_bytes());
            row.bytes(&prepared.payload).bytes(&prepared.trail);
        });
        let mut entered = Entered::default();
        let mut hot = Vec::with_capacity(indexes.len());
        for (above, prepared) in numbered() {
            let state = self.codes.code(prepared.new.state)?;
            entered.count(state, 1);
            hot.push((above, state, &prepared.new));
        }
        let head = "INSERT INTO landfall_transfers (id,state,version,live,due_ms,stage_retries,\
                    retry_count,updated_ms,dead,confirmed) VALUES";
        script.rows(head, hot, "", |row, (above, state, new)| {
            row.above("@first", above).int(state).int(FIRST_VERSION as i64);
            row.maybe_int(new.due_ms.map(|_| state)).maybe_int(new.due_ms.map(time));
            row.int(0).int(0).int(time(new.created_ms));
            row.maybe_int(new.state.is_failed().then_some(1)).int(0);
        });
        let claimed = numbered().flat_map(|(above, prepared)| {
            prepared.new.claims.iter().map(move |claim| (claim, above))
        });
        claims::hold(&mut script, claimed);
        entered.write(&mut script, session.number());
        script.say("COMMIT");
        let answers = session.run(script).await?;
        let first = answers[keys].first_id.ok_or_else(|| corrupt("new rows have no id"))?;
        let ids = (0u64..).map(|number| first + number * step).zip(indexes);
        Ok(ids.map(|(id, index)| (*index, batch[*index].new.accepted_as(TransferId(id)))).collect())
    }

    async fn answer(
        &self,
        batch: &[Prepared],
        verdicts: Vec<Verdict>,
        created: Created,
        known: Known,
    ) -> Done<Vec<Accepted>> {
        let mut ids = Vec::with_capacity(known.len());
        for taken in known.values() {
            ids.push(TransferId(uint(taken.id)?));
        }
        let stored = if ids.is_empty() { Vec::new() } else { self.transfers(&ids).await? };
        let stored: HashMap<i64, Transfer> =
            stored.into_iter().map(|transfer| (transfer.id.0 as i64, transfer)).collect();
        let made = |place: usize| {
            created.get(&place).ok_or_else(|| corrupt("a new transfer was not inserted"))
        };
        let answer = |(place, verdict): (usize, Verdict)| {
            let prepared = &batch[place];
            Ok(match verdict {
                Verdict::New => Accepted::Created(made(place)?.clone()),
                Verdict::Repeats(first) => {
                    let first = made(first)?;
                    prepared.against(first.fingerprint, first.clone())
                }
                Verdict::Known => {
                    let taken = &known[&prepared.digest];
                    let transfer = stored.get(&taken.id).cloned();
                    let transfer =
                        transfer.ok_or_else(|| corrupt("a key outlived its transfer"))?;
                    prepared.against(taken.fingerprint, transfer)
                }
                Verdict::Claimed { claim, by } => {
                    let owner = match by {
                        Owner::Stored(owner) => owner,
                        Owner::InBatch(first) => Some(made(first)?.id),
                    };
                    Accepted::Claimed { key: prepared.new.claims[claim].clone(), owner }
                }
            })
        };
        verdicts.into_iter().enumerate().map(answer).collect()
    }

    pub(crate) async fn by_key(
        &self,
        rail: RailName,
        tenant: &str,
        key: &str,
    ) -> Done<Option<Transfer>> {
        let digest = key_digest(rail, tenant, key);
        let found = self.transfers_where(|script| {
            script.text(" WHERE k.digest = ").bytes(digest);
        });
        Ok(found.await?.pop())
    }
}

/// Those of the batch whose keys are taken. A key whose digest is that of another cannot be stored.
async fn look_up(session: &mut Session, batch: &[Prepared]) -> Done<Known> {
    let asked: HashMap<[u8; 32], &Prepared> =
        batch.iter().map(|prepared| (prepared.digest, prepared)).collect();
    let mut script = Script::default();
    script.say("SELECT digest, id, fingerprint, tenant, name FROM landfall_keys WHERE digest IN ");
    script.keys(asked.keys());
    let mut taken = HashMap::new();
    for mut row in session.run(script).await?.remove(0).rows {
        let digest = take_digest(&mut row, 0)?;
        let fingerprint = Fingerprint(take_digest(&mut row, 2)?);
        let (tenant, key) = (take_text(&mut row, 3)?, take_text(&mut row, 4)?);
        let same = asked
            .get(&digest)
            .is_some_and(|prepared| prepared.new.tenant == tenant && prepared.new.key == key);
        if !same {
            return Err(corrupt(format!("key {key:?} has the digest of another")));
        }
        taken.insert(digest, Taken { id: take(&mut row, 1)?, fingerprint });
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_run_together_or_differ_by_a_space_have_digests_of_their_own() {
        let digests = [("ab", "c"), ("a", "bc"), ("a", "BC"), ("a", "bc "), ("a ", "bc")]
            .map(|(tenant, key)| key_digest(RailName::Near, tenant, key));
        for (number, one) in digests.iter().enumerate() {
            assert!(!digests[number + 1..].contains(one));
        }
    }
}
