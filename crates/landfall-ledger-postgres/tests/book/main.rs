//! The book on a real PostgreSQL, under the checks that every book passes, and what only a server
//! that many use can suffer.

mod crash;
mod opening;
mod service;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use landfall_ledger::conformance::{Several, exercise_book};
use landfall_ledger::{AccountId, Book, Contract, Kind, Operation, ReqId, Terms};
use landfall_ledger_postgres::{PostgresBook, PostgresOptions};
use landfall_servers::Postgres;

fn server() -> Postgres {
    Postgres::start().expect("PostgreSQL starts")
}

fn contract(kind: Kind) -> Contract {
    let name = if kind == Kind::Freeze { "funding" } else { "trading" };
    Contract::new(name, kind)
}

async fn open(url: &str, contract: Contract) -> PostgresBook {
    let book = PostgresBook::open(url, contract, PostgresOptions::default()).await;
    book.expect("a book that opens")
}

fn deposit(id: u128) -> Operation {
    let account = AccountId { user_id: 1, asset_id: 1 };
    let terms = Terms { account, amount: 5.try_into().expect("an amount") };
    Operation::Deposit { req_id: ReqId(id), terms, declined: false }
}

/// Books of new names in one database: none may see anything of the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_postgres_book_passes_the_checks_of_every_book() {
    let server = server();
    let books = AtomicUsize::new(0);
    let make = async |kind| {
        let name = format!("book-{}", books.fetch_add(1, Ordering::Relaxed));
        Arc::new(open(server.url(), Contract::new(name, kind)).await) as Arc<dyn Book>
    };
    exercise_book(make).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn three_instances_of_one_service_pass_the_checks_of_one() {
    let server = server();
    let books = AtomicUsize::new(0);
    let make = async |kind| {
        let name = format!("book-{}", books.fetch_add(1, Ordering::Relaxed));
        let one = async || open(server.url(), Contract::new(&name, kind)).await;
        let others = vec![one().await, one().await];
        Arc::new(Several::new(one().await, others)) as Arc<dyn Book>
    };
    exercise_book(make).await;
}
