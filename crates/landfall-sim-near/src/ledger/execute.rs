//! Running receipts: actions change the state together or not at all.
//!
//! **Invariant:** deposits of a failed receipt go back to its signer, gas not burnt always does.
//! Not here: when a receipt runs (`produce`), the token's own rules (`token`).

use near_primitives::action::{Action, FunctionCallAction};
use near_primitives::errors::{
    ActionError, ActionErrorKind, CompilationError, FunctionCallError, MethodResolveError,
    TxExecutionError,
};
use near_primitives::gas::Gas as NearGas;
use near_primitives::hash::CryptoHash;
use near_primitives::transaction::SignedTransaction;
use near_primitives::types::{AccountId, Balance};
use near_primitives::views::{
    AccountContractView, CostGasUsed, ExecutionMetadataView, ExecutionOutcomeView,
    ExecutionStatusView,
};

use super::fees::{self, GAS_PRICE, GAS_PURCHASE_PRICE};
use super::record::{Receipt, Work};
use super::relay;
use super::state::{Slot, State, Value};
use super::token::{self, Moved};
use super::verify::NONCES_PER_HEIGHT;

/// Where and for whom a receipt runs.
pub struct Place<'a> {
    pub token: &'a AccountId,
    pub system: &'a AccountId,
    pub height: u64,
    pub prev_hash: CryptoHash,
    pub code_hash: CryptoHash,
}

/// A receipt's effects, beyond those on the state.
pub struct Effects {
    pub outcome: ExecutionOutcomeView,
    pub receipts: Vec<Receipt>,
    pub moved: Vec<Moved>,
}

#[derive(Default)]
struct Progress {
    /// Whether it has created the account that it is for: it may do anything with it then.
    created: bool,
    gas_burnt: u64,
    contract_gas: u64,
    logs: Vec<String>,
    value: Vec<u8>,
    /// yoctoNEAR the contract sends to the caller.
    sent_back: Vec<u128>,
    /// What others have signed and is relayed.
    relayed: Vec<Receipt>,
    moved: Vec<Moved>,
}

/// Runs one receipt. The state is committed when it succeeds and untouched when it fails.
pub fn run(state: &mut State, receipt: &Receipt, place: &Place) -> Effects {
    state.begin();
    match &receipt.work {
        Work::Pay(amount) => pay(state, receipt, *amount, place),
        Work::Actions(signed) => actions(state, receipt, signed, place),
    }
}

fn pay(state: &mut State, receipt: &Receipt, amount: u128, place: &Place) -> Effects {
    if credit(state, &receipt.receiver_id, amount) {
        state.commit();
    } else {
        // Money for an account that is gone is burnt, as on the real chain.
        state.rollback();
    }
    let burnt = fees::TRANSFER_RECEIPT;
    let mut receipts = Vec::new();
    if !receipt.refund {
        let left = u128::from(receipt.prepaid_gas) * GAS_PURCHASE_PRICE;
        let left = left - u128::from(burnt) * GAS_PRICE;
        receipts.push(refund(receipt, &receipt.receiver_id, left, 0, place));
    }
    let outcome = ExecutionOutcomeView {
        logs: vec![],
        receipt_ids: receipts.iter().map(|made| made.id).collect(),
        gas_burnt: NearGas::from_gas(burnt),
        tokens_burnt: tokens(if receipt.refund { 0 } else { burnt }),
        executor_id: receipt.receiver_id.clone(),
        status: ExecutionStatusView::SuccessValue(vec![]),
        metadata: metadata(Some(vec![None]), vec![]),
    };
    Effects { outcome, receipts, moved: vec![] }
}

fn actions(
    state: &mut State,
    receipt: &Receipt,
    signed: &SignedTransaction,
    place: &Place,
) -> Effects {
    let mut progress = Progress { gas_burnt: fees::receipt_cost(), ..Progress::default() };
    let mut failure = None;
    for (index, action) in signed.transaction.actions().iter().enumerate() {
        progress.gas_burnt += fees::run_cost(action);
        if let Err(kind) = step(state, receipt, action, place, &mut progress) {
            failure = Some(ActionError { index: Some(index as u64), kind });
            break;
        }
    }
    match &failure {
        None => state.commit(),
        Some(_) => {
            state.rollback();
            progress.sent_back.clear();
            progress.relayed.clear();
            progress.moved.clear();
        }
    }
    let relayed = std::mem::take(&mut progress.relayed);
    // What it relayed is its answer.
    let answer = match relayed.last() {
        Some(made) => ExecutionStatusView::SuccessReceiptId(made.id),
        None => ExecutionStatusView::SuccessValue(std::mem::take(&mut progress.value)),
    };
    let receipts = aftermath(receipt, signed, place, &progress, (relayed, failure.is_some()));
    let status = match failure {
        None => answer,
        Some(error) => ExecutionStatusView::Failure(TxExecutionError::ActionError(error)),
    };
    let contract = (&receipt.receiver_id == place.token)
        .then_some(AccountContractView::Local(place.code_hash));
    let contracts = vec![contract; signed.transaction.actions().len()];
    let profile = match progress.contract_gas {
        0 => vec![],
        gas => vec![CostGasUsed::wasm_host("WASM_INSTRUCTION".into(), NearGas::from_gas(gas))],
    };
    let outcome = ExecutionOutcomeView {
        logs: progress.logs,
        receipt_ids: receipts.iter().map(|made| made.id).collect(),
        gas_burnt: NearGas::from_gas(progress.gas_burnt),
        tokens_burnt: tokens(progress.gas_burnt),
        executor_id: receipt.receiver_id.clone(),
        status,
        metadata: metadata(Some(contracts), profile),
    };
    Effects { outcome, receipts, moved: progress.moved }
}

fn step(
    state: &mut State,
    receipt: &Receipt,
    action: &Action,
    place: &Place,
    progress: &mut Progress,
) -> Result<(), ActionErrorKind> {
    let account_id = &receipt.receiver_id;
    if let Action::CreateAccount(_) = action {
        return create(state, receipt, progress);
    }
    if state.amount(&Slot::Near(account_id.clone())).is_none() {
        return Err(ActionErrorKind::AccountDoesNotExist { account_id: account_id.clone() });
    }
    let own = progress.created || &receipt.predecessor_id == account_id;
    match action {
        Action::Transfer(transfer) => {
            credit(state, account_id, transfer.deposit.as_yoctonear());
            progress.value.clear();
            Ok(())
        }
        Action::FunctionCall(call) => contract(state, receipt, call, place, progress)
            .map_err(ActionErrorKind::FunctionCallError),
        Action::Delegate(signed) => relay::relay(state, receipt, signed, place).map(|made| {
            progress.gas_burnt += made.send_gas;
            progress.relayed.push(made.receipt);
        }),
        Action::AddKey(_) | Action::DeleteKey(_) if !own => {
            Err(ActionErrorKind::ActorNoPermission {
                account_id: account_id.clone(),
                actor_id: receipt.predecessor_id.clone(),
            })
        }
        Action::AddKey(add) => {
            if state.key(account_id, &add.public_key).is_some() {
                return Err(ActionErrorKind::AddKeyAlreadyExists {
                    account_id: account_id.clone(),
                    public_key: Box::new(add.public_key.clone()),
                });
            }
            let mut key = add.access_key.clone();
            key.nonce = place.height.saturating_sub(1) * NONCES_PER_HEIGHT;
            let slot = Slot::Key(account_id.clone(), add.public_key.clone());
            state.set(slot, Some(Value::Key(key)));
            Ok(())
        }
        Action::DeleteKey(delete) => {
            if state.key(account_id, &delete.public_key).is_none() {
                return Err(ActionErrorKind::DeleteKeyDoesNotExist {
                    account_id: account_id.clone(),
                    public_key: Box::new(delete.public_key.clone()),
                });
            }
            state.set(Slot::Key(account_id.clone(), delete.public_key.clone()), None);
            Ok(())
        }
        _ => unreachable!("refused before it was included"),
    }
}

/// An account below the one that asks for it; those at the top are not to be had here.
fn create(
    state: &mut State,
    receipt: &Receipt,
    progress: &mut Progress,
) -> Result<(), ActionErrorKind> {
    let (account_id, predecessor_id) = (&receipt.receiver_id, &receipt.predecessor_id);
    let slot = Slot::Near(account_id.clone());
    if state.amount(&slot).is_some() {
        return Err(ActionErrorKind::AccountAlreadyExists { account_id: account_id.clone() });
    }
    if !account_id.is_sub_account_of(predecessor_id) {
        return Err(ActionErrorKind::CreateAccountNotAllowed {
            account_id: account_id.clone(),
            predecessor_id: predecessor_id.clone(),
        });
    }
    state.set_amount(slot, 0);
    progress.created = true;
    Ok(())
}

fn contract(
    state: &mut State,
    receipt: &Receipt,
    call: &FunctionCallAction,
    place: &Place,
    progress: &mut Progress,
) -> Result<(), FunctionCallError> {
    if &receipt.receiver_id != place.token {
        return Err(FunctionCallError::CompilationError(CompilationError::CodeDoesNotExist {
            account_id: receipt.receiver_id.clone(),
        }));
    }
    let attached = call.gas.as_gas();
    let asked = token::Call {
        predecessor: &receipt.predecessor_id,
        method: &call.method_name,
        args: &call.args,
        deposit: call.deposit.as_yoctonear(),
    };
    let done = token::call(state, &asked);
    let extra = match &done {
        Ok(done) if done.refund > 0 => fees::TRANSFER_RECEIPT,
        _ => 0,
    };
    let gas = match &done {
        Ok(done) => done.gas + extra,
        Err(token::Failure::Panic(_)) => fees::PANIC,
        Err(token::Failure::OutOfGas) => u64::MAX,
        Err(token::Failure::NoSuchMethod) => 0,
    };
    let used = gas.min(attached);
    progress.gas_burnt += used;
    progress.contract_gas += used;
    let out_of_gas = || FunctionCallError::ExecutionError("Exceeded the prepaid gas.".to_string());
    if gas.saturating_add(extra) > attached {
        return Err(out_of_gas());
    }
    let done = done.map_err(|failure| match failure {
        token::Failure::Panic(text) => {
            FunctionCallError::ExecutionError(format!("Smart contract panicked: {text}"))
        }
        token::Failure::OutOfGas => out_of_gas(),
        token::Failure::NoSuchMethod => {
            FunctionCallError::MethodResolveError(MethodResolveError::MethodNotFound)
        }
    })?;
    credit(state, &receipt.receiver_id, done.kept);
    progress.logs.extend(done.log);
    progress.value = done.value;
    progress.sent_back.extend((done.refund > 0).then_some(done.refund));
    progress.moved.extend(done.transfer);
    Ok(())
}

/// Receipts a finished one makes: what the contract sends back, failed deposits, unburnt gas.
fn aftermath(
    receipt: &Receipt,
    signed: &SignedTransaction,
    place: &Place,
    progress: &Progress,
    (relayed, failed): (Vec<Receipt>, bool),
) -> Vec<Receipt> {
    let payer = &receipt.predecessor_id;
    let relayed_gas: u64 = relayed.iter().map(|made| made.prepaid_gas).sum();
    let mut made = relayed;
    for amount in &progress.sent_back {
        let mut back = refund(receipt, payer, *amount, made.len(), place);
        back.refund = false;
        back.predecessor_id = receipt.receiver_id.clone();
        back.prepaid_gas = fees::TRANSFER_RECEIPT;
        made.push(back);
    }
    let deposits = if failed { fees::deposits(signed).unwrap_or(0) } else { 0 };
    if deposits > 0 {
        made.push(refund(receipt, payer, deposits, made.len(), place));
    }
    let handed_on = fees::TRANSFER_RECEIPT * progress.sent_back.len() as u64 + relayed_gas;
    let bought = u128::from(receipt.prepaid_gas - handed_on) * GAS_PURCHASE_PRICE;
    let left = bought - u128::from(progress.gas_burnt) * GAS_PRICE;
    if left > 0 {
        made.push(refund(receipt, &receipt.gas_payer, left, made.len(), place));
    }
    made
}

fn refund(parent: &Receipt, to: &AccountId, amount: u128, index: usize, place: &Place) -> Receipt {
    Receipt {
        id: receipt_id(&parent.id, place, index),
        origin: parent.origin,
        predecessor_id: place.system.clone(),
        receiver_id: to.clone(),
        work: Work::Pay(amount),
        prepaid_gas: 0,
        gas_payer: parent.gas_payer.clone(),
        refund: true,
    }
}

pub fn receipt_id(parent: &CryptoHash, place: &Place, index: usize) -> CryptoHash {
    let index = (index as u64).to_le_bytes();
    CryptoHash::hash_bytes(&[parent.as_ref(), place.prev_hash.as_ref(), &index].concat())
}

/// False when there is no such account.
fn credit(state: &mut State, account: &AccountId, amount: u128) -> bool {
    let slot = Slot::Near(account.clone());
    let Some(held) = state.amount(&slot) else { return false };
    if amount > 0 {
        state.set_amount(slot, held.saturating_add(amount));
    }
    true
}

pub fn tokens(gas: u64) -> Balance {
    Balance::from_yoctonear(u128::from(gas) * GAS_PRICE)
}

fn metadata(
    contracts: Option<Vec<Option<AccountContractView>>>,
    gas_profile: Vec<CostGasUsed>,
) -> ExecutionMetadataView {
    ExecutionMetadataView { version: 4, gas_profile: Some(gas_profile), contracts }
}
