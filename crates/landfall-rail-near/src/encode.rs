//! Transactions as bytes: built and signed with the ledger's own crates.
//!
//! Pure: nothing here knows a node. Action `i` is for payout `i`, always, so that the index in a
//! failure names the payout.
//! Not here: which nonce, which block (`rail`), what an answer means (`sort`, `outcome`).

use landfall_core::Purpose;
use landfall_core::near::Payout;
use near_primitives::account::id::AccountId;
use near_primitives::action::{Action, FunctionCallAction, TransferAction};
use near_primitives::hash::CryptoHash;
use near_primitives::transaction::{SignedTransaction, Transaction, TransactionV0};
use near_primitives::types::{Balance, Gas};
use serde::{Deserialize, Serialize};

use crate::keys::Key;

/// NEP-141 wants exactly this much attached to `ft_transfer`, in yoctoNEAR: proof of a full key.
const FT_TRANSFER_DEPOSIT: Balance = Balance::from_yoctonear(1);
/// Bytes of a transaction's fixed parts: two account ids of 64, key, hash, signature, lengths.
const ENVELOPE_BYTES: usize = 512;
/// Bytes of an action beside its arguments: tag, method name, lengths, gas, deposit.
const ACTION_BYTES: usize = 64;

/// What one transaction may hold. The ledger's limits, or tighter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Actions in one transaction. The protocol takes 100.
    pub actions: usize,
    /// Gas attached to each `ft_transfer`, in gas. Measured 1.7 TGas alone; 3 suffices.
    pub transfer_gas: u64,
    /// Gas attached to each `storage_deposit`, in gas. Measured 1.5 TGas alone.
    pub deposit_gas: u64,
    /// Gas attached to one transaction, in gas. 300 TGas everywhere; 1,000 since protocol 83.
    pub transaction_gas: u64,
    /// Bytes of one signed transaction. The protocol takes 1.5 MiB, but nodes take no HTTP body
    /// over 2 MiB, and base64 adds a third.
    pub bytes: usize,
}

/// One TGas, in gas.
pub const TGAS: u64 = 1_000_000_000_000;

impl Default for Limits {
    fn default() -> Self {
        Self {
            actions: 100,
            transfer_gas: 3 * TGAS,
            deposit_gas: 3 * TGAS,
            transaction_gas: 300 * TGAS,
            bytes: 1_400_000,
        }
    }
}

impl Limits {
    /// How many of these, from the front, one transaction can carry. At least 1 unless empty.
    pub fn fit(&self, purpose: Purpose, payouts: &[&Payout]) -> usize {
        let gas = match purpose {
            Purpose::Pay => self.transfer_gas,
            Purpose::Prepare => self.deposit_gas,
            Purpose::Fence => return 0,
        };
        let by_gas = (self.transaction_gas / gas.max(1)).max(1) as usize;
        let most = payouts.len().min(self.actions).min(by_gas);
        let mut bytes = ENVELOPE_BYTES;
        for (taken, payout) in payouts[..most].iter().enumerate() {
            bytes += ACTION_BYTES + arguments(purpose, payout).len();
            if bytes > self.bytes && taken > 0 {
                return taken;
            }
        }
        most
    }
}

/// Everything a transaction says beside its actions.
pub struct Envelope<'a> {
    pub signer: &'a AccountId,
    pub key: &'a Key,
    pub nonce: u64,
    pub receiver: &'a AccountId,
    pub block_hash: CryptoHash,
}

/// The actions that pay, one per payout.
pub fn transfers(payouts: &[&Payout], limits: &Limits) -> Vec<Action> {
    let call = |payout: &&Payout| {
        call(
            "ft_transfer",
            arguments(Purpose::Pay, payout),
            limits.transfer_gas,
            FT_TRANSFER_DEPOSIT,
        )
    };
    payouts.iter().map(call).collect()
}

/// The actions that register, one per payout's receiver, each with the contract's least deposit.
pub fn registrations(payouts: &[&Payout], deposit: u128, limits: &Limits) -> Vec<Action> {
    let deposit = Balance::from_yoctonear(deposit);
    let call = |payout: &&Payout| {
        call("storage_deposit", arguments(Purpose::Prepare, payout), limits.deposit_gas, deposit)
    };
    payouts.iter().map(call).collect()
}

/// The action of a fence: a transfer of nothing, to be sent to the signer itself.
pub fn fence() -> Vec<Action> {
    vec![Action::Transfer(TransferAction { deposit: Balance::ZERO })]
}

/// Signs. Returns the bytes and their hash, in the ledger's spelling.
pub fn sign(envelope: &Envelope<'_>, actions: Vec<Action>) -> (Vec<u8>, String) {
    let transaction = Transaction::V0(TransactionV0 {
        signer_id: envelope.signer.clone(),
        public_key: envelope.key.public().clone(),
        nonce: envelope.nonce,
        receiver_id: envelope.receiver.clone(),
        block_hash: envelope.block_hash,
        actions,
    });
    let (hash, _) = transaction.get_hash_and_size();
    let signature = envelope.key.sign(hash.as_ref());
    let signed = SignedTransaction::new(signature, transaction);
    (borsh::to_vec(&signed).expect("a Vec takes every byte"), hash.to_string())
}

/// Checks what any node would check of the bytes alone, so that a refusal for such a reason can
/// only be a node's mistake: they decode, are signed, have this hash, and keep to the limits.
pub fn check(bytes: &[u8], hash: &str, limits: &Limits) -> Result<(), String> {
    let signed: SignedTransaction =
        borsh::from_slice(bytes).map_err(|error| format!("signed bytes do not decode: {error}"))?;
    let (own, _) = signed.transaction.get_hash_and_size();
    if own.to_string() != hash {
        return Err(format!("signed bytes have hash {own}, not {hash}"));
    }
    if !signed.signature.verify(own.as_ref(), signed.transaction.public_key()) {
        return Err("the signature does not fit its key".to_owned());
    }
    if bytes.len() > limits.bytes {
        return Err(format!("a transaction of {} bytes is too large", bytes.len()));
    }
    let actions = signed.transaction.actions().len();
    if actions == 0 || actions > limits.actions {
        return Err(format!("a transaction of {actions} actions, not of 1 to {}", limits.actions));
    }
    Ok(())
}

/// What a stored transaction says, as far as a look needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub signer: String,
    pub public_key: String,
    /// Of `ft_transfer` actions, in order: whom and how much. Empty for anything else.
    pub payments: Vec<(String, u128)>,
    /// Of `storage_deposit` actions, in order: whom.
    pub registered: Vec<String>,
}

/// Reads stored bytes back. None if they are no transaction of ours.
pub fn read(bytes: &[u8]) -> Option<Stored> {
    let signed: SignedTransaction = borsh::from_slice(bytes).ok()?;
    let transaction = &signed.transaction;
    let (mut payments, mut registered) = (Vec::new(), Vec::new());
    for action in transaction.actions() {
        let Action::FunctionCall(call) = action else { continue };
        match call.method_name.as_str() {
            "ft_transfer" => {
                let args: ReadTransfer = serde_json::from_slice(&call.args).ok()?;
                payments.push((args.receiver_id, args.amount.parse().ok()?));
            }
            "storage_deposit" => {
                let args: ReadDeposit = serde_json::from_slice(&call.args).ok()?;
                registered.push(args.account_id);
            }
            _ => return None,
        }
    }
    Some(Stored {
        signer: transaction.signer_id().to_string(),
        public_key: transaction.public_key().to_string(),
        payments,
        registered,
    })
}

// Field order is part of the bytes: the order of NEAR's own tools, alphabetical.
#[derive(Serialize)]
struct TransferArgs<'a> {
    amount: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    memo: Option<&'a str>,
    receiver_id: &'a str,
}

#[derive(Serialize)]
struct DepositArgs<'a> {
    account_id: &'a str,
    registration_only: bool,
}

#[derive(Deserialize)]
struct ReadTransfer {
    amount: String,
    receiver_id: String,
}

#[derive(Deserialize)]
struct ReadDeposit {
    account_id: String,
}

fn arguments(purpose: Purpose, payout: &Payout) -> Vec<u8> {
    let bytes = match purpose {
        Purpose::Pay => serde_json::to_vec(&TransferArgs {
            amount: payout.amount.to_string(),
            memo: payout.memo.as_deref(),
            receiver_id: &payout.receiver_id,
        }),
        Purpose::Prepare => serde_json::to_vec(&DepositArgs {
            account_id: &payout.receiver_id,
            registration_only: true,
        }),
        Purpose::Fence => Ok(Vec::new()),
    };
    bytes.expect("strings always become JSON")
}

fn call(method: &str, args: Vec<u8>, gas: u64, deposit: Balance) -> Action {
    Action::FunctionCall(Box::new(FunctionCallAction {
        method_name: method.to_owned(),
        args,
        gas: Gas::from_gas(gas),
        deposit,
    }))
}

#[cfg(test)]
mod tests;
