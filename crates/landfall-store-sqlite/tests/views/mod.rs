//! What people and programs find who ask by SQL.

use std::sync::Arc;

use landfall_conformance::{ManualClock, World, views};
use landfall_store_sqlite::{SqliteOptions, SqliteStore};
use rusqlite::Connection;
use serde_json::json;

fn read(db: &Connection, sql: &str) -> Vec<Vec<Option<String>>> {
    let mut statement = db.prepare(sql).expect(sql);
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| (0..columns).map(|place| row.get(place)).collect());
    rows.expect(sql).collect::<Result<_, _>>().expect(sql)
}

#[tokio::test]
async fn views_show_transfers_as_other_relays_keep_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("landfall.db");
    let clock = Arc::new(ManualClock::new());
    let store = SqliteStore::open(&path, clock.clone(), SqliteOptions::default());
    let world = World { store: Arc::new(store.expect("a new store")), time: clock };
    let rows = views::fill(&world).await;
    let db = Connection::open(&path).expect("open");
    let plain = |column: &str| format!("replace(replace({column}, 'T', ' '), 'Z', '')");
    let times = ["createdAt", "confirmedAt", "updatedAt"].map(plain).join(", ");
    let sql = format!(
        "SELECT id, type, status, request, result, error_message, hash, {times}, tenant
         FROM transactions ORDER BY id"
    );
    let found: Vec<_> = read(&db, &sql).into_iter().map(views::transaction).collect();
    assert_eq!(found, rows.transactions);
    let sql = "SELECT req_id, source, target, CAST(user_id AS TEXT), CAST(asset_id AS TEXT),
            CAST(amount AS TEXT), state, CAST(created_at AS TEXT), CAST(updated_at AS TEXT), error,
            CAST(retry_count AS TEXT), tenant FROM internal_transfers ORDER BY req_id";
    let found: Vec<_> = read(&db, sql).into_iter().map(|row| json!(row)).collect();
    assert_eq!(found, rows.internal_transfers);
}
