//! Opening: what is found on the server, and who else is there.

use std::process::Command;
use std::sync::Arc;

use landfall_ledger::{Book, Contract, Kind, Span, audit};
use landfall_ledger_postgres::{PostgresBook, PostgresOptions};
use landfall_servers::{Postgres, PostgresOptions as ServerOptions};

use crate::{contract, deposit, open, server};

async fn refusal(url: &str, contract: Contract) -> String {
    match PostgresBook::open(url, contract, PostgresOptions::default()).await {
        Ok(_) => panic!("opened"),
        Err(error) => error.to_string(),
    }
}

fn sql(server: &Postgres, statement: &str) {
    let mut psql = Command::new("psql");
    psql.args(["-q", "-v", "ON_ERROR_STOP=1", "-d", server.url(), "-c", statement]);
    let done = psql.output().expect("psql runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[tokio::test]
async fn a_reopened_book_goes_on_where_it_ended() {
    let server = server();
    for round in 0..3 {
        let book = open(server.url(), contract(Kind::Freeze)).await;
        book.apply(vec![deposit(round)], 0).await.expect("done");
        let tally = audit::check(&book).await.expect("adds up");
        assert_eq!(u128::from(tally.head()), round + 1);
    }
}

#[tokio::test]
async fn services_of_one_database_share_nothing_but_the_server() {
    let server = server();
    let funding = open(server.url(), contract(Kind::Freeze)).await;
    let trading = open(server.url(), contract(Kind::Direct)).await;
    funding.apply(vec![deposit(1)], 0).await.expect("done");
    let seen = trading.statement(Span::after(0, 10)).await.expect("a statement");
    assert_eq!((seen.entries, seen.head), (vec![], 0));
    assert_eq!(trading.accounts(1).await, Ok(vec![]));
}

#[tokio::test]
async fn a_service_of_that_name_but_another_kind_is_refused() {
    let server = server();
    drop(open(server.url(), contract(Kind::Freeze)).await);
    let said = refusal(server.url(), Contract::new("funding", Kind::Direct)).await;
    assert!(said.contains("has the book of funding (freeze), not of funding (direct)"), "{said}");
}

#[tokio::test]
async fn a_newer_schema_and_foreign_tables_are_refused() {
    let server = server();
    drop(open(server.url(), contract(Kind::Freeze)).await);
    sql(&server, "UPDATE landfall_ledger.meta SET value = '99' WHERE name LIKE '%schema'");
    let said = refusal(server.url(), contract(Kind::Freeze)).await;
    assert!(said.contains("accounts of a newer Landfall (schema 99, this one knows 1)"), "{said}");
    sql(&server, "DROP SCHEMA landfall_ledger CASCADE; CREATE SCHEMA landfall_ledger");
    sql(&server, "CREATE TABLE landfall_ledger.theirs (x int)");
    let said = refusal(server.url(), contract(Kind::Freeze)).await;
    assert!(said.contains("that are not an account service's"), "{said}");
}

#[tokio::test]
async fn a_server_that_may_forget_is_refused_without_exception() {
    let settings = vec![("synchronous_commit".into(), "off".into())];
    let options = ServerOptions { settings, ..ServerOptions::default() };
    let server = Postgres::start_with(options).expect("PostgreSQL starts");
    let said = refusal(server.url(), contract(Kind::Freeze)).await;
    assert!(said.contains("its synchronous_commit is off; set synchronous_commit = on"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_instances_that_start_at_once_find_one_book() {
    let server = Arc::new(server());
    let starting: Vec<_> = (0..8)
        .map(|number| {
            let server = server.clone();
            tokio::spawn(async move {
                let book = open(server.url(), contract(Kind::Freeze)).await;
                book.apply(vec![deposit(number)], 0).await.expect("done");
            })
        })
        .collect();
    for started in starting {
        started.await.expect("no instance fails");
    }
    let book = open(server.url(), contract(Kind::Freeze)).await;
    assert_eq!(audit::check(&book).await.expect("adds up").head(), 8);
}
