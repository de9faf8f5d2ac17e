//! The rail's settings, with the reason of each default.

use std::time::Duration;

use alloy_primitives::Address;
use landfall_core::ledger::{Manner, Order};
use landfall_core::rail::Pace;

use crate::fees::Caps;
use crate::keys::Key;

const GWEI: u128 = 1_000_000_000;

/// When what is in a block counts as final.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finality {
    /// What the nodes call `finalized`: two epochs on Ethereum, a quarter of an hour.
    Finalized,
    /// What they call `safe`: an epoch.
    Safe,
    /// So many confirmations, its own block counted as the first.
    Blocks(u64),
}

impl Finality {
    /// As it is configured: `finalized`, `safe`, or a number of blocks from 1.
    pub fn parse(text: &str) -> Option<Finality> {
        match text {
            "finalized" => Some(Finality::Finalized),
            "safe" => Some(Finality::Safe),
            number => match number.parse() {
                Ok(blocks @ 1..) => Some(Finality::Blocks(blocks)),
                _ => None,
            },
        }
    }
}

/// How a chain is used. What decides what a call means is frozen into each call too.
#[derive(Clone, Debug)]
pub struct EvmSettings {
    /// The chain's name in requests and lanes.
    pub chain: String,
    pub chain_id: u64,
    /// Takes the requests that users have signed.
    pub forwarder: Option<Address>,
    /// One lane each.
    pub keys: Vec<Key>,
    pub finality: Finality,
    pub caps: Caps,
    /// Added to what nodes estimate, in hundredths: the state changes until it is mined.
    pub gas_margin_percent: u64,
    /// Whether a call that every node says would fail is refused before it is signed.
    pub preflight: bool,
    pub broadcast_timeout: Duration,
    pub manner: Manner,
    pub pace: Pace,
    /// How long fees are reused.
    pub market_ms: u64,
}

impl EvmSettings {
    pub fn new(chain: &str, chain_id: u64, keys: Vec<Key>) -> EvmSettings {
        EvmSettings {
            chain: chain.to_owned(),
            chain_id,
            forwarder: None,
            keys,
            finality: Finality::Finalized,
            caps: Caps { fee_max: 500 * GWEI, tip_max: 50 * GWEI, tip_min: GWEI / 1_000 },
            gas_margin_percent: 25,
            preflight: true,
            broadcast_timeout: Duration::from_secs(10),
            manner: QUEUES,
            pace: Pace { batch_max: 1, linger_ms: 0, ..Pace::default() },
            market_ms: 2_000,
        }
    }
}

/// A chain like Ethereum: blocks of 12 s, final after two epochs.
pub const QUEUES: Manner = Manner {
    order: Order::Queues,
    window: 64,
    repeats: true,
    inclusion_ms: 120_000,
    finality_ms: 3_600_000,
    fence_after_ms: 900_000,
    replace_after_ms: 30_000,
    rebroadcast_ms: 4_000,
    rebroadcast_max_ms: 60_000,
    look_ms: 2_000,
    pulse_ms: 500,
    pulse_tells_finality: true,
};
