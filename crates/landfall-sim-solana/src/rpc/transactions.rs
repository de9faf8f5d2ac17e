//! Transactions: sent, tried, looked up.

use serde_json::{Value, json};
use solana_transaction::versioned::TransactionVersion;
use solana_transaction_error::TransactionError;

use super::super::ledger::execute::Executed;
use super::super::ledger::transaction::SIGNATURE_FEE;
use super::super::ledger::{Block, Meta, Place, Transaction};
use super::chain::health;
use super::words::{address, base64_of, signature, transaction};
use super::{Commitment, Failure, Node, Params, in_context};

/// Signatures that one question may be about.
const STATUSES_MAX: usize = 256;
/// Blocks whose transactions a node knows without searching.
const RECENT_BLOCKS: u64 = 300;
/// Signatures of an account that are told at once.
const SIGNATURES_MAX: u64 = 1_000;

pub fn send(node: &mut Node<'_>, params: Params<'_>) -> Result<Value, Failure> {
    let (text, options) = (params.text(0)?, params.or_null(1));
    let sent = transaction(text, options)?;
    if options["skipPreflight"].as_bool() != Some(true) {
        if !sent.is_signed() {
            let message = "Transaction signature verification failure";
            return Err(Failure::new(-32003, message));
        }
        health(node)?;
        let at = json!({
            "commitment": options["preflightCommitment"],
            "minContextSlot": options["minContextSlot"],
        });
        let tried = attempt(node, &sent, node.block_asked(&at)?.height);
        if let Some(error) = &tried.error {
            return Err(refused(error, &tried));
        }
    }
    let shown = json!(sent.signature.to_string());
    if !node.forgets {
        node.ledger.submit(node.index, sent);
    }
    Ok(shown)
}

fn refused(error: &TransactionError, tried: &Meta) -> Failure {
    let logs = match tried.logs.len() {
        0 => String::new(),
        count => format!(": {count} log messages:\n{}", tried.logs.join("\n")),
    };
    let message = format!("Transaction simulation failed: {error}{logs}");
    Failure::new(-32002, message).with_data(simulated(tried))
}

pub fn simulate(node: &Node<'_>, params: Params<'_>) -> Result<Value, Failure> {
    let (text, options) = (params.text(0)?, params.or_null(1));
    let mut asked = transaction(text, options)?;
    let block = node.block_asked(options)?;
    let verify = options["sigVerify"].as_bool() == Some(true);
    let replace = options["replaceRecentBlockhash"].as_bool() == Some(true);
    if verify && replace {
        let message = "sigVerify may not be used with replaceRecentBlockhash";
        return Err(Failure::params(message));
    }
    if verify && !asked.is_signed() {
        return Err(Failure::new(-32003, "Transaction signature verification failure"));
    }
    if replace {
        asked.versioned.message.set_recent_blockhash(block.hash);
    }
    Ok(in_context(block.slot, simulated(&attempt(node, &asked, block.height))))
}

/// What would come of it on top of the block.
fn attempt(node: &Node<'_>, asked: &Transaction, height: u64) -> Meta {
    let place = Place::upon(height);
    match node.ledger.check(asked, place) {
        Ok(()) => {
            let Executed { meta, .. } = node.ledger.run(asked, place);
            meta
        }
        Err(error) => {
            let (logs, before, after) = (Vec::new(), Vec::new(), Vec::new());
            Meta { error: Some(error), fee: 0, units: 0, logs, before, after }
        }
    }
}

fn simulated(tried: &Meta) -> Value {
    json!({
        "accounts": Value::Null,
        "err": tried.error,
        "fee": Value::Null,
        "innerInstructions": Value::Null,
        "loadedAccountsDataSize": 0,
        "loadedAddresses": Value::Null,
        "logs": tried.logs,
        "postBalances": Value::Null,
        "postTokenBalances": Value::Null,
        "preBalances": Value::Null,
        "preTokenBalances": Value::Null,
        "replacementBlockhash": Value::Null,
        "returnData": Value::Null,
        "unitsConsumed": tried.units,
    })
}

pub fn statuses(node: &Node<'_>, params: Params<'_>) -> Result<Value, Failure> {
    let asked = params.list(0)?;
    if asked.len() > STATUSES_MAX {
        return Err(Failure::params(format!("Too many inputs provided; max {STATUSES_MAX}")));
    }
    let search = params.or_null(1)["searchTransactionHistory"].as_bool() == Some(true);
    let head = node.block(Commitment::Processed);
    let oldest = match search {
        true => node.oldest(),
        false => node.oldest().max(head.height.saturating_sub(RECENT_BLOCKS)),
    };
    let status = |one: &Value| {
        let wanted = signature(one.as_str().unwrap_or_default())?;
        let landed = node.ledger.landed(&wanted);
        let landed = landed.filter(|(height, _)| (oldest..=head.height).contains(height));
        let found = landed.and_then(|(height, at)| Some((node.ledger.block(height)?, at)));
        Ok(found.map_or(Value::Null, |(block, at)| status_body(node, block, at)))
    };
    let shown = asked.iter().map(status).collect::<Result<Vec<Value>, Failure>>()?;
    Ok(in_context(head.slot, json!(shown)))
}

fn outcome(error: &Option<TransactionError>) -> Value {
    match error {
        None => json!({ "Ok": Value::Null }),
        Some(error) => json!({ "Err": error }),
    }
}

fn status_body(node: &Node<'_>, block: &Block, at: usize) -> Value {
    let error = &block.metas[at].error;
    let surety = node.surety(block.height);
    let confirmations = match surety {
        Commitment::Finalized => Value::Null,
        _ => json!(node.height(Commitment::Processed) - block.height),
    };
    json!({
        "confirmationStatus": surety.as_str(),
        "confirmations": confirmations,
        "err": error,
        "slot": block.slot,
        "status": outcome(error),
    })
}

pub fn by_signature(node: &Node<'_>, params: Params<'_>) -> Result<Value, Failure> {
    let wanted = signature(params.text(0)?)?;
    // The second argument may be the encoding alone.
    let given = params.or_null(1);
    let alone = json!({ "encoding": given });
    let options = if given.is_string() { &alone } else { given };
    let newest = node.height(Commitment::at_least_confirmed(options)?);
    let landed = node.ledger.landed(&wanted);
    let landed = landed.filter(|(height, _)| (node.oldest()..=newest).contains(height));
    let Some((block, at)) = landed.and_then(|(height, at)| Some((node.ledger.block(height)?, at)))
    else {
        return Ok(Value::Null);
    };
    let mut body = transaction_body(block, at, options)?;
    version_of(&block.transactions[at], options, &mut body)?;
    body["slot"] = json!(block.slot);
    body["blockTime"] = json!(block.time_s);
    Ok(body)
}

/// Adds the version where the client says that it knows versions.
pub fn version_of(one: &Transaction, options: &Value, body: &mut Value) -> Result<(), Failure> {
    let version = match one.versioned.version() {
        TransactionVersion::Legacy(_) => json!("legacy"),
        TransactionVersion::Number(number) => json!(number),
    };
    match (options["maxSupportedTransactionVersion"].as_u64(), version.as_u64()) {
        (None, None) => {}
        (Some(known), number) if number.is_none_or(|number| number <= known) => {
            body["version"] = version;
        }
        (_, number) => {
            let number = number.unwrap_or_default();
            let words = "is not supported by the requesting client. Please try the request again \
                         with the following configuration parameter: \
                         \"maxSupportedTransactionVersion\":";
            let message = format!("Transaction version ({number}) {words} {number}");
            return Err(Failure::new(-32015, message));
        }
    }
    Ok(())
}

/// The transaction in the encoding that was asked for, and what came of it.
pub fn transaction_body(block: &Block, at: usize, options: &Value) -> Result<Value, Failure> {
    let (one, meta) = (&block.transactions[at], &block.metas[at]);
    let shown = match options["encoding"].as_str().unwrap_or("json") {
        "base64" => json!([base64_of(&one.raw), "base64"]),
        "json" => json!({
            "message": message_body(one),
            "signatures": one.versioned.signatures.iter().map(ToString::to_string)
                .collect::<Vec<String>>(),
        }),
        _ => return Err(Failure::params("unsupported encoding: use json or base64")),
    };
    let meta = json!({
        "computeUnitsConsumed": meta.units,
        "err": meta.error,
        "fee": meta.fee,
        "innerInstructions": [],
        "loadedAddresses": { "readonly": [], "writable": [] },
        "logMessages": meta.logs,
        "postBalances": meta.after,
        "postTokenBalances": [],
        "preBalances": meta.before,
        "preTokenBalances": [],
        "rewards": [],
        "status": outcome(&meta.error),
    });
    Ok(json!({ "meta": meta, "transaction": shown }))
}

fn message_body(one: &Transaction) -> Value {
    let header = one.message().header();
    let instructions = one.instructions().iter().map(|instruction| {
        json!({
            "accounts": instruction.accounts,
            "data": base58_of(&instruction.data),
            "programIdIndex": instruction.program_id_index,
            "stackHeight": 1,
        })
    });
    json!({
        "accountKeys": one.keys().iter().map(ToString::to_string).collect::<Vec<String>>(),
        "header": {
            "numReadonlySignedAccounts": header.num_readonly_signed_accounts,
            "numReadonlyUnsignedAccounts": header.num_readonly_unsigned_accounts,
            "numRequiredSignatures": header.num_required_signatures,
        },
        "instructions": instructions.collect::<Vec<Value>>(),
        "recentBlockhash": one.blockhash().to_string(),
    })
}

pub fn signatures_for(node: &Node<'_>, params: Params<'_>) -> Result<Value, Failure> {
    let of = address(params.text(0)?)?;
    let options = params.or_null(1);
    let newest = node.height(Commitment::at_least_confirmed(options)?);
    let limit = options["limit"].as_u64().unwrap_or(SIGNATURES_MAX);
    if !(1..=SIGNATURES_MAX).contains(&limit) {
        return Err(Failure::params(format!("Invalid limit; max {SIGNATURES_MAX}")));
    }
    let bound = |name: &str| options[name].as_str().map(signature).transpose();
    let (before, until) = (bound("before")?, bound("until")?);
    let mut found = Vec::new();
    let mut has_begun = before.is_none();
    let range = (node.oldest() as usize)..=(newest as usize);
    'all: for block in node.ledger.blocks()[range].iter().rev() {
        for (one, meta) in block.transactions.iter().zip(&block.metas).rev() {
            if until == Some(one.signature) || found.len() as u64 == limit {
                break 'all;
            }
            if has_begun && one.keys().contains(&of) {
                found.push(json!({
                    "blockTime": block.time_s,
                    "confirmationStatus": node.surety(block.height).as_str(),
                    "err": meta.error,
                    "memo": Value::Null,
                    "signature": one.signature.to_string(),
                    "slot": block.slot,
                }));
            }
            has_begun |= before == Some(one.signature);
        }
    }
    Ok(json!(found))
}

/// Of a message, without its signatures.
pub fn fee_for(node: &Node<'_>, params: Params<'_>) -> Result<Value, Failure> {
    let block = node.block_asked(params.or_null(1))?;
    let message = super::words::message(params.text(0)?)?;
    let signatures = u64::from(message.header().num_required_signatures);
    Ok(in_context(block.slot, json!(signatures * SIGNATURE_FEE)))
}

/// As explorers show an instruction's data.
fn base58_of(bytes: &[u8]) -> String {
    bs58::encode(bytes).into_string()
}
