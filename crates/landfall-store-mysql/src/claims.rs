//! Claims: asked for by transfers, ended by moves.
//!
//! **Invariant:** a claim has waiters only while it is held; whatever ends it makes them due in the
//! same commit. Whoever adds a waiter and whoever ends the claim lock its row first.
//! A claim that nobody has is a row that is not there, and cannot be locked: of two that make it
//! one fails by its key, and begins again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use landfall_core::TransferId;
use landfall_core::claim::{ClaimEnd, ClaimKey, Claimed};

use crate::Core;
use crate::accept::digest;
use crate::connections::{Answer, Session, take, take_digest, transaction};
use crate::fault::{Done, corrupt, int, uint};
use crate::sql::{Row, Script};

/// Longest space and key, in bytes.
const TEXT_BYTES: usize = 2048;

type Key = [u8; 32];

fn key_of(key: &ClaimKey) -> Key {
    digest(&[&key.space, &key.key])
}

/// What is known of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    Free,
    Held { owner: i64 },
    Kept { by: Option<i64> },
}

fn named(owner: Option<i64>) -> Done<Option<TransferId>> {
    owner.map(|owner| uint(owner).map(TransferId)).transpose()
}

/// The claims that a batch has locked, as they were and as they will be.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    before: BTreeMap<Key, Claim>,
    after: BTreeMap<Key, Claim>,
    names: BTreeMap<Key, ClaimKey>,
    waiters: BTreeMap<Key, Vec<i64>>,
    /// Whose waiters have been released.
    emptied: BTreeSet<Key>,
}

/// Where the locked claims and their waiters are among the answers.
pub(crate) struct Locks {
    names: BTreeMap<Key, ClaimKey>,
    statements: Option<(usize, usize)>,
}

fn lock(script: &mut Script, keys: impl Iterator<Item = Key>) -> usize {
    let statement = script.say(
        "SELECT digest, owner, kept_by FROM landfall_claims FORCE INDEX (PRIMARY)
         WHERE digest IN ",
    );
    script.keys(keys).text(" ORDER BY digest FOR UPDATE");
    statement
}

fn look_at(keys: impl Iterator<Item = Key>) -> Script {
    let mut script = Script::default();
    script.say("SELECT digest, owner, kept_by FROM landfall_claims WHERE digest IN ");
    script.keys(keys);
    script
}

fn read(answer: &mut Answer, into: &mut BTreeMap<Key, Claim>) -> Done<()> {
    for mut row in answer.rows.drain(..) {
        let (owner, by): (Option<i64>, _) = (take(&mut row, 1)?, take(&mut row, 2)?);
        let claim = owner.map_or(Claim::Kept { by }, |owner| Claim::Held { owner });
        into.insert(take_digest(&mut row, 0)?, claim);
    }
    Ok(())
}

impl Claims {
    pub(crate) fn lock<'a>(script: &mut Script, ends: impl Iterator<Item = &'a ClaimEnd>) -> Locks {
        let named = |end: &ClaimEnd| match end {
            ClaimEnd::Keep(key) | ClaimEnd::Release(key) | ClaimEnd::Forget(key) => {
                (key_of(key), key.clone())
            }
        };
        let names: BTreeMap<Key, ClaimKey> = ends.map(named).collect();
        if names.is_empty() {
            return Locks { names, statements: None };
        }
        let claims = lock(script, names.keys().copied());
        let waiters =
            script.say("SELECT claim, waiter FROM landfall_claim_waiters WHERE claim IN ");
        script.keys(names.keys()).text(" ORDER BY claim, waiter");
        Locks { names, statements: Some((claims, waiters)) }
    }

    pub(crate) fn read(locks: &Locks, answers: &mut [Answer]) -> Done<Claims> {
        let mut claims = Claims { names: locks.names.clone(), ..Claims::default() };
        let Some((locked, waiters)) = locks.statements else { return Ok(claims) };
        read(&mut answers[locked], &mut claims.before)?;
        for mut row in answers[waiters].rows.drain(..) {
            let (claim, waiter) = (take_digest(&mut row, 0)?, take(&mut row, 1)?);
            claims.waiters.entry(claim).or_default().push(waiter);
        }
        claims.after = claims.before.clone();
        Ok(claims)
    }

    pub(crate) fn waiters(&self) -> impl Iterator<Item = i64> {
        self.waiters.values().flatten().copied()
    }

    /// Ends a claim for the mover; returns those who waited for it.
    pub(crate) fn end(&mut self, end: &ClaimEnd, mover: i64) -> Vec<i64> {
        let (ClaimEnd::Keep(key) | ClaimEnd::Release(key) | ClaimEnd::Forget(key)) = end;
        let key = key_of(key);
        let before = self.after.get(&key).copied().unwrap_or(Claim::Free);
        let ended = match (before, end) {
            (Claim::Held { owner }, ClaimEnd::Keep(_) | ClaimEnd::Release(_)) => owner == mover,
            (Claim::Free, ClaimEnd::Keep(_)) | (Claim::Kept { .. }, ClaimEnd::Forget(_)) => true,
            _ => false,
        };
        if !ended {
            return Vec::new();
        }
        let was_held = matches!(before, Claim::Held { .. });
        let after = match end {
            ClaimEnd::Keep(_) => Claim::Kept { by: was_held.then_some(mover) },
            _ => Claim::Free,
        };
        self.after.insert(key, after);
        match before {
            Claim::Held { .. } => {
                self.emptied.insert(key);
                self.waiters.remove(&key).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    /// Adds to `script` what writes the claims that have changed.
    pub(crate) fn write(&self, script: &mut Script) {
        let (mut kept, mut made, mut freed) = (Vec::new(), Vec::new(), Vec::new());
        for (key, after) in &self.after {
            let before = self.before.get(key).copied().unwrap_or(Claim::Free);
            match (before, after) {
                (before, after) if before == *after => {}
                (Claim::Free, Claim::Kept { by }) => made.push((key, *by)),
                (_, Claim::Kept { by }) => kept.push((key, *by)),
                (_, Claim::Free) => freed.push(key),
                // Nobody begins to hold one here.
                (_, Claim::Held { .. }) => {}
            }
        }
        let head = "INSERT INTO landfall_claims (digest, kept_by, space, name) VALUES";
        let row = |row: &mut Row<'_>, (key, by): (&Key, Option<i64>)| {
            let name = &self.names[key];
            row.bytes(key).maybe_int(by).bytes(&name.space).bytes(&name.key);
        };
        script.rows(head, made, "", row);
        // The rows are there and locked: the other half always applies.
        let tail = " ON DUPLICATE KEY UPDATE owner = NULL, kept_by = VALUES(kept_by)";
        script.rows(head, kept, tail, row);
        if !freed.is_empty() {
            script.say("DELETE FROM landfall_claims WHERE digest IN ");
            script.keys(freed);
        }
        if !self.emptied.is_empty() {
            script.say("DELETE FROM landfall_claim_waiters WHERE claim IN ");
            script.keys(&self.emptied);
        }
    }
}

impl Core {
    pub(crate) async fn claim(&self, asked: &[(ClaimKey, TransferId)]) -> Done<Vec<Claimed>> {
        transaction!(self.connections, session => claim_once(&mut session, asked))
    }

    pub(crate) async fn kept(&self, keys: &[ClaimKey]) -> Done<Vec<bool>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let script = || look_at(keys.iter().map(key_of));
        let mut found = BTreeMap::new();
        read(&mut self.connections.ask(script).await?[0], &mut found)?;
        let is_kept = |key| matches!(found.get(&key_of(key)), Some(Claim::Kept { .. }));
        Ok(keys.iter().map(is_kept).collect())
    }
}

pub(crate) fn check_name(key: &ClaimKey) -> Done<()> {
    if key.space.len() > TEXT_BYTES || key.key.len() > TEXT_BYTES {
        return Err(corrupt(format!("a claim's name is longer than {TEXT_BYTES} bytes")));
    }
    Ok(())
}

/// Those of the claims that are taken, with their owners.
pub(crate) async fn taken<'a>(
    session: &mut Session,
    keys: impl Iterator<Item = &'a ClaimKey>,
) -> Done<HashMap<ClaimKey, Option<TransferId>>> {
    let names: BTreeMap<Key, &ClaimKey> = keys.map(|key| (key_of(key), key)).collect();
    if names.is_empty() {
        return Ok(HashMap::new());
    }
    let mut found = BTreeMap::new();
    read(&mut session.run(look_at(names.keys().copied())).await?[0], &mut found)?;
    let mut taken = HashMap::new();
    for (key, claim) in found {
        let owner = match claim {
            Claim::Free => continue,
            Claim::Held { owner } => Some(owner),
            Claim::Kept { by } => by,
        };
        if let Some(name) = names.get(&key) {
            taken.insert((*name).clone(), named(owner)?);
        }
    }
    Ok(taken)
}

/// Adds to `script` what holds claims for new transfers, whose ids are so far above `@first`. Of
/// two that hold one, one fails by its key.
pub(crate) fn hold<'a>(script: &mut Script, claims: impl Iterator<Item = (&'a ClaimKey, u64)>) {
    let sorted: BTreeMap<Key, (&ClaimKey, u64)> =
        claims.map(|(key, above)| (key_of(key), (key, above))).collect();
    let head = "INSERT INTO landfall_claims (digest, owner, space, name) VALUES";
    script.rows(head, sorted, "", |row, (digest, (key, above))| {
        row.bytes(digest).above("@first", above).bytes(&key.space).bytes(&key.key);
    });
}

async fn claim_once(session: &mut Session, asked: &[(ClaimKey, TransferId)]) -> Done<Vec<Claimed>> {
    let names: HashMap<Key, &ClaimKey> = asked.iter().map(|(key, _)| (key_of(key), key)).collect();
    names.values().try_for_each(|key| check_name(key))?;
    let keys: BTreeSet<Key> = names.keys().copied().collect();
    let mut script = Script::transaction();
    let locked = lock(&mut script, keys.into_iter());
    let mut known = BTreeMap::new();
    read(&mut session.run(script).await?[locked], &mut known)?;
    let (mut made, mut waiters) = (Vec::new(), BTreeSet::new());
    let mut answers = Vec::with_capacity(asked.len());
    for (key, asker) in asked {
        let (key, asker) = (key_of(key), int(asker.0)?);
        answers.push(match known.get(&key) {
            Some(Claim::Kept { by }) => Claimed::Kept { owner: named(*by)? },
            Some(Claim::Held { owner }) if *owner == asker => Claimed::Yours,
            Some(Claim::Held { owner }) => {
                waiters.insert((key, asker));
                Claimed::Held { owner: TransferId(uint(*owner)?) }
            }
            Some(Claim::Free) | None => {
                known.insert(key, Claim::Held { owner: asker });
                made.push((key, asker));
                Claimed::Yours
            }
        });
    }
    let mut script = Script::default();
    made.sort_unstable();
    let head = "INSERT INTO landfall_claims (digest, owner, space, name) VALUES";
    script.rows(head, made, "", |row, (key, owner)| {
        row.bytes(key).int(owner).bytes(&names[&key].space).bytes(&names[&key].key);
    });
    let head = "INSERT INTO landfall_claim_waiters (claim, waiter) VALUES";
    // Whoever waits already goes on waiting.
    let tail = " ON DUPLICATE KEY UPDATE waiter = VALUES(waiter)";
    script.rows(head, waiters, tail, |row, (key, waiter)| {
        row.bytes(key).int(waiter);
    });
    script.say("COMMIT");
    session.run(script).await?;
    Ok(answers)
}
