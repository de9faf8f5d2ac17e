//! Rows to words and back: every statement of SQL but the schema's.

use std::borrow::Cow;
use std::num::NonZeroU64;

use rusqlite::{Connection, OptionalExtension, Row, ToSql};

use super::fault::{Done, bits, corrupt, count, unbits};
use crate::book::Span;
use crate::rules::{Account, History, Past};
use crate::words::{AccountId, Balance, Entry, Key, Outcome, Refusal, ReqId, Terms, Verb};

/// The newest sequence number; 0 if nothing is recorded.
pub(crate) fn head(db: &Connection) -> Done<u64> {
    let sql = "SELECT coalesce(max(seq), 0) FROM operations";
    Ok(unbits(db.prepare_cached(sql)?.query_row([], |row| row.get(0))?))
}

pub(crate) fn outcome(db: &Connection, req_id: ReqId, verb: Verb) -> Done<Option<Outcome>> {
    let sql = "SELECT refusal FROM operations WHERE req_id = ?1 AND verb = ?2";
    let mut statement = db.prepare_cached(sql)?;
    let asked = (req_id.0.to_be_bytes(), verb.name());
    let found = statement.query_row(asked, |row| row.get::<_, Option<String>>(0)).optional()?;
    Ok(found.map(outcome_of))
}

fn outcome_of(refusal: Option<String>) -> Outcome {
    match refusal {
        None => Outcome::Done,
        Some(words) => Outcome::Refused(Refusal(Cow::Owned(words))),
    }
}

/// All that is on record under a key.
pub(crate) fn history(db: &Connection, key: &Key) -> Done<History> {
    const BY_REQUEST: &str =
        "SELECT verb, user, asset, amount, refusal FROM operations WHERE req_id = ?1";
    const BY_REFERENCE: &str =
        "SELECT verb, user, asset, amount, refusal FROM operations WHERE reference = ?1";
    let bytes: [u8; 16];
    let (sql, asked): (_, &dyn ToSql) = match key {
        Key::Request(req_id) => {
            bytes = req_id.0.to_be_bytes();
            (BY_REQUEST, &bytes)
        }
        Key::Reference(reference) => (BY_REFERENCE, reference),
    };
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query([asked])?;
    let mut history = History::default();
    while let Some(row) = rows.next()? {
        let (verb, terms) = (verb_at(row, 0)?, terms_at(row, 1)?);
        history.0.push(Past { verb, terms, outcome: outcome_of(row.get(4)?) });
    }
    Ok(history)
}

fn verb_at(row: &Row<'_>, index: usize) -> Done<Verb> {
    let name: String = row.get(index)?;
    Verb::named(&name).ok_or_else(|| corrupt(format!("no operation is called {name}")))
}

/// From three columns: user, asset, amount.
fn terms_at(row: &Row<'_>, first: usize) -> Done<Terms> {
    let account = account_at(row, first)?;
    let amount = NonZeroU64::new(unbits(row.get(first + 2)?));
    Ok(Terms { account, amount: amount.ok_or_else(|| corrupt("an operation about nothing"))? })
}

fn account_at(row: &Row<'_>, first: usize) -> Done<AccountId> {
    Ok(AccountId { user_id: unbits(row.get(first)?), asset_id: row.get(first + 1)? })
}

pub(crate) fn account(db: &Connection, id: AccountId) -> Done<Option<Account>> {
    let sql = "SELECT available, frozen, reserved, blocked FROM accounts \
               WHERE user = ?1 AND asset = ?2";
    let read = |row: &Row<'_>| {
        Ok(Account {
            available: unbits(row.get(0)?),
            frozen: unbits(row.get(1)?),
            reserved: unbits(row.get(2)?),
            blocked: row.get(3)?,
        })
    };
    let asked = (bits(id.user_id), id.asset_id);
    Ok(db.prepare_cached(sql)?.query_row(asked, read).optional()?)
}

/// Writes the balances of an account, opening it if it is new.
pub(crate) fn keep_account(db: &Connection, id: AccountId, account: Account, seq: u64) -> Done<()> {
    let sql = "INSERT INTO accounts (user, asset, available, frozen, reserved, seq) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (user, asset) DO UPDATE SET \
               available = excluded.available, frozen = excluded.frozen, \
               reserved = excluded.reserved, seq = excluded.seq";
    let Account { available, frozen, reserved, .. } = account;
    let values =
        (bits(id.user_id), id.asset_id, bits(available), bits(frozen), bits(reserved), count(seq));
    db.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

pub(crate) fn append(db: &Connection, entry: &Entry) -> Done<()> {
    let sql = "INSERT INTO operations VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
    let (req_id, reference) = match &entry.key {
        Key::Request(req_id) => (Some(req_id.0.to_be_bytes()), None),
        Key::Reference(reference) => (None, Some(reference)),
    };
    let refusal = match &entry.outcome {
        Outcome::Done => None,
        Outcome::Refused(refusal) => Some(&refusal.0),
    };
    let Terms { account, amount } = entry.terms;
    let values = (
        count(entry.seq),
        req_id,
        reference,
        entry.verb.name(),
        bits(account.user_id),
        account.asset_id,
        bits(amount.get()),
        refusal,
        count(entry.at_ms),
        bits(entry.available),
        bits(entry.frozen),
    );
    db.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

pub(crate) fn block(db: &Connection, id: AccountId, blocked: bool) -> Done<bool> {
    let sql = "UPDATE accounts SET blocked = ?3 WHERE user = ?1 AND asset = ?2";
    let changed = db.prepare_cached(sql)?.execute((bits(id.user_id), id.asset_id, blocked))?;
    Ok(changed > 0)
}

const BALANCE: &str = "SELECT number, user, asset, available, frozen, blocked, seq FROM accounts";

fn balance_at(row: &Row<'_>) -> Done<Balance> {
    Ok(Balance {
        number: unbits(row.get(0)?),
        account: account_at(row, 1)?,
        available: unbits(row.get(3)?),
        frozen: unbits(row.get(4)?),
        blocked: row.get(5)?,
        seq: unbits(row.get(6)?),
    })
}

pub(crate) fn accounts(db: &Connection, user_id: u64) -> Done<Vec<Balance>> {
    let sql = format!("{BALANCE} WHERE user = ?1 ORDER BY asset");
    let mut statement = db.prepare_cached(&sql)?;
    statement.query_and_then([bits(user_id)], balance_at)?.collect()
}

pub(crate) fn balances(db: &Connection, after: u64, limit: usize) -> Done<Vec<Balance>> {
    let sql = format!("{BALANCE} WHERE number > ?1 ORDER BY number LIMIT ?2");
    let mut statement = db.prepare_cached(&sql)?;
    statement.query_and_then((count(after), count(limit as u64)), balance_at)?.collect()
}

/// Lines of the statement, oldest first.
pub(crate) fn entries(db: &Connection, span: &Span) -> Done<Vec<Entry>> {
    const COLUMNS: &str = "SELECT seq, req_id, reference, verb, user, asset, amount, refusal, \
                           at_ms, available, frozen FROM operations";
    let (after, until) = (count(span.after), count(span.until));
    let limit = count(span.limit as u64);
    let Some(AccountId { user_id, asset_id }) = span.account else {
        let sql = format!("{COLUMNS} WHERE seq > ?1 AND seq <= ?2 ORDER BY seq LIMIT ?3");
        let mut statement = db.prepare_cached(&sql)?;
        return statement.query_and_then((after, until, limit), entry_at)?.collect();
    };
    let sql = format!(
        "{COLUMNS} WHERE user = ?4 AND asset = ?5 AND seq > ?1 AND seq <= ?2 ORDER BY seq LIMIT ?3"
    );
    let mut statement = db.prepare_cached(&sql)?;
    let asked = (after, until, limit, bits(user_id), asset_id);
    statement.query_and_then(asked, entry_at)?.collect()
}

fn entry_at(row: &Row<'_>) -> Done<Entry> {
    let req_id: Option<[u8; 16]> = row.get(1)?;
    let key = match (req_id, row.get::<_, Option<String>>(2)?) {
        (Some(bytes), None) => Key::Request(ReqId(u128::from_be_bytes(bytes))),
        (None, Some(reference)) => Key::Reference(reference),
        _ => return Err(corrupt("an operation with two keys or none")),
    };
    Ok(Entry {
        seq: unbits(row.get(0)?),
        key,
        verb: verb_at(row, 3)?,
        terms: terms_at(row, 4)?,
        outcome: outcome_of(row.get(7)?),
        at_ms: unbits(row.get(8)?),
        available: unbits(row.get(9)?),
        frozen: unbits(row.get(10)?),
    })
}
