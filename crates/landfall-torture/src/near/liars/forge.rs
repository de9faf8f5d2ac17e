//! Forged answers: well-formed, of the ledger's own types, and untrue.
//!
//! **Rule:** a forgery passes the parsers. What does not parse is the wire's business.

use landfall_sim_near::ledger::Ledger;
use landfall_sim_near::ledger::block::derived;
use landfall_sim_near::rpc::{Answer, Body};
use near_primitives::errors::{
    ActionError, ActionErrorKind, ActionsValidationError, FunctionCallError, InvalidTxError,
    TxExecutionError,
};
use near_primitives::gas::Gas;
use near_primitives::hash::CryptoHash;
use near_primitives::transaction::SignedTransaction;
use near_primitives::types::{AccountId, Balance};
use near_primitives::views::{
    ExecutionMetadataView, ExecutionOutcomeView, ExecutionOutcomeWithIdView, ExecutionStatusView,
    FinalExecutionOutcomeView, FinalExecutionStatus, SignedTransactionView,
};
use serde_json::{Value, json};

use crate::seat::Dice;

/// A thousand million NEAR, in yoctoNEAR; as many tokens.
pub const ABSURD: &str = "1000000000000000000000000000000000";
/// The root of a chunk without transactions.
const EMPTY_ROOT: &str = "11111111111111111111111111111111";
/// So many blocks too high is absurd.
const FAR_BLOCKS: u64 = 10_000_000;

/// What a transaction is said to have come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    Done,
    Reverted,
    Included,
    Unknown,
    Other,
}

/// A tale about one transaction.
#[derive(Clone, Debug)]
pub struct Tale {
    pub told: Told,
    pub to_send: bool,
    pub to_look: bool,
    /// Another transaction's answer is given under this one's name.
    pub pasted: bool,
    stage: &'static str,
    /// The outcome of the transaction itself, and of its receipt if it has one. None: not told.
    verdict: Option<ExecutionStatusView>,
    block_hash: CryptoHash,
}

impl Tale {
    pub fn invent(
        told: Told,
        dice: &Dice,
        ledger: &Ledger,
        hash: &CryptoHash,
        signed: Option<&SignedTransaction>,
    ) -> Tale {
        let told_to = dice.between(0, 2);
        let done = ExecutionStatusView::SuccessValue(vec![]);
        let (stage, verdict) = match told {
            Told::Done if dice.between(0, 4) == 0 => ("FINAL", None),
            Told::Done => ("FINAL", Some(done)),
            Told::Reverted => ("FINAL", Some(failure(dice, signed))),
            Told::Included => match dice.between(0, 4) {
                0 => ("INCLUDED", None),
                1 => ("INCLUDED_FINAL", None),
                2 => ("EXECUTED_OPTIMISTIC", Some(failure(dice, signed))),
                3 => ("EXECUTED", Some(done)),
                _ => ("EXECUTED_OPTIMISTIC", Some(done)),
            },
            Told::Unknown | Told::Other => ("NONE", None),
        };
        Tale {
            told,
            to_send: told_to != 0,
            to_look: told_to != 1,
            pasted: dice.between(0, 1) == 0,
            stage,
            verdict,
            block_hash: some_block(dice, ledger, hash),
        }
    }

    /// The tale as the answer of `tx` or `send_tx`. `signed` lends what the answer repeats of it.
    pub fn answer(&self, request: &Value, hash: &CryptoHash, signed: &SignedTransaction) -> Answer {
        if matches!(self.told, Told::Unknown | Told::Other) {
            return match request["method"] == "tx" {
                true => unknown_transaction(request, hash),
                false => timeout(request),
            };
        }
        let Some(verdict) = &self.verdict else {
            let bare = json!({ "final_execution_status": self.stage });
            return Answer::result(request["id"].clone(), bare);
        };
        let mut result = outcome(hash, signed, verdict, self.block_hash);
        result["final_execution_status"] = json!(self.stage);
        Answer::result(request["id"].clone(), result)
    }
}

/// A hash that nobody has seen.
pub fn invented(dice: &Dice) -> CryptoHash {
    CryptoHash::hash_bytes(&dice.between(0, u64::MAX - 1).to_le_bytes())
}

/// The block that it is in, a block that there is, one that there is not, or none.
fn some_block(dice: &Dice, ledger: &Ledger, hash: &CryptoHash) -> CryptoHash {
    let truly = ledger.landed(hash).and_then(|run| Some(run.ran.as_ref()?.block_hash));
    let chain = ledger.chain();
    match (dice.between(0, 5), truly) {
        (0 | 1, Some(block_hash)) => block_hash,
        (2, _) => invented(dice),
        (3, _) => CryptoHash::default(),
        _ => {
            let back = dice.between(0, 30).min(chain.head().height - chain.earliest().height);
            chain.hash_at(chain.head().height - back).unwrap_or_default()
        }
    }
}

/// A failure of one of its actions, or of the transaction itself.
fn failure(dice: &Dice, signed: Option<&SignedTransaction>) -> ExecutionStatusView {
    if dice.between(0, 4) == 0 {
        let error = InvalidTxError::InvalidNonce { tx_nonce: 1, ak_nonce: 1 };
        return ExecutionStatusView::Failure(TxExecutionError::InvalidTxError(error));
    }
    let actions = signed.map_or(1, |signed| signed.transaction.actions().len() as u64);
    let texts = [
        "Smart contract panicked: The account r0.near is not registered",
        "Smart contract panicked: The account doesn't have enough balance",
        "Smart contract panicked: The amount should be a positive number",
        "Smart contract panicked: no reason given",
        "Exceeded the prepaid gas.",
    ];
    let text = texts[dice.between(0, texts.len() as u64 - 1) as usize];
    let kind = FunctionCallError::ExecutionError(text.to_owned());
    let error = ActionError {
        index: Some(dice.between(0, actions.saturating_sub(1))),
        kind: ActionErrorKind::FunctionCallError(kind),
    };
    ExecutionStatusView::Failure(TxExecutionError::ActionError(error))
}

/// The whole outcome, as a node writes it, under the name of `hash`.
fn outcome(
    hash: &CryptoHash,
    signed: &SignedTransaction,
    verdict: &ExecutionStatusView,
    block_hash: CryptoHash,
) -> Value {
    let receipt_id = derived(hash, b"receipt");
    let of_transaction = match verdict {
        ExecutionStatusView::Failure(TxExecutionError::InvalidTxError(_)) => verdict.clone(),
        _ => ExecutionStatusView::SuccessReceiptId(receipt_id),
    };
    let ran = matches!(of_transaction, ExecutionStatusView::SuccessReceiptId(_));
    let (signer, receiver) = (signed.transaction.signer_id(), signed.transaction.receiver_id());
    let receipt = one(receipt_id, block_hash, receiver, vec![], verdict.clone());
    let receipt_ids = if ran { vec![receipt_id] } else { vec![] };
    let view = FinalExecutionOutcomeView {
        status: match verdict {
            ExecutionStatusView::Failure(error) => FinalExecutionStatus::Failure(error.clone()),
            _ => FinalExecutionStatus::SuccessValue(vec![]),
        },
        transaction: SignedTransactionView { hash: *hash, ..signed.clone().into() },
        transaction_outcome: one(*hash, block_hash, signer, receipt_ids, of_transaction),
        receipts_outcome: if ran { vec![receipt] } else { vec![] },
    };
    serde_json::to_value(view).expect("views are JSON")
}

fn one(
    id: CryptoHash,
    block_hash: CryptoHash,
    executor_id: &AccountId,
    receipt_ids: Vec<CryptoHash>,
    status: ExecutionStatusView,
) -> ExecutionOutcomeWithIdView {
    let outcome = ExecutionOutcomeView {
        logs: vec![],
        receipt_ids,
        gas_burnt: Gas::from_gas(1),
        tokens_burnt: Balance::ZERO,
        executor_id: executor_id.clone(),
        status,
        metadata: ExecutionMetadataView::default(),
    };
    ExecutionOutcomeWithIdView { proof: vec![], block_hash, id, outcome }
}

/// A refusal of a broadcast: half of them certain, were they true.
pub fn refusal(dice: &Dice, request: &Value, signed: &SignedTransaction) -> Answer {
    let id = request["id"].clone();
    let invalid = |error: InvalidTxError| Answer::invalid_transaction(id.clone(), error);
    let transaction = &signed.transaction;
    match dice.between(0, 13) {
        7.. => invalid(InvalidTxError::InvalidSignature),
        0 => {
            let receiver_id = transaction.receiver_id().to_string();
            invalid(InvalidTxError::InvalidReceiverId { receiver_id })
        }
        1 => {
            let (size, limit) = (2_000_000, 1_572_864);
            invalid(InvalidTxError::TransactionSizeExceeded { size, limit })
        }
        2 => {
            let (total_prepaid_gas, limit) = (Gas::from_gas(2), Gas::from_gas(1));
            let error =
                ActionsValidationError::TotalPrepaidGasExceeded { total_prepaid_gas, limit };
            invalid(InvalidTxError::ActionsValidation(error))
        }
        3 => Answer::parse_error(
            id,
            "Failed parsing args: the value could not decoded from borsh due to: Unexpected \
             length of input",
        ),
        4 => invalid(InvalidTxError::Expired),
        5 => {
            let tx_nonce = transaction.nonce().nonce();
            invalid(InvalidTxError::InvalidNonce { tx_nonce, ak_nonce: tx_nonce })
        }
        _ => invalid(InvalidTxError::NotEnoughBalance {
            signer_id: transaction.signer_id().clone(),
            balance: Balance::ZERO,
            cost: Balance::from_yoctonear(1),
        }),
    }
}

fn unknown_transaction(request: &Value, hash: &CryptoHash) -> Answer {
    Answer::unknown_transaction(request["id"].clone(), *hash)
}

pub fn unknown_block(request: &Value) -> Answer {
    Answer::unknown_block(request["id"].clone(), &request["params"]["block_id"].to_string())
}

fn timeout(request: &Value) -> Answer {
    Answer::timeout(request["id"].clone())
}

/// The same answer to another request.
pub fn with_id(mut answer: Answer, request: &Value) -> Answer {
    if let Body::Json(body) = &mut answer.body {
        body["id"] = request["id"].clone();
    }
    answer
}

/// The answer about another transaction, given for this one.
pub fn under_the_name(mut answer: Answer, hash: &CryptoHash) -> Answer {
    let Body::Json(body) = &mut answer.body else { return answer };
    let result = &mut body["result"];
    if result["transaction"].is_object() {
        result["transaction"]["hash"] = json!(hash);
        result["transaction_outcome"]["id"] = json!(hash);
    }
    answer
}

/// Adds to a number, or takes from it.
pub fn skew(number: &mut Value, by: i64) {
    if let Some(truly) = number.as_u64() {
        *number = json!(truly.saturating_add_signed(by));
    }
}

/// A height that is too high, or too low.
pub fn twist_number(dice: &Dice, number: &mut Value) {
    let Some(truly) = number.as_u64() else { return };
    *number = json!(match dice.between(0, 3) {
        0 => truly + FAR_BLOCKS,
        1 => truly + dice.between(1, 100),
        2 => truly.saturating_sub(dice.between(1, 100)),
        _ => 1,
    });
}

/// Another height, another hash, another block before it.
pub fn twist_header(dice: &Dice, header: &mut Value) {
    match dice.between(0, 3) {
        0 | 1 => twist_number(dice, &mut header["height"]),
        2 => header["hash"] = json!(invented(dice)),
        _ => header["prev_hash"] = json!(invented(dice)),
    }
}

/// The block seems to hold no transactions.
pub fn hide_chunks(dice: &Dice, block: &mut Value) {
    let whole = dice.between(0, 1) == 0;
    for chunk in block["chunks"].as_array_mut().into_iter().flatten() {
        match whole {
            true => chunk["tx_root"] = json!(EMPTY_ROOT),
            false => chunk["height_included"] = json!(1),
        }
    }
}

/// Transactions left out, or one put in.
pub fn twist_chunk(
    dice: &Dice,
    chunk: &mut Value,
    other: Option<std::sync::Arc<SignedTransaction>>,
) {
    let Some(transactions) = chunk["transactions"].as_array_mut() else { return };
    match other.filter(|_| dice.between(0, 1) == 0) {
        None => transactions.clear(),
        Some(other) => {
            let view = SignedTransactionView::from(other.as_ref().clone());
            transactions.push(serde_json::to_value(view).expect("views are JSON"));
        }
    }
}

/// How long transactions live.
pub fn twist_validity(dice: &Dice, config: &mut Value) {
    let blocks = &mut config["transaction_validity_period"];
    let Some(truly) = blocks.as_u64() else { return };
    let lives = [1, truly / 2, truly.saturating_sub(20), truly * 100];
    *blocks = json!(lives[dice.between(0, lives.len() as u64 - 1) as usize]);
}

pub fn no_such_key(result: &mut Value, key: &str) {
    *result = json!({
        "block_hash": result["block_hash"], "block_height": result["block_height"], "logs": [],
        "error": format!("access key {key} does not exist while viewing"),
    });
}

/// What the contract is said to have returned.
pub fn twist_view(dice: &Dice, method: &str, result: &mut Value) {
    let Some(bytes) = result["result"].as_array() else { return };
    let is_null = bytes.len() == "null".len();
    let rich = dice.between(0, 1) == 0;
    let told = match (method, rich) {
        ("storage_balance_of", _) if !is_null => "null".to_owned(),
        ("storage_balance_of", _) => json!({"total": "1", "available": "0"}).to_string(),
        ("ft_balance_of", true) => json!(ABSURD).to_string(),
        ("ft_balance_of", false) => json!("0").to_string(),
        ("storage_balance_bounds", true) => json!({"min": ABSURD, "max": ABSURD}).to_string(),
        ("storage_balance_bounds", false) => json!({"min": "1", "max": "1"}).to_string(),
        _ => return,
    };
    result["result"] = json!(told.into_bytes());
}
