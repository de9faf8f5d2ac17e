//! The times of all lanes, each with its reason. What differs between ledgers is in their manner.

/// How lanes are held.
#[derive(Debug, Clone)]
pub struct LaneSettings {
    /// How long a lease lasts without renewal: a dead holder's lanes stand still for this long.
    pub lease_ms: u64,
    /// How often leases are renewed: three chances before one runs out.
    pub renew_ms: u64,
    /// Wait before a failed question to store or ledger is repeated.
    pub retry_ms: u64,
    /// How often a halted lane asks whether an operator has adopted it.
    pub halted_poll_ms: u64,
}

impl Default for LaneSettings {
    fn default() -> LaneSettings {
        LaneSettings { lease_ms: 10_000, renew_ms: 3_000, retry_ms: 500, halted_poll_ms: 2_000 }
    }
}
