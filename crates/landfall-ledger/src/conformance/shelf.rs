//! A database in which many services keep their books, each opened by as many instances as like.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::future::join_all;

use super::{ALICE, AT_MS, Several, checks, deposit, run_checks};
use crate::audit;
use crate::book::{Book, Span};
use crate::words::{Answer, Contract, Kind};

/// Instances that start at the same time.
const INSTANCES: u128 = 8;

/// Where books are kept.
#[async_trait]
pub trait Shelf: Send + Sync {
    /// Opens the book of a service, which is new if there was none; else what is said instead.
    async fn open(&self, contract: Contract) -> Result<Arc<dyn Book>, String>;
}

/// The book of a service that nobody had yet. Books of one shelf see nothing of each other.
pub async fn new_book(shelf: &dyn Shelf, kind: Kind) -> Arc<dyn Book> {
    shelf.open(new_service(kind)).await.expect("a book that opens")
}

/// The same, in the hands of three instances that know nothing of each other.
pub async fn new_book_of_three(shelf: &dyn Shelf, kind: Kind) -> Arc<dyn Book> {
    let service = new_service(kind);
    let open = async || shelf.open(service.clone()).await.expect("a book that opens");
    Arc::new(Several::new(open().await, vec![open().await, open().await]))
}

fn new_service(kind: Kind) -> Contract {
    static SERVICES: AtomicUsize = AtomicUsize::new(0);
    Contract::new(format!("service-{}", SERVICES.fetch_add(1, Ordering::Relaxed)), kind)
}

/// A shelf under examination, and the kind of the services on it.
pub(super) struct Shelved {
    shelf: Arc<dyn Shelf>,
    kind: Kind,
}

/// Runs all checks of shelves. `make` gives one with nothing on it.
pub async fn exercise_shelf(make: impl AsyncFn() -> Arc<dyn Shelf>) {
    run_checks(&[CHECKS], async |kind| Shelved { shelf: make().await, kind }).await;
}

checks!(Shelved:
    a_reopened_book_goes_on_where_it_ended,
    services_of_one_shelf_share_nothing,
    a_service_of_that_name_but_another_kind_is_refused,
    many_instances_that_start_at_once_find_one_book,
);

impl Shelved {
    async fn open(&self, name: &str) -> Arc<dyn Book> {
        self.shelf.open(Contract::new(name, self.kind)).await.expect("a book that opens")
    }
}

async fn credit(book: &dyn Book, id: u128) {
    let told = book.apply(vec![deposit(id, ALICE, 5)], AT_MS).await;
    assert_eq!(told, Ok(vec![Answer::DONE]));
}

async fn head(book: &dyn Book) -> u64 {
    audit::check(book).await.expect("the statement adds up").head()
}

async fn a_reopened_book_goes_on_where_it_ended(on: Shelved) {
    for round in 0..3 {
        let book = on.open("funding").await;
        credit(book.as_ref(), round).await;
        assert_eq!(u128::from(head(book.as_ref()).await), round + 1);
    }
}

async fn services_of_one_shelf_share_nothing(on: Shelved) {
    let (funding, trading) = (on.open("funding").await, on.open("trading").await);
    credit(funding.as_ref(), 1).await;
    let seen = trading.statement(Span::after(0, 10)).await.expect("a statement");
    assert_eq!((seen.entries, seen.head), (vec![], 0));
    assert_eq!(trading.accounts(ALICE.user_id).await, Ok(vec![]));
}

async fn a_service_of_that_name_but_another_kind_is_refused(on: Shelved) {
    drop(on.open("funding").await);
    let other = if on.kind == Kind::Freeze { Kind::Direct } else { Kind::Freeze };
    let said = on.shelf.open(Contract::new("funding", other)).await.err().expect("a refusal");
    let (kind, other) = (on.kind.name(), other.name());
    let meant = format!("has the book of funding ({kind}), not of funding ({other})");
    assert!(said.contains(&meant), "{said}");
}

async fn many_instances_that_start_at_once_find_one_book(on: Shelved) {
    let on = Arc::new(on);
    let starting = (0..INSTANCES).map(|number| {
        let on = on.clone();
        tokio::spawn(async move { credit(on.open("funding").await.as_ref(), number).await })
    });
    for started in join_all(starting).await {
        started.expect("no instance fails");
    }
    assert_eq!(u128::from(head(on.open("funding").await.as_ref()).await), INSTANCES);
}
