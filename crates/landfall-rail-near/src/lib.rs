//! The NEAR rail: token payouts (NEP-141) and registrations (NEP-145), up to 100 in a transaction.
//!
//! ```text
//!  rail       the seam, over all of it            encode    bytes, by the ledger's own crates
//!  look       landed, adrift, sunk                keys      the only secrets
//!  testimony  asks nodes for evidence             answer    what a node says, as small views
//!  witness    what evidence proves (pure)         sort      THE TABLE: refused, sent, unsure
//!  node       the questions, over the endpoints   outcome   whose fault a reverted batch is
//!  knowledge  known of the ledger for a while     settings  with their reasons
//!  audit      the ledger read back, for audits
//! ```
//!
//! **Invariant:** nothing is called sunk, unpaid or foreign but by a quorum of nodes that keep the
//! history, each asked after it had shown a final block that decides.
//! **Invariant:** a broadcast is one POST.
//!
//! Not here: transfers, the store, retries, nonces' order (`landfall-lanes`), sockets
//! (`landfall-rpc`).

mod answer;
mod audit;
#[cfg(test)]
mod captures;
mod encode;
mod keys;
mod knowledge;
mod look;
mod node;
mod outcome;
mod rail;
mod settings;
mod sort;
mod testimony;
mod witness;

pub use audit::{Auditor, Found, Seen, Walk};
pub use encode::{Limits, TGAS};
pub use keys::{BadKey, Key, lane_id, parse_lane_id};
pub use rail::{BadSettings, NearRail};
pub use settings::NearSettings;
