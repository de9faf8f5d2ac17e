//! What people and programs find who ask by SQL.

use std::sync::Arc;

use landfall_conformance::{ManualClock, World, views};
use landfall_core::store::LaneStore;
use landfall_store_mysql::{MysqlOptions, MysqlStore};
use mysql_async::Row;
use mysql_async::prelude::Queryable;
use serde_json::json;

use crate::server::{connect, new_database, run, shared};

async fn open(url: &str) -> MysqlStore {
    MysqlStore::open(url, MysqlOptions::default()).await.expect("a store")
}

async fn read(url: &str, sql: &str) -> Vec<Vec<Option<String>>> {
    let mut conn = connect(url).await;
    // Times are told in UTC, whatever the reader's zone.
    conn.query_drop("SET time_zone = '+05:00'").await.expect("a zone");
    let rows: Vec<Row> = conn.query(sql).await.expect(sql);
    conn.disconnect().await.expect("goodbye");
    let texts = |row: Row| {
        let text = |place| row.get::<Option<String>, usize>(place).expect("a column");
        (0..row.len()).map(text).collect()
    };
    rows.into_iter().map(texts).collect()
}

#[tokio::test]
async fn views_show_transfers_as_other_relays_keep_them() {
    let url = new_database(shared()).await;
    let clock = Arc::new(ManualClock::new());
    let world = World { store: Arc::new(open(&url).await), time: clock };
    let rows = views::fill(&world).await;
    let plain = |column: &str| format!("LEFT(DATE_FORMAT({column}, '%Y-%m-%d %H:%i:%s.%f'), 23)");
    let times = ["createdAt", "confirmedAt", "updatedAt"].map(plain).join(", ");
    let sql = format!(
        "SELECT id, type, status, request, result, error_message, hash, {times}, tenant
         FROM transactions ORDER BY id"
    );
    let found: Vec<_> = read(&url, &sql).await.into_iter().map(views::transaction).collect();
    assert_eq!(found, rows.transactions);
    let sql = "SELECT req_id, source, target, CAST(user_id AS CHAR), CAST(asset_id AS CHAR),
            CAST(amount AS CHAR), state, CAST(created_at AS CHAR), CAST(updated_at AS CHAR), error,
            CAST(retry_count AS CHAR), tenant FROM internal_transfers ORDER BY req_id";
    let found: Vec<_> = read(&url, sql).await.into_iter().map(|row| json!(row)).collect();
    assert_eq!(found, rows.internal_transfers);
}

/// The database may be shared with what the names come from.
#[tokio::test]
async fn a_table_of_a_views_name_is_left_alone() {
    let url = new_database(shared()).await;
    run(&url, "CREATE TABLE transactions (id VARCHAR(36) PRIMARY KEY)").await;
    run(&url, "INSERT INTO transactions VALUES ('theirs')").await;
    open(&url).await;
    open(&url).await;
    let theirs = read(&url, "SELECT id FROM transactions").await;
    assert_eq!(theirs, [[Some("theirs".to_owned())]]);
    assert_eq!(read(&url, "SELECT req_id FROM internal_transfers").await.len(), 0);
}

#[tokio::test]
async fn who_may_not_make_views_has_a_store_without_them() {
    let url = new_database(shared()).await;
    let (base, database) = url.rsplit_once('/').expect("a URL with a database");
    let user = format!("{database}_user");
    run(&url, &format!("CREATE USER {user}@'%' IDENTIFIED BY 'hush'")).await;
    let rights = "SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX, DROP";
    run(&url, &format!("GRANT {rights} ON {database}.* TO {user}@'%'")).await;
    let (_, host) = base.rsplit_once('@').unwrap_or(("", base.trim_start_matches("mysql://")));
    let as_user = format!("mysql://{user}:hush@{host}/{database}");
    open(&as_user).await.identity().await.expect("it works");
    let there = "SELECT TABLE_NAME FROM information_schema.VIEWS WHERE TABLE_SCHEMA = DATABASE()";
    assert_eq!(read(&url, there).await.len(), 0);
    run(&url, &format!("GRANT CREATE VIEW ON {database}.* TO {user}@'%'")).await;
    open(&as_user).await;
    assert_eq!(read(&url, there).await.len(), 2);
}
