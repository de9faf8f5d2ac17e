//! Slots, heights, blocks and their hashes, recent fees, the node itself.

use serde_json::{Value, json};
use solana_address::Address;

use super::super::ledger::{Block, HASH_AGE_MAX, Transaction};
use super::transactions::{transaction_body, version_of};
use super::words::{address, hash};
use super::{Commitment, Failure, Node, Params, in_context};

/// Slots behind the others at which a node calls itself unhealthy.
const HEALTHY_SLOTS: u64 = 128;
/// Blocks whose fees are told.
const FEE_BLOCKS: u64 = 150;
/// Slots that one question may cover.
const SLOTS_MAX: u64 = 500_000;
const EPOCH_SLOTS: u64 = 432_000;

pub fn health(node: &Node<'_>) -> Result<Value, Failure> {
    let behind = node.ledger.slot() - node.block(Commitment::Processed).slot;
    if behind <= HEALTHY_SLOTS {
        return Ok(json!("ok"));
    }
    let failure = Failure::new(-32005, format!("Node is behind by {behind} slots"));
    Err(failure.with_data(json!({ "numSlotsBehind": behind })))
}

pub fn latest_blockhash(node: &Node<'_>, params: Params<'_>) -> Result<Value, Failure> {
    let block = node.block_asked(params.or_null(0))?;
    let value = json!({
        "blockhash": block.hash.to_string(),
        "lastValidBlockHeight": block.height + HASH_AGE_MAX,
    });
    Ok(in_context(block.slot, value))
}

pub fn is_blockhash_valid(node: &Node<'_>, params: Params<'_>) -> Result<Value, Failure> {
    let wanted = hash(params.text(0)?)?;
    let block = node.block_asked(params.or_null(1))?;
    let height = node.ledger.height_of(&wanted).filter(|height| *height <= block.height);
    let is_valid = height.is_some_and(|height| block.height - height <= HASH_AGE_MAX);
    Ok(in_context(block.slot, json!(is_valid)))
}

pub fn epoch_info(node: &Node<'_>, params: Params<'_>) -> Result<Value, Failure> {
    let block = node.block_asked(params.or_null(0))?;
    let before = node.ledger.blocks().iter().take_while(|one| one.height <= block.height);
    let count: usize = before.map(|one| one.transactions.len()).sum();
    Ok(json!({
        "absoluteSlot": block.slot,
        "blockHeight": block.height,
        "epoch": block.slot / EPOCH_SLOTS,
        "slotIndex": block.slot % EPOCH_SLOTS,
        "slotsInEpoch": EPOCH_SLOTS,
        "transactionCount": count,
    }))
}

pub fn first_available(node: &Node<'_>) -> Value {
    json!(node.ledger.block(node.oldest()).map_or(0, |block| block.slot))
}

pub fn block(node: &Node<'_>, params: Params<'_>) -> Result<Value, Failure> {
    let (slot, options) = (params.number(0)?, params.or_null(1));
    let newest = node.block(Commitment::at_least_confirmed(options)?);
    if slot > newest.slot {
        let message = format!("Block not available for slot {slot}");
        return Err(Failure::new(-32004, message));
    }
    let Some(block) = node.ledger.block_in(slot) else {
        let message = format!("Slot {slot} was skipped, or missing in long-term storage");
        return Err(Failure::new(-32009, message));
    };
    if block.height < node.oldest() {
        let first = first_available(node);
        let message = format!("Block {slot} cleaned up, does not exist on node. First available");
        let failure = Failure::new(-32001, format!("{message} block: {first}"));
        return Err(failure.with_data(json!({ "firstAvailableBlock": first })));
    }
    let mut body = json!({
        "blockHeight": block.height,
        "blockTime": block.time_s,
        "blockhash": block.hash.to_string(),
        "parentSlot": block.parent_slot,
        "previousBlockhash": block.parent_hash.to_string(),
    });
    if options["rewards"].as_bool().unwrap_or(true) {
        body["rewards"] = json!([]);
    }
    match options["transactionDetails"].as_str().unwrap_or("full") {
        "none" => {}
        "signatures" => {
            let signatures = block.transactions.iter().map(|one| one.signature.to_string());
            body["signatures"] = signatures.collect();
        }
        _ => {
            let places = 0..block.transactions.len();
            let bodies = places.map(|at| {
                let mut shown = transaction_body(block, at, options)?;
                version_of(&block.transactions[at], options, &mut shown)?;
                Ok(shown)
            });
            body["transactions"] = json!(bodies.collect::<Result<Vec<Value>, Failure>>()?);
        }
    }
    Ok(body)
}

pub fn blocks(node: &Node<'_>, params: Params<'_>) -> Result<Value, Failure> {
    let first = params.number(0)?;
    let options = if params.or_null(1).is_object() { params.or_null(1) } else { params.or_null(2) };
    let newest = node.block(Commitment::at_least_confirmed(options)?).slot;
    let last = params.or_null(1).as_u64().unwrap_or(newest).min(newest);
    if last.saturating_sub(first) > SLOTS_MAX {
        return Err(Failure::params(format!("Slot range too large; max {SLOTS_MAX}")));
    }
    let within = |block: &&Block| (first..=last).contains(&block.slot);
    let slots = node.ledger.blocks().iter().filter(within).map(|block| block.slot);
    Ok(json!(slots.collect::<Vec<u64>>()))
}

/// For each recent block, the least that was paid to write to all of these accounts.
pub fn recent_fees(node: &Node<'_>, params: Params<'_>) -> Result<Value, Failure> {
    let none = Vec::new();
    let asked = params.or_null(0).as_array().unwrap_or(&none);
    let asked = asked.iter().map(|one| address(one.as_str().unwrap_or_default()));
    let asked: Vec<Address> = asked.collect::<Result<_, Failure>>()?;
    let newest = node.height(Commitment::Processed);
    let oldest = (newest + 1).saturating_sub(FEE_BLOCKS);
    let told = (oldest..=newest)
        .filter_map(|height| node.ledger.block(height))
        .map(|block| json!({ "slot": block.slot, "prioritizationFee": fee_of(block, &asked) }));
    Ok(told.collect())
}

fn fee_of(block: &Block, asked: &[Address]) -> u64 {
    let writes = |one: &Transaction, to: &Address| {
        let at = one.keys().iter().position(|key| key == to);
        at.is_some_and(|at| one.is_writable(at))
    };
    let least = |to: &Address| {
        let writers = block.transactions.iter().filter(|one| writes(one, to));
        writers.map(|one| one.price).min().unwrap_or(0)
    };
    asked.iter().map(least).max().unwrap_or(0)
}
