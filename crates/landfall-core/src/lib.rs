//! Landfall's words and rules, with no I/O of their own.
//!
//! A [`Transfer`] is what a client asked for; an [`Attempt`] is one signed transaction that
//! carries transfers; a [`Lane`] is one signing key with one total order of attempts; a [`Move`]
//! is the only way a state changes. The seams ([`store`], [`queue`], [`cache`], [`ledger`],
//! [`rail`], [`clock`]) are small traits that every backend implements and one conformance suite
//! checks.
//!
//! Not here: tokio, sockets, files, any ledger's encoder.

pub mod accepting;
pub mod attempt;
pub mod cache;
pub mod claim;
pub mod clock;
pub mod courier;
mod decimal;
pub mod evm;
pub mod execution;
pub mod field;
pub mod guard;
pub mod ids;
pub mod internal;
pub mod lane;
pub mod ledger;
pub mod machine;
pub mod near;
pub mod opening;
pub mod plain;
pub mod queue;
pub mod rail;
pub mod solana;
pub mod store;
pub mod trail;
pub mod transfer;
pub mod wound;

pub use attempt::{
    Attempt, BaseBlock, Certificate, CertificateKind, Fate, Landing, Outcome, Purpose, Sighting,
    Variant, VariantKind,
};
pub use claim::{ClaimEnd, ClaimKey, Claimed};
pub use clock::Clock;
pub use courier::Courier;
pub use field::BadField;
pub use ids::{AttemptId, Epoch, Fingerprint, LaneId, Nonce, TransferId};
pub use lane::{Lane, Mark};
pub use machine::{AttemptStages, Event, Illegal, Payload, RailName, Stage, State};
pub use plain::plain;
pub use trail::{Fault, Note, TrailEntry, TrailEvent};
pub use transfer::{Move, NewTransfer, Transfer};
