//! Opening: what is found in the file, and who else is there.

use std::path::Path;

use landfall_ledger::audit;
use landfall_ledger::{AccountId, Book, Contract, Kind, SqliteBook, SqliteOptions};
use landfall_ledger::{Operation, ReqId, Terms};
use rusqlite::Connection;

fn refusal(path: &Path, contract: Contract) -> String {
    match SqliteBook::open(path, contract, SqliteOptions::default()) {
        Ok(_) => panic!("opened {}", path.display()),
        Err(error) => error.to_string(),
    }
}

fn funding() -> Contract {
    super::contract(Kind::Freeze)
}

#[tokio::test]
async fn a_reopened_book_goes_on_where_it_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("deep/funding.db");
    let account = AccountId { user_id: 1, asset_id: 1 };
    let terms = Terms { account, amount: 5.try_into().expect("an amount") };
    for round in 0..3 {
        let book = super::open(&path, Kind::Freeze);
        let req_id = ReqId(round);
        let deposit = Operation::Deposit { req_id, terms, declined: false };
        book.apply(vec![deposit], 0).await.expect("done");
        let tally = audit::check(&book).await.expect("adds up");
        assert_eq!(u128::from(tally.head()), round + 1);
    }
}

#[test]
fn a_second_writer_is_refused_until_the_first_is_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("funding.db");
    let first = super::open(&path, Kind::Freeze);
    assert!(refusal(&path, funding()).contains("in use by another Landfall process; stop that"));
    super::open(&folder.path().join("trading.db"), Kind::Direct);
    drop(first);
    super::open(&path, Kind::Freeze);
}

#[test]
fn the_book_of_another_service_or_kind_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("funding.db");
    drop(super::open(&path, Kind::Freeze));
    let other_kind = Contract::new("funding", Kind::Direct);
    let said = refusal(&path, other_kind);
    assert!(said.contains("is the book of funding (freeze), not of funding (direct)"), "{said}");
    assert!(refusal(&path, Contract::new("savings", Kind::Freeze)).contains("not of savings"));
}

#[test]
fn a_newer_schema_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("funding.db");
    drop(super::open(&path, Kind::Freeze));
    let db = Connection::open(&path).expect("a file");
    db.pragma_update(None, "user_version", 99).expect("written");
    drop(db);
    let said = refusal(&path, funding());
    assert!(said.contains("written by a newer Landfall (schema 99, this one knows 1)"), "{said}");
}

#[test]
fn what_is_no_book_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("text.db");
    std::fs::write(&text, "no database, whatever its name says".repeat(50)).expect("written");
    let before = std::fs::read(&text).expect("read");
    assert!(refusal(&text, funding()).contains("not the book of an account service"));
    assert_eq!(std::fs::read(&text).expect("read"), before);
    let foreign = folder.path().join("foreign.db");
    let db = Connection::open(&foreign).expect("a file");
    db.execute_batch("CREATE TABLE theirs (x)").expect("made");
    drop(db);
    assert!(refusal(&foreign, funding()).contains("another program's database"));
}
