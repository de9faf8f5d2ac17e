//! What accounts and contracts hold, and calls that change nothing.

use alloy_primitives::{Bytes, U256, hex};
use alloy_sol_types::{Revert, SolError};
use serde_json::Value;

use super::super::ledger::execute::CallError;
use super::super::ledger::natives::{CODE, COUNTER, Call, FORWARDER};
use super::super::ledger::transaction::intrinsic_gas;
use super::super::ledger::{BLOCK_GAS, Slot};
use super::words::{address, amount, big_quantity, bytes, data, quantity};
use super::{Failure, Node, Params};

pub fn transaction_count(node: &Node<'_>, params: Params<'_>) -> Result<Value, Failure> {
    let of = address(params.text(0)?)?;
    let named = params.or_null(1);
    let nonce = node.ledger.nonce_at(node.state_named(named)?, of);
    Ok(quantity(match named.as_str() {
        Some("pending") => node.ledger.pool(node.index).next_nonce(of, nonce),
        _ => nonce,
    }))
}

pub fn balance(node: &Node<'_>, params: Params<'_>) -> Result<Value, Failure> {
    let of = address(params.text(0)?)?;
    let block = node.state_named(params.or_null(1))?;
    Ok(big_quantity(node.ledger.slots().at(block, Slot::Balance(of))))
}

pub fn code(node: &Node<'_>, params: Params<'_>) -> Result<Value, Failure> {
    let of = address(params.text(0)?)?;
    node.state_named(params.or_null(1))?;
    Ok(data(if [FORWARDER, COUNTER].contains(&of) { CODE } else { &[] }))
}

pub fn call(node: &Node<'_>, params: Params<'_>) -> Result<Value, Failure> {
    let block = node.state_named(params.or_null(1))?;
    let result = node.ledger.try_call(block, &asked(params.get(0)?)?);
    result.map(|(output, _)| data(output)).map_err(refused)
}

/// The least gas with which it succeeds, found by halving, as nodes do.
pub fn estimate_gas(node: &Node<'_>, params: Params<'_>) -> Result<Value, Failure> {
    let block = node.state_named(params.or_null(1))?;
    let asked = asked(params.get(0)?)?;
    let tried = |gas: u64| node.ledger.try_call(block, &Call { gas, ..asked.clone() });
    let (_, used) = tried(asked.gas).map_err(refused)?;
    let (mut low, mut high) = (used.max(intrinsic_gas(&asked.input)) - 1, asked.gas);
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        match tried(middle) {
            Ok((_, used)) if used <= middle => high = middle,
            _ => low = middle,
        }
    }
    Ok(quantity(high))
}

fn asked(call: &Value) -> Result<Call, Failure> {
    let text = |name: &str| call.get(name).and_then(Value::as_str);
    let input = text("input").or(text("data")).map_or(Ok(Bytes::new()), bytes)?;
    let gas = amount(&call["gas"])?.and_then(|gas| gas.try_into().ok());
    Ok(Call {
        from: text("from").map_or(Ok(Default::default()), address)?,
        to: text("to").map_or(Ok(Default::default()), address)?,
        value: amount(&call["value"])?.unwrap_or(U256::ZERO),
        input,
        gas: gas.unwrap_or(BLOCK_GAS).min(BLOCK_GAS),
    })
}

fn refused(error: CallError) -> Failure {
    match error {
        CallError::Reverted(data) => {
            let message = match Revert::abi_decode(&data) {
                Ok(revert) => format!("execution reverted: {}", revert.reason()),
                Err(_) => "execution reverted".to_owned(),
            };
            Failure::new(3, message).with_data(hex::encode_prefixed(&data))
        }
        CallError::OutOfGas => Failure::new(-32000, "out of gas"),
        CallError::NoFunds => Failure::new(-32000, "insufficient funds for transfer"),
    }
}
