//! The protocol's times, each with its reason.

/// How lanes are held and attempts pursued.
#[derive(Debug, Clone)]
pub struct LaneSettings {
    /// How long a lease lasts without renewal: a dead holder's lanes stand still for this long.
    pub lease_ms: u64,
    /// How often leases are renewed: three chances before one runs out.
    pub renew_ms: u64,
    /// How long an attempt may be adrift before a fence decides it.
    pub fence_after_ms: u64,
    /// First wait before the same bytes are sent again; doubles up to `rebroadcast_max_ms`.
    pub rebroadcast_ms: u64,
    pub rebroadcast_max_ms: u64,
    /// Wait between looks at an attempt that is in a block but not final: about a block.
    pub look_ms: u64,
    /// How often all lanes' newest nonces are read while any attempt waits to be included.
    pub pulse_ms: u64,
    /// Wait before a failed question to store or ledger is repeated.
    pub retry_ms: u64,
    /// How often a halted lane asks whether an operator has adopted it.
    pub halted_poll_ms: u64,
}

impl Default for LaneSettings {
    fn default() -> LaneSettings {
        LaneSettings {
            lease_ms: 10_000,
            renew_ms: 3_000,
            fence_after_ms: 60_000,
            rebroadcast_ms: 1_000,
            rebroadcast_max_ms: 30_000,
            look_ms: 600,
            pulse_ms: 300,
            retry_ms: 500,
            halted_poll_ms: 2_000,
        }
    }
}
