//! The signers' keys, the same for the same seed.

use alloy_primitives::{Address, B256, keccak256};
use k256::ecdsa::SigningKey;

/// The secret of the signer with this number.
pub fn secret(seed: u64, index: usize) -> B256 {
    keccak256(format!("landfall sim evm {seed} {index}"))
}

/// The address that the secret signs for.
///
/// # Panics
/// If it is no secret: of all hashes, none that will ever be seen.
pub fn address(secret: &B256) -> Address {
    let key = SigningKey::from_slice(secret.as_slice()).expect("a hash is below the curve's order");
    Address::from_private_key(&key)
}
