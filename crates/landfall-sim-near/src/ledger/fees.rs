//! What gas costs, as protocol 86 charges it.
//!
//! Sending is paid at the block's gas price; everything that runs later is bought in advance at
//! the floor price and what is left comes back. The figures reproduce the costs in the captured
//! answers to the yocto. Gas burnt inside the token contract is a constant per method, measured.
//! Not here: the rule that an account must be able to pay (`verify`).

use near_primitives::account::AccessKeyPermission;
use near_primitives::action::Action;
use near_primitives::action::delegate::DelegateAction;
use near_primitives::transaction::SignedTransaction;

pub const GAS_PRICE: u128 = 100_000_000;
/// Price at which gas that runs later is bought (`min_gas_purchase_price`).
pub const GAS_PURCHASE_PRICE: u128 = 1_000_000_000;
pub const TGAS: u64 = 1_000_000_000_000;

const RECEIPT: u64 = 108_059_500_000;
const TRANSFER: u64 = 115_123_062_500;
const CALL_SEND: u64 = 200_000_000_000;
const CALL_RUN: u64 = 780_000_000_000;
const CALL_BYTE_SEND: u64 = 47_683_715;
const CALL_BYTE_RUN: u64 = 2_235_934;
const ADD_KEY_FULL: u64 = 101_765_125_000;
const ADD_KEY_CALL: u64 = 102_217_625_000;
const ADD_KEY_BYTE: u64 = 1_925_331;
const DELETE_KEY: u64 = 94_946_625_000;
/// Not held against a captured answer or the protocol's parameters yet, unlike those above.
const CREATE_ACCOUNT: u64 = 3_850_000_000_000;
/// The same.
const DELEGATE: u64 = 200_000_000_000;

/// Gas a receipt with one plain transfer burns, refunds included.
pub const TRANSFER_RECEIPT: u64 = RECEIPT + TRANSFER;
/// Gas inside the contract: `ft_transfer`.
pub const FT_TRANSFER: u64 = 860_000_000_000;
/// Gas inside the contract: `storage_deposit` and `storage_unregister`.
pub const STORAGE_CALL: u64 = 620_000_000_000;
/// Gas inside the contract until a panic.
pub const PANIC: u64 = 320_000_000_000;

/// The gas of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gas {
    /// Burnt when the transaction becomes a receipt.
    pub send: u64,
    /// Needed to run the actions, contract excluded.
    pub run: u64,
    /// Attached to function calls.
    pub attached: u64,
}

impl Gas {
    pub fn of(signed: &SignedTransaction) -> Option<Gas> {
        let transaction = &signed.transaction;
        let own = transaction.signer_id() == transaction.receiver_id();
        let mut gas = Gas { send: RECEIPT, run: RECEIPT, attached: 0 };
        for action in transaction.actions() {
            gas.send = gas.send.checked_add(send_cost(action, own))?;
            gas.run = gas.run.checked_add(run_cost(action))?;
            if let Action::FunctionCall(call) = action {
                gas.attached = gas.attached.checked_add(call.gas.as_gas())?;
            }
            if let Action::Delegate(signed) = action {
                let inner = Gas::relayed(&signed.delegate_action)?;
                gas.run = gas.run.checked_add(inner.send)?.checked_add(inner.run)?;
                gas.attached = gas.attached.checked_add(inner.attached)?;
            }
        }
        Some(gas)
    }

    /// Of what a relayed action asks for, beyond what the relaying itself costs.
    pub fn relayed(delegate: &DelegateAction) -> Option<Gas> {
        let own = delegate.sender_id == delegate.receiver_id;
        let mut gas = Gas { send: RECEIPT, run: RECEIPT, attached: 0 };
        for action in &delegate.get_actions() {
            gas.send = gas.send.checked_add(send_cost(action, own))?;
            gas.run = gas.run.checked_add(run_cost(action))?;
            if let Action::FunctionCall(call) = action {
                gas.attached = gas.attached.checked_add(call.gas.as_gas())?;
            }
        }
        Some(gas)
    }

    /// Gas bought in advance.
    pub fn prepaid(&self) -> u64 {
        self.run + self.attached
    }

    /// yoctoNEAR taken from the signer for gas when the transaction is included.
    pub fn cost(&self) -> u128 {
        u128::from(self.send) * GAS_PRICE + u128::from(self.prepaid()) * GAS_PURCHASE_PRICE
    }
}

/// Deposits of all actions together.
pub fn deposits(signed: &SignedTransaction) -> Option<u128> {
    deposits_of(signed.transaction.actions())
}

fn deposits_of(actions: &[Action]) -> Option<u128> {
    actions.iter().try_fold(0u128, |sum, action| {
        let deposit = match action {
            Action::FunctionCall(call) => call.deposit.as_yoctonear(),
            Action::Transfer(transfer) => transfer.deposit.as_yoctonear(),
            Action::Delegate(signed) => deposits_of(&signed.delegate_action.get_actions())?,
            _ => 0,
        };
        sum.checked_add(deposit)
    })
}

fn call_bytes(action: &Action) -> u64 {
    match action {
        Action::FunctionCall(call) => (call.method_name.len() + call.args.len()) as u64,
        _ => 0,
    }
}

fn send_cost(action: &Action, own: bool) -> u64 {
    match action {
        Action::FunctionCall(_) => {
            let byte = if own { CALL_BYTE_RUN } else { CALL_BYTE_SEND };
            CALL_SEND + byte * call_bytes(action)
        }
        other => run_cost(other),
    }
}

/// Gas to run one action, contract excluded.
pub fn run_cost(action: &Action) -> u64 {
    match action {
        Action::FunctionCall(_) => CALL_RUN + CALL_BYTE_RUN * call_bytes(action),
        Action::Transfer(_) => TRANSFER,
        Action::AddKey(add) => match &add.access_key.permission {
            AccessKeyPermission::FunctionCall(permission) => {
                let names: usize = permission.method_names.iter().map(|name| name.len() + 1).sum();
                ADD_KEY_CALL + ADD_KEY_BYTE * names as u64
            }
            _ => ADD_KEY_FULL,
        },
        Action::DeleteKey(_) => DELETE_KEY,
        Action::CreateAccount(_) => CREATE_ACCOUNT,
        Action::Delegate(_) => DELEGATE,
        _ => 0,
    }
}

/// Gas of an empty receipt.
pub const fn receipt_cost() -> u64 {
    RECEIPT
}
