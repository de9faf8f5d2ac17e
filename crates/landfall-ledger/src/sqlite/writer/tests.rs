//! What is left of a transaction that was rolled back.

use crate::audit;
use crate::book::{Book, BookError};
use crate::sqlite::fault::corrupt;
use crate::words::{AccountId, Contract, Kind, Operation, ReqId, Terms};
use crate::{SqliteBook, SqliteOptions};

fn deposit(req_id: u128) -> Operation {
    let account = AccountId { user_id: 1, asset_id: 1 };
    let terms = Terms { account, amount: 5.try_into().expect("an amount") };
    Operation::Deposit { req_id: ReqId(req_id), terms, declined: false }
}

#[tokio::test]
async fn what_was_rolled_back_takes_no_line_of_the_statement() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("funding.db");
    let contract = Contract::new("funding", Kind::Freeze);
    let book = SqliteBook::open(path, contract, SqliteOptions::default()).expect("a new book");
    let faulty = book.write(|tx| {
        tx.apply(&deposit(1), 0)?;
        Err::<(), _>(corrupt("as it should"))
    });
    assert_eq!(faulty.await, Err(BookError::Corrupt("as it should".into())));
    book.apply(vec![deposit(2)], 0).await.expect("done");
    assert_eq!(audit::check(&book).await.expect("adds up").head(), 1);
}
