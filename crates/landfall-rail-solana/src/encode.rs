//! Transactions, from the withdraw that they carry to the bytes that a node takes, and back.
//!
//! **Rule:** what a transaction does is what it spends and whom it pays ([`Spend`]): two that spend
//! one nullifier for the same outputs are the same payment, whoever signed them and whatever they
//! offer.
//! **Rule:** what does not fit a packet is never signed ([`TooLarge`]).

use solana_address::Address;
use solana_compute_budget_interface::ComputeBudgetInstruction;
use solana_hash::Hash;
use solana_instruction::{AccountMeta, Instruction};
use solana_message::Message;
use solana_signature::Signature;
use solana_system_interface::program as system;
use solana_transaction::Transaction;
use solana_transaction::versioned::VersionedTransaction;

use crate::keys::Key;
use crate::shield::{self, Accounts, Output, PROOF_BYTES, Withdraw, Word};

/// What fits a packet of the network: 1,280 bytes of IPv6 less its headers.
pub const SIZE_MAX: usize = 1_232;
/// Units that a withdraw may take; mostly the proof's.
pub const UNITS: u32 = 400_000;
/// Which instruction is the withdraw: two for the budget come before it.
pub const WITHDRAW_INDEX: u8 = 2;
/// The pool's name for a withdraw.
const WITHDRAW_TAG: u8 = 2;
/// Bytes of root, nullifier, hash of the outputs and amount.
const PUBLIC_BYTES: usize = 104;
const OUTPUT_BYTES: usize = 40;
const HEAD_BYTES: usize = 1 + PROOF_BYTES + PUBLIC_BYTES + 32 + 1;

/// A transaction that is about to be signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    pub program: Address,
    pub withdraw: Withdraw,
    pub blockhash: Hash,
    /// Compute units that it may take.
    pub units: u32,
    /// Micro-lamports offered for each.
    pub price: u64,
}

/// What one withdraw in a transaction does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spend {
    pub nullifier: Word,
    pub amount: u64,
    pub outputs: Vec<Output>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a transaction of {0} bytes, and {SIZE_MAX} fit a packet")]
pub struct TooLarge(pub usize);

/// Bytes that cannot be read as a transaction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a signed transaction: {0}")]
pub struct Unreadable(String);

/// The instruction alone.
pub fn instruction(program: Address, withdraw: &Withdraw) -> Instruction {
    let own = Accounts::of(&program);
    let mut data = Vec::with_capacity(HEAD_BYTES + withdraw.outputs.len() * OUTPUT_BYTES);
    data.push(WITHDRAW_TAG);
    data.extend(withdraw.proof);
    data.extend(withdraw.root.iter().chain(&withdraw.nullifier));
    data.extend(shield::outputs_hash(&withdraw.outputs));
    data.extend(withdraw.amount.to_le_bytes());
    data.extend(withdraw.nullifier);
    data.push(withdraw.outputs.len() as u8);
    let mut accounts = vec![
        AccountMeta::new(own.pool, false),
        AccountMeta::new(own.treasury, false),
        AccountMeta::new_readonly(own.roots_ring, false),
        AccountMeta::new(own.nullifier_shard, false),
    ];
    for output in &withdraw.outputs {
        data.extend(output.recipient.as_ref());
        data.extend(output.amount.to_le_bytes());
        accounts.push(AccountMeta::new(output.recipient, false));
    }
    accounts.push(AccountMeta::new_readonly(system::ID, false));
    Instruction { program_id: program, accounts, data }
}

fn message(draft: &Draft, payer: &Address) -> Message {
    let instructions = [
        ComputeBudgetInstruction::set_compute_unit_limit(draft.units),
        ComputeBudgetInstruction::set_compute_unit_price(draft.price),
        instruction(draft.program, &draft.withdraw),
    ];
    Message::new_with_blockhash(&instructions, Some(payer), &draft.blockhash)
}

/// Bytes of the transaction that would carry it, whoever pays for it.
pub fn size(program: Address, withdraw: &Withdraw) -> usize {
    let draft = Draft {
        program,
        withdraw: withdraw.clone(),
        blockhash: Hash::default(),
        units: UNITS,
        price: 0,
    };
    // Some key that is no other account of it.
    let payer = Address::new_from_array([1; 32]);
    let signature = 1 + size_of::<Signature>();
    signature + message(&draft, &payer).serialize().len()
}

/// Signs it: the bytes that a node takes, and their signature, by which they are known.
pub fn sign(draft: &Draft, key: &Key) -> Result<(Vec<u8>, Signature), TooLarge> {
    let mut transaction = Transaction::new_unsigned(message(draft, &key.address()));
    let signature = key.sign(&transaction.message_data());
    transaction.signatures = vec![signature];
    let bytes = bincode::serialize(&transaction).expect("a list of bytes is written to a list");
    match bytes.len() {
        fits if fits <= SIZE_MAX => Ok((bytes, signature)),
        size => Err(TooLarge(size)),
    }
}

/// The same without a signature: what a node may try, and nobody can send.
pub fn unsigned(draft: &Draft, payer: &Address) -> Vec<u8> {
    let mut transaction = Transaction::new_unsigned(message(draft, payer));
    transaction.signatures = vec![Signature::default()];
    bincode::serialize(&transaction).expect("a list of bytes is written to a list")
}

/// The signature by which signed bytes are known, if it is that of their payer.
pub fn signature(bytes: &[u8]) -> Result<Signature, Unreadable> {
    let read = read(bytes)?;
    match read.verify_with_results().first() {
        Some(true) => Ok(read.signatures[0]),
        _ => Err(Unreadable("the signature is not its payer's".to_owned())),
    }
}

/// The blockhash that signed bytes were signed on.
pub fn blockhash(bytes: &[u8]) -> Result<Hash, Unreadable> {
    Ok(*read(bytes)?.message.recent_blockhash())
}

/// Every withdraw from the pool that a transaction makes itself. What a program of somebody else's
/// makes on its behalf is not in its bytes.
pub fn spends(bytes: &[u8], program: &Address) -> Result<Vec<Spend>, Unreadable> {
    let read = read(bytes)?;
    let keys = read.message.static_account_keys();
    let ours =
        read.message.instructions().iter().filter(|instruction| {
            keys.get(usize::from(instruction.program_id_index)) == Some(program)
        });
    Ok(ours.filter_map(|instruction| spend(&instruction.data)).collect())
}

/// None if it is another instruction of the pool's.
fn spend(data: &[u8]) -> Option<Spend> {
    let (head, rest) = data.split_at_checked(HEAD_BYTES)?;
    let count = usize::from(*head.last()?);
    if head[0] != WITHDRAW_TAG || rest.len() != count * OUTPUT_BYTES {
        return None;
    }
    let public = 1 + PROOF_BYTES;
    let number = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_le_bytes);
    let output = |bytes: &[u8]| {
        let recipient: [u8; 32] = bytes[..32].try_into().ok()?;
        let recipient = Address::new_from_array(recipient);
        Some(Output { recipient, amount: number(&bytes[32..])? })
    };
    Some(Spend {
        nullifier: head[public + 32..public + 64].try_into().ok()?,
        amount: number(&head[public + 96..public + 104])?,
        outputs: rest.chunks_exact(OUTPUT_BYTES).map(output).collect::<Option<_>>()?,
    })
}

fn read(bytes: &[u8]) -> Result<VersionedTransaction, Unreadable> {
    let unreadable = |error: &dyn std::fmt::Display| Unreadable(error.to_string());
    let read: VersionedTransaction =
        bincode::deserialize(bytes).map_err(|error| unreadable(&error))?;
    read.sanitize().map_err(|error| unreadable(&error))?;
    let written = bincode::serialize(&read).map_err(|error| unreadable(&error))?;
    match written == bytes {
        true => Ok(read),
        false => Err(Unreadable("bytes that belong to nothing".to_owned())),
    }
}

#[cfg(test)]
mod tests;
