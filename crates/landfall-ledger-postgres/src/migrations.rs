//! The schema and how it grew.
//!
//! **Rule:** a step that was released is never edited; a change is a new step at the end.
//! **Rule:** one process at a time: steps run in one transaction, under an advisory lock.

use landfall_store_postgres::sessions::{Done, get, quoted};
use tokio_postgres::Client;

/// The schema this build reads and writes.
pub(crate) const SCHEMA_VERSION: i64 = STEPS.len() as i64;

/// Step `i` leads from version `i` to `i + 1`.
const STEPS: [&str; 1] = [FIRST];

const FIRST: &str = "
-- How far each service has come. Whoever writes for a service locks its row first. It changes with
-- every batch: the room in its page is for that.
CREATE TABLE services (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    kind text NOT NULL,
    head bigint NOT NULL DEFAULT 0,
    accounts bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 20);

-- Users and amounts use all 64 bits: a number below zero stands for itself plus 2^64.
CREATE TABLE accounts (
    service integer NOT NULL REFERENCES services,
    number bigint NOT NULL,
    user_id bigint NOT NULL,
    asset bigint NOT NULL,
    available bigint NOT NULL,
    frozen bigint NOT NULL,
    reserved bigint NOT NULL,
    blocked boolean NOT NULL DEFAULT false,
    -- The operation that changed it last.
    seq bigint NOT NULL,
    PRIMARY KEY (service, user_id, asset),
    UNIQUE (service, number)
) WITH (fillfactor = 50);

-- The statement, which is also what is known under each id. Never changed, only appended to.
CREATE TABLE operations (
    service integer NOT NULL REFERENCES services,
    seq bigint NOT NULL,
    -- Sixteen bytes, or none for money from outside, which has a reference.
    req_id bytea,
    reference text,
    verb text NOT NULL,
    user_id bigint NOT NULL,
    asset bigint NOT NULL,
    amount bigint NOT NULL,
    -- None if it was done.
    refusal text,
    at_ms bigint NOT NULL,
    available bigint NOT NULL,
    frozen bigint NOT NULL,
    PRIMARY KEY (service, seq),
    CHECK ((req_id IS NULL) <> (reference IS NULL))
);
CREATE UNIQUE INDEX operations_request ON operations (service, req_id, verb)
    WHERE req_id IS NOT NULL;
CREATE UNIQUE INDEX operations_reference ON operations (service, reference)
    WHERE reference IS NOT NULL;
CREATE INDEX operations_account ON operations (service, user_id, asset, seq);
";

/// What a schema holds.
pub(crate) enum Found {
    Nothing,
    /// Tables, but not ours.
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
    let sql = "SELECT value FROM meta WHERE name = 'landfall ledger schema'";
    let version = match db.query_opt(sql, &[]).await {
        Ok(row) => row,
        // Their own table of that name.
        Err(error) if error.code().is_some_and(|code| code.code().starts_with("42")) => None,
        Err(error) => return Err(error.into()),
    };
    let version = version.map(|row| get::<String>(&row, 0)).transpose()?;
    Ok(version.and_then(|version| version.parse().ok()).map_or(Found::Foreign, Found::Version))
}

/// Brings the schema to the newest, all steps or none. Looks again under the lock: somebody else
/// may have been faster.
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
    let sql = "SELECT pg_advisory_xact_lock(hashtext('landfall ledger schema'), hashtext($1))";
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
    let sql = "UPDATE meta SET value = $1 WHERE name = 'landfall ledger schema'";
    db.execute(sql, &[&SCHEMA_VERSION.to_string()]).await?;
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
             ('landfall ledger schema', '0'),
             ('identity', replace(gen_random_uuid()::text, '-', ''));",
    )
    .await?;
    Ok(())
}

/// What tells these books from any others.
pub(crate) async fn identity(db: &Client) -> Done<String> {
    get(&db.query_one("SELECT value FROM meta WHERE name = 'identity'", &[]).await?, 0)
}
