//! The NEAR rail: token payouts (NEP-141) and registrations (NEP-145), up to 100 in a transaction.
//!
//! ```text
//!  rail       the seam, over all of it            encode    bytes, by the ledger's own crates
//!  look       landed, adrift, sunk                keys      the only secrets
//!  corroborate  what a quorum says ended it       answer    what a node says, as small views
//!  testimony  asks nodes for evidence             sort      THE TABLE: refused, sent, unsure
//!  witness    what evidence proves (pure)         outcome   whose fault a reverted batch is
//!  refusals   who refuses a broadcast             settings  with their reasons
//!  node       the questions, over the endpoints   audit     the ledger read back, for audits
//!  knowledge  known of the ledger for a while
//! ```
//!
//! **Invariant:** no node is believed alone. Nothing is called landed, reverted, refused, sunk or
//! foreign but by a quorum of nodes; sunk only by those that keep the history, each asked after it
//! had shown a final block that decides.
//! **Invariant:** a broadcast is one POST to one node, and one more for each that refuses it.
//!
//! Not here: transfers, the store, retries, nonces' order (`landfall-lanes`), sockets
//! (`landfall-rpc`).

mod answer;
mod audit;
#[cfg(test)]
mod captures;
mod corroborate;
mod encode;
mod keys;
mod knowledge;
mod look;
mod node;
mod outcome;
mod rail;
mod refusals;
mod settings;
mod sort;
mod testimony;
mod witness;

pub use audit::{Auditor, Found, Seen, Walk};
pub use encode::{Limits, TGAS};
pub use keys::{BadKey, Key, lane_id, parse_lane_id};
pub use rail::{BadSettings, NearRail};
pub use settings::NearSettings;
