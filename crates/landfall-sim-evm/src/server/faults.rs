//! What goes wrong on a chain and in its nodes, beside what goes wrong on the wire.

use landfall_sim_front::{Dice, Faults as WireFaults};
use serde::{Deserialize, Serialize};

/// All that can go wrong with a node.
pub type Faults = WireFaults<Own>;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Own {
    /// A transaction is taken and dropped in silence.
    pub forget: f64,
    /// Per block and transaction in the node's pool: it is dropped.
    pub drop: f64,
    /// Per block that the node makes: it takes senders in any order, whatever they pay.
    pub reorder: f64,
    /// Per block: one to three of the last blocks fall off, and what was in them is in the pools
    /// again. The greatest of all nodes' counts.
    pub reorg: f64,
    /// The node sees the chain as it was so many blocks ago.
    pub lag_blocks: u64,
}

/// How many blocks fall off now.
pub fn fall(dice: &mut Dice, faults: &[Own], deepest: u64) -> u64 {
    let greatest = faults.iter().map(|faults| faults.reorg).fold(0.0, f64::max);
    if dice.happens(greatest) { 1 + dice.below(deepest as usize) as u64 } else { 0 }
}
