//! Writes the small store that later releases must be able to open, with the layout of this build.
//!
//! `cargo run -p landfall-store-postgres --example postgres_fixture -- FILE.sql`
//! For a new layout, once, when it is released: `tests/earlier/schema-VERSION.sql`. Those of
//! earlier layouts are never written anew. Wants `pg_dump`.

use std::process::Command;
use std::sync::Arc;

use landfall_conformance::{ManualClock, World, earlier};
use landfall_servers::Postgres;
use landfall_store_postgres::{PostgresOptions, PostgresStore};

#[tokio::main]
async fn main() {
    let to = std::env::args().nth(1).expect("the file to write, as FILE.sql");
    let server = Postgres::start().expect("PostgreSQL starts");
    let store = PostgresStore::open(server.url(), PostgresOptions::default()).await;
    let store = Arc::new(store.expect("a new store"));
    earlier::fill(&World { store, time: Arc::new(ManualClock::new()) }).await;
    let dumped = Command::new("pg_dump")
        .args(["--no-owner", "--no-privileges", "--inserts", "--schema=landfall", server.url()])
        .output()
        .expect("pg_dump runs");
    assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
    let text = String::from_utf8(dumped.stdout).expect("text");
    // Commands to psql, and remarks that name its version.
    let is_sql =
        |line: &&str| !line.is_empty() && !line.starts_with("--") && !line.starts_with('\\');
    let lines: Vec<&str> = text.lines().filter(is_sql).collect();
    std::fs::write(&to, lines.join("\n") + "\n").expect("written");
    println!("{to}: {} lines", lines.len());
}
