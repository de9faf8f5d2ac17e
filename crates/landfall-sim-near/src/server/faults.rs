//! What goes wrong in a node, beside what goes wrong on the wire.

use landfall_sim_front::Faults as WireFaults;
use serde::{Deserialize, Serialize};

/// All that can go wrong with a node.
pub type Faults = WireFaults<Own>;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Own {
    /// A transaction is taken and dropped in silence.
    pub forget: f64,
    /// The node sees the chain as it was so many blocks ago.
    pub lag_blocks: u64,
}
