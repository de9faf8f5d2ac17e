//! The ledger's side of an audit: what became of a transaction, and which transactions an account
//! signed, read back from the blocks themselves.
//!
//! **Rule:** whatever it says is the word of a quorum: what became of a transaction, which block
//! stands at a height, what a chunk holds. **Rule:** blocks are believed only as a chain: each must
//! name the one before it.
//! Not here: what should be on the ledger (the store says), verdicts (the binary's `audit`).

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::join_all;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use landfall_core::clock::Clock;
use landfall_core::rail::RailError;
use landfall_rpc::{Endpoints, RpcError, Said, shared, unavailable};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::answer::{self, Effect, Stage};
use crate::node::Nodes;

/// Questions in flight at once: an audit is in nobody's way.
const IN_FLIGHT: usize = 8;
/// Times a quorum is asked for what does not change: an answer may be lost.
const TRIES: usize = 3;
/// The root of a chunk without transactions.
const EMPTY_ROOT: &str = "11111111111111111111111111111111";

/// What the ledger says of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A quorum of nodes does not know it, or it was included as invalid and did nothing.
    Unknown,
    /// Known, but not final, or not by a quorum of nodes.
    Unsettled,
    /// Final, and all of its actions took effect: whom its `ft_transfer`s paid, in order.
    Done(Vec<(String, u128)>),
    /// Final, and all of its actions were reverted.
    Reverted,
}

/// A transaction found in a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub hash: String,
    pub public_key: String,
    pub receiver: String,
    pub height: u64,
}

/// What a walk over the blocks found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    pub found: Vec<Found>,
    pub blocks: u64,
    /// The nodes keep no blocks below this height, though the walk was to begin below.
    pub gone_below: Option<u64>,
}

/// Reads the ledger for an audit.
pub struct Auditor {
    nodes: Nodes,
}

/// A block with what its chunks are called.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    height: u64,
    hash: String,
    prev_hash: String,
    prev_height: Option<u64>,
    chunks: Vec<String>,
}

impl Auditor {
    pub fn new(endpoints: Endpoints, clock: Arc<dyn Clock>, network: String) -> Auditor {
        Auditor { nodes: Nodes::new(endpoints, clock, network, None) }
    }

    /// The newest final block that a quorum of nodes has reached.
    pub async fn final_height(&self) -> Result<u64, RailError> {
        Ok(self.nodes.final_block().await?.height)
    }

    /// What became of a transaction.
    pub async fn seen(&self, hash: &str, signer: &str, token: &str) -> Result<Seen, RailError> {
        self.nodes.introduce().await?;
        // A quorum that does not know it proves nothing while a node that may know it is not asked.
        self.nodes.introduce_all().await;
        let params = json!({"tx_hash": hash, "sender_account_id": signer, "wait_until": "NONE"});
        let said = self.ask_all("tx", &params, |answer| read_tx(answer, hash, token)).await;
        let quorum = self.nodes.endpoints.quorum();
        match shared(&said, quorum) {
            // What one node has, a quorum that does not have it does not disprove.
            Some(Seen::Unknown) if said.iter().any(|one| one.fact != Seen::Unknown) => {
                Ok(Seen::Unsettled)
            }
            Some(seen) => Ok(seen.clone()),
            None if said.len() >= quorum => Ok(Seen::Unsettled),
            None => Err(unavailable("too few nodes say what became of a transaction")),
        }
    }

    /// Every transaction that `signer` signed in the blocks `from..=to`, which must be final.
    pub async fn walk(
        &self,
        signer: &str,
        from: u64,
        to: u64,
        progress: impl Fn(u64),
    ) -> Result<Walk, RailError> {
        self.nodes.introduce().await?;
        let mut walk = Walk::default();
        let mut last: Option<Block> = None;
        let blocks = stream::iter(from..=to).map(|height| self.at(height, signer));
        let mut blocks = blocks.buffered(IN_FLIGHT);
        while let Some((height, at)) = blocks.try_next().await? {
            progress(height);
            let Some((block, found)) = at else { continue };
            match &last {
                Some(before) if before.hash != block.prev_hash => {
                    return Err(unavailable(format!(
                        "block {} does not follow block {}: a node leaves blocks out",
                        block.height, before.height
                    )));
                }
                None if block.height > from
                    && block.prev_height.is_some_and(|before| before >= from) =>
                {
                    walk.gone_below = Some(block.height);
                }
                _ => {}
            }
            walk.blocks += 1;
            walk.found.extend(found);
            last = Some(block);
        }
        match last.is_some_and(|block| block.height == to) {
            true => Ok(walk),
            false => Err(unavailable(format!("no node shows block {to}"))),
        }
    }

    /// The block at a height with the signer's transactions; none where the height was skipped.
    async fn at(
        &self,
        height: u64,
        signer: &str,
    ) -> Result<(u64, Option<(Block, Vec<Found>)>), RailError> {
        let params = json!({"block_id": height});
        let Some(block) = self.told("block", &params, "UNKNOWN_BLOCK", read_block).await? else {
            return Ok((height, None));
        };
        let mut found = Vec::new();
        for chunk in &block.chunks {
            let params = json!({"chunk_id": chunk});
            let read = |raw: &Value| Some(read_chunk(raw, signer, height));
            let told = self.told("chunk", &params, "UNKNOWN_CHUNK", read).await?;
            found.extend(told.ok_or_else(|| unavailable(format!("no nodes show chunk {chunk}")))?);
        }
        Ok((height, Some((block, found))))
    }

    /// What a quorum answers; none if a quorum knows no such thing.
    async fn told<T: PartialEq + Clone>(
        &self,
        method: &str,
        params: &Value,
        unknown: &str,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, RailError> {
        let quorum = self.nodes.endpoints.quorum();
        for _ in 0..TRIES {
            let heard = |answer: Result<Box<RawValue>, RpcError>| match answer {
                Ok(raw) => read(&serde_json::from_str(raw.get()).ok()?).map(Some),
                Err(RpcError::Answered(error)) if error.cause_name == unknown => Some(None),
                Err(_) => None,
            };
            let said = self.ask_all(method, params, heard).await;
            if let Some(fact) = shared(&said, quorum) {
                return Ok(fact.clone());
            }
        }
        Err(unavailable(format!("no quorum of nodes agrees about {method} {params}")))
    }

    /// What each node that is introduced says, as far as it can be read.
    async fn ask_all<T>(
        &self,
        method: &str,
        params: &Value,
        read: impl Fn(Result<Box<RawValue>, RpcError>) -> Option<T>,
    ) -> Vec<Said<T>> {
        let asked = self.nodes.introduced().into_iter().map(|endpoint| async move {
            (endpoint, self.nodes.endpoints.call_on(endpoint, method, params).await)
        });
        let answers = join_all(asked).await.into_iter();
        answers
            .filter_map(|(endpoint, answer)| Some(Said { endpoint, fact: read(answer)? }))
            .collect()
    }
}

/// What one node says; none if it says nothing that can be read.
fn read_tx(answer: Result<Box<RawValue>, RpcError>, hash: &str, token: &str) -> Option<Seen> {
    let raw = match answer {
        Ok(raw) => raw,
        Err(RpcError::Answered(error)) if error.cause_name == "UNKNOWN_TRANSACTION" => {
            return Some(Seen::Unknown);
        }
        Err(_) => return None,
    };
    let view = answer::tx(&raw).ok()?;
    let whole: Value = serde_json::from_str(raw.get()).ok()?;
    let transaction = &whole["transaction"];
    match (view.stage, view.effect) {
        (_, Effect::Invalid(_)) => Some(Seen::Unknown),
        (Stage::Final, Effect::Done) if transaction["hash"] == hash => {
            let to_token = transaction["receiver_id"] == token;
            Some(Seen::Done(if to_token { payments(&transaction["actions"])? } else { Vec::new() }))
        }
        (Stage::Final, Effect::Reverted(_)) if transaction["hash"] == hash => Some(Seen::Reverted),
        (Stage::Final, _) => None,
        _ => Some(Seen::Unsettled),
    }
}

/// Whom the `ft_transfer` actions pay, in order; none if one cannot be read.
fn payments(actions: &Value) -> Option<Vec<(String, u128)>> {
    let calls = actions.as_array()?.iter().filter_map(|action| action.get("FunctionCall"));
    let transfers = calls.filter(|call| call["method_name"] == "ft_transfer");
    transfers
        .map(|call| {
            let bytes = STANDARD.decode(call["args"].as_str()?).ok()?;
            let args: Value = serde_json::from_slice(&bytes).ok()?;
            let amount = args["amount"].as_str()?.parse().ok()?;
            Some((args["receiver_id"].as_str()?.to_owned(), amount))
        })
        .collect()
}

fn read_block(raw: &Value) -> Option<Block> {
    let header = &raw["header"];
    let height = header["height"].as_u64()?;
    let chunks = raw["chunks"].as_array()?.iter();
    // A chunk that was missed is repeated from an earlier block, where it was read already.
    let new = chunks.filter(|chunk| chunk["height_included"] == height);
    let filled = new.filter(|chunk| chunk["tx_root"] != EMPTY_ROOT);
    Some(Block {
        height,
        hash: header["hash"].as_str()?.to_owned(),
        prev_hash: header["prev_hash"].as_str()?.to_owned(),
        prev_height: header["prev_height"].as_u64(),
        chunks: filled
            .map(|chunk| chunk["chunk_hash"].as_str().map(str::to_owned))
            .collect::<Option<Vec<String>>>()?,
    })
}

fn read_chunk(raw: &Value, signer: &str, height: u64) -> Vec<Found> {
    let all = raw["transactions"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all.filter(|transaction| transaction["signer_id"] == signer)
        .map(|transaction| Found {
            hash: text(&transaction["hash"]),
            public_key: text(&transaction["public_key"]),
            receiver: text(&transaction["receiver_id"]),
            height,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payments_are_read_from_the_actions_of_the_ledger() {
        let args = STANDARD.encode(r#"{"receiver_id":"alice.near","amount":"7"}"#);
        let deposit = STANDARD.encode(r#"{"account_id":"alice.near"}"#);
        let actions = json!([
            {"FunctionCall": {"method_name": "storage_deposit", "args": deposit}},
            {"FunctionCall": {"method_name": "ft_transfer", "args": args}},
            {"Transfer": {"deposit": "0"}},
        ]);
        assert_eq!(payments(&actions), Some(vec![("alice.near".to_owned(), 7)]));
        let unreadable = json!([{"FunctionCall": {"method_name": "ft_transfer", "args": "%"}}]);
        assert_eq!(payments(&unreadable), None);
    }

    fn chunk(hash: &str, height: u64, root: &str) -> Value {
        json!({"chunk_hash": hash, "height_included": height, "tx_root": root})
    }

    #[test]
    fn a_repeated_or_empty_chunk_is_not_read() {
        let raw = json!({
            "header": {"height": 9, "hash": "h", "prev_hash": "g", "prev_height": 8},
            "chunks": [chunk("a", 9, "x"), chunk("b", 8, "x"), chunk("c", 9, EMPTY_ROOT)],
        });
        let block = read_block(&raw).expect("readable");
        assert_eq!(block.chunks, ["a"]);
        assert!(read_block(&json!({})).is_none());
    }

    #[test]
    fn only_the_signers_own_transactions_are_found() {
        let raw = json!({"transactions": [
            {"signer_id": "relay.near", "hash": "1", "public_key": "k", "receiver_id": "token"},
            {"signer_id": "other.near", "hash": "2", "public_key": "k", "receiver_id": "token"},
        ]});
        let found = read_chunk(&raw, "relay.near", 5);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].hash.as_str(), found[0].height), ("1", 5));
    }
}
