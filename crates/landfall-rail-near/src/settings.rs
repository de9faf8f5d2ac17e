//! The rail's settings, with the reason of each default.

use std::time::Duration;

use landfall_core::ledger::Manner;
use landfall_core::rail::Pace;

use crate::encode::Limits;
use crate::keys::Key;

/// Forty times what the standard's contract asks for: 0.05 NEAR.
pub const DEPOSIT_MAX: u128 = 50_000_000_000_000_000_000_000;

/// How the rail pays. Everything that decides what "paid" means is frozen into each payout too.
#[derive(Clone, Debug)]
pub struct NearSettings {
    /// The chain id that every endpoint must serve, such as `mainnet`.
    pub network: String,
    /// Hash of the chain's first block, where the configuration pins it.
    pub genesis_hash: Option<String>,
    /// The NEP-141 contract.
    pub token: String,
    /// The account that pays.
    pub account: String,
    /// Its full-access keys; one lane each.
    pub keys: Vec<Key>,
    pub limits: Limits,
    /// Blocks that a transaction lives. None: read from the ledger's genesis.
    pub validity_blocks: Option<u64>,
    /// How long a base block is reused. Blocks' hashes live for hours on the real networks; a block
    /// some seconds old is also known to nodes that lag.
    pub base_block_ms: u64,
    /// Patience for a broadcast, which is answered when final. Nodes give up after 10 s themselves.
    pub broadcast_timeout: Duration,
    /// How its lanes behave, and how long what takes.
    pub manner: Manner,
    /// How payouts are batched, and how often each is tried.
    pub pace: Pace,
    /// View calls in flight at once for the registration of many receivers.
    pub views_in_flight: usize,
    /// The most that is attached to a registration, in yoctoNEAR, whatever the contract asks for.
    pub deposit_max: u128,
    /// How long the contract's least deposit is remembered, in milliseconds.
    pub bounds_ms: u64,
}

impl NearSettings {
    pub fn new(network: &str, token: &str, account: &str, keys: Vec<Key>) -> Self {
        Self {
            network: network.to_owned(),
            genesis_hash: None,
            token: token.to_owned(),
            account: account.to_owned(),
            keys,
            limits: Limits::default(),
            validity_blocks: None,
            base_block_ms: 30_000,
            broadcast_timeout: Duration::from_secs(12),
            manner: Manner::OVERTAKES,
            pace: Pace::default(),
            views_in_flight: 32,
            deposit_max: DEPOSIT_MAX,
            bounds_ms: 600_000,
        }
    }
}
