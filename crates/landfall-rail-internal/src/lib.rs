//! The rail between services: a user's funds leave one and reach the other, or return.
//!
//! ```text
//!  courier   the seam, over all of it           adapter      what a service must promise
//!  verdict   what each answer comes to (pure)   http         a service behind HTTP
//!  conformance  what every service must pass    sort         THE TABLE: what an answer says
//! ```
//!
//! **Invariant:** only a service's explicit refusal fails a transfer or undoes its first leg, and
//! only if a query does not contradict it; after a call whose answer was lost, if one confirms it.
//! **Invariant:** a call is one request. Whether to repeat it is decided here, never below.
//!
//! Not here: the machine (`landfall_core::internal`), the store, when to try again
//! (`landfall-engine`), sockets (`landfall-rpc`), accounts (`landfall-ledger`).

mod adapter;
pub mod conformance;
mod courier;
mod http;
mod sort;
mod verdict;

pub use adapter::{Answer, Leg, Operation, ServiceAdapter, Standing};
pub use courier::{BadServices, InternalRail};
pub use http::{BadSettings, HttpService, HttpSettings, Paths};

#[cfg(test)]
mod double;
