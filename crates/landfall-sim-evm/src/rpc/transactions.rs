//! Transactions: sent, looked up, and what they left behind.

use alloy_consensus::{Transaction as _, Typed2718};
use alloy_primitives::{Address, B256};
use serde_json::{Value, json};

use super::super::ledger::{Block, Transaction};
use super::words::{address, big_quantity, bytes, data, hash, quantity};
use super::{Failure, Node, Params};

pub fn send(node: &mut Node<'_>, params: Params<'_>) -> Result<Value, Failure> {
    let raw = bytes(params.text(0)?)?;
    if raw.is_empty() {
        return Err(Failure::new(-32000, "typed transaction too short"));
    }
    let sent = node.ledger.submit(node.index, raw);
    let sent = sent.map_err(|why| Failure::new(-32000, why))?;
    if node.forgets {
        node.ledger.keep_pooled(node.index, |pooled| pooled.hash != sent);
    }
    Ok(data(sent))
}

pub fn by_hash(node: &Node<'_>, params: Params<'_>) -> Result<Value, Failure> {
    let found = node.ledger.find(node.index, node.head(), &hash(params.text(0)?)?);
    Ok(found.map_or(Value::Null, |found| transaction_body(found.transaction, found.landed)))
}

pub fn receipt(node: &Node<'_>, params: Params<'_>) -> Result<Value, Failure> {
    let found = node.ledger.find(node.index, node.head(), &hash(params.text(0)?)?);
    let landed = found.and_then(|found| found.landed);
    Ok(landed.map_or(Value::Null, |(block, at)| receipt_body(block, at)))
}

/// All of a block.
pub fn receipts(node: &Node<'_>, params: Params<'_>) -> Result<Value, Failure> {
    let block = node.block_named(params.get(0)?)?;
    let all = |block: &Block| (0..block.receipts.len()).map(|at| receipt_body(block, at)).collect();
    Ok(block.map_or(Value::Null, all))
}

/// As a node shows it, in a block or in its pool.
pub fn transaction_body(transaction: &Transaction, landed: Option<(&Block, usize)>) -> Value {
    let envelope = &transaction.envelope;
    let signature = envelope.signature();
    let y_parity = u64::from(signature.v());
    let is_legacy = envelope.is_legacy();
    let chain_id = envelope.chain_id().unwrap_or_default();
    let base_fee = landed.and_then(|(block, _)| block.header.base_fee_per_gas);
    let gas_price = match landed {
        Some(_) => envelope.effective_gas_price(base_fee),
        None => envelope.max_fee_per_gas(),
    };
    let mut body = json!({
        "type": quantity(envelope.ty()),
        "chainId": quantity(chain_id),
        "nonce": quantity(transaction.nonce()),
        "gas": quantity(transaction.gas_limit()),
        "gasPrice": quantity(gas_price),
        "to": envelope.to().map(data),
        "value": big_quantity(envelope.value()),
        "input": data(envelope.input()),
        "r": big_quantity(signature.r()),
        "s": big_quantity(signature.s()),
        "v": quantity(if is_legacy { chain_id * 2 + 35 + y_parity } else { y_parity }),
        "hash": data(transaction.hash),
        "from": data(transaction.from),
        "blockHash": landed.map(|(block, _)| data(block.hash)),
        "blockNumber": landed.map(|(block, _)| quantity(block.number())),
        "transactionIndex": landed.map(|(_, at)| quantity(at as u64)),
    });
    if let Some((block, _)) = landed {
        body["blockTimestamp"] = quantity(block.header.timestamp);
    }
    if let Some(tip) = envelope.max_priority_fee_per_gas() {
        body["maxFeePerGas"] = quantity(envelope.max_fee_per_gas());
        body["maxPriorityFeePerGas"] = quantity(tip);
    }
    if !is_legacy {
        let accesses = envelope.access_list().into_iter().flat_map(|list| list.iter());
        let access = |item: &alloy_eips::eip2930::AccessListItem| {
            let keys: Vec<Value> = item.storage_keys.iter().map(data).collect();
            json!({ "address": data(item.address), "storageKeys": keys })
        };
        body["accessList"] = accesses.map(access).collect();
        body["yParity"] = quantity(y_parity);
    }
    body
}

fn receipt_body(block: &Block, at: usize) -> Value {
    let (transaction, receipt) = (&block.transactions[at], &block.receipts[at]);
    json!({
        "type": quantity(transaction.envelope.ty()),
        "status": quantity(u64::from(receipt.succeeded)),
        "cumulativeGasUsed": quantity(receipt.cumulative_gas),
        "logs": logs_of(block, at),
        "logsBloom": data(alloy_primitives::logs_bloom(&receipt.logs)),
        "transactionHash": data(transaction.hash),
        "transactionIndex": quantity(at as u64),
        "blockHash": data(block.hash),
        "blockNumber": quantity(block.number()),
        "gasUsed": quantity(receipt.gas_used),
        "effectiveGasPrice": quantity(receipt.gas_price),
        "from": data(transaction.from),
        "to": transaction.envelope.to().map(data),
        "contractAddress": Value::Null,
    })
}

/// The logs of the transaction at this place of the block.
fn logs_of(block: &Block, at: usize) -> Vec<Value> {
    let before = block.logs_before(at);
    let logs = block.receipts[at].logs.iter().enumerate();
    let log = |(number, log): (usize, &alloy_primitives::Log)| {
        let topics: Vec<Value> = log.topics().iter().map(data).collect();
        json!({
            "address": data(log.address),
            "topics": topics,
            "data": data(&log.data.data),
            "blockHash": data(block.hash),
            "blockNumber": quantity(block.number()),
            "blockTimestamp": quantity(block.header.timestamp),
            "transactionHash": data(block.transactions[at].hash),
            "transactionIndex": quantity(at as u64),
            "logIndex": quantity((before + number) as u64),
            "removed": false,
        })
    };
    logs.map(log).collect()
}

/// What a filter lets pass: any of these addresses, and at each place any of these topics.
struct Filter {
    addresses: Vec<Address>,
    topics: Vec<Vec<B256>>,
}

impl Filter {
    fn read(filter: &Value) -> Result<Filter, Failure> {
        let each = |value: &Value| -> Vec<String> {
            let texts = |value: &Value| value.as_str().map(str::to_owned);
            match value {
                Value::Array(many) => many.iter().filter_map(texts).collect(),
                one => texts(one).into_iter().collect(),
            }
        };
        let addresses = each(&filter["address"]);
        let addresses = addresses.iter().map(|one| address(one)).collect::<Result<_, _>>()?;
        let topics = filter["topics"].as_array().cloned().unwrap_or_default();
        let topics = topics.iter().map(|place| each(place).iter().map(|one| hash(one)).collect());
        Ok(Filter { addresses, topics: topics.collect::<Result<_, _>>()? })
    }

    fn passes(&self, log: &alloy_primitives::Log) -> bool {
        let wanted = |(at, any): (usize, &Vec<B256>)| {
            any.is_empty() || log.topics().get(at).is_some_and(|topic| any.contains(topic))
        };
        (self.addresses.is_empty() || self.addresses.contains(&log.address))
            && self.topics.iter().enumerate().all(wanted)
    }
}

pub fn logs(node: &Node<'_>, params: Params<'_>) -> Result<Value, Failure> {
    let asked = params.get(0)?;
    let filter = Filter::read(asked)?;
    let (first, last) = match asked["blockHash"].as_str() {
        Some(wanted) => {
            let wanted = hash(wanted)?;
            let block = node.ledger.blocks().iter().find(|block| block.hash == wanted);
            let block = block.filter(|block| block.number() <= node.head());
            let unknown = || Failure::new(-32000, "unknown block");
            let number = block.ok_or_else(unknown)?.number();
            (number, number)
        }
        None => {
            let to = node.block_named(&asked["toBlock"])?.map_or(node.head(), Block::number);
            (node.state_named(&asked["fromBlock"])?, to)
        }
    };
    let mut found = Vec::new();
    for block in (first..=last).filter_map(|number| node.ledger.block(number)) {
        for at in 0..block.transactions.len() {
            let shown = logs_of(block, at).into_iter().zip(&block.receipts[at].logs);
            found.extend(shown.filter(|(_, log)| filter.passes(log)).map(|(shown, _)| shown));
        }
    }
    Ok(Value::Array(found))
}
