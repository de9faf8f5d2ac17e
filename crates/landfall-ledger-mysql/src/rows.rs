//! Rows to words and back, and the reads.
//!
//! **Rule:** a page and the head it is as of are read in one snapshot.

use std::borrow::Cow;
use std::num::NonZeroU64;

use landfall_ledger::rules::{Account, Past};
use landfall_ledger::sheet::Held;
use landfall_ledger::{
    AccountId, Balance, Balances, Entry, Key, Outcome, Refusal, ReqId, Span, Statement, Terms, Verb,
};
use landfall_store_mysql::sessions::{
    Answer, Connections, Done, Script, corrupt, take, take_maybe_text, take_text,
};
use mysql_async::Row;

/// An amount or an id, which may use all 64 bits; the tables' integers have a sign.
pub(crate) fn bits(value: u64) -> i64 {
    value.cast_signed()
}

/// A number that is compared by the server: beyond its range is its end.
pub(crate) fn count(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(crate) fn bytes(req_id: ReqId) -> [u8; 16] {
    req_id.0.to_be_bytes()
}

/// An amount, an id or a number, as it was before it was stored.
pub(crate) fn number_at(row: &mut Row, column: usize) -> Done<u64> {
    take(row, column).map(i64::cast_unsigned)
}

fn outcome_at(row: &mut Row, column: usize) -> Done<Outcome> {
    Ok(match take_maybe_text(row, column)? {
        None => Outcome::Done,
        Some(words) => Outcome::Refused(Refusal(Cow::Owned(words))),
    })
}

/// From two columns: request id, reference.
fn key_at(row: &mut Row, first: usize) -> Done<Key> {
    match (take::<Option<Vec<u8>>>(row, first)?, take_maybe_text(row, first + 1)?) {
        (Some(bytes), None) => match bytes.try_into() {
            Ok(bytes) => Ok(Key::Request(ReqId(u128::from_be_bytes(bytes)))),
            Err(_) => Err(corrupt("a request id is not 16 bytes long")),
        },
        (None, Some(reference)) => Ok(Key::Reference(reference)),
        _ => Err(corrupt("an operation with two keys or none")),
    }
}

fn verb_at(row: &mut Row, column: usize) -> Done<Verb> {
    let name = take_text(row, column)?;
    Verb::named(&name).ok_or_else(|| corrupt(format!("no operation is called {name}")))
}

/// From two columns: user, asset.
fn account_at(row: &mut Row, first: usize) -> Done<AccountId> {
    let asset: i64 = take(row, first + 1)?;
    let asset_id = u32::try_from(asset).map_err(|_| corrupt(format!("no asset is {asset}")))?;
    Ok(AccountId { user_id: number_at(row, first)?, asset_id })
}

/// From three columns: user, asset, amount.
fn terms_at(row: &mut Row, first: usize) -> Done<Terms> {
    let account = account_at(row, first)?;
    let amount = NonZeroU64::new(number_at(row, first + 2)?);
    Ok(Terms { account, amount: amount.ok_or_else(|| corrupt("an operation about nothing"))? })
}

/// What [`past_from`] reads.
pub(crate) const PAST: &str = "req_id, reference, verb, user_id, asset, amount, refusal";

pub(crate) fn past_from(row: &mut Row) -> Done<(Key, Past)> {
    let (key, verb, terms) = (key_at(row, 0)?, verb_at(row, 2)?, terms_at(row, 3)?);
    Ok((key, Past { verb, terms, outcome: outcome_at(row, 6)? }))
}

/// What [`held_from`] reads.
pub(crate) const HELD: &str =
    "a.user_id, a.asset, a.number, a.available, a.frozen, a.reserved, a.blocked, a.seq";

pub(crate) fn held_from(row: &mut Row) -> Done<(AccountId, Held)> {
    let account = Account {
        available: number_at(row, 3)?,
        frozen: number_at(row, 4)?,
        reserved: number_at(row, 5)?,
        blocked: take(row, 6)?,
    };
    let (number, seq) = (number_at(row, 2)?, number_at(row, 7)?);
    Ok((account_at(row, 0)?, Held { number, account, seq }))
}

const BALANCE: &str = "SELECT number, user_id, asset, available, frozen, blocked, seq
    FROM landfall_ledger_accounts";

fn balance_from(row: &mut Row) -> Done<Balance> {
    Ok(Balance {
        number: number_at(row, 0)?,
        account: account_at(row, 1)?,
        available: number_at(row, 3)?,
        frozen: number_at(row, 4)?,
        blocked: take(row, 5)?,
        seq: number_at(row, 6)?,
    })
}

const LINE: &str = "SELECT seq, req_id, reference, verb, user_id, asset, amount, refusal, at_ms,
    available, frozen FROM landfall_ledger_operations";

fn entry_from(row: &mut Row) -> Done<Entry> {
    Ok(Entry {
        seq: number_at(row, 0)?,
        key: key_at(row, 1)?,
        verb: verb_at(row, 3)?,
        terms: terms_at(row, 4)?,
        outcome: outcome_at(row, 7)?,
        at_ms: number_at(row, 8)?,
        available: number_at(row, 9)?,
        frozen: number_at(row, 10)?,
    })
}

fn all<T>(answer: &mut Answer, from: fn(&mut Row) -> Done<T>) -> Done<Vec<T>> {
    answer.rows.iter_mut().map(from).collect()
}

/// The reads of one service.
pub(crate) struct Rows<'a> {
    pub connections: &'a Connections,
    pub service: i64,
}

impl Rows<'_> {
    pub(crate) async fn outcome(&self, req_id: ReqId, verb: Verb) -> Done<Option<Outcome>> {
        let script = || {
            let mut script = Script::default();
            script.say("SELECT refusal FROM landfall_ledger_operations WHERE service = ");
            script.int(self.service).text(" AND req_id = ").bytes(bytes(req_id));
            script.text(" AND verb = ").bytes(verb.name());
            script
        };
        let mut answers = self.connections.ask(script).await?;
        let row = answers.first_mut().and_then(|answer| answer.rows.first_mut());
        row.map(|row| outcome_at(row, 0)).transpose()
    }

    pub(crate) async fn accounts(&self, user_id: u64) -> Done<Vec<Balance>> {
        let script = || {
            let mut script = Script::default();
            script.say(BALANCE);
            script.text(" WHERE service = ").int(self.service);
            script.text(" AND user_id = ").int(bits(user_id)).text(" ORDER BY asset");
            script
        };
        let mut answers = self.connections.ask(script).await?;
        let answer = answers.first_mut().ok_or_else(|| corrupt("a read without an answer"))?;
        all(answer, balance_from)
    }

    pub(crate) async fn balances(&self, after: u64, limit: usize) -> Done<Balances> {
        let page = |script: &mut Script| {
            script.say(BALANCE);
            script.text(" WHERE service = ").int(self.service);
            script.text(" AND number > ").int(count(after));
            script.text(" ORDER BY number LIMIT ").int(count(limit as u64));
        };
        let (balances, head) = self.page(page, balance_from).await?;
        Ok(Balances { balances, head })
    }

    pub(crate) async fn statement(&self, span: &Span) -> Done<Statement> {
        let page = |script: &mut Script| {
            script.say(LINE);
            script.text(" WHERE service = ").int(self.service);
            if let Some(AccountId { user_id, asset_id }) = span.account {
                script.text(" AND user_id = ").int(bits(user_id));
                script.text(" AND asset = ").int(asset_id);
            }
            script.text(" AND seq > ").int(count(span.after));
            script.text(" AND seq <= ").int(count(span.until));
            script.text(" ORDER BY seq LIMIT ").int(count(span.limit as u64));
        };
        let (entries, head) = self.page(page, entry_from).await?;
        Ok(Statement { entries, head })
    }

    /// Lines, and the head they are as of.
    async fn page<T>(
        &self,
        lines: impl Fn(&mut Script) + Send + Sync,
        from: fn(&mut Row) -> Done<T>,
    ) -> Done<(Vec<T>, u64)> {
        let script = || {
            let mut script = Script::snapshot();
            script.say("SELECT head FROM landfall_ledger_services WHERE id = ");
            script.int(self.service);
            lines(&mut script);
            script.say("COMMIT");
            script
        };
        let mut answers = self.connections.ask(script).await?;
        // After those that begin the snapshot, before the one that ends it.
        let [.., head, lines, _] = &mut answers[..] else {
            return Err(corrupt("a read without an answer"));
        };
        let gone = || corrupt("the service is gone from its database");
        let head = number_at(head.rows.first_mut().ok_or_else(gone)?, 0)?;
        Ok((all(lines, from)?, head))
    }
}
