//! The book on a real MariaDB, under the checks that every book passes, and what only a server
//! that many use can suffer.

mod crash;
mod opening;

use std::sync::Arc;

use async_trait::async_trait;
use landfall_conformance::ManualClock;
use landfall_ledger::conformance::{
    Direct, Reached, Shelf, exercise_book, exercise_service, exercise_shelf, new_book,
    new_book_of_three,
};
use landfall_ledger::{Book, Contract};
use landfall_ledger_mysql::{MysqlBook, MysqlOptions};
use landfall_servers::MariaDb;

/// A server with its books.
struct Database(MariaDb);

impl Database {
    fn new() -> Database {
        Database(MariaDb::start().expect("MariaDB starts"))
    }
}

async fn open(url: &str, contract: Contract) -> Result<Arc<dyn Book>, String> {
    match MysqlBook::open(url, contract, MysqlOptions::default()).await {
        Ok(book) => Ok(Arc::new(book)),
        Err(error) => Err(error.to_string()),
    }
}

#[async_trait]
impl Shelf for Database {
    async fn open(&self, contract: Contract) -> Result<Arc<dyn Book>, String> {
        open(self.0.url(), contract).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_mysql_book_passes_the_checks_of_every_book() {
    let database = Database::new();
    exercise_book(async |kind| new_book(&database, kind).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn three_instances_of_one_service_pass_the_checks_of_one() {
    let database = Database::new();
    exercise_book(async |kind| new_book_of_three(&database, kind).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_services_share_a_database() {
    exercise_shelf(async || Arc::new(Database::new()) as Arc<dyn Shelf>).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_service_keeps_the_contract() {
    let database = Database::new();
    let start = async |kind| {
        let book = new_book(&database, kind).await;
        Arc::new(Direct::new(book, Arc::new(ManualClock::at(77)))) as Arc<dyn Reached>
    };
    exercise_service(start).await;
}
