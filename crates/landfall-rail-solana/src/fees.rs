//! What a transaction offers to be in a block soon: by what others paid lately, within bounds.
//!
//! **Rule:** no offer is above the cap, whatever nodes say. What they say is of the accounts that a
//! withdraw writes to, and of those it is the pool's that everybody wants.

use serde_json::Value;

/// Micro-lamports in a lamport.
const MICRO: u128 = 1_000_000;
/// What every signature costs, in lamports.
pub const SIGNATURE_FEE: u64 = 5_000;

/// Bounds of our own, in micro-lamports for a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    pub price_min: u64,
    pub price_max: u64,
    /// The share of recent blocks, in percent, of which the offer would have been enough.
    pub percentile: u8,
}

impl Default for Bounds {
    /// At 400,000 units: nothing at least, a tenth of a cent of a SOL at most.
    fn default() -> Bounds {
        Bounds { price_min: 0, price_max: 2_500_000, percentile: 75 }
    }
}

/// The prices in an answer to `getRecentPrioritizationFees`. None if it is no such answer.
pub fn recent(answer: &Value) -> Option<Vec<u64>> {
    answer.as_array()?.iter().map(|slot| slot["prioritizationFee"].as_u64()).collect()
}

/// What to offer for a unit.
pub fn price(mut recent: Vec<u64>, bounds: &Bounds) -> u64 {
    recent.sort_unstable();
    let rank = (recent.len() * usize::from(bounds.percentile.min(100))).div_ceil(100);
    let asked = recent.get(rank.saturating_sub(1)).copied().unwrap_or(0);
    asked.max(bounds.price_min).min(bounds.price_max)
}

/// Lamports that a transaction of one signature costs its payer.
pub fn cost(price: u64, units: u32) -> u64 {
    let priority = (u128::from(price) * u128::from(units)).div_ceil(MICRO);
    SIGNATURE_FEE.saturating_add(u64::try_from(priority).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const BOUNDS: Bounds = Bounds { price_min: 10, price_max: 1_000, percentile: 75 };

    #[test]
    fn three_of_four_recent_blocks_would_have_taken_it() {
        assert_eq!(price(vec![100, 40, 300, 20], &BOUNDS), 100);
        assert_eq!(price((1..=100).collect(), &BOUNDS), 75);
        assert_eq!(price(vec![50], &BOUNDS), 50);
    }

    #[test]
    fn no_offer_is_outside_the_bounds_whatever_nodes_say() {
        assert_eq!(price(vec![u64::MAX; 150], &BOUNDS), 1_000);
        assert_eq!(price(vec![0; 150], &BOUNDS), 10);
        assert_eq!(price(vec![], &BOUNDS), 10);
        let contrary = Bounds { price_min: 9_000, ..BOUNDS };
        assert_eq!(price(vec![], &contrary), 1_000, "the cap wins");
    }

    #[test]
    fn an_answer_is_read_whole_or_not_at_all() {
        let slot = |fee: Value| json!({ "slot": 1, "prioritizationFee": fee });
        assert_eq!(recent(&json!([slot(json!(7)), slot(json!(0))])), Some(vec![7, 0]));
        assert_eq!(recent(&json!([])), Some(vec![]));
        for bad in [json!(null), json!({}), json!([slot(json!("7"))]), json!([slot(json!(-1))])] {
            assert_eq!(recent(&bad), None, "{bad}");
        }
    }

    #[test]
    fn a_cost_is_rounded_up_and_never_too_large_to_reckon() {
        assert_eq!(cost(0, 400_000), 5_000);
        assert_eq!(cost(1, 1), 5_001);
        assert_eq!(cost(2_500_000, 400_000), 1_005_000);
        assert_eq!(cost(u64::MAX, u32::MAX), u64::MAX);
    }
}
