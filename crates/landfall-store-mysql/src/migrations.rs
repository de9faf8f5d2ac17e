//! The schema, as steps from one version to the next.
//!
//! A step, once released, is never changed; a change of layout is another step. The server commits
//! after every statement that changes a layout, so a step may be cut off anywhere: each of its
//! statements does nothing where it has been done before, and the version is written last.
//! One process at a time migrates: a named lock of the server, which ends with its connection.
//!
//! How the layout is fast: what changes with every move is narrow and apart from what never
//! changes; the trail is one tree in the order of (transfer, version); what is due is found by an
//! index that a transfer leaves (all its columns are NULL) when it is carried, and does not touch
//! again when it is settled; counts are spread over shards.
//!
//! Names are VARBINARY and digests BINARY: they are compared byte by byte. Under `utf8mb4_bin` "a"
//! and "a " would be one key, since it pads with spaces.

use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use crate::codes::Codes;
use crate::fault::{Done, corrupt};
use crate::views;

/// The schema this build reads and writes.
pub(crate) const SCHEMA_VERSION: i64 = STEPS.len() as i64;

/// Longest texts that the tables take, in bytes. Nothing that the API lets in comes near.
pub(crate) const TENANT_BYTES: usize = 512;
pub(crate) const KEY_BYTES: usize = 2048;
pub(crate) const RECEIVER_BYTES: usize = 1024;

/// Shards of each count; see `counts`.
pub(crate) const SHARDS: u32 = 64;

/// How long one process waits for another that migrates, in seconds.
const LOCK_SECONDS: u32 = 60;

/// From one version to the next. Each part is left out where it is found done.
struct Step {
    /// Statements that make nothing anew.
    tables: &'static [&'static str],
    /// Table, column, and what it is.
    columns: &'static [(&'static str, &'static str, &'static str)],
    /// Table, index, and over what.
    indexes: &'static [(&'static str, &'static str, &'static str)],
}

/// Step `i` leads from version `i` to `i + 1`.
const STEPS: [Step; 2] = [Step { tables: FIRST, columns: &[], indexes: &[] }, SIGNATURES];

const FIRST: &[&str] = &[
    // The names behind the codes of states.
    "CREATE TABLE IF NOT EXISTS landfall_states (
        code SMALLINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
        rail VARBINARY(32) NOT NULL,
        name VARBINARY(64) NOT NULL,
        UNIQUE KEY state (rail, name)
    )",
    // How many transfers are in each state: the sum over its shards.
    "CREATE TABLE IF NOT EXISTS landfall_counts (
        state SMALLINT NOT NULL,
        shard SMALLINT NOT NULL,
        transfers BIGINT NOT NULL,
        PRIMARY KEY (state, shard)
    )",
    // Idempotency keys. Never deleted, whatever becomes of the transfer; ids are never given again.
    "CREATE TABLE IF NOT EXISTS landfall_keys (
        id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
        digest BINARY(32) NOT NULL,
        fingerprint BINARY(32) NOT NULL,
        rail VARBINARY(32) NOT NULL,
        tenant VARBINARY(512) NOT NULL,
        name VARBINARY(2048) NOT NULL,
        UNIQUE KEY digest (digest)
    )",
    // What never changes.
    "CREATE TABLE IF NOT EXISTS landfall_payloads (
        id BIGINT NOT NULL PRIMARY KEY,
        created_ms BIGINT NOT NULL,
        receiver VARBINARY(1024) NOT NULL,
        payload MEDIUMTEXT NOT NULL,
        trail MEDIUMTEXT NOT NULL,
        KEY receiver (receiver)
    )",
    // What changes with every move. `live` is the state while there is a due time, else NULL.
    "CREATE TABLE IF NOT EXISTS landfall_transfers (
        id BIGINT NOT NULL PRIMARY KEY,
        state SMALLINT NOT NULL,
        version BIGINT NOT NULL,
        attempt BIGINT,
        live SMALLINT,
        due_ms BIGINT,
        stage_retries INT UNSIGNED NOT NULL,
        retry_count INT UNSIGNED NOT NULL,
        updated_ms BIGINT NOT NULL,
        completed_ms BIGINT,
        dead TINYINT,
        confirmed TINYINT NOT NULL,
        tx_hash VARBINARY(512),
        aside TEXT,
        error MEDIUMTEXT,
        KEY due (live, due_ms),
        KEY dead (dead)
    )",
    // The entries of one move each, by the version that the move led to.
    "CREATE TABLE IF NOT EXISTS landfall_trail (
        transfer BIGINT NOT NULL,
        version BIGINT NOT NULL,
        entries MEDIUMTEXT NOT NULL,
        PRIMARY KEY (transfer, version)
    )",
    "CREATE TABLE IF NOT EXISTS landfall_lanes (
        code BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
        id VARBINARY(1024) NOT NULL,
        rail VARBINARY(32) NOT NULL,
        epoch BIGINT NOT NULL,
        holder VARBINARY(1024),
        lease_until_ms BIGINT NOT NULL,
        base_nonce BIGINT,
        next_nonce BIGINT,
        halt_reason TEXT,
        halt_at_ms BIGINT,
        UNIQUE KEY id (id)
    )",
    // `open` is 1 until the attempt is decided, then NULL.
    "CREATE TABLE IF NOT EXISTS landfall_attempts (
        id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
        lane BIGINT NOT NULL,
        nonce BIGINT NOT NULL,
        epoch BIGINT NOT NULL,
        opened_ms BIGINT NOT NULL,
        decided_ms BIGINT,
        open TINYINT,
        UNIQUE KEY nonce (lane, nonce),
        KEY open (open, lane, nonce)
    )",
    // What never changes of an attempt. Members are ids of eight bytes each, least byte first.
    "CREATE TABLE IF NOT EXISTS landfall_bodies (
        attempt BIGINT NOT NULL PRIMARY KEY,
        purpose VARBINARY(32) NOT NULL,
        hash VARBINARY(512) NOT NULL,
        base_block VARBINARY(512) NOT NULL,
        base_height BIGINT NOT NULL,
        expires_height BIGINT NOT NULL,
        members MEDIUMBLOB NOT NULL,
        bytes MEDIUMBLOB NOT NULL
    )",
    "CREATE TABLE IF NOT EXISTS landfall_fates (
        attempt BIGINT NOT NULL PRIMARY KEY,
        fate MEDIUMTEXT NOT NULL
    )",
    "CREATE TABLE IF NOT EXISTS landfall_sightings (
        seq BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
        attempt BIGINT NOT NULL,
        sighting MEDIUMTEXT NOT NULL,
        KEY attempt (attempt)
    )",
    // A claim without an owner ended kept. The digest is of space and name.
    "CREATE TABLE IF NOT EXISTS landfall_claims (
        digest BINARY(32) NOT NULL PRIMARY KEY,
        owner BIGINT,
        space VARBINARY(2048) NOT NULL,
        name VARBINARY(2048) NOT NULL
    )",
    "CREATE TABLE IF NOT EXISTS landfall_claim_waiters (
        claim BINARY(32) NOT NULL,
        waiter BIGINT NOT NULL,
        PRIMARY KEY (claim, waiter)
    )",
    // One row that the server forgets when it ends; see `life`.
    "CREATE TABLE IF NOT EXISTS landfall_life (
        one TINYINT NOT NULL PRIMARY KEY,
        token VARBINARY(64) NOT NULL
    ) ENGINE=MEMORY",
];

/// Every signature of a lane is counted and found by its hash; variants; who kept a claim. No table
/// is written anew: what bytes may be without is a height of -1 (and no hash of a block), in the
/// columns that were made when every attempt had it.
const SIGNATURES: Step = Step {
    tables: &["CREATE TABLE IF NOT EXISTS landfall_variants (
        attempt BIGINT NOT NULL,
        number INT UNSIGNED NOT NULL,
        kind VARBINARY(32) NOT NULL,
        epoch BIGINT NOT NULL,
        seq BIGINT NOT NULL,
        opened_ms BIGINT NOT NULL,
        hash VARBINARY(512) NOT NULL,
        base_block VARBINARY(512) NOT NULL,
        base_height BIGINT NOT NULL,
        expires_height BIGINT NOT NULL,
        bytes MEDIUMBLOB NOT NULL,
        PRIMARY KEY (attempt, number),
        KEY hash (hash)
    )"],
    columns: &[
        ("landfall_lanes", "seq", "BIGINT NOT NULL DEFAULT 0"),
        ("landfall_attempts", "seq", "BIGINT NOT NULL DEFAULT 0"),
        // How many there are in the table of that name.
        ("landfall_attempts", "variants", "INT UNSIGNED NOT NULL DEFAULT 0"),
        // Who held a claim without an owner when it was kept; NULL if nobody did, or it is not
        // known.
        ("landfall_claims", "kept_by", "BIGINT"),
    ],
    indexes: &[("landfall_bodies", "hash", "hash")],
};

/// Names what is not said per table.
const KEPT_BY: &str = " ENGINE=InnoDB ROW_FORMAT=DYNAMIC
    DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin";

/// Where the version and the identity are; older than any step.
const META: &str = "CREATE TABLE IF NOT EXISTS landfall_meta (
        name VARBINARY(64) NOT NULL PRIMARY KEY,
        value VARBINARY(255) NOT NULL
    )";

/// Names the lock after the database: locks are the server's, not a database's.
const LOCK: &str = "CONCAT('landfall:', LEFT(SHA2(DATABASE(), 256), 32))";

/// How the tables compare with what this build knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Schema {
    Current,
    Older(i64),
    Newer(i64),
    /// Somebody else is migrating and does not come to an end.
    Locked,
}

/// Brings the tables to the newest version.
pub(crate) async fn migrate(conn: &mut Conn) -> Done<Schema> {
    let lock = format!("SELECT GET_LOCK({LOCK}, {LOCK_SECONDS})");
    if conn.query_first::<Option<i64>, _>(lock).await?.flatten() != Some(1) {
        return Ok(Schema::Locked);
    }
    let schema = migrate_alone(conn).await?;
    conn.query_drop(format!("DO RELEASE_LOCK({LOCK})")).await?;
    Ok(schema)
}

async fn migrate_alone(conn: &mut Conn) -> Done<Schema> {
    let found = version(conn).await?;
    if found > SCHEMA_VERSION {
        return Ok(Schema::Newer(found));
    }
    if found == 0 {
        conn.query_drop(format!("{META}{KEPT_BY}")).await?;
    }
    for (number, step) in (1..).zip(STEPS).skip(found as usize) {
        take(conn, step).await?;
        let sql = format!(
            "INSERT INTO landfall_meta VALUES ('version', '{number}')
             ON DUPLICATE KEY UPDATE value = '{number}'"
        );
        conn.query_drop(sql).await?;
    }
    let identity = "INSERT INTO landfall_meta
        SELECT 'identity', LEFT(SHA2(CONCAT(UUID(), ':', RAND(), ':', NOW(6)), 256), 32) FROM DUAL
        WHERE NOT EXISTS (SELECT 1 FROM landfall_meta WHERE name = 'identity')";
    conn.query_drop(identity).await?;
    Codes::define(conn).await?;
    views::make(conn).await?;
    Ok(if found == SCHEMA_VERSION { Schema::Current } else { Schema::Older(found) })
}

/// Takes a step, or what is left of it.
async fn take(conn: &mut Conn, step: Step) -> Done<()> {
    for statement in step.tables {
        let kept_by = if statement.contains("ENGINE") { "" } else { KEPT_BY };
        conn.query_drop(format!("{statement}{kept_by}")).await?;
    }
    // Not every server knows ADD COLUMN IF NOT EXISTS.
    for (table, column, definition) in step.columns {
        if !is_there(conn, "COLUMNS", "COLUMN_NAME", table, column).await? {
            let sql = format!("ALTER TABLE {table} ADD COLUMN {column} {definition}");
            conn.query_drop(sql).await?;
        }
    }
    for (table, index, over) in step.indexes {
        if !is_there(conn, "STATISTICS", "INDEX_NAME", table, index).await? {
            conn.query_drop(format!("ALTER TABLE {table} ADD INDEX {index} ({over})")).await?;
        }
    }
    Ok(())
}

async fn is_there(
    conn: &mut Conn,
    catalogue: &str,
    column: &str,
    table: &str,
    name: &str,
) -> Done<bool> {
    let sql = format!(
        "SELECT COUNT(*) FROM information_schema.{catalogue} WHERE TABLE_SCHEMA = DATABASE()
         AND TABLE_NAME = '{table}' AND {column} = '{name}'"
    );
    Ok(conn.query_first::<i64, _>(sql).await?.is_some_and(|found| found > 0))
}

/// The version of the tables; 0 if there are none.
pub(crate) async fn version(conn: &mut Conn) -> Done<i64> {
    let exists = "SELECT COUNT(*) FROM information_schema.TABLES
        WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'landfall_meta'";
    if conn.query_first::<i64, _>(exists).await? == Some(0) {
        return Ok(0);
    }
    let sql = "SELECT value FROM landfall_meta WHERE name = 'version'";
    match conn.query_first::<String, _>(sql).await? {
        None => Ok(0),
        Some(text) => text.parse().map_err(|_| corrupt(format!("its schema version is {text:?}"))),
    }
}
