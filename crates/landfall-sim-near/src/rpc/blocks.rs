//! Blocks and chunks. Roots and signatures that nothing here computes are derived from the hash.

use std::sync::Arc;

use near_crypto::{KeyType, Signature};
use near_primitives::bandwidth_scheduler::BandwidthRequests;
use near_primitives::gas::Gas;
use near_primitives::hash::CryptoHash;
use near_primitives::types::{
    Balance, BlockHeight, BlockId, BlockReference, ShardId, SyncCheckpoint,
};
use near_primitives::views::{
    BlockHeaderView, BlockView, ChunkHeaderView, ChunkView, CongestionInfoView,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::ledger::View;
use super::super::ledger::block::{Block, FINALITY_BLOCKS, derived};
use super::super::ledger::fees::{GAS_PRICE, TGAS};
use super::super::ledger::verify::PROTOCOL_VERSION;
use super::answer::{Failure, Reason};
use super::query::height_of;
use super::{parse, validator};

const CHUNK_GAS_LIMIT: u64 = 1_000 * TGAS;
/// yoctoNEAR in existence, as in the captures.
const TOTAL_SUPPLY: u128 = 2_050_000_000_000_000_000_000_000_000_000_000;

#[derive(Deserialize)]
#[serde(untagged)]
enum ChunkRequest {
    Chunk { chunk_id: CryptoHash },
    BlockShard { block_id: BlockId, shard_id: u64 },
}

pub fn block(view: View, params: Value) -> Result<Value, Failure> {
    let reference = match &params {
        Value::Array(items) => {
            BlockReference::BlockId(parse(items.first().cloned().unwrap_or(Value::Null))?)
        }
        _ => parse(params)?,
    };
    let found = find(view, &reference, "BLOCK")?;
    Ok(serde_json::to_value(block_view(view, found)).expect("views are JSON"))
}

pub fn chunk(view: View, params: Value) -> Result<Value, Failure> {
    let request = match &params {
        Value::Array(items) => json!({ "chunk_id": items.first() }),
        _ => params,
    };
    let found = match parse(request)? {
        ChunkRequest::Chunk { chunk_id } => {
            let known = view.ledger.chain().by_chunk(&chunk_id);
            known
                // Who has forgotten which transactions there were does not invent an empty chunk.
                .filter(|block| view.block_by_hash(&block.hash).is_some() && !view.amnesic)
                .ok_or_else(|| Failure::of(Reason::UnknownChunk(chunk_id)))?
        }
        ChunkRequest::BlockShard { shard_id: 0, block_id } => {
            find(view, &BlockReference::BlockId(block_id), "BLOCK")?
        }
        ChunkRequest::BlockShard { shard_id, .. } => {
            return Err(Failure::of(Reason::InvalidShard(shard_id)));
        }
    };
    let transactions = found.transactions.iter().map(|signed| signed.as_ref().clone().into());
    let chunk = ChunkView {
        author: validator(),
        header: chunk_header(found),
        transactions: transactions.collect(),
        receipts: vec![],
    };
    Ok(serde_json::to_value(chunk).expect("views are JSON"))
}

pub fn gas_price(view: View, params: Value) -> Result<Value, Failure> {
    let block_id = match &params {
        Value::Array(items) => items.first().cloned().unwrap_or(Value::Null),
        other => other.get("block_id").cloned().unwrap_or(Value::Null),
    };
    if let Some(block_id) = parse::<Option<BlockId>>(block_id)? {
        find(view, &BlockReference::BlockId(block_id), "BLOCK HEADER")?;
    }
    Ok(json!({ "gas_price": Balance::from_yoctonear(GAS_PRICE) }))
}

/// Finds a block; `table` is where a real node would have looked last.
pub fn find<'a>(
    view: View<'a>,
    reference: &BlockReference,
    table: &str,
) -> Result<&'a Arc<Block>, Failure> {
    let chain = view.ledger.chain();
    let unknown = |what: String, below_head: bool| {
        Failure::of(Reason::UnknownBlock { reference: None, what, below_head })
    };
    let height: BlockHeight = match reference {
        BlockReference::BlockId(BlockId::Hash(hash)) => {
            let what = format!("{table}: {hash} \n Cause: Unknown");
            return view.block_by_hash(hash).ok_or_else(|| unknown(what, false));
        }
        BlockReference::BlockId(BlockId::Height(height)) => *height,
        BlockReference::Finality(finality) => height_of(view, finality),
        BlockReference::SyncCheckpoint(SyncCheckpoint::Genesis) => chain.genesis_height(),
        BlockReference::SyncCheckpoint(SyncCheckpoint::EarliestAvailable) => view.earliest,
    };
    if height > view.head {
        return Err(unknown(format!("BLOCK HEIGHT: {height} \n Cause: Unknown"), false));
    }
    view.block_at(height).ok_or_else(|| {
        let what = match chain.hash_at(height) {
            Some(hash) => format!("{table}: {hash} \n Cause: Unknown"),
            None => format!("BLOCK HEIGHT: {height} \n Cause: Unknown"),
        };
        unknown(what, true)
    })
}

fn block_view(view: View, block: &Block) -> BlockView {
    let chain = view.ledger.chain();
    let back = |blocks: u64| {
        let height = block.height.checked_sub(blocks);
        height.and_then(|height| chain.hash_at(height)).unwrap_or_default()
    };
    let epoch = view.ledger.genesis().settings.epoch_blocks.max(1);
    let epoch_id = |number: u64| derived(&CryptoHash::default(), &number.to_le_bytes());
    let signature = Signature::empty(KeyType::ED25519);
    let root = |name: &str| derived(&block.hash, name.as_bytes());
    let header = BlockHeaderView {
        height: block.height,
        prev_height: Some(block.height.saturating_sub(1)),
        epoch_id: epoch_id(block.height / epoch),
        next_epoch_id: epoch_id(block.height / epoch + 1),
        hash: block.hash,
        prev_hash: block.prev_hash,
        prev_state_root: root("prev_state_root"),
        block_body_hash: Some(root("block_body_hash")),
        chunk_headers_root: root("chunk_headers_root"),
        chunks_included: 1,
        timestamp: block.timestamp_ns,
        timestamp_nanosec: block.timestamp_ns,
        random_value: root("random_value"),
        chunk_mask: vec![true],
        gas_price: Balance::from_yoctonear(GAS_PRICE),
        block_ordinal: Some(block.height + 1),
        total_supply: Balance::from_yoctonear(TOTAL_SUPPLY),
        last_final_block: back(FINALITY_BLOCKS),
        last_ds_final_block: back(1),
        block_merkle_root: root("block_merkle_root"),
        approvals: vec![Some(Box::new(signature.clone()))],
        signature,
        latest_protocol_version: PROTOCOL_VERSION,
        chunk_endorsements: Some(vec![vec![1]]),
        ..BlockHeaderView::default()
    };
    BlockView { author: validator(), header, chunks: vec![chunk_header(block)] }
}

fn chunk_header(block: &Block) -> ChunkHeaderView {
    let root = |name: &str| derived(&block.chunk_hash, name.as_bytes());
    ChunkHeaderView {
        chunk_hash: block.chunk_hash,
        prev_block_hash: block.prev_hash,
        outcome_root: root("outcome_root"),
        prev_state_root: root("prev_state_root"),
        encoded_merkle_root: root("encoded_merkle_root"),
        encoded_length: 8 + block.transactions.iter().map(|it| it.get_size()).sum::<u64>(),
        height_created: block.height,
        height_included: block.height,
        shard_id: ShardId::new(0),
        gas_used: Gas::from_gas(block.gas_used),
        gas_limit: Gas::from_gas(CHUNK_GAS_LIMIT),
        rent_paid: Balance::ZERO,
        validator_reward: Balance::ZERO,
        balance_burnt: Balance::from_yoctonear(u128::from(block.gas_used) * GAS_PRICE),
        outgoing_receipts_root: root("outgoing_receipts_root"),
        tx_root: root("tx_root"),
        validator_proposals: vec![],
        congestion_info: Some(CongestionInfoView {
            delayed_receipts_gas: 0,
            buffered_receipts_gas: 0,
            receipt_bytes: 0,
            allowed_shard: 0,
        }),
        bandwidth_requests: Some(BandwidthRequests::empty()),
        proposed_split: Some(None),
        signature: Signature::empty(KeyType::ED25519),
    }
}
