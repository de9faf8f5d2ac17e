//! Tables as others know them, for people and programs that ask by SQL.
//!
//! Nothing of ours reads them, so they are no part of the schema's version: a build without them
//! works on the same tables. `meta` says which of them are there.

use tokio_postgres::Client;

use crate::fault::{Done, get};

/// Grows with every change below.
const NEWEST: &str = "1";

/// Calls on EVM chains are `transactions`, moves between services `internal_transfers`.
const VIEWS: &str = r#"
DROP VIEW IF EXISTS transactions;
CREATE VIEW transactions AS SELECT
    p.key AS id,
    p.payload::jsonb ->> 'type' AS type,
    CASE WHEN s.name IN ('success', 'failed') THEN s.name ELSE 'pending' END AS status,
    (p.payload::jsonb -> 'request') || jsonb_build_object('speed', p.payload::jsonb -> 'speed',
        'chain', p.payload::jsonb -> 'chain') AS request,
    CASE WHEN s.name = 'success' THEN jsonb_build_object('hash', t.tx_hash,
        'chain', p.payload::jsonb -> 'chain', 'chainId', p.payload::jsonb -> 'chain_id',
        'retries', t.retry_count) END AS result,
    CASE WHEN s.name <> 'success' THEN coalesce(t.aside, t.error::jsonb ->> 'message') END
        AS error_message,
    t.tx_hash AS hash,
    to_timestamp(p.created_ms / 1000.0) AS "createdAt",
    CASE WHEN s.name = 'success' THEN to_timestamp(t.completed_ms / 1000.0) END AS "confirmedAt",
    to_timestamp(t.updated_ms / 1000.0) AS "updatedAt",
    p.tenant AS tenant
FROM payloads p JOIN transfers t ON t.id = p.id JOIN states s ON s.code = t.state
WHERE p.rail = 'evm';

DROP VIEW IF EXISTS internal_transfers;
CREATE VIEW internal_transfers AS SELECT
    p.key AS req_id,
    p.payload::jsonb ->> 'source' AS source,
    p.payload::jsonb ->> 'target' AS target,
    (p.payload::jsonb ->> 'user_id')::numeric AS user_id,
    (p.payload::jsonb ->> 'asset_id')::bigint AS asset_id,
    (p.payload::jsonb ->> 'amount')::numeric AS amount,
    s.name AS state,
    p.created_ms AS created_at,
    t.updated_ms AS updated_at,
    t.error::jsonb ->> 'message' AS error,
    t.retry_count AS retry_count,
    p.tenant AS tenant
FROM payloads p JOIN transfers t ON t.id = p.id JOIN states s ON s.code = t.state
WHERE p.rail = 'internal';
"#;

/// Makes those that are missing or were made otherwise. Wants the lock of migrations.
pub(crate) async fn make(db: &Client) -> Done<()> {
    let made = db.query_opt("SELECT value FROM meta WHERE name = 'views'", &[]).await?;
    if made.map(|row| get::<String>(&row, 0)).transpose()?.as_deref() == Some(NEWEST) {
        return Ok(());
    }
    db.batch_execute(VIEWS).await?;
    let sql = "INSERT INTO meta VALUES ('views', $1)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    db.execute(sql, &[&NEWEST]).await?;
    Ok(())
}
