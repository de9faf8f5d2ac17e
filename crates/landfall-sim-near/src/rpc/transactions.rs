//! Sending transactions and asking what became of them.
//!
//! **Invariant:** a resend of an executed transaction gets its outcome only in place of
//! InvalidNonce; any other refusal is given although the transaction landed.
//! **Invariant:** `NONE` and `broadcast_tx_async` take whatever decodes and report nothing.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use near_primitives::action::Action;
use near_primitives::borsh::BorshDeserialize;
use near_primitives::errors::InvalidTxError;
use near_primitives::hash::CryptoHash;
use near_primitives::transaction::SignedTransaction;
use near_primitives::types::{AccountId, Balance};
use near_primitives::views::{
    ActionView, ExecutionOutcomeWithIdView, ExecutionStatusView, FinalExecutionOutcomeView,
    FinalExecutionStatus, ReceiptEnumView, ReceiptView, TxExecutionStatus,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::ledger::View;
use super::super::ledger::fees::GAS_PURCHASE_PRICE;
use super::super::ledger::record::{Ran, Receipt, Record, Run, Stage, Work};
use super::answer::{Answer, Failure, Reason};
use super::{Node, Outcome, parse};

#[derive(Deserialize)]
struct RpcSendTransactionRequest {
    #[serde(rename = "signed_tx_base64")]
    signed_transaction: SignedTransaction,
    #[serde(default)]
    wait_until: TxExecutionStatus,
}

#[derive(Deserialize)]
struct RpcTransactionStatusRequest {
    #[serde(flatten)]
    transaction_info: TransactionInfo,
    #[serde(default)]
    wait_until: TxExecutionStatus,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TransactionInfo {
    Transaction {
        #[serde(rename = "signed_tx_base64")]
        signed_transaction: Box<SignedTransaction>,
    },
    TransactionId {
        tx_hash: CryptoHash,
        #[serde(rename = "sender_account_id")]
        _sender_account_id: AccountId,
    },
}

/// A transaction somebody wants to see at a stage.
pub struct Wanted {
    hash: CryptoHash,
    /// Known when the asker gave it: while it is unknown it is validated again at each block.
    signed: Option<Arc<SignedTransaction>>,
    /// `None`: whatever there is to say now.
    until: Option<Stage>,
    receipts: bool,
}

/// A request that waits for blocks.
pub struct Waiting {
    id: Value,
    wanted: Wanted,
}

impl Waiting {
    pub(super) fn new(id: Value, wanted: Wanted) -> Waiting {
        Waiting { id, wanted }
    }

    /// The answer, if this node has one now.
    pub fn poll(&self, view: View) -> Option<Answer> {
        match self.wanted.poll(view)? {
            Ok(result) => Some(Answer::result(self.id.clone(), result)),
            Err(failure) => Some(failure.into_answer(self.id.clone())),
        }
    }

    pub fn timeout(&self) -> Answer {
        Answer::timeout(self.id.clone())
    }
}

impl Wanted {
    fn poll(&self, view: View) -> Option<Result<Value, Failure>> {
        if let Some((record, run)) = view.run(&self.hash) {
            let reached = run.stage_at(view.head);
            return is_reached(reached, self.until)
                .then(|| Ok(render(view, record, run, self.receipts)));
        }
        let refusal = self.signed.as_ref().and_then(|signed| view.validate(signed).err());
        if let Some(error) = refusal {
            return Some(Err(Failure::of(Reason::InvalidTransaction(error))));
        }
        let unknown = || Err(Failure::of(Reason::UnknownTransaction(self.hash)));
        self.until.is_none().then(unknown)
    }
}

fn is_reached(reached: Stage, until: Option<Stage>) -> bool {
    match until {
        None => true,
        // Included for good is still not executed.
        Some(Stage::ExecutedOptimistic) if reached == Stage::IncludedFinal => false,
        Some(until) => reached >= until,
    }
}

/// The transaction that a request hands in, if it can be read.
pub fn signed_in(body: &Value) -> Option<SignedTransaction> {
    let bytes = BASE64.decode(body["params"]["signed_tx_base64"].as_str()?).ok()?;
    SignedTransaction::try_from_slice(&bytes).ok()
}

pub fn send(node: &mut Node, method: &str, params: Value) -> Result<Outcome, Failure> {
    let (signed, asked) = if params.is_array() {
        (legacy_transaction(&params)?, TxExecutionStatus::default())
    } else {
        let request: RpcSendTransactionRequest = parse(params)?;
        (request.signed_transaction, request.wait_until)
    };
    let signed = Arc::new(signed);
    let hash = *signed.hash();
    let verdict = node.view().validate(&signed);
    if verdict.is_ok() && !node.forgets {
        match &mut node.held_back {
            Some(held_back) => held_back.push(signed.clone()),
            None => node.ledger.submit(signed.clone()),
        }
    }
    let until = stage(&asked);
    match (method, until) {
        ("broadcast_tx_async", _) => return Ok(Outcome::Result(json!(hash))),
        ("send_tx", None) => {
            return Ok(Outcome::Result(json!({ "final_execution_status": "NONE" })));
        }
        _ => {}
    }
    // The commit method has no wait_until: it waits until executed.
    let until = if method == "send_tx" { until } else { Some(Stage::ExecutedOptimistic) };
    let view = node.view();
    match verdict {
        Err(InvalidTxError::InvalidNonce { .. }) if view.run(&hash).is_some() => {}
        Err(error) => return Err(Failure::of(Reason::InvalidTransaction(error))),
        Ok(()) => {}
    }
    settle(view, Wanted { hash, signed: Some(signed), until, receipts: false })
}

pub fn status(view: View, params: Value, receipts: bool) -> Result<Outcome, Failure> {
    let request: RpcTransactionStatusRequest = parse(match params {
        Value::Array(items) => {
            let field = |index: usize| items.get(index).cloned().unwrap_or(Value::Null);
            json!({ "tx_hash": field(0), "sender_account_id": field(1) })
        }
        other => other,
    })?;
    let until = stage(&request.wait_until);
    let wanted = match request.transaction_info {
        TransactionInfo::Transaction { signed_transaction } => {
            let hash = *signed_transaction.hash();
            Wanted { hash, signed: Some(Arc::from(signed_transaction)), until, receipts }
        }
        TransactionInfo::TransactionId { tx_hash, .. } => {
            Wanted { hash: tx_hash, signed: None, until, receipts }
        }
    };
    settle(view, wanted)
}

fn settle(view: View, wanted: Wanted) -> Result<Outcome, Failure> {
    match wanted.poll(view) {
        Some(result) => result.map(Outcome::Result),
        None => Ok(Outcome::Wait(wanted)),
    }
}

fn stage(asked: &TxExecutionStatus) -> Option<Stage> {
    match asked {
        TxExecutionStatus::None => None,
        TxExecutionStatus::Included => Some(Stage::Included),
        TxExecutionStatus::ExecutedOptimistic => Some(Stage::ExecutedOptimistic),
        TxExecutionStatus::IncludedFinal => Some(Stage::IncludedFinal),
        TxExecutionStatus::Executed => Some(Stage::Executed),
        TxExecutionStatus::Final => Some(Stage::Final),
    }
}

fn legacy_transaction(params: &Value) -> Result<SignedTransaction, Failure> {
    let fail = |text: String| Failure::parse(&format!("Failed to decode transaction: {text}"));
    let text = params.get(0).and_then(Value::as_str).unwrap_or_default();
    let bytes = BASE64.decode(text).map_err(|error| fail(base64_text(&error)))?;
    SignedTransaction::try_from_slice(&bytes).map_err(|error| fail(error.to_string()))
}

/// The words of the base64 release the node uses.
fn base64_text(error: &base64::DecodeError) -> String {
    match error {
        base64::DecodeError::InvalidByte(offset, byte) => {
            format!("Invalid byte {byte}, offset {offset}.")
        }
        base64::DecodeError::InvalidLastSymbol(offset, byte) => {
            format!("Invalid last symbol {byte}, offset {offset}.")
        }
        base64::DecodeError::InvalidLength(_) => {
            "Encoded text cannot have a 6-bit remainder.".into()
        }
        base64::DecodeError::InvalidPadding => "Invalid padding".into(),
    }
}

fn render(view: View, record: &Record, run: &Run, with_receipts: bool) -> Value {
    let stage = stage_name(run.stage_at(view.head));
    let Some(ran) = run.outcome_at(view.head) else {
        return json!({ "final_execution_status": stage });
    };
    let status = match run.verdict_at(view.head) {
        None => FinalExecutionStatus::Started,
        Some(ExecutionStatusView::SuccessValue(value)) => {
            FinalExecutionStatus::SuccessValue(value.clone())
        }
        Some(ExecutionStatusView::Failure(error)) => FinalExecutionStatus::Failure(error.clone()),
        Some(_) => FinalExecutionStatus::NotStarted,
    };
    let seen = run.receipts_at(view.head);
    let outcome = FinalExecutionOutcomeView {
        status,
        transaction: record.signed.as_ref().clone().into(),
        transaction_outcome: outcome_view(*record.signed.hash(), ran),
        receipts_outcome: seen.iter().map(|(it, ran)| outcome_view(it.receipt.id, ran)).collect(),
    };
    let mut result = serde_json::to_value(outcome).expect("views are JSON");
    result["final_execution_status"] = json!(stage);
    if with_receipts {
        let views = seen.iter().map(|(it, _)| receipt_view(&record.signed, &it.receipt));
        result["receipts"] = views.collect();
    }
    result
}

fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Included => "INCLUDED",
        Stage::ExecutedOptimistic => "EXECUTED_OPTIMISTIC",
        Stage::IncludedFinal => "INCLUDED_FINAL",
        Stage::Executed => "EXECUTED",
        Stage::Final => "FINAL",
    }
}

fn outcome_view(id: CryptoHash, ran: &Ran) -> ExecutionOutcomeWithIdView {
    ExecutionOutcomeWithIdView {
        proof: vec![],
        block_hash: ran.block_hash,
        id,
        outcome: ran.outcome.clone(),
    }
}

fn receipt_view(signed: &SignedTransaction, receipt: &Receipt) -> Value {
    let (actions, gas_price): (Vec<ActionView>, u128) = match &receipt.work {
        Work::Actions(signed) => {
            let actions = signed.transaction.actions().iter().cloned();
            (actions.map(ActionView::from).collect(), GAS_PURCHASE_PRICE)
        }
        Work::Pay(amount) => {
            let deposit = Balance::from_yoctonear(*amount);
            let action = Action::Transfer(near_primitives::action::TransferAction { deposit });
            (vec![action.into()], if receipt.refund { 0 } else { GAS_PURCHASE_PRICE })
        }
    };
    let view = ReceiptView {
        predecessor_id: receipt.predecessor_id.clone(),
        receiver_id: receipt.receiver_id.clone(),
        receipt_id: receipt.id,
        receipt: ReceiptEnumView::Action {
            signer_id: signed.transaction.signer_id().clone(),
            signer_public_key: signed.transaction.public_key().clone(),
            gas_price: Balance::from_yoctonear(gas_price),
            output_data_receivers: vec![],
            input_data_ids: vec![],
            actions,
            is_promise_yield: false,
            refund_to: None,
        },
        _priority: 0,
    };
    serde_json::to_value(view).expect("views are JSON")
}
