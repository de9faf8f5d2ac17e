//! The rules a transaction must meet, in the order a node checks them.
//!
//! [`statically`] needs no state: signature, actions, gas. [`charge`] checks signer, key, nonce
//! and balance against any view of the state; [`take`] then takes the payment.
//! Not here: the age of the block hash, which depends on the viewer ([`super::View::validate`]).

use near_primitives::account::{AccessKey, AccessKeyPermission, FunctionCallPermission};
use near_primitives::action::Action;
use near_primitives::errors::{ActionsValidationError, InvalidAccessKeyError, InvalidTxError};
use near_primitives::gas::Gas as NearGas;
use near_primitives::transaction::{NonceMode, SignedTransaction};
use near_primitives::types::Balance;

use super::fees::{self, Gas};
use super::state::{Slot, State, Value};

pub const PROTOCOL_VERSION: u32 = 86;
/// Actions in one transaction.
pub const MAX_ACTIONS: u64 = 100;
/// Nonces a block's height allows.
pub const NONCES_PER_HEIGHT: u64 = 1_000_000;

pub fn statically(signed: &SignedTransaction, max_gas: u64) -> Result<(), InvalidTxError> {
    let transaction = &signed.transaction;
    actions(transaction.actions(), max_gas).map_err(InvalidTxError::ActionsValidation)?;
    if transaction.nonce().nonce_index().is_some() {
        return Err(unsupported("GasKeys"));
    }
    if !signed.signature.verify(signed.hash().as_ref(), transaction.public_key()) {
        return Err(InvalidTxError::InvalidSignature);
    }
    Ok(())
}

fn actions(actions: &[Action], max_gas: u64) -> Result<(), ActionsValidationError> {
    let count = actions.len() as u64;
    if count > MAX_ACTIONS {
        return Err(ActionsValidationError::TotalNumberOfActionsExceeded {
            total_number_of_actions: count,
            limit: MAX_ACTIONS,
        });
    }
    if actions.iter().filter(|action| matches!(action, Action::Delegate(_))).count() > 1 {
        return Err(ActionsValidationError::DelegateActionMustBeOnlyOne);
    }
    let mut total = 0u64;
    for action in actions {
        match action {
            Action::FunctionCall(call) if call.gas.as_gas() == 0 => {
                return Err(ActionsValidationError::FunctionCallZeroAttachedGas);
            }
            Action::FunctionCall(call) => {
                total = total
                    .checked_add(call.gas.as_gas())
                    .ok_or(ActionsValidationError::IntegerOverflow)?;
            }
            // Its own limits are those of what it asks for.
            Action::Delegate(signed) => {
                self::actions(&signed.delegate_action.get_actions(), max_gas)?
            }
            Action::CreateAccount(_)
            | Action::Transfer(_)
            | Action::AddKey(_)
            | Action::DeleteKey(_) => {}
            _ => return Err(unsupported_action("an action the simulator does not know")),
        }
    }
    if total > max_gas {
        return Err(ActionsValidationError::TotalPrepaidGasExceeded {
            total_prepaid_gas: NearGas::from_gas(total),
            limit: NearGas::from_gas(max_gas),
        });
    }
    Ok(())
}

fn unsupported_action(what: &str) -> ActionsValidationError {
    ActionsValidationError::UnsupportedProtocolFeature {
        protocol_feature: what.to_string(),
        version: PROTOCOL_VERSION,
    }
}

fn unsupported(what: &str) -> InvalidTxError {
    InvalidTxError::ActionsValidation(unsupported_action(what))
}

/// What a valid transaction takes from its signer.
pub struct Charge {
    pub gas: Gas,
    near_left: u128,
    key: AccessKey,
}

/// Checks signer, key, nonce and balance against the state that `read` shows. `height` is that of
/// the block to be; `None` at the RPC, where a node does not look for nonces too large.
pub fn charge(
    read: impl Fn(&Slot) -> Option<Value>,
    signed: &SignedTransaction,
    height: Option<u64>,
) -> Result<Charge, InvalidTxError> {
    let transaction = &signed.transaction;
    let signer = transaction.signer_id();
    let public_key = transaction.public_key();
    let Some(Value::Amount(balance)) = read(&Slot::Near(signer.clone())) else {
        return Err(InvalidTxError::SignerDoesNotExist { signer_id: signer.clone() });
    };
    let Some(Value::Key(mut key)) = read(&Slot::Key(signer.clone(), public_key.clone())) else {
        return Err(InvalidTxError::InvalidAccessKeyError(
            InvalidAccessKeyError::AccessKeyNotFound {
                account_id: signer.clone(),
                public_key: Box::new(public_key.clone()),
            },
        ));
    };
    nonce(signed, &key, height)?;
    let gas = Gas::of(signed).ok_or(InvalidTxError::CostOverflow)?;
    let cost = fees::deposits(signed)
        .and_then(|deposits| deposits.checked_add(gas.cost()))
        .ok_or(InvalidTxError::CostOverflow)?;
    let near_left = balance.checked_sub(cost).ok_or_else(|| InvalidTxError::NotEnoughBalance {
        signer_id: signer.clone(),
        balance: Balance::from_yoctonear(balance),
        cost: Balance::from_yoctonear(cost),
    })?;
    if let AccessKeyPermission::FunctionCall(permission) = &mut key.permission {
        allowance(signed, permission, cost).map_err(InvalidTxError::InvalidAccessKeyError)?;
        permitted(signed, permission).map_err(InvalidTxError::InvalidAccessKeyError)?;
    }
    key.nonce = transaction.nonce().nonce();
    Ok(Charge { gas, near_left, key })
}

/// Takes nonce, fees and deposits.
pub fn take(state: &mut State, signed: &SignedTransaction, charge: Charge) {
    let signer = signed.transaction.signer_id();
    let public_key = signed.transaction.public_key();
    state.set_amount(Slot::Near(signer.clone()), charge.near_left);
    state.set(Slot::Key(signer.clone(), public_key.clone()), Some(Value::Key(charge.key)));
}

fn nonce(
    signed: &SignedTransaction,
    key: &AccessKey,
    height: Option<u64>,
) -> Result<(), InvalidTxError> {
    let tx_nonce = signed.transaction.nonce().nonce();
    let strict = signed.transaction.nonce_mode() == NonceMode::Strict;
    if tx_nonce <= key.nonce || (strict && tx_nonce != key.nonce + 1) {
        return Err(InvalidTxError::InvalidNonce { tx_nonce, ak_nonce: key.nonce });
    }
    let upper_bound = height.map(|height| height.saturating_mul(NONCES_PER_HEIGHT));
    match upper_bound {
        Some(upper_bound) if tx_nonce >= upper_bound => {
            Err(InvalidTxError::NonceTooLarge { tx_nonce, upper_bound })
        }
        _ => Ok(()),
    }
}

fn allowance(
    signed: &SignedTransaction,
    permission: &mut FunctionCallPermission,
    cost: u128,
) -> Result<(), InvalidAccessKeyError> {
    let Some(allowance) = permission.allowance else { return Ok(()) };
    let left = allowance.as_yoctonear().checked_sub(cost).ok_or_else(|| {
        InvalidAccessKeyError::NotEnoughAllowance {
            account_id: signed.transaction.signer_id().clone(),
            public_key: Box::new(signed.transaction.public_key().clone()),
            allowance,
            cost: Balance::from_yoctonear(cost),
        }
    })?;
    permission.allowance = Some(Balance::from_yoctonear(left));
    Ok(())
}

fn permitted(
    signed: &SignedTransaction,
    permission: &FunctionCallPermission,
) -> Result<(), InvalidAccessKeyError> {
    let transaction = &signed.transaction;
    let [Action::FunctionCall(call)] = transaction.actions() else {
        return Err(InvalidAccessKeyError::RequiresFullAccess);
    };
    if !call.deposit.is_zero() {
        return Err(InvalidAccessKeyError::DepositWithFunctionCall);
    }
    if transaction.receiver_id().as_str() != permission.receiver_id {
        return Err(InvalidAccessKeyError::ReceiverMismatch {
            tx_receiver: transaction.receiver_id().clone(),
            ak_receiver: permission.receiver_id.clone(),
        });
    }
    let names = &permission.method_names;
    if !names.is_empty() && !names.contains(&call.method_name) {
        return Err(InvalidAccessKeyError::MethodNameMismatch {
            method_name: call.method_name.clone(),
        });
    }
    Ok(())
}
