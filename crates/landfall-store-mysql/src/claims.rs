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
use crate::sql::Script;

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
    Kept,
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
    let statement = script
        .say("SELECT digest, owner FROM landfall_claims FORCE INDEX (PRIMARY) WHERE digest IN ");
    script.keys(keys).text(" ORDER BY digest FOR UPDATE");
    statement
}

fn read(answer: &mut Answer, into: &mut BTreeMap<Key, Claim>) -> Done<()> {
    for mut row in answer.rows.drain(..) {
        let owner: Option<i64> = take(&mut row, 1)?;
        let claim = owner.map_or(Claim::Kept, |owner| Claim::Held { owner });
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
            (Claim::Free, ClaimEnd::Keep(_)) | (Claim::Kept, ClaimEnd::Forget(_)) => true,
            _ => false,
        };
        if !ended {
            return Vec::new();
        }
        let after = if matches!(end, ClaimEnd::Keep(_)) { Claim::Kept } else { Claim::Free };
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
                (Claim::Free, _) => made.push(key),
                (_, Claim::Free) => freed.push(key),
                _ => kept.push(key),
            }
        }
        let head = "INSERT INTO landfall_claims (digest, owner, space, name) VALUES";
        script.rows(head, made, "", |row, key| {
            let name = &self.names[key];
            row.bytes(key).maybe_int(None).bytes(&name.space).bytes(&name.key);
        });
        if !kept.is_empty() {
            script.say("UPDATE landfall_claims SET owner = NULL WHERE digest IN ");
            script.keys(kept);
        }
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
        let script = || {
            let mut script = Script::default();
            script.say("SELECT digest, owner FROM landfall_claims WHERE digest IN ");
            script.keys(keys.iter().map(key_of));
            script
        };
        let mut found = BTreeMap::new();
        read(&mut self.connections.ask(script).await?[0], &mut found)?;
        Ok(keys.iter().map(|key| found.get(&key_of(key)) == Some(&Claim::Kept)).collect())
    }
}

async fn claim_once(session: &mut Session, asked: &[(ClaimKey, TransferId)]) -> Done<Vec<Claimed>> {
    let names: HashMap<Key, &ClaimKey> = asked.iter().map(|(key, _)| (key_of(key), key)).collect();
    for key in names.values() {
        if key.space.len() > TEXT_BYTES || key.key.len() > TEXT_BYTES {
            return Err(corrupt(format!("a claim's name is longer than {TEXT_BYTES} bytes")));
        }
    }
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
            Some(Claim::Kept) => Claimed::Kept,
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
