//! Rows to words and back: every statement of SQL but the schema's.
//!
//! **Rule:** a page and the head it is as of are read by one statement, which sees one moment.

use std::borrow::Cow;
use std::num::NonZeroU64;

use landfall_ledger::rules::{Account, Past};
use landfall_ledger::sheet::{Changes, Held};
use landfall_ledger::{AccountId, Balance, Entry, Key, Outcome, Refusal, ReqId, Terms, Verb};
use landfall_store_postgres::sessions::{Done, Value, Write, corrupt, get, given, text};
use tokio_postgres::Row;

pub(crate) use landfall_store_postgres::sessions::Fault;

/// An amount or an id, which may use all 64 bits; the server's integers have a sign.
pub(crate) fn bits(value: u64) -> i64 {
    value.cast_signed()
}

/// An amount or an id, as it was before it was stored.
fn unbits(value: i64) -> u64 {
    value.cast_unsigned()
}

/// A number that is compared by the server: beyond its range is its end.
pub(crate) fn count(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(crate) fn bytes(req_id: ReqId) -> Vec<u8> {
    req_id.0.to_be_bytes().to_vec()
}

/// Locks the service: whoever writes for it waits here for whoever did before.
pub(crate) const LOCK: &str = "SELECT head, accounts FROM services WHERE id = $1 FOR UPDATE";

/// All that is on record under request ids, and under references.
pub(crate) const PAST: &str = "SELECT o.req_id, o.reference, o.verb, o.user_id, o.asset, o.amount,
        o.refusal FROM unnest($2::bytea[]) AS k(req_id)
        JOIN operations o ON o.service = $1 AND o.req_id = k.req_id
    UNION ALL SELECT o.req_id, o.reference, o.verb, o.user_id, o.asset, o.amount, o.refusal
        FROM unnest($3::text[]) AS k(reference)
        JOIN operations o ON o.service = $1 AND o.reference = k.reference";

/// Accounts by their ids, and those of the withdrawals under request ids.
pub(crate) const HELD: &str = "SELECT a.user_id, a.asset, a.number, a.available, a.frozen,
        a.reserved, a.blocked, a.seq
    FROM (
        SELECT w.user_id, w.asset FROM unnest($2::bigint[], $3::bigint[]) AS w(user_id, asset)
        UNION SELECT o.user_id, o.asset FROM unnest($4::bytea[]) AS k(req_id)
            JOIN operations o ON o.service = $1 AND o.req_id = k.req_id AND o.verb = 'withdraw'
    ) AS w
    JOIN accounts a ON a.service = $1 AND a.user_id = w.user_id AND a.asset = w.asset";

const APPEND: &str =
    "INSERT INTO operations (service, seq, req_id, reference, verb, user_id, asset,
        amount, refusal, at_ms, available, frozen)
    SELECT $1, o.* FROM unnest($2::bigint[], $3::bytea[], $4::text[], $5::text[], $6::bigint[],
        $7::bigint[], $8::bigint[], $9::text[], $10::bigint[], $11::bigint[], $12::bigint[]) AS o";

const KEEP: &str = "INSERT INTO accounts (service, number, user_id, asset, available, frozen,
        reserved, seq)
    SELECT $1, a.* FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],
        $6::bigint[], $7::bigint[], $8::bigint[]) AS a
    ON CONFLICT (service, user_id, asset) DO UPDATE SET available = excluded.available,
        frozen = excluded.frozen, reserved = excluded.reserved, seq = excluded.seq";

const ADVANCE: &str = "UPDATE services SET head = $2, accounts = $3 WHERE id = $1";

pub(crate) const BLOCK: &str =
    "UPDATE accounts SET blocked = $4 WHERE service = $1 AND user_id = $2 AND asset = $3";

pub(crate) const EXISTS: &str =
    "SELECT FROM accounts WHERE service = $1 AND user_id = $2 AND asset = $3";

pub(crate) const OUTCOME: &str =
    "SELECT refusal FROM operations WHERE service = $1 AND req_id = $2 AND verb = $3";

pub(crate) const ACCOUNTS_OF: &str =
    "SELECT number, user_id, asset, available, frozen, blocked, seq
    FROM accounts WHERE service = $1 AND user_id = $2 ORDER BY asset";

pub(crate) const BALANCES: &str = "SELECT s.head, a.* FROM services s LEFT JOIN (
        SELECT number, user_id, asset, available, frozen, blocked, seq FROM accounts
        WHERE service = $1 AND number > $2 ORDER BY number LIMIT $3
    ) AS a ON true WHERE s.id = $1 ORDER BY a.number";

pub(crate) const STATEMENT: &str = "SELECT s.head, o.* FROM services s LEFT JOIN (
        SELECT seq, req_id, reference, verb, user_id, asset, amount, refusal, at_ms, available,
            frozen
        FROM operations WHERE service = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4
    ) AS o ON true WHERE s.id = $1 ORDER BY o.seq";

pub(crate) const STATEMENT_OF: &str = "SELECT s.head, o.* FROM services s LEFT JOIN (
        SELECT seq, req_id, reference, verb, user_id, asset, amount, refusal, at_ms, available,
            frozen
        FROM operations WHERE service = $1 AND user_id = $5 AND asset = $6 AND seq > $2
            AND seq <= $3 ORDER BY seq LIMIT $4
    ) AS o ON true WHERE s.id = $1 ORDER BY o.seq";

/// Lines, and the head they are as of.
pub(crate) struct Page<T> {
    pub lines: Vec<T>,
    pub head: u64,
}

/// From rows that begin with the head; where there are no lines, the rest of the only row is empty.
pub(crate) fn page<T>(rows: &[Row], line: fn(&Row, usize) -> Done<T>) -> Done<Page<T>> {
    let first = rows.first().ok_or_else(|| corrupt("the service is gone from its database"))?;
    let head = unbits(get(first, 0)?);
    let is_empty = get::<Option<i64>>(first, 1)?.is_none();
    let rows = if is_empty { &[] } else { rows };
    let lines = rows.iter().map(|row| line(row, 1)).collect::<Done<_>>()?;
    Ok(Page { lines, head })
}

pub(crate) fn outcome_at(row: &Row, column: usize) -> Done<Outcome> {
    Ok(match get::<Option<String>>(row, column)? {
        None => Outcome::Done,
        Some(words) => Outcome::Refused(Refusal(Cow::Owned(words))),
    })
}

/// From two columns: request id, reference.
fn key_at(row: &Row, first: usize) -> Done<Key> {
    match (get::<Option<Vec<u8>>>(row, first)?, get::<Option<String>>(row, first + 1)?) {
        (Some(bytes), None) => match bytes.try_into() {
            Ok(bytes) => Ok(Key::Request(ReqId(u128::from_be_bytes(bytes)))),
            Err(_) => Err(corrupt("a request id is not 16 bytes long")),
        },
        (None, Some(reference)) => Ok(Key::Reference(given(&reference))),
        _ => Err(corrupt("an operation with two keys or none")),
    }
}

fn verb_at(row: &Row, column: usize) -> Done<Verb> {
    let name: String = get(row, column)?;
    Verb::named(&name).ok_or_else(|| corrupt(format!("no operation is called {name}")))
}

/// From two columns: user, asset.
fn account_at(row: &Row, first: usize) -> Done<AccountId> {
    let asset: i64 = get(row, first + 1)?;
    let asset_id = u32::try_from(asset).map_err(|_| corrupt(format!("no asset is {asset}")))?;
    Ok(AccountId { user_id: unbits(get(row, first)?), asset_id })
}

/// From three columns: user, asset, amount.
fn terms_at(row: &Row, first: usize) -> Done<Terms> {
    let account = account_at(row, first)?;
    let amount = NonZeroU64::new(unbits(get(row, first + 2)?));
    Ok(Terms { account, amount: amount.ok_or_else(|| corrupt("an operation about nothing"))? })
}

/// A row of [`PAST`].
pub(crate) fn past_from(row: &Row) -> Done<(Key, Past)> {
    let (key, verb, terms) = (key_at(row, 0)?, verb_at(row, 2)?, terms_at(row, 3)?);
    Ok((key, Past { verb, terms, outcome: outcome_at(row, 6)? }))
}

/// A row of [`HELD`].
pub(crate) fn held_from(row: &Row) -> Done<(AccountId, Held)> {
    let account = Account {
        available: unbits(get(row, 3)?),
        frozen: unbits(get(row, 4)?),
        reserved: unbits(get(row, 5)?),
        blocked: get(row, 6)?,
    };
    let (number, seq) = (unbits(get(row, 2)?), unbits(get(row, 7)?));
    Ok((account_at(row, 0)?, Held { number, account, seq }))
}

pub(crate) fn balance_at(row: &Row, first: usize) -> Done<Balance> {
    Ok(Balance {
        number: unbits(get(row, first)?),
        account: account_at(row, first + 1)?,
        available: unbits(get(row, first + 3)?),
        frozen: unbits(get(row, first + 4)?),
        blocked: get(row, first + 5)?,
        seq: unbits(get(row, first + 6)?),
    })
}

pub(crate) fn entry_at(row: &Row, first: usize) -> Done<Entry> {
    Ok(Entry {
        seq: unbits(get(row, first)?),
        key: key_at(row, first + 1)?,
        verb: verb_at(row, first + 3)?,
        terms: terms_at(row, first + 4)?,
        outcome: outcome_at(row, first + 7)?,
        at_ms: unbits(get(row, first + 8)?),
        available: unbits(get(row, first + 9)?),
        frozen: unbits(get(row, first + 10)?),
    })
}

/// What a batch comes to, as statements.
pub(crate) fn writes(service: i32, changes: &Changes) -> Vec<Write> {
    let head = &changes.head;
    let advance: Vec<Value> =
        vec![Box::new(service), Box::new(count(head.seq)), Box::new(count(head.accounts))];
    let mut writes = vec![append(service, &changes.entries)];
    if !changes.accounts.is_empty() {
        writes.push(keep(service, &changes.accounts));
    }
    writes.push(Write { sql: ADVANCE, values: advance, rows: Some(1) });
    writes
}

fn append(service: i32, entries: &[Entry]) -> Write {
    let integers =
        |of: fn(&Entry) -> i64| -> Value { Box::new(entries.iter().map(of).collect::<Vec<i64>>()) };
    let req_ids = entries.iter().map(|entry| match &entry.key {
        Key::Request(req_id) => Some(bytes(*req_id)),
        Key::Reference(_) => None,
    });
    let references = entries.iter().map(|entry| match &entry.key {
        Key::Request(_) => None,
        Key::Reference(reference) => Some(text(reference)),
    });
    let refusals = entries.iter().map(|entry| match &entry.outcome {
        Outcome::Done => None,
        Outcome::Refused(refusal) => Some(refusal.0.to_string()),
    });
    let values: Vec<Value> = vec![
        Box::new(service),
        integers(|entry| count(entry.seq)),
        Box::new(req_ids.collect::<Vec<_>>()),
        Box::new(references.collect::<Vec<_>>()),
        Box::new(entries.iter().map(|entry| entry.verb.name()).collect::<Vec<_>>()),
        integers(|entry| bits(entry.terms.account.user_id)),
        integers(|entry| i64::from(entry.terms.account.asset_id)),
        integers(|entry| bits(entry.terms.amount.get())),
        Box::new(refusals.collect::<Vec<_>>()),
        integers(|entry| count(entry.at_ms)),
        integers(|entry| bits(entry.available)),
        integers(|entry| bits(entry.frozen)),
    ];
    Write { sql: APPEND, values, rows: Some(entries.len()) }
}

fn keep(service: i32, accounts: &[(AccountId, Held)]) -> Write {
    let integers = |of: fn(&(AccountId, Held)) -> i64| -> Value {
        Box::new(accounts.iter().map(of).collect::<Vec<i64>>())
    };
    let values: Vec<Value> = vec![
        Box::new(service),
        integers(|(_, held)| count(held.number)),
        integers(|(id, _)| bits(id.user_id)),
        integers(|(id, _)| i64::from(id.asset_id)),
        integers(|(_, held)| bits(held.account.available)),
        integers(|(_, held)| bits(held.account.frozen)),
        integers(|(_, held)| bits(held.account.reserved)),
        integers(|(_, held)| count(held.seq)),
    ];
    Write { sql: KEEP, values, rows: Some(accounts.len()) }
}
