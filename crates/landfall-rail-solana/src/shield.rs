//! The shield pool as its program has it: where it keeps what, what its accounts say, what it asks
//! for a withdraw.
//!
//! **Rule:** an account that does not look as expected says nothing; it never says "not spent".

use serde::{Deserialize, Serialize};
use solana_address::Address;

/// Cloak's deployed program.
pub const PROGRAM: Address = Address::from_str_const("c1oak6tetxYnNfvXKFkpn1d98FxtK7B68vBQLYQpWKp");
/// Bytes of a proof: Groth16, with the hash of its key before it.
pub const PROOF_BYTES: usize = 260;
/// Outputs that one withdraw may have.
pub const OUTPUTS_MAX: usize = 5;
/// What the pool asks for every withdraw, in lamports, and for each lamport of it in thousandths.
const FEE_FIXED: u64 = 2_500_000;
const FEE_THOUSANDTHS: u128 = 5;
/// Bytes before the first root, and roots in the ring.
const RING_HEAD: usize = 8;
const RING_ROOTS: usize = 64;
/// Bytes before the first nullifier: how many there are.
const SHARD_HEAD: usize = 4;

/// 32 bytes that mean something to the pool: a root, a nullifier, a hash.
pub type Word = [u8; 32];

/// Where a pool of SOL keeps what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accounts {
    pub pool: Address,
    pub treasury: Address,
    pub roots_ring: Address,
    pub nullifier_shard: Address,
}

impl Accounts {
    pub fn of(program: &Address) -> Accounts {
        // SOL has no mint.
        let mint = Address::default();
        let derived =
            |name: &[u8]| Address::find_program_address(&[name, mint.as_ref()], program).0;
        Accounts {
            pool: derived(b"pool"),
            treasury: derived(b"treasury"),
            roots_ring: derived(b"roots_ring"),
            nullifier_shard: derived(b"nullifier_shard"),
        }
    }

    pub fn all(&self) -> [Address; 4] {
        [self.pool, self.treasury, self.roots_ring, self.nullifier_shard]
    }
}

/// Somebody who is paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Output {
    #[serde(with = "text")]
    pub recipient: Address,
    /// Lamports.
    pub amount: u64,
}

/// One withdraw: a note of this amount, spent by its nullifier, less the pool's fee, goes to the
/// outputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withdraw {
    pub proof: [u8; PROOF_BYTES],
    pub root: Word,
    pub nullifier: Word,
    /// Lamports.
    pub amount: u64,
    pub outputs: Vec<Output>,
}

impl Withdraw {
    /// Whether these outputs are the same money to the same people.
    pub fn pays_as(&self, outputs: &[Output]) -> bool {
        let sorted = |outputs: &[Output]| {
            let mut sorted = outputs.to_vec();
            sorted.sort_unstable();
            sorted
        };
        sorted(&self.outputs) == sorted(outputs)
    }
}

/// What the pool keeps of a note of this amount.
pub fn fee(amount: u64) -> u64 {
    let share = u128::from(amount) * FEE_THOUSANDTHS / 1_000;
    FEE_FIXED.saturating_add(u64::try_from(share).unwrap_or(u64::MAX))
}

/// The same in hundredths of a percent, rounded up, as requests name it. None where the fee is the
/// whole amount or more.
pub fn fee_bps(amount: u64) -> Option<u64> {
    let fee = fee(amount);
    if fee >= amount {
        return None;
    }
    u64::try_from((u128::from(fee) * 10_000).div_ceil(u128::from(amount))).ok()
}

/// What a proof says of its outputs, in this order.
pub fn outputs_hash(outputs: &[Output]) -> Word {
    let mut hasher = blake3::Hasher::new();
    for output in outputs {
        hasher.update(output.recipient.as_ref());
        hasher.update(&output.amount.to_le_bytes());
    }
    *hasher.finalize().as_bytes()
}

/// Whether the ring, as its account has it, knows a root. None if it is no ring.
pub fn knows_root(ring: &[u8], root: &Word) -> Option<bool> {
    if ring.len() != RING_HEAD + RING_ROOTS * root.len() {
        return None;
    }
    // What was never written is zeros, and no root.
    let is_written = root.iter().any(|byte| *byte != 0);
    Some(is_written && ring[RING_HEAD..].chunks_exact(root.len()).any(|known| known == root))
}

/// Whether the shard, as its account has it, holds a nullifier. None if it is no shard.
pub fn is_spent(shard: &[u8], nullifier: &Word) -> Option<bool> {
    let (head, rest) = shard.split_at_checked(SHARD_HEAD)?;
    let count = u32::from_le_bytes(head.try_into().ok()?) as usize;
    let spent = rest.get(..count.checked_mul(nullifier.len())?)?;
    Some(spent.chunks_exact(nullifier.len()).any(|one| one == nullifier))
}

/// An address as people write it.
mod text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use solana_address::Address;

    pub fn serialize<S: Serializer>(address: &Address, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(address)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Address, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(|_| D::Error::custom("not a Solana address"))
    }
}

#[cfg(test)]
mod tests {
    use landfall_sim_solana::ledger::shield as simulated;

    use super::*;

    #[test]
    fn the_pool_s_accounts_are_derived_as_its_program_derives_them() {
        let (ours, theirs) = (Accounts::of(&PROGRAM), simulated::Addresses::of(&PROGRAM));
        assert_eq!(ours.all(), theirs.all());
        assert!(ours.all().iter().all(|account| !account.is_on_curve()), "nobody has a key to it");
    }

    #[test]
    fn the_fee_is_a_sum_and_a_share_and_its_points_are_rounded_up() {
        let sol = 1_000_000_000;
        assert_eq!((fee(sol), fee_bps(sol)), (7_500_000, Some(75)));
        assert_eq!((fee(sol + 200), fee_bps(sol + 200)), (7_500_001, Some(75)));
        assert_eq!(fee_bps(3 * sol), Some(59), "58.3");
        assert_eq!(fee_bps(2_512_562), None, "all of it");
        assert_eq!(fee_bps(2_512_563), Some(10_000));
        assert_eq!(fee(u64::MAX), 92_233_720_371_047_758, "not too large to reckon");
    }

    #[test]
    fn a_ring_says_what_it_knows_and_nothing_if_it_is_none() {
        let mut ring = vec![0; 2_056];
        ring[2_056 - 32..].fill(7);
        assert_eq!(knows_root(&ring, &[7; 32]), Some(true));
        assert_eq!(knows_root(&ring, &[8; 32]), Some(false));
        assert_eq!(knows_root(&ring, &[0; 32]), Some(false), "an empty place is no root");
        assert_eq!(knows_root(&ring[1..], &[7; 32]), None);
        // The last byte of the head and the first of the ring are no root together.
        ring[7..39].fill(9);
        assert_eq!(knows_root(&ring, &[9; 32]), Some(false));
    }

    #[test]
    fn a_shard_says_what_is_spent_and_nothing_if_it_is_cut_short() {
        let shard = [&2_u32.to_le_bytes()[..], &[1; 32], &[2; 32], &[3; 32]].concat();
        assert_eq!(is_spent(&shard, &[2; 32]), Some(true));
        assert_eq!(is_spent(&shard, &[3; 32]), Some(false), "beyond the count");
        assert_eq!(is_spent(&shard[..67], &[1; 32]), None, "fewer than it says");
        assert_eq!(is_spent(&shard[..3], &[1; 32]), None);
        assert_eq!(is_spent(&[], &[1; 32]), None);
        assert_eq!(is_spent(&[0; 4], &[1; 32]), Some(false));
    }

    #[test]
    fn the_same_money_to_the_same_people_is_the_same_in_any_order() {
        let output =
            |byte, amount| Output { recipient: Address::new_from_array([byte; 32]), amount };
        let withdraw = Withdraw {
            proof: [0; PROOF_BYTES],
            root: [0; 32],
            nullifier: [0; 32],
            amount: 0,
            outputs: vec![output(1, 5), output(2, 6)],
        };
        assert!(withdraw.pays_as(&[output(2, 6), output(1, 5)]));
        for others in [vec![output(1, 5)], vec![output(1, 6), output(2, 5)], vec![]] {
            assert!(!withdraw.pays_as(&others), "{others:?}");
        }
    }
}
