//! What every book and every service must do, as checks that each of them runs.
//!
//! [`exercise_book`] is for implementations of `Book`; [`exercise_service`] is for whatever answers
//! the HTTP contract, ours or not; [`exercise_shelf`] is for databases that many services share.
//! Each check gets a fresh backend of each kind, and one run names all that failed. [`crash`] is
//! the work that a book does while it is killed, and the look at what is left.
//! **Rule:** no backend's words here. Not here: how a backend is started (each one's `tests/`).

mod book;
pub mod crash;
mod direct;
mod races;
mod service;
mod several;
mod shelf;

use std::num::NonZeroU64;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use crate::audit;
use crate::book::Book;
use crate::words::{AccountId, Answer, Kind, Operation, ReqId, Terms};
use several::Several;

pub use direct::{Direct, fund as fund_by_route, held as held_by_route};
pub use service::{Reached, exercise_service};
pub use shelf::{Shelf, exercise_shelf, new_book, new_book_of_three};

/// A user like any other.
pub const ALICE: AccountId = AccountId { user_id: 4001, asset_id: 1 };
/// Another one.
pub const BOB: AccountId = AccountId { user_id: 4002, asset_id: 1 };

/// When everything here happens.
const AT_MS: u64 = 1_700_000_000_000;

/// One behaviour, named by a sentence.
struct Check<W> {
    name: &'static str,
    run: fn(W) -> BoxFuture<'static, ()>,
}

/// Lists async functions as checks of the module.
macro_rules! checks {
    ($world:ty: $($name:ident),* $(,)?) => {
        pub(super) const CHECKS: &[$crate::conformance::Check<$world>] = &[
            $($crate::conformance::Check {
                name: stringify!($name),
                run: |world| Box::pin($name(world)),
            }),*
        ];
    };
}
use checks;

/// Runs every check in a world of its own of each kind; panics with the names of those that failed.
async fn run_checks<W>(checks: &[&[Check<W>]], make: impl AsyncFn(Kind) -> W) {
    let mut failed = Vec::new();
    for kind in [Kind::Freeze, Kind::Direct] {
        for check in checks.iter().copied().flatten() {
            let world = make(kind).await;
            if AssertUnwindSafe((check.run)(world)).catch_unwind().await.is_err() {
                failed.push(format!("{} ({})", check.name, kind.name()));
            }
        }
    }
    assert!(failed.is_empty(), "{} checks failed: {}", failed.len(), failed.join(", "));
}

/// A book under examination.
struct World {
    book: Arc<dyn Book>,
    kind: Kind,
}

/// Runs all checks of books. `make` opens a new, empty book of that kind.
pub async fn exercise_book(make: impl AsyncFn(Kind) -> Arc<dyn Book>) {
    let world = async |kind| {
        let book = make(kind).await;
        assert_eq!(book.contract().kind, kind, "the book is of another kind");
        World { book, kind }
    };
    run_checks(&[book::CHECKS, races::CHECKS], world).await;
}

fn terms(account: AccountId, amount: u64) -> Terms {
    Terms { account, amount: NonZeroU64::new(amount).expect("an amount") }
}

fn withdraw(id: u128, account: AccountId, amount: u64) -> Operation {
    Operation::Withdraw { req_id: ReqId(id), terms: terms(account, amount) }
}

fn deposit(id: u128, account: AccountId, amount: u64) -> Operation {
    let (req_id, terms) = (ReqId(id), terms(account, amount));
    Operation::Deposit { req_id, terms, declined: false }
}

fn commit(id: u128) -> Operation {
    Operation::Commit { req_id: ReqId(id) }
}

fn rollback(id: u128) -> Operation {
    Operation::Rollback { req_id: ReqId(id) }
}

fn fund(reference: &str, account: AccountId, amount: u64) -> Operation {
    Operation::Fund { reference: reference.into(), terms: terms(account, amount) }
}

impl World {
    async fn ask(&self, operation: Operation) -> Answer {
        let answers = self.book.apply(vec![operation], AT_MS).await.expect("an answer");
        let [answer] = answers.try_into().expect("one answer");
        answer
    }

    /// Asks and wants it done.
    async fn done(&self, operation: Operation) {
        assert_eq!(self.ask(operation.clone()).await, Answer::DONE, "{operation:?}");
    }

    /// Available and frozen.
    async fn held(&self, account: AccountId) -> (u64, u64) {
        let balances = self.book.accounts(account.user_id).await.expect("balances");
        let found = balances.iter().find(|balance| balance.account == account);
        found.map_or((0, 0), |balance| (balance.available, balance.frozen))
    }

    /// What is frozen while `amount` is withdrawn.
    fn frozen(&self, amount: u64) -> u64 {
        if self.kind == Kind::Freeze { amount } else { 0 }
    }

    /// Wants the whole statement to add up; returns how many lines it has.
    async fn adds_up(&self) -> u64 {
        audit::check(self.book.as_ref()).await.expect("the statement adds up").head()
    }
}
