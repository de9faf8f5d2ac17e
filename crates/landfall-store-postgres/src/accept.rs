//! New transfers: created, already there, in conflict, or after something that is claimed.
//!
//! **Invariant:** a key, once taken, belongs to its transfer for ever.
//! A key is found by its SHA-256: nobody can make two keys of one hash, so the hash is the key, of
//! one length whatever people send. The full key is compared all the same when a transfer is found
//! by it.
//!
//! Ids come from a sequence that no session caches: whoever asks after an id was answered gets a
//! larger one, whichever instance asks.
//!
//! Claims are locked where they are there; where they are not, holding them meets their primary key
//! if somebody was faster, and the batch starts over. A key that was taken for a transfer which
//! turns out to be refused is given back in the same commit.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use landfall_core::accepting::{Owner, Verdict, verdicts};
use landfall_core::claim::ClaimKey;
use landfall_core::store::{Accepted, Result, StoreError};
use landfall_core::transfer::FIRST_VERSION;
use landfall_core::{NewTransfer, RailName, Transfer, TransferId, trail};
use sha2::{Digest, Sha256};
use tokio_postgres::types::ToSql;

use crate::codes::Codes;
use crate::connections::{Ask, Connection, Connections, Value, Values, Work, Write};
use crate::fault::{Done, corrupt, get, int, text, time, uint};
use crate::writer::COUNT;
use crate::{claims, reads};

type Hash = [u8; 32];

/// A new transfer with everything worked out that does not need the database.
pub(crate) struct Prepared {
    new: NewTransfer,
    hash: Hash,
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

/// What stands for the key.
pub(crate) fn key_hash(rail: RailName, tenant: &str, key: &str) -> Hash {
    let mut hasher = Sha256::new();
    for part in [rail.as_str(), tenant, key] {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// New transfers of many callers, in order.
pub(crate) struct Accepting<'a> {
    pub batch: &'a [Prepared],
    pub codes: &'a Codes,
}

/// Ids in the order asked; keys in the order of their hashes, like by everybody, since whoever
/// meets a key that is being taken waits for that commit.
const TAKE: &str = "WITH asked AS MATERIALIZED (
        SELECT nextval('transfer_ids') AS id, u.hash, u.fingerprint
        FROM unnest($1::bytea[], $2::bytea[]) AS u(hash, fingerprint))
    INSERT INTO keys (hash, transfer, fingerprint)
    SELECT hash, id, fingerprint FROM asked ORDER BY hash
    ON CONFLICT (hash) DO NOTHING RETURNING hash, transfer";

const GIVE_BACK: &str = "DELETE FROM keys WHERE hash = ANY($1)";

const TAKEN: &str = "SELECT hash, transfer, fingerprint FROM keys WHERE hash = ANY($1)";

const PAYLOADS: &str = "INSERT INTO payloads
        (id, created_ms, rail, tenant, key, fingerprint, receiver, payload, trail)
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[],
        $6::bytea[], $7::text[], $8::text[], $9::bytea[])";

const TRANSFERS: &str = "INSERT INTO transfers (id, due_ms, updated_ms, state, stage, dead,
        version, stage_retries, retry_count, confirmed)
    SELECT u.*, $7::bigint, 0, 0, false FROM unnest($1::bigint[], $2::bigint[], $3::bigint[],
        $4::smallint[], $5::smallint[], $6::boolean[]) AS u";

/// The key that a new transfer met.
struct Taken {
    id: i64,
    fingerprint: Vec<u8>,
}

/// The first flight: keys that were free, by their hashes, with the ids that took them; claims that
/// are taken, with their owners.
struct Taking {
    free: HashMap<Hash, i64>,
    claimed: HashMap<ClaimKey, Option<TransferId>>,
}

impl Work for Accepting<'_> {
    type Answer = Vec<Accepted>;

    async fn run(&self, db: &mut Connection) -> Done<Vec<Accepted>> {
        let mut named = HashSet::with_capacity(self.batch.len());
        let first = self.batch.iter().filter(|prepared| named.insert(prepared.hash));
        let first: Vec<&Prepared> = first.collect();
        let Taking { free, claimed } = self.take(db, &first).await?;
        let met = named.iter().filter(|hash| !free.contains_key(*hash));
        let met: Vec<&[u8]> = met.map(|hash| hash.as_slice()).collect();
        let judged = self.batch.iter().map(|one| (one.hash, one.new.claims.as_slice()));
        let verdicts = verdicts(judged, |hash| !free.contains_key(hash), &claimed);
        self.create(db, &free, &verdicts).await?;
        let (taken, stored) = match met.is_empty() {
            true => Default::default(),
            false => self.look(db, &met).await?,
        };
        let id_of = |place: usize| match free.get(&self.batch[place].hash) {
            Some(id) => Ok(TransferId(uint(*id)?)),
            None => Err(corrupt("a new transfer has no id")),
        };
        let answer = |(place, verdict): (usize, &Verdict)| {
            let prepared = &self.batch[place];
            Ok(match *verdict {
                Verdict::New => Accepted::Created(prepared.new.accepted_as(id_of(place)?)),
                Verdict::Repeats(first) => {
                    let new = &self.batch[first].new;
                    let is_same = new.fingerprint == prepared.new.fingerprint;
                    decided(is_same, new.accepted_as(id_of(first)?))
                }
                Verdict::Known => prepared.against(&taken, &stored)?,
                Verdict::Claimed { claim, by } => {
                    let owner = match by {
                        Owner::Stored(owner) => owner,
                        Owner::InBatch(first) => Some(id_of(first)?),
                    };
                    Accepted::Claimed { key: prepared.new.claims[claim].clone(), owner }
                }
            })
        };
        verdicts.iter().enumerate().map(answer).collect()
    }
}

fn decided(is_same: bool, stored: Transfer) -> Accepted {
    if is_same { Accepted::Already(stored) } else { Accepted::Conflict(stored) }
}

impl Prepared {
    /// What a transfer that had its key before is to this one.
    fn against(
        &self,
        taken: &HashMap<Hash, Taken>,
        stored: &HashMap<i64, Transfer>,
    ) -> Done<Accepted> {
        let taken = taken.get(&self.hash).ok_or_else(|| corrupt("a key vanished"))?;
        let stored = stored.get(&taken.id);
        let stored = stored.ok_or_else(|| corrupt("a key outlived its transfer"))?;
        if stored.tenant != self.new.tenant || stored.key != self.new.key {
            return Err(corrupt("two keys have one hash"));
        }
        Ok(decided(taken.fingerprint == self.new.fingerprint.0, stored.clone()))
    }
}

impl Accepting<'_> {
    /// Takes the keys that are free, locks the claims that are there, and begins the transaction.
    async fn take(&self, db: &mut Connection, first: &[&Prepared]) -> Done<Taking> {
        let hashes: Vec<&[u8]> = first.iter().map(|prepared| &prepared.hash[..]).collect();
        let fingerprints: Vec<&[u8]> =
            first.iter().map(|prepared| &prepared.new.fingerprint.0[..]).collect();
        let claims: BTreeSet<(String, String)> = self
            .batch
            .iter()
            .flat_map(|prepared| &prepared.new.claims)
            .map(|claim| (text(&claim.space), text(&claim.key)))
            .collect();
        let has_claims = !claims.is_empty();
        let (spaces, keys): (Vec<String>, Vec<String>) = claims.into_iter().unzip();
        let claimed: Values<'_> = &[&spaces, &keys];
        let asks: [Ask<'_>; 2] = [
            Some((TAKE, &[&hashes, &fingerprints])),
            has_claims.then_some((claims::LOCK, claimed)),
        ];
        let answers = db.begin(&asks).await?;
        let [taken, claimed] = &answers[..] else {
            return Err(corrupt("a flight came back with other answers"));
        };
        let free = taken.iter().map(|row| Ok((hash_from(get(row, 0)?)?, get(row, 1)?)));
        Ok(Taking { free: free.collect::<Done<_>>()?, claimed: claims::taken_from(claimed)? })
    }

    /// Stores what is new with all that it claims, gives back the other keys, and commits.
    async fn create(
        &self,
        db: &mut Connection,
        free: &HashMap<Hash, i64>,
        verdicts: &[Verdict],
    ) -> Done<()> {
        let is_new = |(_, verdict): &(&Prepared, &Verdict)| **verdict == Verdict::New;
        let mut new: Vec<(i64, &Prepared)> = (self.batch.iter().zip(verdicts).filter(is_new))
            .filter_map(|(prepared, _)| Some((*free.get(&prepared.hash)?, prepared)))
            .collect();
        if new.is_empty() {
            return db.roll_back().await;
        }
        new.sort_unstable_by_key(|(id, _)| *id);
        let mut counts: BTreeMap<i16, i64> = BTreeMap::new();
        let (mut states, mut stages) = (Vec::new(), Vec::new());
        for (_, prepared) in &new {
            let state = self.codes.code(prepared.new.state)?;
            *counts.entry(state).or_default() += 1;
            states.push(state);
            let due_ms = prepared.new.due_ms.map(time);
            stages.push(self.codes.due_stage(prepared.new.state, due_ms)?);
        }
        let (counted, by): (Vec<i16>, Vec<i64>) = counts.into_iter().unzip();
        let mut writes = vec![
            payloads(&new),
            Write {
                sql: TRANSFERS,
                values: vec![
                    column(&new, |id, _| id),
                    column(&new, |_, new| new.new.due_ms.map(time)),
                    column(&new, |_, new| time(new.new.created_ms)),
                    Box::new(states),
                    Box::new(stages),
                    column(&new, |_, new| new.new.state.is_failed()),
                    Box::new(FIRST_VERSION as i64),
                ],
                rows: Some(new.len()),
            },
        ];
        let claims: BTreeMap<&ClaimKey, i64> =
            new.iter().flat_map(|(id, one)| one.new.claims.iter().map(|key| (key, *id))).collect();
        if !claims.is_empty() {
            writes.push(claims::hold(claims));
        }
        if new.len() < free.len() {
            let kept: HashSet<i64> = new.iter().map(|(id, _)| *id).collect();
            let unused = free.iter().filter(|(_, id)| !kept.contains(id));
            let unused: Vec<Vec<u8>> = unused.map(|(hash, _)| hash.to_vec()).collect();
            let rows = Some(unused.len());
            writes.push(Write { sql: GIVE_BACK, values: vec![Box::new(unused)], rows });
        }
        let values: Vec<Value> = vec![Box::new(counted), Box::new(by)];
        writes.push(Write { sql: COUNT, values, rows: None });
        db.commit(&writes).await
    }

    /// The keys that were taken before, and their transfers as they are now.
    async fn look(
        &self,
        db: &mut Connection,
        met: &[&[u8]],
    ) -> Done<(HashMap<Hash, Taken>, HashMap<i64, Transfer>)> {
        let statement = db.prepare(TAKEN).await?;
        let mut taken = HashMap::with_capacity(met.len());
        for row in db.client.query(&statement, &[&met]).await? {
            let found = Taken { id: get(&row, 1)?, fingerprint: get(&row, 2)? };
            taken.insert(hash_from(get(&row, 0)?)?, found);
        }
        let ids: Vec<i64> = taken.values().map(|taken| taken.id).collect();
        let statement = db.prepare(&reads::by_ids()).await?;
        let mut stored = HashMap::with_capacity(ids.len());
        for row in db.client.query(&statement, &[&ids]).await? {
            let transfer = reads::transfer_from(self.codes, &row)?;
            stored.insert(int(transfer.id.0)?, transfer);
        }
        Ok((taken, stored))
    }
}

fn hash_from(bytes: &[u8]) -> Done<Hash> {
    bytes.try_into().map_err(|_| corrupt("the hash of a key is cut off"))
}

fn column<T: ToSql + Sync + Send + 'static>(
    new: &[(i64, &Prepared)],
    value: impl Fn(i64, &Prepared) -> T,
) -> Value {
    Box::new(new.iter().map(|(id, prepared)| value(*id, prepared)).collect::<Vec<T>>())
}

fn payloads(new: &[(i64, &Prepared)]) -> Write {
    let values: Vec<Value> = vec![
        column(new, |id, _| id),
        column(new, |_, new| time(new.new.created_ms)),
        column(new, |_, new| new.new.payload.rail().as_str()),
        column(new, |_, new| text(&new.new.tenant)),
        column(new, |_, new| text(&new.new.key)),
        column(new, |_, new| new.new.fingerprint.0.to_vec()),
        column(new, |_, new| text(&new.new.payload.receiver())),
        column(new, |_, new| new.payload.clone()),
        column(new, |_, new| new.trail.clone()),
    ];
    Write { sql: PAYLOADS, values, rows: Some(new.len()) }
}

impl Connections {
    pub(crate) async fn by_key(
        &self,
        codes: &Codes,
        rail: RailName,
        tenant: &str,
        key: &str,
    ) -> Result<Option<Transfer>> {
        let hash = key_hash(rail, tenant, key);
        let rows = self.query(&reads::by_hash(), &[&hash.as_slice()]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let found = reads::transfer_from(codes, row)?;
        if found.tenant != tenant || found.key != key {
            return Err(StoreError::Corrupt("two keys have one hash".into()));
        }
        Ok(Some(found))
    }
}
