//! The schema, as steps from one version to the next.
//!
//! A step, once released, is never changed; a change of layout is another step. The server commits
//! after every statement that changes a layout, so a step may be cut off anywhere: each of its
//! statements does nothing where it has been done before, and the version is written last.
//! One process at a time migrates: a named lock of the server, which ends with its connection.
//!
//! Names are VARBINARY: they are compared byte by byte.

use landfall_ledger::Contract;
use landfall_store_mysql::sessions::{Done, corrupt};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

/// The schema this build reads and writes.
pub(crate) const SCHEMA_VERSION: i64 = STEPS.len() as i64;

/// How long one process waits for another that migrates, in seconds.
const LOCK_SECONDS: u32 = 60;

/// Step `i` leads from version `i` to `i + 1`.
const STEPS: [&[&str]; 1] = [FIRST];

const FIRST: &[&str] = &[
    // How far each service has come. Whoever writes for a service locks its row first.
    "CREATE TABLE IF NOT EXISTS landfall_ledger_services (
        id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
        name VARBINARY(64) NOT NULL,
        kind VARBINARY(16) NOT NULL,
        head BIGINT NOT NULL DEFAULT 0,
        accounts BIGINT NOT NULL DEFAULT 0,
        UNIQUE KEY name (name)
    )",
    // Users and amounts use all 64 bits: a number below zero stands for itself plus 2^64. `seq` is
    // the operation that changed it last.
    "CREATE TABLE IF NOT EXISTS landfall_ledger_accounts (
        service BIGINT NOT NULL,
        user_id BIGINT NOT NULL,
        asset BIGINT NOT NULL,
        number BIGINT NOT NULL,
        available BIGINT NOT NULL,
        frozen BIGINT NOT NULL,
        reserved BIGINT NOT NULL,
        blocked TINYINT NOT NULL DEFAULT 0,
        seq BIGINT NOT NULL,
        PRIMARY KEY (service, user_id, asset),
        UNIQUE KEY number (service, number)
    )",
    // The statement, which is also what is known under each id. Never changed, only appended to.
    // Money from outside has a reference, all else a request id; what was done has no refusal.
    "CREATE TABLE IF NOT EXISTS landfall_ledger_operations (
        service BIGINT NOT NULL,
        seq BIGINT NOT NULL,
        req_id BINARY(16),
        reference VARBINARY(1024),
        verb VARBINARY(16) NOT NULL,
        user_id BIGINT NOT NULL,
        asset BIGINT NOT NULL,
        amount BIGINT NOT NULL,
        refusal VARBINARY(255),
        at_ms BIGINT NOT NULL,
        available BIGINT NOT NULL,
        frozen BIGINT NOT NULL,
        PRIMARY KEY (service, seq),
        UNIQUE KEY request (service, req_id, verb),
        UNIQUE KEY reference (service, reference),
        KEY account (service, user_id, asset, seq)
    )",
];

/// Where the version and the identity are; older than any step.
const META: &str = "CREATE TABLE IF NOT EXISTS landfall_ledger_meta (
        name VARBINARY(64) NOT NULL PRIMARY KEY,
        value VARBINARY(255) NOT NULL
    )";

/// Said of every table.
const KEPT_BY: &str = " ENGINE=InnoDB ROW_FORMAT=DYNAMIC
    DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin";

/// Names the lock after the database: locks are the server's, not a database's.
const LOCK: &str = "CONCAT('landfall-ledger:', LEFT(SHA2(DATABASE(), 256), 32))";

/// What tells these books from any others.
pub(crate) const IDENTITY: &str = "SELECT value FROM landfall_ledger_meta WHERE name = 'identity'";

/// What was found, or made.
pub(crate) enum Opened {
    Service {
        id: i64,
        kind: String,
        identity: String,
    },
    Newer(i64),
    /// Somebody else is migrating and does not come to an end.
    Locked,
}

/// Brings the tables to the newest version, and finds the service, which is made if there is none
/// of its name.
pub(crate) async fn open(conn: &mut Conn, contract: &Contract) -> Done<Opened> {
    let lock = format!("SELECT GET_LOCK({LOCK}, {LOCK_SECONDS})");
    if conn.query_first::<Option<i64>, _>(lock).await?.flatten() != Some(1) {
        return Ok(Opened::Locked);
    }
    let opened = open_alone(conn, contract).await?;
    conn.query_drop(format!("DO RELEASE_LOCK({LOCK})")).await?;
    Ok(opened)
}

async fn open_alone(conn: &mut Conn, contract: &Contract) -> Done<Opened> {
    let found = version(conn).await?;
    if found > SCHEMA_VERSION {
        return Ok(Opened::Newer(found));
    }
    if found == 0 {
        conn.query_drop(format!("{META}{KEPT_BY}")).await?;
    }
    for (number, step) in (1..).zip(STEPS).skip(found as usize) {
        for statement in step {
            conn.query_drop(format!("{statement}{KEPT_BY}")).await?;
        }
        let sql = format!(
            "INSERT INTO landfall_ledger_meta VALUES ('version', '{number}')
             ON DUPLICATE KEY UPDATE value = '{number}'"
        );
        conn.query_drop(sql).await?;
    }
    let identity = "INSERT INTO landfall_ledger_meta
        SELECT 'identity', LEFT(SHA2(CONCAT(UUID(), ':', RAND(), ':', NOW(6)), 256), 32) FROM DUAL
        WHERE NOT EXISTS (SELECT 1 FROM landfall_ledger_meta WHERE name = 'identity')";
    conn.query_drop(identity).await?;
    let identity: Option<String> = conn.query_first(IDENTITY).await?;
    let identity = identity.ok_or_else(|| corrupt("it has no identity"))?;
    let look = "SELECT id, kind FROM landfall_ledger_services WHERE name = ?";
    let make = "INSERT INTO landfall_ledger_services (name, kind) VALUES (?, ?)";
    let mut service: Option<(i64, String)> = conn.exec_first(look, (&contract.name,)).await?;
    if service.is_none() {
        conn.exec_drop(make, (&contract.name, contract.kind.name())).await?;
        service = conn.exec_first(look, (&contract.name,)).await?;
    }
    let (id, kind) = service.ok_or_else(|| corrupt("a service that was made is not there"))?;
    Ok(Opened::Service { id, kind, identity })
}

/// The version of the tables; 0 if there are none.
async fn version(conn: &mut Conn) -> Done<i64> {
    let exists = "SELECT COUNT(*) FROM information_schema.TABLES
        WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'landfall_ledger_meta'";
    if conn.query_first::<i64, _>(exists).await? == Some(0) {
        return Ok(0);
    }
    let sql = "SELECT value FROM landfall_ledger_meta WHERE name = 'version'";
    match conn.query_first::<String, _>(sql).await? {
        None => Ok(0),
        Some(text) => text.parse().map_err(|_| corrupt(format!("its schema version is {text:?}"))),
    }
}
