//! What nodes testify about an attempt, and what their testimony proves. Pure.
//!
//! A [`Witness`] is one node's statement, taken in this order, all of it from the same node: the
//! key's nonce at a final block; the key at the attempt's base block (so the node keeps that
//! history and tracks the shard); the key's nonce just before a later attempt of ours landed, and
//! what is in that block; and only then whether it knows the transaction. [`judge`] weighs them:
//! the NEAR row of the design's table.
//!
//! **Invariant:** a certificate needs a quorum of witnesses, each sufficient by itself. So does a
//! nonce that nobody of ours used, and they must name the same one.

use landfall_core::rail::Later;
use landfall_core::{Attempt, CertificateKind};
use serde::Serialize;

/// One node's statement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Witness {
    pub endpoint: String,
    /// Which of the configured endpoints it is.
    #[serde(skip)]
    pub number: usize,
    pub final_height: u64,
    /// The last block in which the attempt can land, as this node has it.
    pub expires_height: u64,
    /// The key's nonce at that final block; none if the key is not there.
    pub nonce: Option<u64>,
    /// The key's nonce just before the first later attempt of ours landed.
    pub nonce_before: Option<u64>,
    pub sight: Testimony,
}

impl Witness {
    /// Whether it shows by the key's nonce alone that no block has executed the attempt: the nonce
    /// is still below at a block past the expiry, or was just before the block that passed it,
    /// which this witness has read.
    pub fn shows_it_never_ran(&self, attempt: &Attempt) -> bool {
        let ours = attempt.nonce.0;
        let expired = self.final_height > self.expires_height;
        match (self.nonce, self.nonce_before) {
            (Some(nonce), _) if nonce < ours => expired,
            (Some(_), Some(before)) => before < ours,
            _ => false,
        }
    }
}

/// What a node says of the transaction, after it had shown its final block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Testimony {
    Unknown,
    /// Included as invalid: there it used no nonce and ran nothing.
    Invalid(String),
}

/// What the testimonies come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    Adrift(String),
    Sunk(CertificateKind),
    /// The nonce is used, and no stored attempt explains by whom. Holds the nonce that must be
    /// explained.
    Unexplained(u64),
}

/// The first later attempt of ours on the ledger, as far as is known: whose block's predecessor
/// tells whether it was ours that passed the nonce.
pub fn passing(later: &[Later]) -> Option<u64> {
    later.iter().filter_map(|one| one.landed_height).min()
}

/// Weighs the testimonies.
pub fn judge(
    attempt: &Attempt,
    later: &[Later],
    witnesses: &[Witness],
    quorum: usize,
) -> Judgement {
    let adrift = |why: &str| Judgement::Adrift(why.to_owned());
    if witnesses.len() < quorum {
        return Judgement::Adrift(format!(
            "{} of {quorum} nodes can testify: the others do not answer or do not keep the history",
            witnesses.len()
        ));
    }
    let ours = attempt.nonce.0;
    let used = |one: &&Witness| one.nonce.is_some_and(|nonce| nonce >= ours);
    let passed_by_us =
        |one: &&Witness| used(one) && one.nonce_before.is_some_and(|before| before < ours);
    if witnesses.iter().filter(passed_by_us).count() >= quorum {
        return Judgement::Sunk(CertificateKind::NoncePassed);
    }
    if witnesses.iter().filter(used).count() >= quorum {
        return unexplained(ours, later, witnesses, quorum);
    }
    if witnesses.iter().any(|one| used(&one)) {
        return adrift("the nodes do not agree yet that its nonce is passed");
    }
    let expired = |one: &&Witness| one.final_height > one.expires_height;
    if witnesses.iter().filter(expired).count() >= quorum {
        return Judgement::Sunk(CertificateKind::Expired);
    }
    adrift("no node has it; its nonce is not passed and its block hash still valid")
}

/// Used, but not provably by us: an open attempt of ours may have done it and not be settled yet.
fn unexplained(ours: u64, later: &[Later], witnesses: &[Witness], quorum: usize) -> Judgement {
    let adrift = |why: String| Judgement::Adrift(why);
    let before = witnesses.iter().filter_map(|one| one.nonce_before);
    let now = witnesses.iter().filter_map(|one| one.nonce);
    // The lowest use in sight is the one that passed ours, or the nearest to it.
    let Some(use_of) = used_by_quorum(before, ours, quorum).or(used_by_quorum(now, ours, quorum))
    else {
        return adrift("its nonce is passed, by whom the nodes do not agree yet".to_owned());
    };
    let is_invalid = |one: &Witness| matches!(one.sight, Testimony::Invalid(_));
    if use_of == ours && witnesses.iter().any(is_invalid) {
        // A node shows one outcome of a hash: this one may have been executed in another block.
        return adrift(
            "its nonce is used, and it is shown as invalid: it may have landed in another block, \
             which only an operator can tell"
                .to_owned(),
        );
    }
    let newest = later.iter().map(|one| one.nonce.0).max();
    let explained = later.iter().any(|one| one.nonce.0 == use_of);
    if explained || newest.is_some_and(|newest| use_of > newest) {
        return adrift(format!("nonce {use_of} passed it and is not settled yet"));
    }
    Judgement::Unexplained(use_of)
}

/// The nonce at or past ours that a quorum names, if one does.
fn used_by_quorum(nonces: impl Iterator<Item = u64>, ours: u64, quorum: usize) -> Option<u64> {
    let nonces: Vec<u64> = nonces.filter(|nonce| *nonce >= ours).collect();
    let named = |nonce: &u64| nonces.iter().filter(|other| *other == nonce).count() >= quorum;
    nonces.iter().copied().filter(named).min()
}

#[cfg(test)]
mod tests;
