//! The account service: its books and its HTTP under the checks that every one of them passes,
//! faults on the way, and what only a file can suffer.

mod crash;
mod http;
mod opening;
mod simulated;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use landfall_ledger::conformance::exercise_book;
use landfall_ledger::{Book, Contract, Kind, MemoryBook, SqliteBook, SqliteOptions};

fn contract(kind: Kind) -> Contract {
    let name = if kind == Kind::Freeze { "funding" } else { "trading" };
    Contract::new(name, kind)
}

fn open(path: &Path, kind: Kind) -> SqliteBook {
    let book = SqliteBook::open(path, contract(kind), SqliteOptions::default());
    book.expect("a book that opens")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_memory_book_passes_the_checks_of_every_book() {
    exercise_book(async |kind| Arc::new(MemoryBook::new(contract(kind))) as Arc<dyn Book>).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_sqlite_book_passes_the_checks_of_every_book() {
    let folder = tempfile::tempdir().expect("a folder");
    let books = AtomicUsize::new(0);
    let make = async |kind| {
        let number = books.fetch_add(1, Ordering::Relaxed);
        Arc::new(open(&folder.path().join(format!("{number}.db")), kind)) as Arc<dyn Book>
    };
    exercise_book(make).await;
}
