//! The rail's settings, with the reason of each default.

use std::time::Duration;

use landfall_core::ledger::{Manner, Order};
use landfall_core::rail::{Backoff, Pace};
use solana_address::Address;

use crate::fees::Bounds;
use crate::keys::Key;

/// How a pool is used. What decides what a withdraw means is frozen into each withdraw too.
#[derive(Debug)]
pub struct SolanaSettings {
    /// The network's name in lanes and claims.
    pub network: String,
    /// The hash of its first block, where that is pinned.
    pub genesis: Option<String>,
    /// The shield pool's program.
    pub program: Address,
    /// Fee payers, one lane each.
    pub keys: Vec<Key>,
    pub bounds: Bounds,
    /// Whether a withdraw is refused at the door whose root the pool does not know.
    pub screens_roots: bool,
    pub broadcast_timeout: Duration,
    pub manner: Manner,
    pub pace: Pace,
    /// How long a blockhash and the fees of others are reused: a few blocks.
    pub fresh_ms: u64,
}

impl SolanaSettings {
    pub fn new(network: &str, program: Address, keys: Vec<Key>) -> SolanaSettings {
        SolanaSettings {
            network: network.to_owned(),
            genesis: None,
            program,
            keys,
            bounds: Bounds::default(),
            screens_roots: true,
            broadcast_timeout: Duration::from_secs(5),
            manner: FREE,
            pace: Pace {
                batch_max: 1,
                linger_ms: 0,
                // Three times again, as seconds of 30, 60 and 120.
                pay_retries: 4,
                backoff: Some(Backoff { first_ms: 30_000, max_ms: 120_000 }),
                ..Pace::default()
            },
            fresh_ms: 1_000,
        }
    }
}

/// Solana: a slot every 400 ms, final 32 blocks later, a blockhash good for 150. Nodes forward what
/// they are sent to the next leaders and forget it, so that it is sent again every two seconds.
pub const FREE: Manner = Manner {
    order: Order::Free,
    window: 64,
    repeats: true,
    inclusion_ms: 20_000,
    finality_ms: 60_000,
    fence_after_ms: 60_000,
    replace_after_ms: 60_000,
    rebroadcast_ms: 2_000,
    rebroadcast_max_ms: 2_000,
    look_ms: 2_000,
    pulse_ms: 400,
    pulse_tells_finality: true,
};
