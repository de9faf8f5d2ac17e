//! What a relayer does wrong, beside what is lost on the way to it.

use serde::{Deserialize, Serialize};

/// As long as the real one keeps what is final.
const FORGET_AFTER_MS: u64 = 4 * 60 * 60 * 1_000;

/// A relayer's faults, those of the wire beside its own.
pub type Faults = landfall_sim_front::Faults<RelayerFaults>;

/// Probabilities are per POST.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelayerFaults {
    /// It is not taken, and the answer never comes.
    pub lose_post: f64,
    /// It is taken, and the answer never comes.
    pub hang: f64,
    /// It is taken twice.
    pub duplicate: f64,
    /// What came of it is given out as failed, expired or canceled once it was sent.
    pub ends_falsely: f64,
    /// What came of it fails and is never sent.
    pub never_sent: f64,
    /// It is signed under two nonces, and both are sent.
    pub signed_twice: f64,
    /// How long what is final is kept.
    pub forget_after_ms: u64,
    /// Everything is refused at the door.
    pub paused: bool,
}

impl Default for RelayerFaults {
    fn default() -> RelayerFaults {
        RelayerFaults {
            lose_post: 0.0,
            hang: 0.0,
            duplicate: 0.0,
            ends_falsely: 0.0,
            never_sent: 0.0,
            signed_twice: 0.0,
            forget_after_ms: FORGET_AFTER_MS,
            paused: false,
        }
    }
}
