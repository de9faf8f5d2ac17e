//! A signed transaction, read from the bytes that a client sends.

use std::collections::HashSet;
use std::sync::OnceLock;

use solana_address::Address;
use solana_compute_budget_interface as compute_budget;
use solana_hash::Hash;
use solana_message::VersionedMessage;
use solana_message::compiled_instruction::CompiledInstruction;
use solana_signature::Signature;
use solana_transaction::versioned::VersionedTransaction;
use solana_transaction_error::TransactionError;

/// What fits a packet of the network: 1,280 bytes of IPv6 less its headers.
pub const SIZE_MAX: usize = 1_232;
/// Lamports for each signature.
pub const SIGNATURE_FEE: u64 = 5_000;
/// Units that an instruction gets where the transaction asks for none.
const DEFAULT_UNITS: u64 = 200_000;
/// Units that a transaction may ask for.
const UNITS_MAX: u64 = 1_400_000;
const MICRO: u128 = 1_000_000;
const NAME: &str = "solana_transaction::versioned::VersionedTransaction";

#[derive(Debug, Clone)]
pub struct Transaction {
    pub versioned: VersionedTransaction,
    pub raw: Vec<u8>,
    pub signature: Signature,
    /// Compute units that it may take.
    pub units: u64,
    /// Micro-lamports that it offers for each.
    pub price: u64,
    /// Whether all signatures are right; found out once, since it is what takes longest.
    signed: OnceLock<bool>,
}

impl Transaction {
    /// Says in a node's words what is wrong with the bytes.
    pub fn read(raw: Vec<u8>) -> Result<Transaction, String> {
        let size = raw.len();
        if size > SIZE_MAX {
            return Err(format!("decoded {NAME} too large: {size} bytes (max: {SIZE_MAX} bytes)"));
        }
        let read = bincode::deserialize::<VersionedTransaction>(&raw);
        let versioned = read.map_err(|error| format!("failed to deserialize {NAME}: {error}"))?;
        let invalid = |error: &dyn std::fmt::Display| format!("invalid transaction: {error}");
        if versioned.sanitize().is_err() || versioned.signatures.is_empty() {
            return Err(invalid(&TransactionError::SanitizeFailure));
        }
        // There are no address tables here, so nothing that such a transaction names is known.
        let lookups = versioned.message.address_table_lookups();
        if lookups.is_some_and(|lookups| !lookups.is_empty()) {
            return Err(invalid(&TransactionError::AddressLookupTableNotFound));
        }
        let (units, price) = budget(&versioned.message);
        let signature = versioned.signatures[0];
        Ok(Transaction { versioned, raw, signature, units, price, signed: OnceLock::new() })
    }

    pub fn message(&self) -> &VersionedMessage {
        &self.versioned.message
    }

    pub fn keys(&self) -> &[Address] {
        self.message().static_account_keys()
    }

    pub fn instructions(&self) -> &[CompiledInstruction] {
        self.message().instructions()
    }

    pub fn payer(&self) -> Address {
        self.keys()[0]
    }

    pub fn blockhash(&self) -> Hash {
        *self.message().recent_blockhash()
    }

    pub fn is_writable(&self, index: usize) -> bool {
        // Programs are never written to here, so nothing has to be reserved.
        let reserved: Option<&HashSet<Address>> = None;
        self.message().is_maybe_writable_with_reserved_addresses(index, reserved)
    }

    pub fn is_signed(&self) -> bool {
        let verify = || self.versioned.verify_with_results().into_iter().all(|is_good| is_good);
        *self.signed.get_or_init(verify)
    }

    /// What its payer is charged, whether it succeeds or not.
    pub fn fee(&self) -> u64 {
        let signatures = self.versioned.signatures.len() as u64;
        let priority = (u128::from(self.price) * u128::from(self.units)).div_ceil(MICRO);
        (signatures * SIGNATURE_FEE).saturating_add(u64::try_from(priority).unwrap_or(u64::MAX))
    }
}

/// The units and the price that a message asks for.
fn budget(message: &VersionedMessage) -> (u64, u64) {
    let keys = message.static_account_keys();
    let (mut units, mut price, mut others) = (None, 0, 0);
    for instruction in message.instructions() {
        if keys.get(usize::from(instruction.program_id_index)) != Some(&compute_budget::ID) {
            others += 1;
            continue;
        }
        match instruction.data.split_first() {
            Some((2, rest)) => units = rest.try_into().ok().map(u32::from_le_bytes).or(units),
            Some((3, rest)) => price = rest.try_into().map_or(price, u64::from_le_bytes),
            _ => {}
        }
    }
    let units = units.map_or(others * DEFAULT_UNITS, u64::from);
    (units.min(UNITS_MAX), price)
}
