//! Takes the testimony of nodes: asks each, in the order that makes its answers evidence.
//!
//! **Rule:** all of a statement comes from one endpoint, the final block first and the transaction
//! last. **Rule:** what can be read by a block's hash is read by it: an endpoint may be many
//! nodes behind one name.
//! Not here: what the testimony proves (`witness`).

use futures::future::join_all;
use landfall_core::Attempt;
use landfall_core::rail::RailError;
use serde_json::json;

use crate::answer::{self, Effect, Stage, TxView};
use crate::encode::Stored;
use crate::node::{At, Chained, Nodes, Sight, unavailable};
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
    let (final_height, nonce) = match nodes.key_on(endpoint, account, key, At::Final).await? {
        Some(view) => (view.block_height, Some(view.nonce)),
        // The key is gone: only the expiry can decide, by the node's final block.
        None => (final_height_on(nodes, endpoint).await?, None),
    };
    let used = nonce.is_some_and(|nonce| nonce >= attempt.nonce.0);
    let expires_height = match !used && final_height > attempt.expires_height {
        true => expiry_on(nodes, attempt, question.validity, endpoint).await?,
        false => attempt.expires_height,
    };
    let decides = used || final_height > expires_height;
    if decides {
        // An error here means that the node does not keep the history: it is no witness.
        nodes.key_on(endpoint, account, key, At::Hash(&attempt.base_block)).await?;
    }
    let passed = match passing {
        Some(height) if decides && height <= final_height => {
            Some(passed_at(nodes, endpoint, attempt, stored, height).await?)
        }
        _ => None,
    };
    let sight = match nodes.tx_on(endpoint, &attempt.hash, account).await? {
        Sight::Unknown if passed.as_ref().is_some_and(|passed| passed.holds_it) => {
            return Err(unavailable("it is in the block that passed its nonce"));
        }
        Sight::Unknown => Testimony::Unknown,
        Sight::Known(view) => match &view.effect {
            Effect::Invalid(reason) => Testimony::Invalid(reason.clone()),
            _ if view.stage == Stage::None => Testimony::Unknown,
            _ => return Ok(Statement::Seen(view)),
        },
    };
    if !decides {
        return Ok(Statement::Early);
    }
    let endpoint = nodes.endpoints.origin(endpoint).to_owned();
    let nonce_before = passed.and_then(|passed| passed.nonce_before);
    Ok(Statement::Witness(Witness {
        endpoint,
        final_height,
        expires_height,
        nonce,
        nonce_before,
        sight,
    }))
}

/// Until when these bytes can land, as this node has it: the height of their base block and the
/// life of a transaction were one node's word when they were signed.
pub async fn expiry_on(
    nodes: &Nodes,
    attempt: &Attempt,
    validity: Option<u64>,
    endpoint: usize,
) -> Result<u64, RailError> {
    let base = match nodes.block_on(endpoint, json!(attempt.base_block)).await? {
        Chained::Block(block) => block.height,
        Chained::Unknown => return Err(unavailable("the node does not keep the base block")),
    };
    let validity = match validity {
        Some(blocks) => blocks,
        None => nodes.validity_on(endpoint).await?,
    };
    Ok(attempt.expires_height.max(base.saturating_add(validity)))
}

async fn final_height_on(nodes: &Nodes, endpoint: usize) -> Result<u64, RailError> {
    let answer = nodes.endpoints.call_on(endpoint, "block", &json!({"finality": "final"})).await;
    let answer = answer.map_err(unavailable)?;
    Ok(answer::block(&answer).map_err(unavailable)?.height)
}

/// The block in which a later attempt of ours landed.
struct Passed {
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
    let key = nodes.key_on(endpoint, &stored.signer, &stored.public_key, at).await?;
    let mut holds_it = false;
    for chunk in &block.chunks {
        holds_it |= nodes.chunk_on(endpoint, chunk).await?.contains(&attempt.hash);
    }
    Ok(Passed { nonce_before: key.map(|key| key.nonce), holds_it })
}

/// Why a stored sighting forbids the certificate; none if all of them are refuted.
pub async fn veto(
    nodes: &Nodes,
    attempt: &Attempt,
    witnesses: &[Witness],
) -> Result<Option<String>, RailError> {
    for sighting in &attempt.sightings {
        if sighting.was_final {
            return Ok(Some(format!("{} has seen it final", sighting.endpoint)));
        }
        if sighting.block_hash.is_empty() {
            // Seen in a block that was not named: whoever saw it must itself not have it any more.
            let named = (0..nodes.endpoints.count())
                .filter(|one| nodes.endpoints.origin(*one) == sighting.endpoint)
                .count();
            let recanting = witnesses.iter().filter(|one| one.endpoint == sighting.endpoint);
            if recanting.count() < named.max(1) {
                return Ok(Some(format!("{} has seen it and is silent now", sighting.endpoint)));
            }
            continue;
        }
        let asked = nodes
            .introduced()
            .into_iter()
            .filter(|one| {
                let origin = nodes.endpoints.origin(*one);
                witnesses.iter().any(|witness| witness.endpoint == origin)
            })
            .map(|endpoint| off_chain(nodes, endpoint, &sighting.block_hash));
        let refuting = join_all(asked).await.into_iter().filter(|off| *off).count();
        if refuting < nodes.endpoints.quorum() {
            return Ok(Some(format!(
                "{} has seen it in block {}, which may be on the final chain",
                sighting.endpoint, sighting.block_hash
            )));
        }
    }
    Ok(None)
}

/// Whether this node shows that a block is not on its chain: unknown to it, or another stands at
/// its height. The node keeps the history and is past whatever decided the attempt.
async fn off_chain(nodes: &Nodes, endpoint: usize, hash: &str) -> bool {
    let height = match nodes.block_on(endpoint, json!(hash)).await {
        Ok(Chained::Unknown) => return true,
        Ok(Chained::Block(block)) => block.height,
        Err(_) => return false,
    };
    match nodes.block_on(endpoint, json!(height)).await {
        Ok(Chained::Block(block)) => block.hash != hash,
        Ok(Chained::Unknown) => true,
        Err(_) => false,
    }
}
