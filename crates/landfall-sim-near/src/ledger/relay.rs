//! Delegate actions (NEP-366): what one account has signed, and another pays for and sends.
//!
//! Written from NEP-366 and the types of near-primitives, not held against a real node's answers.
//! Known to be simpler: a key that may only call functions cannot sign one.

use std::sync::Arc;

use near_primitives::account::AccessKeyPermission;
use near_primitives::action::delegate::SignedDelegateAction;
use near_primitives::errors::{ActionErrorKind, InvalidAccessKeyError};
use near_primitives::hash::CryptoHash;
use near_primitives::transaction::{SignedTransaction, Transaction, TransactionV0};

use super::execute::{Place, receipt_id};
use super::fees::Gas;
use super::record::{Receipt, Work};
use super::state::{Slot, State, Value};

/// What comes of a delegate action.
pub struct Relayed {
    pub receipt: Receipt,
    /// Burnt to send it.
    pub send_gas: u64,
}

/// Checks it by its sender's own key, uses that key's nonce, and makes the receipt that acts.
pub fn relay(
    state: &mut State,
    parent: &Receipt,
    signed: &SignedDelegateAction,
    place: &Place,
) -> Result<Relayed, ActionErrorKind> {
    let delegate = &signed.delegate_action;
    let sender_id = &delegate.sender_id;
    if !signed.verify() {
        return Err(ActionErrorKind::DelegateActionInvalidSignature);
    }
    if place.height > delegate.max_block_height {
        return Err(ActionErrorKind::DelegateActionExpired);
    }
    if *sender_id != parent.receiver_id {
        return Err(ActionErrorKind::DelegateActionSenderDoesNotMatchTxReceiver {
            sender_id: sender_id.clone(),
            receiver_id: parent.receiver_id.clone(),
        });
    }
    let refused = ActionErrorKind::DelegateActionAccessKeyError;
    let Some(mut key) = state.key(sender_id, &delegate.public_key).cloned() else {
        return Err(refused(InvalidAccessKeyError::AccessKeyNotFound {
            account_id: sender_id.clone(),
            public_key: Box::new(delegate.public_key.clone()),
        }));
    };
    if key.permission != AccessKeyPermission::FullAccess {
        return Err(refused(InvalidAccessKeyError::RequiresFullAccess));
    }
    if delegate.nonce <= key.nonce {
        return Err(ActionErrorKind::DelegateActionInvalidNonce {
            delegate_nonce: delegate.nonce,
            ak_nonce: key.nonce,
        });
    }
    key.nonce = delegate.nonce;
    let slot = Slot::Key(sender_id.clone(), delegate.public_key.clone());
    state.set(slot, Some(Value::Key(key)));
    // The transaction that holds it was weighed before it was taken.
    let gas = Gas::relayed(delegate).unwrap_or(Gas { send: 0, run: 0, attached: 0 });
    let transaction = Transaction::V0(TransactionV0 {
        signer_id: sender_id.clone(),
        public_key: delegate.public_key.clone(),
        nonce: delegate.nonce,
        receiver_id: delegate.receiver_id.clone(),
        block_hash: CryptoHash::default(),
        actions: delegate.get_actions(),
    });
    let inner = SignedTransaction::new(signed.signature.clone(), transaction);
    let receipt = Receipt {
        id: receipt_id(&parent.id, place, 0),
        origin: parent.origin,
        predecessor_id: sender_id.clone(),
        receiver_id: delegate.receiver_id.clone(),
        work: Work::Actions(Arc::new(inner)),
        prepaid_gas: gas.prepaid(),
        gas_payer: parent.gas_payer.clone(),
        refund: false,
    };
    Ok(Relayed { receipt, send_gas: gas.send })
}
