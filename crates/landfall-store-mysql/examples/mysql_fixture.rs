//! Writes the small store that later releases must be able to open, with the layout of this build.
//!
//! `cargo run -p landfall-store-mysql --example mysql_fixture -- FILE.sql`
//! For a new layout, once, when it is released: `tests/earlier/schema-VERSION.sql`. Those of
//! earlier layouts are never written anew. Wants `mariadb-dump`.

use std::process::Command;
use std::sync::Arc;

use landfall_conformance::{ManualClock, World, earlier};
use landfall_servers::MariaDb;
use landfall_store_mysql::{MysqlOptions, MysqlStore};

#[tokio::main]
async fn main() {
    let to = std::env::args().nth(1).expect("the file to write, as FILE.sql");
    let server = MariaDb::start().expect("MariaDB starts");
    let clock = Arc::new(ManualClock::new());
    let options = MysqlOptions { clock: Some(clock.clone()), ..MysqlOptions::default() };
    let store = MysqlStore::open(server.url(), options).await.expect("a new store");
    earlier::fill(&World { store: Arc::new(store), time: clock }).await;
    let (_, at) = server.url().rsplit_once('@').expect("a user before the address");
    let (address, database) = at.split_once('/').expect("a database after the address");
    let (host, port) = address.split_once(':').expect("a port after the host");
    let dumped = Command::new("mariadb-dump")
        .args(["--no-defaults", "-ulandfall", "-plandfall", "-h", host, "-P", port])
        .args(["--hex-blob", "--skip-comments", "--skip-add-locks", "--skip-set-charset"])
        // The sign of life is not kept by a server either.
        .arg(format!("--ignore-table-data={database}.landfall_life"))
        .arg(database)
        .output()
        .expect("mariadb-dump runs");
    assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
    let text = String::from_utf8(dumped.stdout).expect("text");
    // Remarks to certain versions of clients and servers change nothing that is kept.
    let is_sql = |line: &&str| !line.is_empty() && !line.starts_with("/*");
    let lines: Vec<&str> = text.lines().filter(is_sql).collect();
    std::fs::write(&to, lines.join("\n") + "\n").expect("written");
    println!("{to}: {} lines", lines.len());
}
