//! `query`: accounts, keys and view calls, at any block whose state is kept.
//!
//! As on a real node, some errors hide in `result.error` with HTTP 200.

use std::sync::Arc;

use near_primitives::types::{
    AccountId, Balance, BlockId, BlockReference, Finality, SyncCheckpoint,
};
use near_primitives::views::{AccessKeyInfoView, AccessKeyView, QueryRequest};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::ledger::View;
use super::super::ledger::block::Block;
use super::super::ledger::state::Slot;
use super::super::ledger::token::{self, Failure as TokenFailure};
use super::answer::{Failure, Reason};
use super::parse;

/// Bytes an account with one key takes, and one with the contract: figures of the captures.
const ACCOUNT_BYTES: u64 = 182;
const CONTRACT_BYTES: u64 = 209_478;

#[derive(Deserialize)]
struct RpcQueryRequest {
    #[serde(flatten)]
    block_reference: BlockReference,
    #[serde(flatten)]
    request: QueryRequest,
}

#[derive(Deserialize)]
struct KeyRequest {
    #[serde(flatten)]
    block_reference: BlockReference,
    account_id: AccountId,
    public_key: near_crypto::PublicKey,
}

#[derive(Deserialize)]
struct AccountRequest {
    #[serde(flatten)]
    block_reference: BlockReference,
    account_id: AccountId,
}

pub fn query(view: View, params: Value) -> Result<Value, Failure> {
    let request: RpcQueryRequest = match &params {
        Value::Array(items) => parse(legacy(items)?)?,
        _ => parse(params)?,
    };
    let block = state_block(view, request.block_reference)?;
    match request.request {
        QueryRequest::ViewAccount { account_id } => view_account(view, block, &account_id),
        QueryRequest::ViewAccessKey { account_id, public_key } => {
            match view.key(block.height, &account_id, &public_key) {
                Some(key) => Ok(with_block(block, json!(AccessKeyView::from(key.clone())))),
                None => Ok(hidden_error(
                    block,
                    &format!("access key {public_key} does not exist while viewing"),
                )),
            }
        }
        QueryRequest::ViewAccessKeyList { account_id, .. } => {
            let keys = view.keys(block.height, &account_id).into_iter();
            let keys: Vec<_> = keys
                .map(|(key, found)| AccessKeyInfoView::new(key, found.clone().into()))
                .collect();
            Ok(with_block(block, json!({ "keys": keys })))
        }
        QueryRequest::CallFunction { account_id, method_name, args } => {
            call_function(view, block, &account_id, &method_name, &args)
        }
        _ => Err(Failure::parse("Failed parsing args: not known to the simulator")),
    }
}

pub fn access_key(view: View, params: Value) -> Result<Value, Failure> {
    let request: KeyRequest = parse(params)?;
    let block = state_block(view, request.block_reference)?;
    match view.key(block.height, &request.account_id, &request.public_key) {
        Some(key) => Ok(with_block(block, json!(AccessKeyView::from(key.clone())))),
        None => Err(Failure::of(Reason::UnknownAccessKey {
            public_key: request.public_key.to_string(),
            height: block.height,
            hash: block.hash,
        })),
    }
}

pub fn account(view: View, params: Value) -> Result<Value, Failure> {
    let request: AccountRequest = parse(params)?;
    let block = state_block(view, request.block_reference)?;
    view_account(view, block, &request.account_id)
}

fn view_account(view: View, block: &Block, account_id: &AccountId) -> Result<Value, Failure> {
    let Some(amount) = view.amount(block.height, &Slot::Near(account_id.clone())) else {
        return Err(unknown_account(block, account_id));
    };
    let contract = account_id == &view.ledger.genesis().token;
    let account = json!({
        "amount": Balance::from_yoctonear(amount),
        "locked": Balance::ZERO,
        "code_hash": if contract { view.ledger.code_hash() } else { Default::default() },
        "storage_usage": if contract { CONTRACT_BYTES } else { ACCOUNT_BYTES },
        "storage_paid_at": 0,
    });
    Ok(with_block(block, account))
}

fn call_function(
    view: View,
    block: &Block,
    account_id: &AccountId,
    method: &str,
    args: &[u8],
) -> Result<Value, Failure> {
    if view.amount(block.height, &Slot::Near(account_id.clone())).is_none() {
        return Err(unknown_account(block, account_id));
    }
    let failed = |text: String| {
        Ok(hidden_error(block, &format!("wasm execution failed with error: {text}")))
    };
    if account_id != &view.ledger.genesis().token {
        return failed(format!(
            "CompilationError(CodeDoesNotExist {{ account_id: \"{account_id}\" }})"
        ));
    }
    match token::view(|slot| view.amount(block.height, slot), method, args) {
        Ok(bytes) => Ok(with_block(block, json!({ "result": bytes, "logs": [] }))),
        Err(TokenFailure::OutOfGas) => failed("HostError(GasExceeded)".into()),
        Err(TokenFailure::NoSuchMethod) => failed("MethodResolveError(MethodNotFound)".into()),
        Err(TokenFailure::Panic(text)) => {
            failed(format!("HostError(GuestPanic {{ panic_msg: {text:?} }})"))
        }
    }
}

fn unknown_account(block: &Block, account_id: &AccountId) -> Failure {
    Failure::of(Reason::UnknownAccount {
        account_id: account_id.clone(),
        height: block.height,
        hash: block.hash,
    })
}

fn hidden_error(block: &Block, error: &str) -> Value {
    with_block(block, json!({ "error": error, "logs": [] }))
}

fn with_block(block: &Block, mut result: Value) -> Value {
    result["block_hash"] = json!(block.hash);
    result["block_height"] = json!(block.height);
    result
}

/// The older form: `["account/NAME", ""]`, `["access_key/NAME[/KEY]", ""]`,
/// `["call/NAME/METHOD", base58 of the arguments]`.
fn legacy(items: &[Value]) -> Result<Value, Failure> {
    let path = items.first().and_then(Value::as_str).unwrap_or_default();
    let parts: Vec<&str> = path.splitn(3, '/').collect();
    match parts.as_slice() {
        ["account", name] => Ok(json!({
            "request_type": "view_account", "finality": "optimistic", "account_id": name,
        })),
        ["access_key", name] => Ok(json!({
            "request_type": "view_access_key_list", "finality": "optimistic", "account_id": name,
        })),
        ["access_key", name, key] => Ok(json!({
            "request_type": "view_access_key", "finality": "optimistic",
            "account_id": name, "public_key": key,
        })),
        _ => Err(Failure::parse(&format!("Failed parsing args: unknown path {path}"))),
    }
}

/// The block whose state is asked for.
pub fn state_block<'a>(view: View<'a>, reference: BlockReference) -> Result<&'a Block, Failure> {
    let unknown = |what: String, below_head: bool| {
        let reference = Some(reference.clone());
        Failure::of(Reason::UnknownBlock { reference, what, below_head })
    };
    let found: Option<&'a Arc<Block>> = match &reference {
        BlockReference::BlockId(BlockId::Height(height)) => {
            if *height < view.earliest
                && let Some(hash) = view.ledger.chain().hash_at(*height)
            {
                return Err(Failure::of(Reason::GarbageCollected { height: *height, hash }));
            }
            let what = format!("BLOCK HEIGHT: {height} \n Cause: Unknown");
            let below = *height <= view.head;
            return view.block_at(*height).map(Arc::as_ref).ok_or_else(|| unknown(what, below));
        }
        BlockReference::BlockId(BlockId::Hash(hash)) => {
            let found = view.block_by_hash(hash).filter(|block| view.is_canonical(block));
            let what = format!("BLOCK HEADER: {hash}");
            return found.map(Arc::as_ref).ok_or_else(|| unknown(what, false));
        }
        BlockReference::Finality(finality) => view.block_at(height_of(view, finality)),
        BlockReference::SyncCheckpoint(SyncCheckpoint::Genesis) => {
            view.block_at(view.ledger.chain().genesis_height())
        }
        BlockReference::SyncCheckpoint(SyncCheckpoint::EarliestAvailable) => {
            Some(view.earliest_block())
        }
    };
    found.map(Arc::as_ref).ok_or_else(|| unknown("BLOCK HEIGHT: 0 \n Cause: Unknown".into(), true))
}

pub fn height_of(view: View, finality: &Finality) -> u64 {
    match finality {
        Finality::None => view.head,
        Finality::DoomSlug => view.head.saturating_sub(1).max(view.final_height()),
        Finality::Final => view.final_height(),
    }
}
