//! One transaction of many callers' operations: lock, decide, write.
//!
//! Two round trips. The first locks the service's head and reads what the batch is about; then each
//! operation is decided in memory; the second writes and commits. READ COMMITTED is enough: each
//! statement sees all that was committed before it began, and whoever writes for the service holds
//! the lock that was taken before the reads.

use landfall_ledger::sheet::{Changes, Head, Needs, Sheet};
use landfall_ledger::{AccountId, Answer, Key, Kind, Operation, Outcome};
use landfall_store_mysql::sessions::{Connections, Done, Script, Session, Tries, corrupt};

use crate::rows::{self, HELD, PAST, bits, bytes, count, number_at};

/// Seconds that a session may pause inside a transaction: between its two round trips lies nothing
/// but our own thinking, and all others wait for its lock meanwhile. Whoever pauses for longer (its
/// process is stopped, its network is gone) is ended by the server.
const PAUSE_S: u32 = 3;

/// Outside a transaction a session may pause for as long as it likes: a year, the most there is.
const IDLE: &str = "SET SESSION wait_timeout = 31536000";

/// An operation, and when it was asked for.
pub(crate) struct Job {
    pub operation: Operation,
    pub at_ms: u64,
}

/// Does all of them in one commit.
pub(crate) async fn apply(
    connections: &Connections,
    service: i64,
    kind: Kind,
    jobs: &[Job],
) -> Done<Vec<Answer>> {
    let mut tries = Tries::default();
    loop {
        let mut session = connections.session().await?;
        let done = batch(&mut session, service, kind, jobs).await;
        if let Some(answers) = connections.end(session, done, &mut tries).await? {
            return Ok(answers);
        }
    }
}

async fn batch(session: &mut Session, service: i64, kind: Kind, jobs: &[Job]) -> Done<Vec<Answer>> {
    let mut sheet = read(session, service, kind, jobs).await?;
    let decide = |job: &Job| sheet.decide(&job.operation, job.at_ms);
    let answers: Result<Vec<Answer>, _> = jobs.iter().map(decide).collect();
    let answers = answers.map_err(|error| corrupt(error.to_string()))?;
    session.run(write(service, &sheet.changes())).await?;
    Ok(answers)
}

/// Begins a transaction and locks the service: whoever writes for it waits here for whoever did
/// before.
fn lock(service: i64) -> (Script, usize) {
    let mut script = Script::default();
    script.say(&format!("SET SESSION wait_timeout = {PAUSE_S}"));
    script.say("START TRANSACTION");
    let head = script.say("SELECT head, accounts FROM landfall_ledger_services WHERE id = ");
    script.int(service).text(" FOR UPDATE");
    (script, head)
}

async fn read(session: &mut Session, service: i64, kind: Kind, jobs: &[Job]) -> Done<Sheet> {
    let needs = Needs::of(jobs.iter().map(|job| &job.operation));
    let (mut script, head) = lock(service);
    let (mut pasts, mut helds) = (Vec::new(), Vec::new());
    if !needs.requests.is_empty() {
        pasts.push(script.say(&format!("SELECT {PAST} FROM landfall_ledger_operations")));
        script.text(" FORCE INDEX (request) WHERE service = ").int(service);
        script.text(" AND req_id IN ").keys(needs.requests.iter().map(|id| bytes(*id)));
    }
    if !needs.references.is_empty() {
        pasts.push(script.say(&format!("SELECT {PAST} FROM landfall_ledger_operations")));
        script.text(" FORCE INDEX (reference) WHERE service = ").int(service);
        script.text(" AND reference IN ").keys(&needs.references);
    }
    if !needs.accounts.is_empty() {
        // All accounts of these users, who have few: an index is used for one list, not for pairs.
        helds.push(script.say(&format!("SELECT {HELD} FROM landfall_ledger_accounts a")));
        script.text(" FORCE INDEX (PRIMARY) WHERE a.service = ").int(service);
        let users = needs.accounts.iter().map(|id| bits(id.user_id));
        script.text(" AND a.user_id IN ").ints(users);
    }
    if !needs.endings.is_empty() {
        let join = "FROM landfall_ledger_operations o FORCE INDEX (request)
            STRAIGHT_JOIN landfall_ledger_accounts a FORCE INDEX (PRIMARY)
            ON a.service = o.service AND a.user_id = o.user_id AND a.asset = o.asset";
        helds.push(script.say(&format!("SELECT {HELD} {join}")));
        script.text(" WHERE o.service = ").int(service).text(" AND o.verb = 'withdraw'");
        script.text(" AND o.req_id IN ").keys(needs.endings.iter().map(|id| bytes(*id)));
    }
    let mut answers = session.run(script).await?;
    let gone = || corrupt("the service is gone from its database");
    let row = answers[head].rows.first_mut().ok_or_else(gone)?;
    let head = Head { seq: number_at(row, 0)?, accounts: number_at(row, 1)? };
    let mut sheet = Sheet::new(kind, head);
    for number in pasts {
        for row in &mut answers[number].rows {
            let (key, past) = rows::past_from(row)?;
            sheet.recall(key, past);
        }
    }
    for number in helds {
        for row in &mut answers[number].rows {
            let (id, held) = rows::held_from(row)?;
            sheet.hold(id, held);
        }
    }
    Ok(sheet)
}

/// What ends the transaction.
fn write(service: i64, changes: &Changes) -> Script {
    let mut script = Script::default();
    if changes.entries.is_empty() {
        script.say("ROLLBACK");
        script.say(IDLE);
        return script;
    }
    let append = "INSERT INTO landfall_ledger_operations (service, seq, req_id, reference, verb,
        user_id, asset, amount, refusal, at_ms, available, frozen) VALUES ";
    script.rows(append, &changes.entries, "", |row, entry| {
        let (req_id, reference) = match &entry.key {
            Key::Request(req_id) => (Some(bytes(*req_id)), None),
            Key::Reference(reference) => (None, Some(reference)),
        };
        let refusal = match &entry.outcome {
            Outcome::Done => None,
            Outcome::Refused(refusal) => Some(refusal.0.as_bytes()),
        };
        row.int(service).int(count(entry.seq)).maybe_bytes(req_id).maybe_bytes(reference);
        row.bytes(entry.verb.name()).int(bits(entry.terms.account.user_id));
        row.int(entry.terms.account.asset_id).int(bits(entry.terms.amount.get()));
        row.maybe_bytes(refusal).int(count(entry.at_ms));
        row.int(bits(entry.available)).int(bits(entry.frozen));
    });
    let keep = "INSERT INTO landfall_ledger_accounts (service, user_id, asset, number, available,
        frozen, reserved, seq) VALUES ";
    let over = " ON DUPLICATE KEY UPDATE available = VALUES(available), frozen = VALUES(frozen),
        reserved = VALUES(reserved), seq = VALUES(seq)";
    script.rows(keep, &changes.accounts, over, |row, (id, held)| {
        row.int(service).int(bits(id.user_id)).int(id.asset_id).int(count(held.number));
        row.int(bits(held.account.available)).int(bits(held.account.frozen));
        row.int(bits(held.account.reserved)).int(count(held.seq));
    });
    script.say("UPDATE landfall_ledger_services SET head = ");
    script.int(count(changes.head.seq)).text(", accounts = ").int(count(changes.head.accounts));
    script.text(" WHERE id = ").int(service);
    script.say("COMMIT");
    script.say(IDLE);
    script
}

/// Blocks an account or frees it, between batches: none that began before it ends after it.
pub(crate) async fn block(
    connections: &Connections,
    service: i64,
    account: AccountId,
    blocked: bool,
) -> Done<bool> {
    let script = || {
        let (mut script, _) = lock(service);
        script.say("UPDATE landfall_ledger_accounts SET blocked = ");
        script.int(i64::from(blocked)).text(" WHERE service = ").int(service);
        script.text(" AND user_id = ").int(bits(account.user_id));
        script.text(" AND asset = ").int(account.asset_id);
        script.say("COMMIT");
        script.say(IDLE);
        script
    };
    let answers = connections.ask(script).await?;
    // Rows that match count as changed.
    let [.., updated, _, _] = &answers[..] else {
        return Err(corrupt("a write without an answer"));
    };
    Ok(updated.changed > 0)
}
