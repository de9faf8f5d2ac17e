//! Opening: what is found on the server, and who else is there.

use std::process::Command;

use landfall_ledger::{Contract, Kind};
use landfall_servers::{Postgres, PostgresOptions as ServerOptions};

use crate::{Database, open};

fn funding() -> Contract {
    Contract::new("funding", Kind::Freeze)
}

fn sql(server: &Postgres, statement: &str) {
    let mut psql = Command::new("psql");
    psql.args(["-q", "-v", "ON_ERROR_STOP=1", "-d", server.url(), "-c", statement]);
    let done = psql.output().expect("psql runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[tokio::test]
async fn a_newer_schema_and_foreign_tables_are_refused() {
    let database = Database::new();
    drop(open(database.0.url(), funding()).await.expect("a new book"));
    sql(&database.0, "UPDATE landfall_ledger.meta SET value = '99' WHERE name LIKE '%schema'");
    let said = open(database.0.url(), funding()).await.err().expect("a refusal");
    assert!(said.contains("accounts of a newer Landfall (schema 99, this one knows 1)"), "{said}");
    sql(&database.0, "DROP SCHEMA landfall_ledger CASCADE; CREATE SCHEMA landfall_ledger");
    sql(&database.0, "CREATE TABLE landfall_ledger.theirs (x int)");
    let said = open(database.0.url(), funding()).await.err().expect("a refusal");
    assert!(said.contains("that are not an account service's"), "{said}");
}

#[tokio::test]
async fn a_server_that_may_forget_is_refused_without_exception() {
    let settings = vec![("synchronous_commit".into(), "off".into())];
    let options = ServerOptions { settings, ..ServerOptions::default() };
    let server = Postgres::start_with(options).expect("PostgreSQL starts");
    let said = open(server.url(), funding()).await.err().expect("a refusal");
    assert!(said.contains("its synchronous_commit is off; set synchronous_commit = on"), "{said}");
}
