//! One transaction of many callers' operations: lock, decide, write.
//!
//! Two flights of pipelined statements. The first locks the service's head and reads what the batch
//! is about; then each operation is decided in memory; the second writes and commits. READ
//! COMMITTED is enough: each statement sees all that was committed before it began, and whoever
//! writes for the service holds the lock that was taken before the reads.

use landfall_ledger::sheet::{Head, Needs, Sheet};
use landfall_ledger::{AccountId, Answer, Kind, Operation};
use landfall_store_postgres::sessions::{
    Ask, Connection, Done, Value, Values, Work, Write, corrupt, get, text,
};

use crate::rows;

/// An operation, and when it was asked for.
pub(crate) struct Job {
    pub operation: Operation,
    pub at_ms: u64,
}

/// Operations on their way into one transaction.
pub(crate) struct Batch<'a> {
    pub jobs: &'a [Job],
    pub service: i32,
    pub kind: Kind,
}

impl Work for Batch<'_> {
    type Answer = Vec<Answer>;

    async fn run(&self, db: &mut Connection) -> Done<Vec<Answer>> {
        let mut sheet = self.read(db).await?;
        let decide = |job: &Job| sheet.decide(&job.operation, job.at_ms);
        let answers: Result<Vec<Answer>, _> = self.jobs.iter().map(decide).collect();
        let answers = answers.map_err(|error| corrupt(error.to_string()))?;
        let changes = sheet.changes();
        match changes.entries.is_empty() {
            true => db.roll_back().await?,
            false => db.commit(&rows::writes(self.service, &changes)).await?,
        }
        Ok(answers)
    }
}

impl Batch<'_> {
    async fn read(&self, db: &mut Connection) -> Done<Sheet> {
        let needs = Needs::of(self.jobs.iter().map(|job| &job.operation));
        let of_ids = |ids: &[_]| ids.iter().map(|id| rows::bytes(*id)).collect::<Vec<_>>();
        let (requests, endings) = (of_ids(&needs.requests), of_ids(&needs.endings));
        let references: Vec<String> = needs.references.iter().map(|given| text(given)).collect();
        let users: Vec<i64> = needs.accounts.iter().map(|id| rows::bits(id.user_id)).collect();
        let assets: Vec<i64> = needs.accounts.iter().map(|id| i64::from(id.asset_id)).collect();
        let lock: Values<'_> = &[&self.service];
        let past: Values<'_> = &[&self.service, &requests, &references];
        let held: Values<'_> = &[&self.service, &users, &assets, &endings];
        let asks: [Ask<'_>; 3] =
            [Some((rows::LOCK, lock)), Some((rows::PAST, past)), Some((rows::HELD, held))];
        let answers = db.begin(&asks).await?;
        let [head, past, held] = &answers[..] else {
            return Err(corrupt("a flight came back with other answers"));
        };
        let gone = || corrupt("the service is gone from its database");
        let head = head.first().ok_or_else(gone)?;
        let number = |column: usize| get::<i64>(head, column).map(i64::cast_unsigned);
        let mut sheet = Sheet::new(self.kind, Head { seq: number(0)?, accounts: number(1)? });
        for row in past {
            let (key, past) = rows::past_from(row)?;
            sheet.recall(key, past);
        }
        for row in held {
            let (id, held) = rows::held_from(row)?;
            sheet.hold(id, held);
        }
        Ok(sheet)
    }
}

/// Blocks an account or frees it, between batches: none that began before it ends after it.
pub(crate) struct Blocking {
    pub service: i32,
    pub account: AccountId,
    pub blocked: bool,
}

impl Work for Blocking {
    type Answer = bool;

    async fn run(&self, db: &mut Connection) -> Done<bool> {
        let user = rows::bits(self.account.user_id);
        let asset = i64::from(self.account.asset_id);
        let (lock, which): (Values<'_>, Values<'_>) =
            (&[&self.service], &[&self.service, &user, &asset]);
        let asks = [Some((rows::LOCK, lock)), Some((rows::EXISTS, which))];
        let exists = db.begin(&asks).await?.get(1).is_some_and(|rows| !rows.is_empty());
        if !exists {
            db.roll_back().await?;
            return Ok(false);
        }
        let values: Vec<Value> =
            vec![Box::new(self.service), Box::new(user), Box::new(asset), Box::new(self.blocked)];
        db.commit(&[Write { sql: rows::BLOCK, values, rows: Some(1) }]).await?;
        Ok(true)
    }
}
