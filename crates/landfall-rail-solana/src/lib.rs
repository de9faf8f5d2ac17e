//! The Solana rail's own knowledge: what a withdraw from a shield pool is, how it is asked for,
//! what it costs, how it is signed, what a node's refusal and a failure mean.
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
//! Pure: no node is asked here, so that every rule can be tried by itself.
//! **Invariant:** a refusal is certain only if it is in a closed table ([`refusal`]); what is not
//! in it proves nothing.

pub mod answer;
pub mod encode;
pub mod fees;
pub mod keys;
pub mod refusal;
pub mod request;
pub mod shield;
pub mod testimony;
pub mod trouble;
