//! A small store as a release leaves it, for the releases after it.
//!
//! [`fill`] writes one of everything that a store keeps. Each store's fixture example writes it
//! with the layout of its day, and `tests/earlier` keeps that for good; [`finish`] is what a later
//! build must find there once it has brought the layout up to date, and then brings everything in
//! it to its end.
//! **Rule:** `fill` changes only together with the fixtures of a new layout. What is kept is never
//! written anew.

mod fill;
mod finish;

pub use fill::fill;
pub use finish::finish;

use landfall_core::LaneId;
use landfall_core::claim::ClaimKey;

/// A lane in the middle of its work.
fn working() -> LaneId {
    LaneId::new("near:testnet:relay.near:ed25519:working")
}

/// A lane that stands still, with a payment and a fence under way.
fn halted() -> LaneId {
    LaneId::new("near:testnet:relay.near:ed25519:halted")
}

/// A lane that was leased once, and never started.
fn unused() -> LaneId {
    LaneId::new("near:testnet:relay.near:ed25519:unused")
}

fn registered(account: &str) -> ClaimKey {
    ClaimKey { space: "near-registered:testnet:token.near".into(), key: account.into() }
}
