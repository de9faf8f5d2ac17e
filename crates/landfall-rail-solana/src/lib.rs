//! The Solana rail: withdraws from a shield pool, one nullifier spends once.
//!
//! | module | holds |
//! |---|---|
//! | [`shield`] | the pool: its accounts and what they say, its fee, a withdraw |
//! | [`request`] | withdraws as clients ask for them, checked |
//! | [`encode`] | from a withdraw to signed bytes, and back to what they do |
//! | [`keys`] | fee payers |
//! | [`fees`] | what is offered to be in a block soon |
//! | [`refusal`] | what an answer to a broadcast proves |
//! | [`trouble`] | what the error of a transaction means for its withdraw |
//! | [`answer`] | nodes' answers, as far as a fate depends on them |
//! | [`testimony`] | what nodes say of one attempt, and what it comes to |
//!
//! Those are pure: no node is asked there, so that every rule can be tried by itself. On top of
//! them:
//!
//! | module | holds |
//! |---|---|
//! | [`settings`] | how a pool is used |
//! | [`node`] | the questions that nodes are asked |
//! | [`base`] | what is signed on, and offered, as a quorum has it |
//! | [`roots`] | which roots the pool knows, for the door |
//! | [`preflight`] | a withdraw is tried before it is signed |
//! | [`spender`] | who has spent a nullifier |
//! | [`recent`] | what nodes have said lately, 256 transactions at a time |
//! | [`look`] | what nodes show of an attempt |
//! | [`rail`] | the seam |
//! | [`audit`] | what an audit asks beyond that |
//!
//! **Invariant:** a refusal is certain only if it is in a closed table ([`refusal`]); what is not
//! in it proves nothing.

pub mod answer;
pub mod audit;
pub mod base;
pub mod encode;
pub mod fees;
pub mod keys;
pub mod look;
pub mod node;
pub mod preflight;
pub mod rail;
pub mod recent;
pub mod refusal;
pub mod request;
pub mod roots;
pub mod settings;
pub mod shield;
pub mod spender;
pub mod testimony;
pub mod trouble;

pub use keys::Key;
pub use rail::{BadSettings, SolanaRail};
pub use settings::SolanaSettings;
pub use solana_address::Address;
