//! What goes wrong on a chain and in its nodes, beside what goes wrong on the wire.

use landfall_sim_front::{Dice, Faults as WireFaults};
use serde::{Deserialize, Serialize};

/// All that can go wrong with a node.
pub type Faults = WireFaults<Own>;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Own {
    /// A transaction is taken and dropped in silence.
    pub forget: f64,
    /// Per slot and transaction that the node has for the leaders: it is lost.
    pub drop: f64,
    /// Per slot: it has no block. The greatest of all nodes' counts.
    pub skip: f64,
    /// Per slot: blocks that are not final fall off; half the time what was in them is lost. The
    /// greatest of all nodes' counts.
    pub fork: f64,
    /// Per request: the answer is not true.
    pub lie: f64,
    /// The node sees the chain as it was so many blocks ago.
    pub lag_blocks: u64,
    /// The node knows the transactions of so many blocks; 0: of all.
    pub history_blocks: u64,
}

/// What happens in a slot.
pub struct Slot {
    pub is_skipped: bool,
    /// Blocks that fall off after it.
    pub fall: u64,
    /// Whether what was in them is lost.
    pub loses: bool,
}

impl Slot {
    pub fn roll(dice: &mut Dice, faults: &[Own], deepest: u64) -> Slot {
        let greatest = |of: fn(&Own) -> f64| faults.iter().map(of).fold(0.0, f64::max);
        let is_skipped = dice.happens(greatest(|own| own.skip));
        let falls = dice.happens(greatest(|own| own.fork));
        let fall = if falls { 1 + dice.below(deepest as usize) as u64 } else { 0 };
        Slot { is_skipped, fall, loses: dice.happens(0.5) }
    }
}
