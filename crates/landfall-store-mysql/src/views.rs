//! Tables as others know them, for people and programs that ask by SQL.
//!
//! Nothing of ours reads them, so they are no part of the schema's version: a build without them
//! works on the same tables. `landfall_meta` says which of them are there.
//! **Rule:** a table or view of such a name that we have not made is left alone: the database may
//! be shared with what these names come from. Where we may not make views there are none.

use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use crate::fault::{Done, Fault};

/// Grows with every change below.
const NEWEST: &str = "1";

/// Times are UTC, whatever the session's zone.
const EPOCH: &str = "TIMESTAMP '1970-01-01 00:00:00.000'";

/// Calls on EVM chains are `transactions`, moves between services `internal_transfers`.
fn views() -> [(&'static str, String); 2] {
    let time = |ms: &str| format!("TIMESTAMPADD(MICROSECOND, {ms} * 1000, {EPOCH})");
    let of = |path: &str| format!("JSON_UNQUOTE(JSON_EXTRACT(p.payload, '$.{path}'))");
    let message = "JSON_UNQUOTE(JSON_EXTRACT(t.error, '$.message'))";
    let from = |rail: &str| {
        format!(
            "FROM landfall_keys k JOIN landfall_payloads p ON p.id = k.id
             JOIN landfall_transfers t ON t.id = k.id JOIN landfall_states s ON s.code = t.state
             WHERE s.rail = '{rail}'"
        )
    };
    let transactions = format!(
        "SELECT
            CONVERT(k.name USING utf8mb4) AS id,
            {kind} AS type,
            CASE WHEN s.name IN ('success', 'failed') THEN CONVERT(s.name USING utf8mb4)
                ELSE 'pending' END AS status,
            JSON_SET(JSON_EXTRACT(p.payload, '$.request'), '$.speed', {speed}, '$.chain', {chain})
                AS request,
            CASE WHEN s.name = 'success' THEN JSON_OBJECT(
                'hash', CONVERT(t.tx_hash USING utf8mb4), 'chain', {chain},
                'chainId', CAST({chain_id} AS UNSIGNED), 'retries', t.retry_count) END AS result,
            CASE WHEN s.name <> 'success' THEN COALESCE(t.aside, {message}) END AS error_message,
            CONVERT(t.tx_hash USING utf8mb4) AS hash,
            {created} AS createdAt,
            CASE WHEN s.name = 'success' THEN {completed} END AS confirmedAt,
            {updated} AS updatedAt,
            CONVERT(k.tenant USING utf8mb4) AS tenant
         {from}",
        kind = of("type"),
        speed = of("speed"),
        chain = of("chain"),
        chain_id = of("chain_id"),
        created = time("p.created_ms"),
        completed = time("t.completed_ms"),
        updated = time("t.updated_ms"),
        from = from("evm"),
    );
    let internal_transfers = format!(
        "SELECT
            CONVERT(k.name USING utf8mb4) AS req_id,
            {source} AS source,
            {target} AS target,
            CAST({user} AS UNSIGNED) AS user_id,
            CAST({asset} AS UNSIGNED) AS asset_id,
            CAST({amount} AS UNSIGNED) AS amount,
            CONVERT(s.name USING utf8mb4) AS state,
            p.created_ms AS created_at,
            t.updated_ms AS updated_at,
            {message} AS error,
            t.retry_count AS retry_count,
            CONVERT(k.tenant USING utf8mb4) AS tenant
         {from}",
        source = of("source"),
        target = of("target"),
        user = of("user_id"),
        asset = of("asset_id"),
        amount = of("amount"),
        from = from("internal"),
    );
    [("transactions", transactions), ("internal_transfers", internal_transfers)]
}

/// Makes those that are missing or were made otherwise. Wants the lock of migrations.
pub(crate) async fn make(conn: &mut Conn) -> Done<()> {
    let sql = "SELECT value FROM landfall_meta WHERE name = 'views'";
    let made: Option<String> = conn.query_first(sql).await?;
    if made.as_deref() == Some(NEWEST) {
        return Ok(());
    }
    for (name, query) in views() {
        let sql = format!(
            "SELECT COUNT(*) FROM information_schema.TABLES
             WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '{name}'"
        );
        let there = conn.query_first::<i64, _>(sql).await?.is_some_and(|found| found > 0);
        if there && made.is_none() {
            tracing::info!(name, "there is a table of this name; no view is made");
            continue;
        }
        match conn.query_drop(format!("CREATE OR REPLACE VIEW {name} AS {query}")).await {
            Ok(()) => (),
            Err(error) => return refused(error.into()),
        }
    }
    let sql = format!(
        "INSERT INTO landfall_meta VALUES ('views', '{NEWEST}')
         ON DUPLICATE KEY UPDATE value = '{NEWEST}'"
    );
    Ok(conn.query_drop(sql).await?)
}

/// Who may not make views does without; a later start tries again.
fn refused(fault: Fault) -> Done<()> {
    match fault {
        Fault::Refused(cause) => {
            tracing::warn!(cause, "no views are made; GRANT CREATE VIEW lets a start make them");
            Ok(())
        }
        other => Err(other),
    }
}
