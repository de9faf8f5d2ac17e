//! What gas costs, as the nodes have it: one question for a while, however many calls are signed.
//!
//! **Rule:** each figure is the highest that a quorum reaches, so that one node can make nobody
//! offer too much; caps of our own are above all (`fees`).

use alloy_primitives::U128;
use landfall_core::rail::RailError;
use landfall_rpc::unavailable;

use crate::answer::FeeHistory;
use crate::fees::{Market, Speed, percentile};
use crate::node::Nodes;

/// Blocks whose tips are looked at: enough that one empty block does not decide.
const BLOCKS: u64 = 5;

/// What was heard last, and when.
#[derive(Default)]
pub struct Markets {
    known: tokio::sync::Mutex<Option<(Prices, u64)>>,
}

/// For every speed, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prices {
    Base { base_fee: u128, tips: [u128; Speed::ALL.len()] },
    Legacy { gas_price: u128 },
}

impl Markets {
    /// What gas costs at this speed, heard within the last `fresh_ms`.
    pub async fn at(
        &self,
        nodes: &Nodes,
        speed: Speed,
        fresh_ms: u64,
    ) -> Result<Market, RailError> {
        let mut known = self.known.lock().await;
        let now_ms = nodes.clock.monotonic_ms();
        let fresh = known.filter(|(_, at_ms)| now_ms < at_ms.saturating_add(fresh_ms));
        let prices = match fresh {
            Some((prices, _)) => prices,
            None => {
                let prices = ask(nodes).await?;
                *known = Some((prices, nodes.clock.monotonic_ms()));
                prices
            }
        };
        Ok(match prices {
            Prices::Legacy { gas_price } => Market::Legacy { gas_price },
            Prices::Base { base_fee, tips } => {
                let place = Speed::ALL.iter().position(|one| *one == speed);
                Market::Base { base_fee, tip: tips[place.expect("one of all")] }
            }
        })
    }
}

async fn ask(nodes: &Nodes) -> Result<Prices, RailError> {
    let percentiles = Speed::ALL.map(percentile);
    let quorum = nodes.endpoints.quorum();
    let said =
        nodes.ask_quorum(|endpoint| nodes.fee_history_on(endpoint, BLOCKS, &percentiles)).await;
    let with_base: Vec<(u128, [u128; 4])> =
        said.iter().filter_map(|one| one.fact.as_ref().and_then(prices)).collect();
    if with_base.len() >= quorum {
        let base_fee = reached(with_base.iter().map(|one| one.0), quorum);
        let tip = |place: usize| reached(with_base.iter().map(|one| one.1[place]), quorum);
        return Ok(Prices::Base { base_fee, tips: [0, 1, 2, 3].map(tip) });
    }
    if said.len() < quorum {
        return Err(unavailable(format!("{} of {quorum} nodes tell their fees", said.len())));
    }
    let said = nodes.ask_quorum(|endpoint| nodes.gas_price_on(endpoint)).await;
    if said.len() < quorum {
        return Err(unavailable(format!("{} of {quorum} nodes tell their price", said.len())));
    }
    Ok(Prices::Legacy { gas_price: reached(said.iter().map(|one| one.fact), quorum) })
}

/// The next block's base fee, and what was tipped in the middle one of the blocks at each speed.
fn prices(history: &FeeHistory) -> Option<(u128, [u128; 4])> {
    let base_fee = history.base_fee_per_gas.last()?.to::<u128>();
    let blocks = history.reward.as_deref().unwrap_or_default();
    let tip = |place: usize| {
        let tips = blocks.iter().filter_map(|block| block.get(place));
        let mut tips: Vec<u128> = tips.map(|tip: &U128| tip.to()).collect();
        tips.sort_unstable();
        tips.get(tips.len() / 2).copied().unwrap_or_default()
    };
    // A chain that knows the question and has no base fee answers with zeroes.
    let has_base = history.base_fee_per_gas.iter().any(|fee| !fee.is_zero());
    has_base.then(|| (base_fee, [0, 1, 2, 3].map(tip)))
}

/// The highest number that a quorum reaches.
///
/// # Panics
/// Where fewer than a quorum have said one: asked for only where they have.
pub fn reached(numbers: impl Iterator<Item = u128>, quorum: usize) -> u128 {
    let mut numbers: Vec<u128> = numbers.collect();
    numbers.sort_unstable_by_key(|number| std::cmp::Reverse(*number));
    numbers[quorum - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_block_full_of_bribes_raises_no_tip_and_one_liar_no_fee() {
        let block = |tip: u64| [tip, tip + 1, tip + 2, tip + 3].map(U128::from).to_vec();
        let history = FeeHistory {
            base_fee_per_gas: [7, 8, 9].map(U128::from).to_vec(),
            reward: Some(vec![block(1), block(1_000_000), block(2)]),
        };
        assert_eq!(prices(&history), Some((9, [2, 3, 4, 5])));
        assert_eq!(reached([5, u128::MAX, 6].into_iter(), 2), 6);
    }

    #[test]
    fn a_chain_without_a_base_fee_is_known_by_it() {
        let zeroes = FeeHistory { base_fee_per_gas: vec![U128::ZERO; 3], reward: None };
        assert_eq!(prices(&zeroes), None);
        let none = FeeHistory { base_fee_per_gas: vec![], reward: None };
        assert_eq!(prices(&none), None);
        let plain = FeeHistory { base_fee_per_gas: vec![U128::from(4)], reward: None };
        assert_eq!(prices(&plain), Some((4, [0; 4])), "nobody tipped");
    }
}
