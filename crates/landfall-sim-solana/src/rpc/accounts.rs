//! Balances and accounts.

use serde_json::{Value, json};

use super::super::ledger::rent_minimum;
use super::words::{account, address};
use super::{Failure, Node, Params, in_context};

/// Accounts that may be asked for at once.
const ACCOUNTS_MAX: usize = 100;

pub fn balance(node: &Node<'_>, params: Params<'_>) -> Result<Value, Failure> {
    let of = address(params.text(0)?)?;
    let block = node.block_asked(params.or_null(1))?;
    let lamports = node.ledger.account(block.height, &of).map_or(0, |account| account.lamports);
    Ok(in_context(block.slot, json!(lamports)))
}

pub fn info(node: &Node<'_>, params: Params<'_>) -> Result<Value, Failure> {
    let of = address(params.text(0)?)?;
    let options = params.or_null(1);
    let block = node.block_asked(options)?;
    let shown = account(node.ledger.account(block.height, &of), options)?;
    Ok(in_context(block.slot, shown))
}

pub fn several(node: &Node<'_>, params: Params<'_>) -> Result<Value, Failure> {
    let (of, options) = (params.list(0)?, params.or_null(1));
    if of.len() > ACCOUNTS_MAX {
        return Err(Failure::params(format!("Too many inputs provided; max {ACCOUNTS_MAX}")));
    }
    let block = node.block_asked(options)?;
    let shown = of.iter().map(|one| {
        let of = address(one.as_str().unwrap_or_default())?;
        account(node.ledger.account(block.height, &of), options)
    });
    let shown: Vec<Value> = shown.collect::<Result<_, Failure>>()?;
    Ok(in_context(block.slot, json!(shown)))
}

pub fn rent(params: Params<'_>) -> Result<Value, Failure> {
    Ok(json!(rent_minimum(params.number(0)?)))
}
