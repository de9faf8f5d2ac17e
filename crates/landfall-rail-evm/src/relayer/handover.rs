//! What is handed to a relayer, as it is stored before it leaves.
//!
//! A relayer takes no idempotency key. What it does show of a transaction is the limit of its gas,
//! of which nobody pays what is not used: so the limit is rounded up to a multiple of [`MARKS`],
//! and the attempt's own number is put into what was left free. Two calls that ask for the same
//! are told apart by it.

use alloy_primitives::{Address, B256, Bytes, U256, keccak256};
use landfall_core::evm::Speed;
use serde::{Deserialize, Serialize};

use crate::executed::Ticket;

/// How many attempts in a row can be told apart by their marks alone. More than one relayer takes
/// in a minute (455 a second were measured, 83 mined), while the limit grows by little.
pub const MARKS: u64 = 8_192;

/// How an attempt's hash begins until the relayer has signed: no hash of a chain does so.
const NAME: &str = "handover:";

/// One POST, whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    /// The relayer by its configured name: no other is asked about it.
    pub relayer: String,
    pub to: Address,
    pub value: U256,
    pub data: Bytes,
    /// With the mark.
    pub gas: u64,
    pub speed: Speed,
    /// Of a request that a user has signed: its fate is told by the forwarder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Requested>,
}

/// A user's request, as far as it is not in the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requested {
    #[serde(flatten)]
    pub ticket: Ticket,
    /// No earlier block is asked about.
    pub since: u64,
}

/// Stored bytes that are no handover.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a handover: {0}")]
pub struct Unreadable(String);

impl Handover {
    /// The bytes that are stored, and the name under which they are.
    pub fn stored(&self) -> (Vec<u8>, String) {
        // Only a map with keys that are no strings can fail to serialize.
        let bytes = serde_json::to_vec(self).unwrap_or_default();
        let digest: B256 = keccak256(&bytes);
        let name = format!("{NAME}{digest}");
        (bytes, name)
    }

    pub fn read(bytes: &[u8]) -> Result<Handover, Unreadable> {
        serde_json::from_slice(bytes).map_err(|error| Unreadable(error.to_string()))
    }
}

/// The limit with the mark of an attempt's number, which differs from that of the last 8,191.
pub fn marked(gas: u64, number: u64) -> u64 {
    gas.div_ceil(MARKS).saturating_mul(MARKS).saturating_add(number % MARKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_never_lowers_the_limit_and_tells_numbers_apart() {
        for gas in [21_000, 50_000, 8_192, 8_193, 60_000_000] {
            let marks: std::collections::HashSet<u64> =
                (5..5 + MARKS).map(|number| marked(gas, number)).collect();
            assert_eq!(marks.len() as u64, MARKS);
            assert!(marks.iter().all(|marked| (gas..gas + 2 * MARKS).contains(marked)));
        }
        // Estimates differ from one attempt to the next: marks must not meet half-way.
        assert_ne!(marked(50_000, 7), marked(50_003, 4));
        assert_eq!(marked(u64::MAX, 1), u64::MAX);
    }

    #[test]
    fn what_is_stored_is_read_back_and_named_by_what_it_is() {
        let handover = Handover {
            relayer: "one".to_owned(),
            to: Address::repeat_byte(1),
            value: U256::MAX,
            data: Bytes::from_static(&[1, 2]),
            gas: 50_000,
            speed: Speed::Fast,
            request: None,
        };
        let (bytes, name) = handover.stored();
        assert_eq!(Handover::read(&bytes), Ok(handover.clone()));
        assert!(name.starts_with(NAME));
        let other = Handover { gas: 50_001, ..handover };
        assert_ne!(other.stored().1, name);
        assert!(Handover::read(b"{}").is_err());
    }
}
