//! Claims: asked for by transfers, ended by moves.
//!
//! **Invariant:** a claim has waiters only while it is held; whatever ends it makes them due in the
//! same commit. Both who waits and who ends it lock it first.

use std::collections::{BTreeMap, HashMap};

use landfall_core::TransferId;
use landfall_core::claim::{ClaimEnd, ClaimKey, Claimed};
use tokio_postgres::Row;

use crate::connections::{Ask, Connection, Value, Work, Write};
use crate::fault::{Done, Fault, get, given, int, text, uint};
use crate::writer::Sheet;

/// A claim that somebody holds or that stands as a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    Held { owner: i64 },
    Kept,
}

impl Claim {
    fn of(owner: Option<i64>) -> Claim {
        owner.map_or(Claim::Kept, |owner| Claim::Held { owner })
    }
}

/// A claim as it is stored, and as the jobs so far have left it.
#[derive(Debug, Default)]
pub(crate) struct ClaimRow {
    before: Option<Claim>,
    after: Option<Claim>,
    waiters: Vec<i64>,
    /// Its waiters were released: none of them waits any more.
    ended: bool,
}

pub(crate) fn key_of(end: &ClaimEnd) -> &ClaimKey {
    let (ClaimEnd::Keep(key) | ClaimEnd::Release(key) | ClaimEnd::Forget(key)) = end;
    key
}

pub(crate) const LOCK: &str = "SELECT c.space, c.key, c.owner
    FROM unnest($1::text[], $2::text[]) AS u(space, key)
        JOIN claims c ON c.space = u.space AND c.key = u.key
    ORDER BY c.space, c.key FOR UPDATE OF c";

pub(crate) const WAITERS: &str = "SELECT w.space, w.key, w.waiter
    FROM unnest($1::text[], $2::text[]) AS u(space, key)
        JOIN claim_waiters w ON w.space = u.space AND w.key = u.key
    ORDER BY w.waiter";

/// The claims of `keys`, those that are not there included.
pub(crate) fn locked_from<'k>(
    keys: impl Iterator<Item = (&'k String, &'k String)>,
    claims: &[Row],
    waiters: &[Row],
) -> Done<HashMap<ClaimKey, ClaimRow>> {
    let named = |space: &str, key: &str| ClaimKey { space: given(space), key: given(key) };
    let mut found: HashMap<ClaimKey, ClaimRow> =
        keys.map(|(space, key)| (named(space, key), ClaimRow::default())).collect();
    for row in claims {
        let claim = found.entry(named(get(row, 0)?, get(row, 1)?)).or_default();
        claim.before = Some(Claim::of(get(row, 2)?));
        claim.after = claim.before;
    }
    for row in waiters {
        let claim = found.entry(named(get(row, 0)?, get(row, 1)?)).or_default();
        claim.waiters.push(get(row, 2)?);
    }
    Ok(found)
}

impl Sheet<'_> {
    /// Ends a claim for the mover; adds the waiters that were made due.
    pub(crate) fn end_claim(
        &mut self,
        end: &ClaimEnd,
        mover: i64,
        released: &mut Vec<TransferId>,
    ) -> Done<()> {
        let claim = self.claims.entry(key_of(end).clone()).or_default();
        let held = claim.after;
        let ended = match (held, end) {
            (Some(Claim::Held { owner }), ClaimEnd::Keep(_) | ClaimEnd::Release(_)) => {
                owner == mover
            }
            (None, ClaimEnd::Keep(_)) | (Some(Claim::Kept), ClaimEnd::Forget(_)) => true,
            _ => false,
        };
        if !ended {
            return Ok(());
        }
        claim.after = matches!(end, ClaimEnd::Keep(_)).then_some(Claim::Kept);
        if !matches!(held, Some(Claim::Held { .. })) {
            return Ok(());
        }
        claim.ended = true;
        for waiter in std::mem::take(&mut claim.waiters) {
            self.wake(waiter, released)?;
        }
        Ok(())
    }
}

const KEEP: &str = "INSERT INTO claims (space, key, owner)
    SELECT u.space, u.key, NULL FROM unnest($1::text[], $2::text[]) AS u(space, key)";
const TURN: &str = "UPDATE claims c SET owner = NULL
    FROM unnest($1::text[], $2::text[]) AS u(space, key)
    WHERE c.space = u.space AND c.key = u.key";
const REMOVE: &str = "DELETE FROM claims c USING unnest($1::text[], $2::text[]) AS u(space, key)
    WHERE c.space = u.space AND c.key = u.key";
const LET_GO: &str = "DELETE FROM claim_waiters w
    USING unnest($1::text[], $2::text[]) AS u(space, key)
    WHERE w.space = u.space AND w.key = u.key";

/// Writes what became of the claims.
pub(crate) fn write(sheet: &Sheet<'_>, writes: &mut Vec<Write>) -> Done<()> {
    let mut sorted: BTreeMap<&ClaimKey, &ClaimRow> = BTreeMap::new();
    sorted.extend(&sheet.claims);
    let mut add = |sql, rows: bool, chosen: &dyn Fn(&ClaimRow) -> bool| {
        let chosen = sorted.iter().filter(|(_, claim)| chosen(claim));
        let (spaces, keys): (Vec<String>, Vec<String>) =
            chosen.map(|(key, _)| (text(&key.space), text(&key.key))).unzip();
        if !keys.is_empty() {
            let rows = rows.then_some(keys.len());
            writes.push(Write { sql, values: vec![Box::new(spaces), Box::new(keys)], rows });
        }
    };
    add(KEEP, true, &|claim| claim.before.is_none() && claim.after.is_some());
    add(TURN, true, &|claim| {
        claim.before.is_some() && claim.after.is_some() && claim.before != claim.after
    });
    add(REMOVE, true, &|claim| claim.before.is_some() && claim.after.is_none());
    add(LET_GO, false, &|claim| claim.ended);
    Ok(())
}

/// Askers of many callers, in order.
pub(crate) struct Asking<'a> {
    pub claims: &'a [(ClaimKey, TransferId)],
}

/// The first to ask owns what nobody has. Whoever loses to another's insert waits for its commit.
const CLAIM: &str = "INSERT INTO claims (space, key, owner)
    SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]) ON CONFLICT DO NOTHING";

const WAIT: &str = "INSERT INTO claim_waiters (space, key, waiter)
    SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]) ON CONFLICT DO NOTHING";

impl Work for Asking<'_> {
    type Answer = Vec<Claimed>;

    async fn run(&self, db: &mut Connection) -> Done<Vec<Claimed>> {
        let mut first: BTreeMap<(String, String), i64> = BTreeMap::new();
        for (key, asker) in self.claims {
            let key = (text(&key.space), text(&key.key));
            first.entry(key).or_insert(int(asker.0)?);
        }
        let (keys, askers): (Vec<_>, Vec<i64>) = first.into_iter().unzip();
        let (spaces, keys): (Vec<String>, Vec<String>) = keys.into_iter().unzip();
        let asks: [Ask<'_>; 2] =
            [Some((CLAIM, &[&spaces, &keys, &askers])), Some((LOCK, &[&spaces, &keys]))];
        let locked = db.begin(&asks).await?.pop().unwrap_or_default();
        if locked.len() < keys.len() {
            return Err(Fault::Again("a claim ended while it was asked for".into()));
        }
        let mut owners: HashMap<(&str, &str), Claim> = HashMap::with_capacity(locked.len());
        for row in &locked {
            owners.insert((get(row, 0)?, get(row, 1)?), Claim::of(get(row, 2)?));
        }
        let (mut answers, mut waiting) = (Vec::with_capacity(self.claims.len()), Vec::new());
        for (key, asker) in self.claims {
            let (space, key, asking) = (text(&key.space), text(&key.key), int(asker.0)?);
            answers.push(match owners.get(&(space.as_str(), key.as_str())) {
                Some(Claim::Kept) => Claimed::Kept,
                Some(Claim::Held { owner }) if *owner != asking => {
                    let owner = TransferId(uint(*owner)?);
                    waiting.push((space, (key, asking)));
                    Claimed::Held { owner }
                }
                _ => Claimed::Yours,
            });
        }
        let (spaces, rest): (Vec<String>, Vec<(String, i64)>) = waiting.into_iter().unzip();
        let (keys, waiters): (Vec<String>, Vec<i64>) = rest.into_iter().unzip();
        let values: Vec<Value> = vec![Box::new(spaces), Box::new(keys), Box::new(waiters)];
        db.commit(&[Write { sql: WAIT, values, rows: None }]).await?;
        Ok(answers)
    }
}

/// Which of the keys ended kept, in order.
pub(crate) const KEPT: &str = "SELECT EXISTS (
        SELECT FROM claims c WHERE c.space = u.space AND c.key = u.key AND c.owner IS NULL)
    FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u(space, key, number)
    ORDER BY u.number";
