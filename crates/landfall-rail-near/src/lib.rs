//! The NEAR rail: token payouts (NEP-141) and registrations (NEP-145), up to 100 in a transaction.
//!
//! ```text
//!  encode   bytes, by the ledger's own crates      answer    what a node says, as small views
//!  keys     the only secrets                       sort      THE TABLE: refused, sent, unsure
//!  rail     the seam, over all of it               outcome   whose fault a reverted batch is
//!  node     the questions, over the endpoints      look      landed, adrift, sunk: the certificates
//! ```
//!
//! **Invariant:** nothing is called sunk, unpaid or foreign but by a quorum of nodes that keep the
//! history, each asked after it had shown a final block that decides.
//! **Invariant:** a broadcast is one POST.
//!
//! Not here: transfers, the store, retries, nonces' order (`landfall-lanes`), sockets (`landfall-rpc`).

mod answer;
#[cfg(test)]
mod captures;
mod encode;
mod keys;
mod outcome;
mod sort;
