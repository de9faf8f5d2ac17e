//! The fee payers' keys, the same for the same seed.

use solana_keypair::Keypair;

/// The key of the payer with this number.
pub fn keypair(seed: u64, index: usize) -> Keypair {
    let secret = blake3::hash(format!("landfall sim solana {seed} {index}").as_bytes());
    Keypair::new_from_array(*secret.as_bytes())
}
