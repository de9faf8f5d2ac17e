//! Takes the testimony of nodes: asks each, in the order that makes its answers evidence.
//!
//! **Rule:** all of a statement comes from one endpoint, the final block first and the transaction
//! last. **Rule:** what can be read by a block's hash is read by it: an endpoint may be many
//! nodes behind one name.
//! Not here: what the testimony proves (`witness`).

use futures::future::join_all;
use landfall_core::Attempt;
use landfall_core::attempt::{BaseBlock, Sighting};
use landfall_core::guard::{self, Guard};
use landfall_core::rail::RailError;
use landfall_core::wound::{self, Wound};
use landfall_rpc::unavailable;
use serde_json::json;

use crate::answer::{BlockView, Effect, Stage, TxView};
use crate::encode::Stored;
use crate::node::{At, Chained, Nodes, Sight};
use crate::witness::{Testimony, Witness};

/// One node's part in a look.
pub enum Statement {
    Witness(Witness),
    Seen(TxView),
    /// Nothing is decided at its final block: no use asking on.
    Early,
}

/// What every node is asked.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    pub attempt: &'a Attempt,
    pub stored: &'a Stored,
    /// The block in which a later attempt of ours landed.
    pub passing: Option<u64>,
    /// How many blocks a transaction lives, if that is configured; else each node tells.
    pub validity: Option<u64>,
}

/// Takes one node's statement, in the order that makes it evidence.
pub async fn testify(
    nodes: &Nodes,
    question: Question<'_>,
    endpoint: usize,
) -> (usize, Result<Statement, RailError>) {
    (endpoint, statement(nodes, question, endpoint).await)
}

async fn statement(
    nodes: &Nodes,
    question: Question<'_>,
    endpoint: usize,
) -> Result<Statement, RailError> {
    let Question { attempt, stored, passing, .. } = question;
    let (account, key) = (stored.signer.as_str(), stored.public_key.as_str());
    let at_final = nodes.key_on(endpoint, account, key, At::Final).await?;
    let (final_height, nonce) = (at_final.height, at_final.value.map(|key| key.nonce));
    let used = nonce.is_some_and(|nonce| nonce >= attempt.nonce.0);
    let expires_height = match !used && final_height > expiry(attempt) {
        true => expiry_on(nodes, attempt, question.validity, endpoint).await?,
        false => expiry(attempt),
    };
    let early = too_early(final_height, expires_height);
    let expired = final_height.saturating_add(early) > expires_height;
    if final_height > expiry(attempt) && !expired {
        guard::met(Guard::NotExpiredYet);
    }
    let decides = used || expired;
    if decides && !wound::is(Wound::HistoryUnchecked) {
        // An error here means that the node does not keep the history: it is no witness.
        let base = nodes.key_on(endpoint, account, key, At::Hash(&base(attempt)?.hash)).await;
        base.inspect_err(|_| guard::met(Guard::HistoryGone))?;
    }
    let passed = match passing {
        Some(height) if decides && height <= final_height => {
            Some(passed_at(nodes, endpoint, attempt, stored, height).await?)
        }
        _ => None,
    };
    let holding = passed.as_ref().filter(|passed| passed.holds_it);
    let sight = match nodes.tx_on(endpoint, &attempt.hash, account).await? {
        Sight::Unknown if holding.is_some() => {
            guard::met(Guard::InPassingBlock);
            return Err(unavailable("it is in the block that passed its nonce"));
        }
        Sight::Unknown => Testimony::Unknown,
        Sight::Known(view) => match &view.effect {
            Effect::Invalid(reason) => {
                let elsewhere = holding.filter(|one| view.block_hash.as_ref() != Some(&one.block));
                if elsewhere.is_some() && !wound::is(Wound::InvalidOverBlock) {
                    guard::met(Guard::InvalidElsewhere);
                    let why = "invalid in one block, and in the block that passed its nonce too";
                    return Err(unavailable(why));
                }
                Testimony::Invalid(reason.clone())
            }
            _ if view.stage == Stage::None => Testimony::Unknown,
            _ => return Ok(Statement::Seen(view)),
        },
    };
    if !decides {
        return Ok(Statement::Early);
    }
    let nonce_before = passed.and_then(|passed| passed.nonce_before);
    Ok(Statement::Witness(Witness {
        endpoint: nodes.endpoints.origin(endpoint).to_owned(),
        number: endpoint,
        final_height,
        expires_height: expires_height.saturating_sub(early),
        nonce,
        nonce_before,
        sight,
    }))
}

/// The mistake of a wounded build: how many blocks before its end an attempt counts as expired.
fn too_early(final_height: u64, expires_height: u64) -> u64 {
    const EARLY: u64 = 20;
    let alive = final_height <= expires_height;
    let is_near = alive && final_height.saturating_add(EARLY) > expires_height;
    if is_near && wound::is(Wound::ExpiresEarly) { EARLY } else { 0 }
}

/// Until when these bytes can land, as this node has it: the height of their base block and the
/// life of a transaction were one node's word when they were signed.
pub async fn expiry_on(
    nodes: &Nodes,
    attempt: &Attempt,
    validity: Option<u64>,
    endpoint: usize,
) -> Result<u64, RailError> {
    let base = match nodes.block_on(endpoint, json!(base(attempt)?.hash)).await? {
        Chained::Block(block) => block.height,
        Chained::Unknown => return Err(unavailable("the node does not keep the base block")),
    };
    let validity = match validity {
        Some(blocks) => blocks,
        None => nodes.validity_on(endpoint).await?,
    };
    Ok(expiry(attempt).max(base.saturating_add(validity)))
}

/// The block its bytes refer to. Everything signed here has one: what has none is nobody's to judge
/// here.
fn base(attempt: &Attempt) -> Result<&BaseBlock, RailError> {
    attempt.base.as_ref().ok_or_else(|| unavailable("the attempt names no base block"))
}

/// The last height at which its bytes can be included, as it was noted when they were signed: what
/// has none never expires.
pub fn expiry(attempt: &Attempt) -> u64 {
    attempt.expires_height.unwrap_or(u64::MAX)
}

/// The block in which a later attempt of ours landed.
struct Passed {
    block: String,
    /// The key's nonce in the block before.
    nonce_before: Option<u64>,
    /// The attempt is in that very block.
    holds_it: bool,
}

/// Reads the block at this height and the state before it, both by hash. An endpoint may be many
/// nodes behind one name, and the one that says "unknown" may lag behind the one that showed the
/// final block: but before this block the nonce was not used, after it the attempt is dead, and
/// what is in it can be read.
async fn passed_at(
    nodes: &Nodes,
    endpoint: usize,
    attempt: &Attempt,
    stored: &Stored,
    height: u64,
) -> Result<Passed, RailError> {
    let block = match nodes.block_on(endpoint, json!(height)).await? {
        Chained::Block(block) => block,
        Chained::Unknown => {
            return Err(unavailable(format!("no block {height} where a later attempt landed")));
        }
    };
    let at = At::Hash(&block.prev_hash);
    let key = nodes.key_on(endpoint, &stored.signer, &stored.public_key, at).await?.value;
    let holds_it = holds(nodes, endpoint, &block, &attempt.hash).await?;
    Ok(Passed { block: block.hash, nonce_before: key.map(|key| key.nonce), holds_it })
}

/// Whether a block holds a transaction, as this node has it.
async fn holds(
    nodes: &Nodes,
    endpoint: usize,
    block: &BlockView,
    hash: &str,
) -> Result<bool, RailError> {
    let mut holds = false;
    for chunk in &block.chunks {
        holds |= nodes.chunk_on(endpoint, chunk).await?.iter().any(|one| one == hash);
    }
    Ok(holds)
}

/// Why a stored sighting forbids the certificate; none if a quorum refutes each of them.
pub async fn veto(
    nodes: &Nodes,
    attempt: &Attempt,
    witnesses: &[Witness],
) -> Result<Option<String>, RailError> {
    let quorum = nodes.endpoints.quorum();
    for sighting in &attempt.sightings {
        let refuting = match sighting.block_hash.as_str() {
            "" => unnamed_refuted(nodes, attempt, sighting, witnesses),
            block => {
                let asked =
                    witnesses.iter().map(|one| is_not_in(nodes, one.number, block, &attempt.hash));
                join_all(asked).await.into_iter().filter(|not_in| *not_in).count()
            }
        };
        if refuting < quorum {
            guard::met(Guard::SightingVeto);
            return Ok(Some(format!(
                "{} has seen it in block {:?}, which may be on the final chain",
                sighting.endpoint, sighting.block_hash
            )));
        }
        guard::met(Guard::SightingRefuted);
        if sighting.was_final {
            catch_forger(nodes, attempt, sighting);
        }
    }
    Ok(None)
}

/// How many refute a sighting in a block that was not named. A transaction that was executed has
/// used its nonce from its block on: whoever shows the nonce below it, at the last block in which
/// it could have landed or just before the one that holds who passed it, shows that no block
/// executed it. Where the key is gone, whoever saw it must itself not have it any more.
fn unnamed_refuted(
    nodes: &Nodes,
    attempt: &Attempt,
    sighting: &Sighting,
    witnesses: &[Witness],
) -> usize {
    let named = (0..nodes.endpoints.count())
        .filter(|one| nodes.endpoints.origin(*one) == sighting.endpoint)
        .count();
    let recanting = witnesses.iter().filter(|one| one.endpoint == sighting.endpoint).count();
    match recanting >= named.max(1) {
        true => nodes.endpoints.quorum(),
        false => witnesses.iter().filter(|one| one.shows_it_never_ran(attempt)).count(),
    }
}

/// Whether this node shows that a block is not on its chain (unknown to it, or another stands at
/// its height), or that it does not hold the transaction. The node keeps the history and is past
/// whatever decided the attempt.
async fn is_not_in(nodes: &Nodes, endpoint: usize, block: &str, hash: &str) -> bool {
    let height = match nodes.block_on(endpoint, json!(block)).await {
        Ok(Chained::Unknown) => return true,
        Ok(Chained::Block(found)) => found.height,
        Err(_) => return false,
    };
    match nodes.block_on(endpoint, json!(height)).await {
        Ok(Chained::Block(found)) if found.hash == block => {
            holds(nodes, endpoint, &found, hash).await == Ok(false)
        }
        Ok(_) => true,
        Err(_) => false,
    }
}

/// A node called final what is in no final block.
fn catch_forger(nodes: &Nodes, attempt: &Attempt, sighting: &Sighting) {
    let same = |one: &usize| nodes.endpoints.origin(*one) == sighting.endpoint;
    let forgers: Vec<usize> = (0..nodes.endpoints.count()).filter(same).collect();
    // Of several behind one name nobody knows which it was.
    if let [forger] = forgers[..] {
        let (hash, block) = (&attempt.hash, &sighting.block_hash);
        nodes.endpoints.catch(
            forger,
            format!("{hash}: final in block {block}"),
            format!("{hash}: not in block {block}, or that block is not on the chain"),
        );
    }
}
