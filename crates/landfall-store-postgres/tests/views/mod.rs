//! What people and programs find who ask by SQL.

use landfall_conformance::views;
use landfall_servers::Postgres;
use serde_json::json;
use tokio_postgres::{Client, NoTls};

use crate::{open, world};

async fn read(db: &Client, sql: &str) -> Vec<Vec<Option<String>>> {
    let rows = db.query(sql, &[]).await.expect(sql);
    rows.iter().map(|row| (0..row.len()).map(|place| row.get(place)).collect()).collect()
}

#[tokio::test]
async fn views_show_transfers_as_other_relays_keep_them() {
    let server = Postgres::start().expect("PostgreSQL starts");
    let rows = views::fill(&world(open(&server).await)).await;
    let (db, connection) = tokio_postgres::connect(server.url(), NoTls).await.expect("connect");
    tokio::spawn(connection);
    let plain = |column: &str| {
        format!("to_char(\"{column}\" AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.MS')")
    };
    let times = ["createdAt", "confirmedAt", "updatedAt"].map(plain).join(", ");
    let sql = format!(
        "SELECT id, type, status, request::text, result::text, error_message, hash, {times}, tenant
         FROM landfall.transactions ORDER BY id COLLATE \"C\""
    );
    let found: Vec<_> = read(&db, &sql).await.into_iter().map(views::transaction).collect();
    assert_eq!(found, rows.transactions);
    let sql = "SELECT req_id, source, target, user_id::text, asset_id::text, amount::text, state,
            created_at::text, updated_at::text, error, retry_count::text, tenant
        FROM landfall.internal_transfers ORDER BY req_id";
    let found: Vec<_> = read(&db, sql).await.into_iter().map(|row| json!(row)).collect();
    assert_eq!(found, rows.internal_transfers);
}
