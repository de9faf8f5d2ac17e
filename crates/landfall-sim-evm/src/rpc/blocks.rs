//! Blocks and what they charge.

use alloy_consensus::Transaction as _;
use serde_json::{Value, json};

use super::super::ledger::Block;
use super::transactions::transaction_body;
use super::words::{big_quantity, data, hash, number, quantity};
use super::{Failure, Node, Params};

/// Wei per gas that the next block surely takes: nobody bids against a simulator's clients.
pub const SUGGESTED_TIP: u64 = 1_000_000_000;
/// Blocks that one question about fees may cover.
const HISTORY_MAX: u64 = 1_024;

pub fn by_number(node: &Node<'_>, params: Params<'_>) -> Result<Value, Failure> {
    let whole = params.get(1)?.as_bool().unwrap_or(false);
    let block = node.block_named(params.get(0)?)?;
    Ok(block.map_or(Value::Null, |block| body(block, whole)))
}

pub fn by_hash(node: &Node<'_>, params: Params<'_>) -> Result<Value, Failure> {
    let wanted = hash(params.text(0)?)?;
    let whole = params.get(1)?.as_bool().unwrap_or(false);
    let seen = node.ledger.blocks().iter().filter(|block| block.number() <= node.head());
    let block = seen.rev().find(|block| block.hash == wanted);
    Ok(block.map_or(Value::Null, |block| body(block, whole)))
}

fn body(block: &Block, whole: bool) -> Value {
    let header = &block.header;
    let transactions: Vec<Value> = match whole {
        true => {
            let landed = |at: usize| transaction_body(&block.transactions[at], Some((block, at)));
            (0..block.transactions.len()).map(landed).collect()
        }
        false => block.transactions.iter().map(|one| data(one.hash)).collect(),
    };
    json!({
        "hash": data(block.hash),
        "parentHash": data(header.parent_hash),
        "sha3Uncles": data(header.ommers_hash),
        "miner": data(header.beneficiary),
        "stateRoot": data(header.state_root),
        "transactionsRoot": data(header.transactions_root),
        "receiptsRoot": data(header.receipts_root),
        "logsBloom": data(header.logs_bloom),
        "difficulty": big_quantity(header.difficulty),
        "number": quantity(header.number),
        "gasLimit": quantity(header.gas_limit),
        "gasUsed": quantity(header.gas_used),
        "timestamp": quantity(header.timestamp),
        "extraData": data(&header.extra_data),
        "mixHash": data(header.mix_hash),
        "nonce": data(header.nonce),
        "baseFeePerGas": quantity(header.base_fee_per_gas.unwrap_or_default()),
        "size": quantity(header.size() as u64),
        "uncles": [],
        "transactions": transactions,
    })
}

pub fn gas_price(node: &Node<'_>) -> Value {
    let head = node.ledger.block(node.head());
    let base_fee = head.map_or(0, |head| node.ledger.next_base_fee(head));
    quantity(base_fee + SUGGESTED_TIP)
}

pub fn fee_history(node: &Node<'_>, params: Params<'_>) -> Result<Value, Failure> {
    let count = match params.get(0)? {
        Value::Number(count) => count.as_u64().unwrap_or(0),
        count => number(count.as_str().unwrap_or_default())?,
    };
    let newest = node.state_named(params.get(1)?)?;
    let percentiles: Vec<f64> = match params.or_null(2) {
        Value::Array(given) => given.iter().filter_map(Value::as_f64).collect(),
        _ => Vec::new(),
    };
    if count == 0 {
        return Ok(json!({ "oldestBlock": "0x0", "gasUsedRatio": Value::Null }));
    }
    let oldest = (newest + 1).saturating_sub(count.min(HISTORY_MAX));
    let blocks: Vec<&Block> = (oldest..=newest).filter_map(|at| node.ledger.block(at)).collect();
    let base_fee = |block: &&Block| quantity(block.header.base_fee_per_gas.unwrap_or_default());
    let mut base_fees: Vec<Value> = blocks.iter().map(base_fee).collect();
    base_fees.extend(blocks.last().map(|newest| quantity(node.ledger.next_base_fee(newest))));
    let ratio = |block: &&Block| block.header.gas_used as f64 / block.header.gas_limit as f64;
    let mut history = json!({
        "oldestBlock": quantity(oldest),
        "baseFeePerGas": base_fees,
        "gasUsedRatio": blocks.iter().map(ratio).collect::<Vec<f64>>(),
    });
    if !percentiles.is_empty() {
        let rewards = blocks.iter().map(|block| rewards(block, &percentiles));
        history["reward"] = rewards.collect();
    }
    Ok(history)
}

/// The tips at these percentiles of the block's gas.
fn rewards(block: &Block, percentiles: &[f64]) -> Value {
    let base_fee = block.header.base_fee_per_gas.unwrap_or_default();
    let tip = |at: usize| block.transactions[at].envelope.effective_tip_per_gas(base_fee);
    let mut tips: Vec<(u128, u64)> = (0..block.transactions.len())
        .map(|at| (tip(at).unwrap_or(0), block.receipts[at].gas_used))
        .collect();
    tips.sort_unstable();
    let at = |percentile: &f64| {
        let threshold = block.header.gas_used as f64 * percentile / 100.0;
        let mut used = 0;
        let reached = tips.iter().find(|(_, gas)| {
            used += gas;
            used as f64 >= threshold
        });
        quantity(reached.or(tips.last()).map_or(0, |(tip, _)| *tip))
    };
    percentiles.iter().map(at).collect()
}
