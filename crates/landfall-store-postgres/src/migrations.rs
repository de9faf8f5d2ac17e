//! The schema and how it grew.
//!
//! **Rule:** a step that was released is never edited; a change is a new step at the end.
//! **Rule:** one process at a time: steps run in one transaction, under an advisory lock.

use tokio_postgres::Client;

use crate::codes::Codes;
use crate::fault::{Done, get};
use crate::views;

/// The schema this build reads and writes.
pub(crate) const SCHEMA_VERSION: i64 = STEPS.len() as i64;

/// Step `i` leads from version `i` to `i + 1`.
const STEPS: [&str; 2] = [FIRST, SIGNATURES];

/// Hot columns are in a narrow table of their own: an update writes the whole row anew. Its `stage`
/// is set only while it is due, so that a move between two states in which it is not (into
/// COMPLETED, above all) touches no index and stays in its page: that is what the room left in
/// pages is for.
const FIRST: &str = r#"
-- The names behind the codes of states and stages.
CREATE TABLE states (
    code smallint PRIMARY KEY,
    rail text NOT NULL,
    name text NOT NULL,
    UNIQUE (rail, name)
);
CREATE TABLE stages (code smallint PRIMARY KEY, name text NOT NULL UNIQUE);

-- How many transfers are in each state: the sum over its shards. A writer adds to the shard of its
-- own session, last in its transaction, so that no two writers wait for each other here.
CREATE TABLE counts (
    shard smallint NOT NULL,
    state smallint NOT NULL,
    transfers bigint NOT NULL,
    PRIMARY KEY (shard, state)
) WITH (fillfactor = 20);

-- Not cached by sessions: an id given later is larger, whoever asks.
CREATE SEQUENCE transfer_ids AS bigint CACHE 1;
CREATE SEQUENCE attempt_ids AS bigint CACHE 1;

-- Idempotency keys: SHA-256 of (rail, tenant, key). Never deleted, whatever becomes of the
-- transfer.
CREATE TABLE keys (
    hash bytea PRIMARY KEY,
    transfer bigint NOT NULL,
    fingerprint bytea NOT NULL
);

-- What never changes.
CREATE TABLE payloads (
    id bigint PRIMARY KEY,
    created_ms bigint NOT NULL,
    rail text NOT NULL,
    tenant text NOT NULL,
    key text NOT NULL,
    fingerprint bytea NOT NULL,
    receiver text NOT NULL,
    payload text NOT NULL,
    trail bytea NOT NULL
);
CREATE INDEX payloads_receiver ON payloads (receiver, id);

-- What changes with every move.
CREATE TABLE transfers (
    id bigint PRIMARY KEY,
    version bigint NOT NULL,
    attempt bigint,
    due_ms bigint,
    stage_retries bigint NOT NULL,
    retry_count bigint NOT NULL,
    updated_ms bigint NOT NULL,
    completed_ms bigint,
    state smallint NOT NULL,
    stage smallint,
    dead boolean NOT NULL,
    confirmed boolean NOT NULL,
    tx_hash text,
    aside text,
    error text
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX transfers_due ON transfers (stage, due_ms, id) WHERE due_ms IS NOT NULL;
CREATE INDEX transfers_dead ON transfers (id) WHERE dead;

-- The entries of one move each, under the version that it made.
CREATE TABLE trail (
    transfer bigint NOT NULL,
    version bigint NOT NULL,
    entries bytea NOT NULL,
    PRIMARY KEY (transfer, version)
);

CREATE TABLE lanes (
    code bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    rail text NOT NULL,
    epoch bigint NOT NULL,
    holder text,
    lease_until_ms bigint NOT NULL,
    base_nonce bigint,
    next_nonce bigint,
    halt_reason text,
    halt_at_ms bigint
) WITH (fillfactor = 20);

CREATE TABLE attempts (
    id bigint PRIMARY KEY,
    lane bigint NOT NULL,
    nonce bigint NOT NULL,
    epoch bigint NOT NULL,
    opened_ms bigint NOT NULL,
    decided_ms bigint,
    purpose text NOT NULL,
    hash text NOT NULL,
    base_block text NOT NULL,
    base_height bigint NOT NULL,
    expires_height bigint NOT NULL,
    members bigint[] NOT NULL,
    fate text,
    bytes bytea NOT NULL,
    UNIQUE (lane, nonce)
);
-- Signatures do not compress.
ALTER TABLE attempts ALTER COLUMN bytes SET STORAGE EXTERNAL;
CREATE INDEX attempts_open ON attempts (lane, nonce) WHERE decided_ms IS NULL;
CREATE TABLE sightings (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    attempt bigint NOT NULL,
    sighting text NOT NULL
);
CREATE INDEX sightings_attempt ON sightings (attempt, seq);

-- A claim without an owner ended kept.
CREATE TABLE claims (
    space text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    owner bigint,
    PRIMARY KEY (space, key)
);
CREATE TABLE claim_waiters (
    space text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    waiter bigint NOT NULL,
    PRIMARY KEY (space, key, waiter)
);
"#;

/// Every signature of a lane is counted and found by its hash; variants; who kept a claim. No table
/// is written anew: what bytes may be without is a height of -1 (and no hash of a block), in the
/// columns that were made when every attempt had it.
const SIGNATURES: &str = r#"
ALTER TABLE lanes ADD COLUMN seq bigint NOT NULL DEFAULT 0;
-- How many there are in `variants`, beside which of the lane's signatures it is.
ALTER TABLE attempts ADD COLUMN seq bigint NOT NULL DEFAULT 0,
    ADD COLUMN variants integer NOT NULL DEFAULT 0;
CREATE INDEX attempts_hash ON attempts (hash);
CREATE TABLE variants (
    attempt bigint NOT NULL,
    number integer NOT NULL,
    kind text NOT NULL,
    epoch bigint NOT NULL,
    seq bigint NOT NULL,
    opened_ms bigint NOT NULL,
    hash text NOT NULL,
    base_block text NOT NULL,
    base_height bigint NOT NULL,
    expires_height bigint NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (attempt, number)
);
ALTER TABLE variants ALTER COLUMN bytes SET STORAGE EXTERNAL;
CREATE INDEX variants_hash ON variants (hash);
-- Who held a claim without an owner when it was kept; NULL if nobody did, or it is not known.
ALTER TABLE claims ADD COLUMN kept_by bigint;
"#;

/// What is found where the store is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    /// Tables that are not ours.
    Foreign,
    Version(i64),
}

/// Looks into the schema that the session is set to.
pub(crate) async fn look(db: &Client, schema: &str) -> Done<Found> {
    let sql = "SELECT count(*), count(*) FILTER (WHERE c.relname = 'meta')
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'f')";
    let row = db.query_one(sql, &[&schema]).await?;
    let (tables, metas): (i64, i64) = (get(&row, 0)?, get(&row, 1)?);
    if tables == 0 {
        return Ok(Found::Nothing);
    }
    if metas == 0 {
        return Ok(Found::Foreign);
    }
    let sql = "SELECT value FROM meta WHERE name = 'landfall schema'";
    let version = match db.query_opt(sql, &[]).await {
        Ok(row) => row,
        // Their own table of that name.
        Err(error) if error.code().is_some_and(|code| code.code().starts_with("42")) => None,
        Err(error) => return Err(error.into()),
    };
    let version = version.map(|row| get::<String>(&row, 0)).transpose()?;
    let version = version.and_then(|version| version.parse().ok());
    Ok(version.map_or(Found::Foreign, Found::Version))
}

/// Brings the schema from `found` to the newest, all steps or none. The caller has looked before,
/// and looks again under the lock: somebody else may have been faster.
pub(crate) async fn migrate(db: &Client, schema: &str) -> Done<Found> {
    db.batch_execute("BEGIN").await?;
    let migrated = steps(db, schema).await;
    match &migrated {
        Ok(_) => db.batch_execute("COMMIT").await?,
        // Its failure would hide what it is for.
        Err(_) => drop(db.batch_execute("ROLLBACK").await),
    }
    migrated
}

async fn steps(db: &Client, schema: &str) -> Done<Found> {
    // Waiting for others to migrate takes as long as they do.
    db.batch_execute("SET LOCAL statement_timeout = 0").await?;
    let sql = "SELECT pg_advisory_xact_lock(hashtext('landfall schema'), hashtext($1))";
    db.query_one(sql, &[&schema]).await?;
    let found = look(db, schema).await?;
    let version = match found {
        Found::Foreign => return Ok(found),
        Found::Version(version) if version > SCHEMA_VERSION => return Ok(found),
        Found::Version(version) => version,
        Found::Nothing => {
            begin(db, schema).await?;
            0
        }
    };
    for step in STEPS.iter().skip(version as usize) {
        db.batch_execute(step).await?;
    }
    let sql = "UPDATE meta SET value = $1 WHERE name = 'landfall schema'";
    db.execute(sql, &[&SCHEMA_VERSION.to_string()]).await?;
    Codes::define(db).await?;
    views::make(db).await?;
    Ok(Found::Version(SCHEMA_VERSION))
}

/// An empty schema of ours, with an identity that no other has.
async fn begin(db: &Client, schema: &str) -> Done<()> {
    let exists = "SELECT FROM pg_namespace WHERE nspname = $1";
    // Asked first: somebody may have made it for us who does not let us make any.
    if db.query_opt(exists, &[&schema]).await?.is_none() {
        db.batch_execute(&format!("CREATE SCHEMA {}", quoted(schema))).await?;
    }
    db.batch_execute(
        "CREATE TABLE meta (name text PRIMARY KEY, value text NOT NULL);
         INSERT INTO meta VALUES
             ('landfall schema', '0'),
             ('identity', replace(gen_random_uuid()::text, '-', ''));",
    )
    .await?;
    Ok(())
}

/// A name as SQL takes any name.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// What tells this store from any other.
pub(crate) const IDENTITY: &str = "SELECT value FROM meta WHERE name = 'identity'";
