//! Opening: what is found on the server, and who else is there.

use std::process::Command;

use landfall_ledger::{Contract, Kind};
use landfall_servers::MariaDb;

use crate::{Database, open};

fn funding() -> Contract {
    Contract::new("funding", Kind::Freeze)
}

fn sql(server: &MariaDb, statement: &str) {
    let mut mariadb = Command::new("mariadb");
    mariadb.args(["--no-defaults", "-h127.0.0.1", "-ulandfall", "-plandfall"]);
    mariadb.arg(format!("-P{}", server.port())).args(["-e", statement, "landfall"]);
    let done = mariadb.output().expect("mariadb runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let database = Database::new();
    drop(open(database.0.url(), funding()).await.expect("a new book"));
    sql(&database.0, "UPDATE landfall_ledger_meta SET value = '99' WHERE name = 'version'");
    let said = open(database.0.url(), funding()).await.err().expect("a refusal");
    assert!(said.contains("accounts of a newer Landfall (schema 99, this one knows 1)"), "{said}");
}

#[tokio::test]
async fn a_server_that_may_forget_is_refused_without_exception() {
    let server = MariaDb::start_with(&[("innodb-flush-log-at-trx-commit", "2")]);
    let server = server.expect("MariaDB starts");
    let said = open(server.url(), funding()).await.err().expect("a refusal");
    assert!(said.contains("innodb_flush_log_at_trx_commit is 2; set it to 1"), "{said}");
}
