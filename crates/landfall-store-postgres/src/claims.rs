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
    Kept { by: Option<i64> },
}

impl Claim {
    /// From a row of [`LOCK`].
    fn of(row: &Row) -> Done<Claim> {
        let (owner, by): (Option<i64>, _) = (get(row, 2)?, get(row, 3)?);
        Ok(owner.map_or(Claim::Kept { by }, |owner| Claim::Held { owner }))
    }

    fn owner(self) -> Option<i64> {
        match self {
            Claim::Held { owner } => Some(owner),
            Claim::Kept { by } => by,
        }
    }

    fn kept_by(self) -> Option<i64> {
        match self {
            Claim::Held { .. } => None,
            Claim::Kept { by } => by,
        }
    }
}

fn named(owner: Option<i64>) -> Done<Option<TransferId>> {
    owner.map(|owner| uint(owner).map(TransferId)).transpose()
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

pub(crate) const LOCK: &str = "SELECT c.space, c.key, c.owner, c.kept_by
    FROM unnest($1::text[], $2::text[]) AS u(space, key)
        JOIN claims c ON c.space = u.space AND c.key = u.key
    ORDER BY c.space, c.key FOR UPDATE OF c";

pub(crate) const WAITERS: &str = "SELECT w.space, w.key, w.waiter
    FROM unnest($1::text[], $2::text[]) AS u(space, key)
        JOIN claim_waiters w ON w.space = u.space AND w.key = u.key
    ORDER BY w.waiter";

/// The claims that are taken, with their owners.
pub(crate) fn taken_from(claims: &[Row]) -> Done<HashMap<ClaimKey, Option<TransferId>>> {
    let taken = |row: &Row| {
        let key = ClaimKey { space: given(get(row, 0)?), key: given(get(row, 1)?) };
        Ok((key, named(Claim::of(row)?.owner())?))
    };
    claims.iter().map(taken).collect()
}

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
        claim.before = Some(Claim::of(row)?);
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
            (None, ClaimEnd::Keep(_)) | (Some(Claim::Kept { .. }), ClaimEnd::Forget(_)) => true,
            _ => false,
        };
        if !ended {
            return Ok(());
        }
        let kept = Claim::Kept { by: held.map(|_| mover) };
        claim.after = matches!(end, ClaimEnd::Keep(_)).then_some(kept);
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

const KEEP: &str = "INSERT INTO claims (space, key, kept_by)
    SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[])";
const TURN: &str = "UPDATE claims c SET owner = NULL, kept_by = u.kept_by
    FROM unnest($1::text[], $2::text[], $3::bigint[]) AS u(space, key, kept_by)
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
    let mut add = |sql, is_kept: bool, chosen: &dyn Fn(&ClaimRow) -> bool| {
        let chosen: Vec<_> = sorted.iter().filter(|(_, claim)| chosen(claim)).collect();
        if chosen.is_empty() {
            return;
        }
        let (spaces, keys): (Vec<String>, Vec<String>) =
            chosen.iter().map(|(key, _)| (text(&key.space), text(&key.key))).unzip();
        let mut values: Vec<Value> = vec![Box::new(spaces), Box::new(keys)];
        if is_kept {
            let kept_by = chosen.iter().map(|(_, claim)| claim.after.and_then(Claim::kept_by));
            values.push(Box::new(kept_by.collect::<Vec<Option<i64>>>()));
        }
        let rows = (sql != LET_GO).then_some(chosen.len());
        writes.push(Write { sql, values, rows });
    };
    add(KEEP, true, &|claim| claim.before.is_none() && claim.after.is_some());
    add(TURN, true, &|claim| {
        claim.before.is_some() && claim.after.is_some() && claim.before != claim.after
    });
    add(REMOVE, false, &|claim| claim.before.is_some() && claim.after.is_none());
    add(LET_GO, false, &|claim| claim.ended);
    Ok(())
}

/// Holds claims for new transfers, in the order of their keys. Somebody may have been faster: then
/// their primary key says so.
const HOLD: &str = "INSERT INTO claims (space, key, owner)
    SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[])";

pub(crate) fn hold(claims: BTreeMap<&ClaimKey, i64>) -> Write {
    let mut sorted: Vec<(String, String, i64)> =
        claims.into_iter().map(|(key, owner)| (text(&key.space), text(&key.key), owner)).collect();
    sorted.sort_unstable();
    let rows = Some(sorted.len());
    let owners: Vec<i64> = sorted.iter().map(|(_, _, owner)| *owner).collect();
    let (spaces, keys): (Vec<String>, Vec<String>) =
        sorted.into_iter().map(|(space, key, _)| (space, key)).unzip();
    let values: Vec<Value> = vec![Box::new(spaces), Box::new(keys), Box::new(owners)];
    Write { sql: HOLD, values, rows }
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
            owners.insert((get(row, 0)?, get(row, 1)?), Claim::of(row)?);
        }
        let (mut answers, mut waiting) = (Vec::with_capacity(self.claims.len()), Vec::new());
        for (key, asker) in self.claims {
            let (space, key, asking) = (text(&key.space), text(&key.key), int(asker.0)?);
            answers.push(match owners.get(&(space.as_str(), key.as_str())) {
                Some(Claim::Kept { by }) => Claimed::Kept { owner: named(*by)? },
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
