//! Keys that follow from a seed, and transactions signed with them.

use near_crypto::{KeyType, SecretKey};
use near_primitives::action::{Action, FunctionCallAction, TransferAction};
use near_primitives::gas::Gas;
use near_primitives::hash::CryptoHash;
use near_primitives::transaction::{SignedTransaction, Transaction, TransactionV0};
use near_primitives::types::{AccountId, Balance};

/// The key number `index` of the chain seeded with `seed`.
pub fn secret_key(seed: u64, index: usize) -> SecretKey {
    // The library takes 32 bytes of the text: two numbers in hexadecimal fill them exactly.
    SecretKey::from_seed(KeyType::ED25519, &format!("{seed:016x}{index:016x}"))
}

/// Attached to each `ft_transfer`, in gas: a hundred of them fill a transaction's 300 TGas.
const FT_TRANSFER_GAS: u64 = 3_000_000_000_000;

/// Signs actions for a receiver.
pub fn sign(
    signer_id: &AccountId,
    key: &SecretKey,
    nonce: u64,
    receiver_id: &AccountId,
    block_hash: CryptoHash,
    actions: Vec<Action>,
) -> SignedTransaction {
    let transaction = Transaction::V0(TransactionV0 {
        signer_id: signer_id.clone(),
        public_key: key.public_key(),
        nonce,
        receiver_id: receiver_id.clone(),
        block_hash,
        actions,
    });
    let (hash, _) = transaction.get_hash_and_size();
    SignedTransaction::new(key.sign(hash.as_ref()), transaction)
}

/// A transfer of nothing to oneself: what a fence is made of.
pub fn transfer_of_nothing() -> Vec<Action> {
    vec![Action::Transfer(TransferAction { deposit: Balance::ZERO })]
}

/// What pays an account in tokens.
pub fn ft_transfer(receiver_id: &AccountId, amount: u128) -> Action {
    let args = serde_json::json!({ "amount": amount.to_string(), "receiver_id": receiver_id });
    Action::FunctionCall(Box::new(FunctionCallAction {
        method_name: "ft_transfer".to_owned(),
        args: args.to_string().into_bytes(),
        gas: Gas::from_gas(FT_TRANSFER_GAS),
        deposit: Balance::from_yoctonear(1),
    }))
}
