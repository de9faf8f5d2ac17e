//! Calls that are not signed here but handed to an OpenZeppelin Relayer over its HTTP API.
//!
//! | module | holds |
//! |---|---|
//! | [`settings`] | where a relayer is and how it is spoken to |
//! | [`handover`] | what is handed over, as it is stored, and the mark by which it is known again |
//! | [`wire`] | bodies of requests, and what a relayer tells of a transaction |
//! | [`sort`] | the table: what the answer to a POST says |
//! | [`adopt`] | which of a relayer's transactions is ours |
//! | [`client`] | one relayer |
//! | [`relayers`] | several of them: health, load |
//! | [`pursuit`] | what is known of those on their way |
//! | [`rail`] | the seam |
//!
//! Such a relayer takes the same request any number of times and pays each, answers or not, and
//! forgets.
//! **Invariant:** one handover is one POST, ever; nothing here makes a second.
//! **Invariant:** after a POST that may have arrived only a look at the relayer's own transactions
//! and at the chain tells anything; what neither decides is an operator's.
//! **Rule:** failed, expired and canceled are a relayer's words, and prove nothing.

pub mod adopt;
pub mod client;
pub mod handover;
pub mod pursuit;
pub mod rail;
pub mod relayers;
pub mod settings;
pub mod sort;
pub mod wire;

pub use adopt::{Found, Listing};
pub use client::Relayer;
pub use handover::Handover;
pub use rail::{HANDED_OVER, RelayerRail};
pub use relayers::Relayers;
pub use settings::{BadRelayer, RelayerSettings, Routes};
pub use sort::Taken;
pub use wire::{Status, Told};
