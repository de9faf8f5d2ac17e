//! The built-in account service behind internal transfers.
//!
//! Users hold assets; a relay moves them from one service to another by `withdraw`, `deposit`,
//! `commit` and `rollback`. Each is done once per request id, whatever is repeated, late or lost,
//! and its answer stays the same for ever, refusals too. docs/services.md is the contract.
//!
//! [`rules`] decides, purely. A [`Book`] keeps what was decided: [`MemoryBook`], the reference, and
//! [`SqliteBook`]; those on a server have rooms of their own and share [`sheet`]. [`serve`] puts a
//! book on HTTP; [`sim`] does so badly, on purpose. [`audit`] tells whether a statement adds
//! up; [`conformance`] is what every book and every service must pass.
//! **Invariant:** balances change by recorded operations alone, in the same commit.
//! Not here: transfers between services (the engine's), calling services (the rail's).

pub mod audit;
pub mod book;
pub mod conformance;
pub mod faults;
pub mod memory;
pub mod rules;
pub mod server;
pub mod sheet;
pub mod sim;
pub mod sqlite;
mod words;

pub use book::{Balances, Book, BookError, Span, Statement};
pub use faults::{Faults, FaultsPatch};
pub use memory::MemoryBook;
pub use server::{router, serve};
pub use sim::SimServices;
pub use sqlite::{OpenError, SqliteBook, SqliteOptions};
pub use words::{
    AccountId, Answer, Balance, Contract, Entry, Key, Kind, NoUuid, Operation, Outcome, Refusal,
    ReqId, Terms, Verb,
};
