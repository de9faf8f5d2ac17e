//! Tables as others know them, for people and programs that ask by SQL.
//!
//! Nothing of ours reads them, so they are no part of the layout: a build without them works on the
//! same file. `meta` says which of them are there.

use rusqlite::{Connection, OptionalExtension};

use crate::fault::Done;

/// Grows with every change below.
const NEWEST: &str = "1";

/// Calls on EVM chains are `transactions`, moves between services `internal_transfers`.
const VIEWS: &str = "
DROP VIEW IF EXISTS transactions;
CREATE VIEW transactions AS SELECT
    k.key AS id,
    json_extract(p.payload, '$.type') AS type,
    CASE WHEN s.name IN ('success', 'failed') THEN s.name ELSE 'pending' END AS status,
    json_set(json_extract(p.payload, '$.request'), '$.speed', json_extract(p.payload, '$.speed'),
        '$.chain', json_extract(p.payload, '$.chain')) AS request,
    CASE WHEN s.name = 'success' THEN json_object('hash', t.tx_hash,
        'chain', json_extract(p.payload, '$.chain'),
        'chainId', json_extract(p.payload, '$.chain_id'), 'retries', t.retry_count) END AS result,
    CASE WHEN s.name <> 'success' THEN coalesce(t.aside, json_extract(t.error, '$.message')) END
        AS error_message,
    t.tx_hash AS hash,
    strftime('%Y-%m-%dT%H:%M:%fZ', p.created_ms / 1000.0, 'unixepoch') AS createdAt,
    CASE WHEN s.name = 'success' THEN
        strftime('%Y-%m-%dT%H:%M:%fZ', t.completed_ms / 1000.0, 'unixepoch') END AS confirmedAt,
    strftime('%Y-%m-%dT%H:%M:%fZ', t.updated_ms / 1000.0, 'unixepoch') AS updatedAt,
    k.tenant AS tenant
FROM keys k JOIN payloads p ON p.id = k.id JOIN transfers t ON t.id = k.id
    JOIN states s ON s.code = t.state
WHERE s.rail = 'evm';

DROP VIEW IF EXISTS internal_transfers;
-- SQLite's whole numbers are smaller than ours may be; such are texts.
CREATE VIEW internal_transfers AS SELECT
    k.key AS req_id,
    json_extract(p.payload, '$.source') AS source,
    json_extract(p.payload, '$.target') AS target,
    CASE WHEN length(p.payload -> '$.user_id') < 19 THEN json_extract(p.payload, '$.user_id')
        ELSE p.payload -> '$.user_id' END AS user_id,
    json_extract(p.payload, '$.asset_id') AS asset_id,
    CASE WHEN length(p.payload -> '$.amount') < 19 THEN json_extract(p.payload, '$.amount')
        ELSE p.payload -> '$.amount' END AS amount,
    s.name AS state,
    p.created_ms AS created_at,
    t.updated_ms AS updated_at,
    json_extract(t.error, '$.message') AS error,
    t.retry_count AS retry_count,
    k.tenant AS tenant
FROM keys k JOIN payloads p ON p.id = k.id JOIN transfers t ON t.id = k.id
    JOIN states s ON s.code = t.state
WHERE s.rail = 'internal';
";

/// Makes those that are missing or were made otherwise.
pub(crate) fn make(db: &mut Connection) -> Done<()> {
    let sql = "SELECT value FROM meta WHERE name = 'views'";
    let made: Option<String> = db.query_row(sql, [], |row| row.get(0)).optional()?;
    if made.as_deref() == Some(NEWEST) {
        return Ok(());
    }
    let making = db.transaction()?;
    making.execute_batch(VIEWS)?;
    making.execute("INSERT OR REPLACE INTO meta VALUES ('views', ?1)", [NEWEST])?;
    making.commit()?;
    Ok(())
}
